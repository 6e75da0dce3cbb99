"""What several tests share: tiny corpora made of noise, and where the real speech lies."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from noise_corpus import write_corpus

from stopwav.measure import other_work

# Files that take twenty seconds and more. They come first, so that no worker waits long for the last of another.
LONGEST = (
    "test_examples", "test_loss_study", "test_cli", "test_latency_servers", "test_latency_study", "test_compare_study",
    "test_compare_budget", "test_broken_streams", "test_latency_budget",
)  # fmt: skip
# How long an example takes is the machine's to say. The same ones every time: what fails here fails again there.
settings.register_profile("any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# Tests neither read nor write the user's cache of word times; only servers of others and axe-core are kept there.
# Where the tests run in the background the shell has Ctrl-C ignored, and whatever they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
USER_CACHE = os.environ.get("STOPWAV_CACHE", "")
os.environ["STOPWAV_CACHE"] = ""
# Nor does a run wait to see what other processes do: it would wait in every test, and another test is such a process.
other_work.WINDOW_S = 0.0
LIBRISPEECH = Path(__file__).parent.parent.parent / "shared" / "data" / "librispeech"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Let PyTorch draw the same numbers in every run of a test: its own seed is another in each process."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def librispeech() -> Path:
    """Eight LibriSpeech utterances, where they are beside the checkout."""
    if not LIBRISPEECH.is_dir():
        pytest.skip("no LibriSpeech samples in ../shared/data/librispeech")
    return LIBRISPEECH


@pytest.fixture(scope="session")
def server_cache() -> Path:
    """The folder in which servers of others are installed: in `$STOPWAV_CACHE`, else in the user's cache folder."""
    return _cache_of("servers")


@pytest.fixture(scope="session")
def npm_cache() -> Path:
    """The folder in which packages of npm are kept: in `$STOPWAV_CACHE`, else in the user's cache folder."""
    return _cache_of("npm")


def _cache_of(name: str) -> Path:
    folder = Path(USER_CACHE, name) if USER_CACHE else Path.home() / ".cache" / f"stopwav-{name}"
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def tiny_corpus(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder of short noise files, with transcripts and word times."""

    def make(count: int = 3, seconds: float = 0.5, words: str = "red fox") -> Path:
        return write_corpus(tmp_path / f"corpus-{count}-{seconds}", count, seconds, words)

    return make
