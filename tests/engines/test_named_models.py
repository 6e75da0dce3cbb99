"""Models by name: in torchaudio's cache, in the Hub's, or fetched from a server; without one, what to do instead."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from stopwav.engines.named_models import PUBLISHED, check_model, fetch_model, torchaudio_cache
from stopwav.engines.registry import BUILT_IN, find_entry, parse_spec
from stopwav.engines.toolkit import find_model_folder, model_folder, model_name
from stopwav.errors import StopwavError

NAMED = parse_spec("emformer-rnnt:torchaudio,beam=3")
FILES = PUBLISHED["emformer-rnnt", "torchaudio"].files.values()


@pytest.fixture(autouse=True)
def empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nothing answers there


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a server that has the published files, each of which holds its own name."""
    root = tmp_path / "served"
    for file in FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        monkeypatch.setattr("stopwav.engines.named_models.TORCHAUDIO_URL", f"http://127.0.0.1:{running.server_port}")
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield root
        running.shutdown()


def test_the_cache_is_the_one_that_torchaudio_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.hub import get_dir

    for variable in ("TORCH_HOME", "XDG_CACHE_HOME"):
        assert torchaudio_cache() == Path(get_dir()) / "torchaudio"
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert torchaudio_cache() == Path(get_dir()) / "torchaudio"


@pytest.mark.usefixtures("server")
def test_what_is_missing_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = find_entry(NAMED)
    assert entry is not None
    check_model(entry, "torchaudio")
    assert not torchaudio_cache().exists(), "a check fetches nothing"
    kept = torchaudio_cache() / next(iter(FILES))
    kept.parent.mkdir(parents=True)
    kept.write_text("ours")
    paths = fetch_model(NAMED)
    assert [path.read_text() for path in paths] == ["ours", *list(FILES)[1:]]
    monkeypatch.setattr("stopwav.engines.named_models.TORCHAUDIO_URL", "http://127.0.0.1:9")
    check_model(entry, "torchaudio")
    assert fetch_model(NAMED) == paths


@pytest.mark.parametrize("fetch", [False, True])
def test_without_a_network_the_error_says_what_to_put_where(fetch: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopwav.engines.named_models.TORCHAUDIO_URL", "http://127.0.0.1:9")
    entry = find_entry(NAMED)
    assert entry is not None
    began = time.monotonic()
    with pytest.raises(StopwavError) as caught:
        fetch_model(NAMED) if fetch else check_model(entry, "torchaudio")
    assert time.monotonic() - began < 10
    message = str(caught.value)
    assert message.startswith(
        "emformer-rnnt:torchaudio: 3 of its files are not on this machine, and were not downloaded ("
    )
    assert f"http://127.0.0.1:9/{next(iter(FILES))} as {torchaudio_cache() / next(iter(FILES))}" in message
    assert "\n" not in message


def test_a_file_that_the_server_does_not_have(server: Path) -> None:
    (server / list(FILES)[1]).unlink()
    with pytest.raises(StopwavError, match=r"3 of its files .*\(File not found\)"):
        check_model(next(entry for entry in BUILT_IN if entry.name == "emformer-rnnt"), "torchaudio")
    with pytest.raises(StopwavError, match=r"2 of its files .*\(File not found\)"):
        fetch_model(NAMED)
    assert list(torchaudio_cache().rglob("*.model*")) == [], "no part of a file passes for one"


@pytest.mark.parametrize("option", ["tokenizer=x.model", "stats=x.json"])
def test_published_files_are_not_mixed_with_others(option: str) -> None:
    from stopwav.engines.registry import make

    with pytest.raises(StopwavError, match=f"emformer-rnnt:torchaudio has files of its own; leave out {option}"):
        make(f"emformer-rnnt:torchaudio,{option}")


def cached_model(hub: Path, name: str) -> Path:
    """A model in the Hub's cache, as its client lays it out."""
    root = hub / f"models--{name.replace('/', '--')}"
    snapshot = root / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "model.bin").write_text("weights")
    (root / "refs").mkdir()
    (root / "refs/main").write_text("a" * 40)
    (root / "blobs").mkdir()
    return snapshot


@pytest.mark.parametrize("engine", ["faster-whisper", "sherpa-onnx", "vosk"])
def test_a_hub_name_is_found_in_the_cache(engine: str, tmp_path: Path) -> None:
    snapshot = cached_model(tmp_path / "hub", "owner/tiny")
    assert model_folder(engine, "owner/tiny") == snapshot
    assert model_name("owner/tiny", snapshot) == "owner/tiny"
    assert model_name(str(snapshot), snapshot) == snapshot.name
    (snapshot.parents[1] / "blobs/b.incomplete").touch()
    with pytest.raises(StopwavError, match=f"{engine}: there is no folder 'owner/tiny', and the Hub was not reached"):
        find_model_folder(engine, "owner/tiny")


@pytest.mark.parametrize("source", ["nowhere", "./owner/name", "/owner/name", "a/b/c", "owner/", "~/x"])
def test_what_is_no_hub_name_is_a_folder(source: str) -> None:
    with pytest.raises(StopwavError, match=r"no folder .*; give the folder of a model"):
        find_model_folder("vosk", source)
