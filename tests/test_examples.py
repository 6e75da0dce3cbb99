"""Every example runs as it is, from the root of the repository, and says something true."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import command

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

MakeCorpus = Callable[..., Path]


def run(*command: object, **environment: str) -> str:
    """What a command prints, run from the root of the repository; it must end well."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def latency(*arguments: object, **environment: str) -> dict[str, dict]:
    """The results of a latency run by engine."""
    printed = run("-m", "stopwav", "latency", *arguments, "--rounds", "1", "--json", **environment)
    return {result["name"]: result for result in json.loads(printed)["results"]}


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match is not None, text
    return [float(group) for group in match.groups()]


def test_no_example_is_left_out() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    tested = set(re.findall(r"\w+\.py", Path(__file__).read_text()))
    assert scripts <= tested


def test_no_example_needs_a_main_guard() -> None:
    for path in EXAMPLES.rglob("*.py"):
        assert "__main__" not in path.read_text()


def test_measure_a_function() -> None:
    printed = run(EXAMPLES / "measure_a_function.py")
    value, low, high, count = numbers(r"spectrum: ([\d.]+) ms \[([\d.]+) to ([\d.]+)\], (\d+) values", printed)
    assert 0 < low <= value <= high
    rounds = [float(ms) for ms in re.findall(r"then ([\d.]+) ms", printed)]
    assert len(rounds) == 3
    # The location of three rounds lies between them, and each has at least the ten values of any plan.
    assert min(rounds) - 0.01 <= value <= max(rounds) + 0.01
    assert count >= 30


def test_race_two_functions() -> None:
    printed = run(EXAMPLES / "race_two_functions.py")
    # A thousand small calls against one: no machine takes longer for the one.
    assert "at_once against by_loop: faster" in printed
    ratio, low, high, rounds = numbers(r"takes ([\d.]+) \[([\d.]+) to ([\d.]+)\] .* (\d+) rounds per side", printed)
    assert low <= ratio <= high < 0.99
    assert rounds == 4


def test_mark_stages() -> None:
    printed = run(EXAMPLES / "mark_stages.py")
    (total,) = numbers(r"recogniser: ([\d.]+) ms per call", printed)
    parts = {path: float(ms) for path, ms in re.findall(r"^  (\S+) +([\d.]+) ms", printed, re.MULTILINE)}
    assert list(parts) == ["features", "inference", "inference/layer"]
    assert parts["inference/layer"] <= parts["inference"]
    # Call by call they add up to less than the call; their medians need not, and each is below that of the call.
    assert max(parts.values()) <= total + 0.01


def test_profile_a_function() -> None:
    printed = run(EXAMPLES / "profile_a_function.py")
    (p95,) = numbers(r"spectrum: 80 calls, P95 ([\d.]+) ms", printed)
    assert p95 > 0
    (share,) = numbers(r"frames: (\d+)% of it", printed)
    assert 0 < share < 100
    # 80 · 160,000 floats are sorted in a copy of 48.8 MiB.
    (added,) = numbers(r"sort everything: (\d+) MiB on top", printed)
    assert 48 <= added < 60
    assert "sort everything: P95 needs 72 events, has 1" in printed


def test_profile_steps() -> None:
    printed = run(EXAMPLES / "profile_steps.py")
    assert "40 steps measured of 50" in printed
    mean, limit = numbers(r"mean ([\d.]+) ms, upper control limit ([\d.]+) ms", printed)
    slow = [float(ms) for ms in re.findall(r"step \d+ took ([\d.]+) ms", printed)]
    assert mean < limit
    assert all(ms >= limit - 0.01 for ms in slow)


def test_analyse_traces() -> None:
    pytest.importorskip("torch")
    printed = run(EXAMPLES / "analyse_traces.py")
    assert "1 traces read, 0 skipped" in printed
    # The gradients of both layers alone: 80 · 256 + 256 + 256 · 32 + 32 floats.
    (peak,) = numbers(r"cpu: (\d+) bytes at the peak", printed)
    assert peak >= 4 * (80 * 256 + 256 + 256 * 32 + 32)
    assert "no kernels" in printed or re.search(r"idle: \d+%", printed)


