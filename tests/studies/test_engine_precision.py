"""Engines and models are timed in the precision that they say, whatever their imports and their calls set."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import fake_peers
import pytest
from command_line import command
from compare_runs import FAST

import stopwav
from stopwav import StopwavError
from stopwav.measure.plan import Plan
from stopwav.speech.corpus import load_corpus
from stopwav.speech.utterance import Utterance
from stopwav.studies.compare.engine_runner import EngineRunner
from stopwav.studies.grid.cell import CellVisitor, GridCell
from stopwav.studies.latency.stream_runner import StreamRunner

torch = pytest.importorskip("torch")

# An engine that writes down in which precision it computes; PRECISION, IMPORT and CALL are filled in.
ENGINE = """
from pathlib import Path
import torch
from stopwav import EngineInfo, Hypothesis
from stopwav.measure.float32_products import current_precision
{at_import}

class Own:
    info = EngineInfo(name="own", version="1", chunk_s=0.1, precision="{precision}")

    def note(self):
        {in_call}
        with Path(__file__).with_name("precision.txt").open("a") as file:
            file.write(current_precision() + "\\n")

    def transcribe(self, batch):
        self.note()
        return ["red fox"] * len(batch)

    def open(self):
        return self

    def push(self, samples):
        self.note()
        return []

    def finish(self):
        return [Hypothesis("red fox")]
"""
IMPORT = "import speechbrain"
SWITCH = "torch.backends.cuda.matmul.allow_tf32 = True"
TOLD = (
    "after the engine was loaded, PyTorch computed float32 products in TF32; it is measured in float32; an engine "
    "whose description names tf32 as its precision is measured in TF32"
)
JOB = """
import torch
{at_import}

def make():
    model = torch.nn.Linear(4, 2)
    def loss(y, _):
        {in_call}
        return y.sum()
    return model, lambda step: (torch.ones(3, 4), None), loss, torch.optim.SGD(model.parameters())
"""


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of SpeechBrain's name on the path, and afterwards PyTorch's settings as they were."""
    fake_peers.speechbrain(tmp_path / "site")
    with fake_peers.on_the_path(tmp_path / "site", monkeypatch):
        yield
    torch.set_float32_matmul_precision("highest")


def engine(folder: Path, at_import: str = "", in_call: str = "pass", precision: str = "float32") -> str:
    (folder / "own.py").write_text(ENGINE.format(at_import=at_import, in_call=in_call, precision=precision))
    return f"{folder}/own.py:Own"


def noted(folder: Path) -> set[str]:
    """The precisions that the engine computed in since this was asked last."""
    path = folder / "precision.txt"
    lines = path.read_text().splitlines()
    path.unlink()
    return set(lines)


def latency(name: str, utterance: Utterance) -> list[list[str]]:
    runner = StreamRunner(name, None)
    cautions: list[list[str]] = runner.warm_up(utterance, FAST, 1)["cautions"]
    runner.stream(utterance, "virtual")
    return cautions


def compare(name: str, utterance: Utterance) -> list[list[str]]:
    runner = EngineRunner(name, "cpu")
    cautions: list[list[str]] = runner.warm_up(utterance, FAST, 1)["cautions"]
    runner.transcribe(utterance)
    return cautions


def grid(name: str, utterance: Utterance) -> list[list[str]]:
    round_ = CellVisitor(name, "noise", 0, "cpu", None).visit(GridCell(0.5, 1), FAST, True, True)
    assert round_.samples is not None
    return [[caution.code, caution.message] for caution in round_.samples.cautions]


@pytest.mark.parametrize("study", [latency, compare, grid])
@pytest.mark.parametrize(
    ("precision", "expected", "cautions"),
    [("float32", "float32", [["precision-changed", TOLD]]), ("tf32", "TF32", [])],
)
def test_what_an_import_switches_on_is_told_and_switched_off(
    study: Callable[[str, Utterance], list[list[str]]],
    precision: str,
    expected: str,
    cautions: list[list[str]],
    tmp_path: Path,
    tiny_corpus: Callable[..., Path],
) -> None:
    [utterance] = load_corpus(tiny_corpus(1)).utterances
    assert study(engine(tmp_path, IMPORT, precision=precision), utterance) == cautions
    assert noted(tmp_path) == {expected}


