"""Losses of other packages, by stand-ins that do what theirs do: precision, values and integers are put right."""

from pathlib import Path
from typing import Any

import fake_peers
import pytest
from loss_runs import FAST, by_loss, checked, made_up, own, run

from stopwav.measure.process import FreshProcess, Outcome
from stopwav.studies.loss.check import TOLERANCES, LossCheck, is_right
from stopwav.studies.loss.loss_step import LossRunner, LossSetup

pytest.importorskip("torch")

from stopwav.speech.batches import Batch

# Losses that import SpeechBrain, or set the precision themselves, and write down in which they compute.
OWN = """
from pathlib import Path
from stopwav.losses.oracle import plain_loss
from stopwav.measure.float32_products import current_precision

def noted(*inputs):
    with Path(__file__).with_name("precision.txt").open("a") as file:
        file.write(current_precision() + "\\n")
    return plain_loss(*inputs)

def lazy(*inputs):
    import speechbrain
    return noted(*inputs)

def steady(*inputs):
    import torch
    torch.set_float32_matmul_precision("high")
    return noted(*inputs)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder on the path that has a package of SpeechBrain's name."""
    folder = tmp_path / "site"
    fake_peers.speechbrain(folder)
    with fake_peers.on_the_path(folder, monkeypatch):
        yield folder


def setup_of(loss: str, precision: str = "float32") -> LossSetup:
    return LossSetup(loss, vocab=12, dim=8, blank=0, precision=precision, device="cpu")


def checked_in_a_process(loss: str) -> Outcome:
    with FreshProcess(LossCheck, setup_of(loss), 0) as process:
        started = process.start(60)
        return process.call("run", time_limit_s=60) if started.ok else started


@pytest.mark.usefixtures("packages")
def test_speechbrains_value_is_made_that_of_its_gradient_and_its_import_changes_nothing() -> None:
    data = checked_in_a_process("speechbrain").value
    assert data["deviations"]["value"] < 1e-5
    assert is_right(data)
    cautions = dict(data["cautions"])
    assert list(cautions) == ["corrected", "precision-changed"]
    assert "value multiplied by the frames it was divided by" in cautions["corrected"]
    assert cautions["precision-changed"] == (
        "after the loss was imported, PyTorch computed float32 products in TF32; it is measured in float32"
    )


@pytest.mark.parametrize(
    ("version", "integers"), [("1.16.0", "int32"), ("1.17.0", "int64"), ("2.7.3", "int64"), ("3.0.0rc1", "int64")]
)
def test_nemo_gets_the_integers_of_its_version(
    version: str, integers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stopwav.losses.joiner_batch import make_joiner_batch
    from stopwav.losses.registry import find_loss

    fake_peers.nemo(tmp_path / "site", version, integers)
    with fake_peers.on_the_path(tmp_path / "site", monkeypatch):
        nemo = find_loss("nemo")
        assert nemo.needs.integers == integers
        # The stand-in refuses others, as NeMo does.
        batch = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, integers=nemo.needs.integers)
        assert nemo.losses(batch).shape == (2,)


@pytest.mark.usefixtures("packages")
def test_an_import_in_the_first_call_is_told_and_no_time_is_of_another_precision(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    batch = Batch((4, 3), (2, 1))
    with FreshProcess(LossRunner, setup_of(f"{tmp_path}/own.py:lazy"), FAST) as process:
        assert process.start(60).ok
        round_ = process.call("measure", batch, 0, time_limit_s=60).value
    assert [caution.code for caution in round_.samples.cautions] == ["precision-changed"]
    calls = (tmp_path / "precision.txt").read_text().splitlines()
    first = calls.index("float32")
    assert set(calls[:first]) == {"TF32"}
    assert set(calls[first:]) == {"float32"}
    # First call, warm-up and values, all made again.
    assert len(calls[first:]) > len(calls[:first]) > FAST.min_values


@pytest.mark.usefixtures("packages")
def test_the_row_of_a_loss_tells_it_and_one_that_cannot_be_measured_has_no_time(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import speechbrain\n" + OWN)
    found = by_loss(run([f"{tmp_path}/own.py:noted", f"{tmp_path}/own.py:steady"], tmp_path, batches=1))
    assert found["noted"].status == "ok"
    assert found["noted"].params["right"] is True
    messages = [warning.message for warning in found["noted"].warnings if warning.code == "precision-changed"]
    assert messages == [
        "after the loss was imported, PyTorch computed float32 products in TF32; it is measured in float32"
    ]
    assert found["steady"].status == "error"
    [failure] = [warning.message for warning in found["steady"].warnings if warning.code == "loss-error"]
    assert "changes PyTorch's precision of float32 products in its calls" in failure


def test_a_float32_loss_that_computes_in_tf32_is_wrong(tmp_path: Path) -> None:
    """With the largest errors that were seen on an H200, and those of one that computes in the next coarser one."""
    seen = {"float32": 1.2e-5, "tf32": 5.8e-4, "bfloat16": 5e-3}
    for precision, coarser in (("float32", "tf32"), ("tf32", "bfloat16")):
        assert is_right({**checked(seen[precision]), "precision": precision})
        assert not is_right({**checked(seen[coarser]), "precision": precision})
    assert seen["bfloat16"] < TOLERANCES["bfloat16"] < 0.1
    checks = {"fused": checked(1.2e-5), "torch": checked(5.8e-4)}
    found = by_loss(made_up(tmp_path, lambda *_: 0.1, checks=checks))
    assert [found[name].params["right"] for name in checks] == [True, False]
    [wrong] = [warning.message for warning in found["torch"].warnings if warning.code == "loss-wrong"]
    assert "5.8e-04; rounding explains up to 0.0001" in wrong


def test_a_wrong_option_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    with FreshProcess(LossCheck, setup_of(f"{own(tmp_path, 'right')},range=--5"), 0) as process:
        started = process.start(60)
        outcome = process.call("run", time_limit_s=60)
    assert started.ok
    assert outcome.status == "error"
    assert "range" in outcome.message