def test_train_transducer() -> None:
    pytest.importorskip("torch")
    printed = run(EXAMPLES / "train_transducer.py", 4, OMP_NUM_THREADS="1")
    losses = [float(nats) for nats in re.findall(r"([\d.]+) nats an utterance", printed)]
    # An utterance of 80 letters begins at hundreds; by heart it is less than a tenth of a nat a letter.
    assert losses[0] > 50
    assert losses[-1] < 5
    right, count = numbers(r"(\d+) of (\d+) transcripts without a mistake", printed)
    assert right == count == 4
    assert "'good morning'" in printed


def test_latency_from_python(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "latency_from_python.py", tmp_path)
    assert "pocketsphinx: ok, 3 utterances" in printed
    (rtf,) = numbers(r"  rtf: ([\d.]+)", printed)
    assert rtf > 0
    assert "word_latency_p99: none (needs 368 events" in printed
    (saved,) = tmp_path.glob("*.jsonl")
    assert f"read again from {saved.name}: the same numbers" in printed


def test_my_engine_is_measured_from_its_file(tmp_path: Path) -> None:
    spec = "examples/my_engine.py:MyEngine,beam=1e-30"
    result = latency(spec, "--limit", "2", "--save", tmp_path)[spec]
    assert result["params"]["engine"]["name"] == "my engine"
    assert result["params"]["chunk_s"] == 0.16
    metrics = result["metrics"]
    for name in ("copy_p50", "inference_p50", "post_p50"):
        assert metrics[name]["value"] > 0
    assert metrics["words_recognised"]["value"] > 0


def test_my_engine_forgets_a_stream_that_broke_off() -> None:
    code = """
import sys
sys.path.insert(0, "examples")
import stopwav
from my_engine import MyEngine
from stopwav.speech.audio import load

audio = load(stopwav.load_corpus().utterances[0].path, 16_000).samples
engine = MyEngine()
def text():
    session = engine.open()
    session.push(audio)
    return session.finish()
before = text()
engine.open().push(audio)  # never finished
assert before and text() == before, (before, text())
"""
    run("-c", code)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the plugin is installed; setuptools itself reads its pyproject.toml."""
    folder = shutil.copytree(EXAMPLES / "plugin", tmp_path_factory.mktemp("plugin") / "plugin")
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    # Before what is on the path already, such as the sources that are tested.
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_the_plugin_is_listed_once_installed(plugin: dict[str, str]) -> None:
    without = json.loads(command("engines", "--json").stdout)["engines"]
    assert "hush" not in [engine["name"] for engine in without]
    listed = json.loads(run("-m", "stopwav", "engines", "--json", **plugin))["engines"]
    (hush,) = [engine for engine in listed if engine["name"] == "hush"]
    assert hush["installed"]
    assert hush["streaming"]
    assert hush["version"] == "1.0"
    assert hush["install"] == "pip install stopwav-hush"


def test_the_plugin_is_measured(plugin: dict[str, str], tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=8)
    places = ("--corpus", corpus, "--words", corpus / "words.ctm", "--save", tmp_path / "runs")
    hush = latency("hush", *places, **plugin)["hush"]
    assert hush["status"] == "ok"
    assert hush["metrics"]["wer"]["value"] == 1
    assert hush["metrics"]["words_recognised"]["value"] == 0
    assert {"code": "engine", "message": "writes nothing, on purpose"} in hush["warnings"]


def test_a_loss_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "shapes.csv").write_text("T,U\n20,5\n30,8\n")
    small = ["--shapes", tmp_path / "shapes.csv", "--batch-size", 2, "--batches", 1, "--vocab", 20, "--dim", 16]
    own = ["-m", "stopwav", "loss", "examples/my_loss.py:my_loss"]
    printed = run(*own, *small, "--rounds", 1, "--json", "--no-html", "--save", tmp_path)
    (result,) = json.loads(printed)["results"]
    assert result["params"]["right"] is True
    assert result["metrics"]["gradient_deviation"]["value"] < 1e-4
    assert result["metrics"]["step_time"]["value"] > 0