def test_an_import_in_the_first_call_changes_no_number(tmp_path: Path, tiny_corpus: Callable[..., Path]) -> None:
    name = engine(tmp_path, in_call=IMPORT)
    [utterance] = load_corpus(tiny_corpus(1)).utterances
    runner = EngineRunner(name, "cpu")
    [(code, _)] = runner.warm_up(utterance, FAST, 1)["cautions"]
    assert code == "precision-changed"
    assert noted(tmp_path) == {"TF32"}
    runner.transcribe(utterance)
    assert noted(tmp_path) == {"float32"}


def test_what_each_call_switches_on_is_no_result(tmp_path: Path, tiny_corpus: Callable[..., Path]) -> None:
    name = engine(tmp_path, in_call=SWITCH)
    [utterance] = load_corpus(tiny_corpus(1)).utterances
    plan = Plan(min_values=1, max_values=1, warmup_s=0, min_values_s=0, max_values_s=0.1)
    visitor, compared = CellVisitor(name, "noise", 0, "cpu", None), EngineRunner(name, "cpu")
    for call in (
        lambda: StreamRunner(name, None).stream(utterance, "virtual"),
        lambda: compared.transcribe(utterance),
        lambda: compared.measure_length(10, 0, plan),
        lambda: visitor.visit(GridCell(0.5, 1), plan, True, True),
    ):
        with pytest.raises(StopwavError, match=r"own.py:Own' changes PyTorch's precision .* not a time in float32"):
            call()


def test_a_latency_run_tells_it_on_the_engines_row(tmp_path: Path, tiny_corpus: Callable[..., Path]) -> None:
    name = engine(tmp_path, IMPORT)
    options = ["--corpus", tiny_corpus(2), "--rounds", "1", "--save", tmp_path, "--json"]
    done = command("latency", name, *options)
    [result] = json.loads(done.stdout)["results"]
    assert {"code": "precision-changed", "message": TOLD} in result["warnings"]
    assert result["status"] == "ok"
    assert noted(tmp_path) == {"float32"}


def test_a_step_is_measured_in_the_precision_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB.format(at_import=IMPORT, in_call="pass"))
    found, *_ = stopwav.results(stopwav.step(f"{tmp_path}/job.py:make", steps=1, rounds=1, save=tmp_path))
    messages = [warning.message for warning in found.warnings if warning.code == "precision-changed"]
    assert messages == [
        "after the model was made, PyTorch computed float32 products in TF32; it is measured in float32; "
        "--dtype tf32 measures it in TF32"
    ]
    (tmp_path / "job.py").write_text(JOB.format(at_import="", in_call=SWITCH))
    found, *_ = stopwav.results(stopwav.step(f"{tmp_path}/job.py:make", steps=1, rounds=1, save=tmp_path))
    assert found.status == "error"
    [failure] = [warning.message for warning in found.warnings if warning.code == "step-error"]
    assert "changes PyTorch's precision of float32 products in its calls" in failure
    with pytest.raises(StopwavError, match="--dtype tf32: only CUDA devices have it"):
        stopwav.step(f"{tmp_path}/job.py:make", dtype="tf32", save=tmp_path)


def test_a_step_in_this_process_keeps_its_settings(tmp_path: Path) -> None:
    torch.set_float32_matmul_precision("high")
    model = torch.nn.Linear(4, 2)
    job = {"loss_fn": lambda y, _: y.sum(), "optimizer": torch.optim.SGD(model.parameters())}
    stopwav.step(model, make_batch=lambda _: (torch.ones(3, 4), None), steps=1, save=tmp_path, **job)
    assert torch.get_float32_matmul_precision() == "high"
