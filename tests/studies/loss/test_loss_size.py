"""The size of a loss run's batches: chosen for the machine, given, or the published one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loss_runs import run

import stopwav
from stopwav.speech.shapes import Shapes
from stopwav.studies.loss.batch_sets import make_sets
from stopwav.studies.loss.size import CALLS, START_S, fit_size, given_size, memory_caution, size_text
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.machine_speed import MachineSpeed

LOSSES = ["torch", "fused"]
# A thousand utterances of 300 frames and 60 tokens: a batch of 30 has 549,000 cells.
SHAPES = Shapes("equal", np.full(1000, 300), np.full(1000, 60), "")
FAST = MachineSpeed(1e14, 10**12)


def fitted(machine: MachineSpeed, **settings: Any) -> tuple[LossSpec, str]:
    spec, size = fit_size(LossSpec(losses=LOSSES, **settings), SHAPES, machine)
    return spec, size.text


def test_the_published_size_is_taken_where_it_fits() -> None:
    spec, text = fitted(FAST)
    assert (spec.batch_size, spec.batches) == ([30], 10)
    assert text == "10 batches of 30, the published size"


def test_a_slower_processor_or_a_shorter_budget_gets_smaller_batches() -> None:
    cells = [
        (spec.batch_size or [0])[0] * (spec.batches or 0)
        for spec in (
            fitted(FAST)[0],
            fitted(MachineSpeed(1e12, 10**12))[0],
            fitted(MachineSpeed(1e11, 10**12))[0],
            fitted(MachineSpeed(1e11, 10**12), budget_s=60)[0],
        )
    ]
    assert cells == sorted(set(cells), reverse=True)
    _, text = fitted(MachineSpeed(1e11, 10**12))
    assert "instead of 10 of 30" in text
    assert "100 billion operations/s" in text
    assert "--size published" in text


def test_a_round_of_the_chosen_size_takes_a_sixth_of_the_budget_at_most() -> None:
    machine = MachineSpeed(2e11, 10**12)
    _, size = fit_size(LossSpec(losses=LOSSES), SHAPES, machine)
    assert START_S * 2 < size.round_s <= 50
    # The processes of both losses, and of each the calls of 18,300 · n cells at 6 · 512 · 500 operations, 2.1 times.
    cells = int(size.text.split()[0]) * int(size.text.split()[3]) * 300 * 61
    assert size.round_s == pytest.approx(2 * START_S + 2 * CALLS * 2.1 * 6 * 512 * 500 * cells / 2e11)


def test_little_memory_makes_batches_smaller_and_a_given_size_warns_before_anything_starts() -> None:
    # 549,000 cells of 2.2 · 1,012 numbers of 4 bytes are 4.9 GB.
    small = MachineSpeed(1e14, 4 * 10**9)
    spec, _ = fitted(small)
    assert (spec.batch_size or [30])[0] < 30
    asked = LossSpec(losses=LOSSES, batch_size=[30])
    size = given_size(asked, [batch_set.batches for batch_set in make_sets(asked, SHAPES)], small)
    assert size.padded_bytes == pytest.approx(4.9e9, rel=0.01)
    caution = memory_caution(asked, size, small)
    assert caution is not None
    assert "about 5 GB with torch, and 4 GB are free" in caution.message
    assert memory_caution(asked, size, FAST) is None
    # The fused loss never stores all logits.
    assert memory_caution(LossSpec(losses=["fused"], batch_size=[30]), size, small) is None


@pytest.mark.parametrize(
    ("settings", "size", "batch_size", "batches"),
    [
        ({}, "fit", None, None),
        ({"budget_s": 60}, "fit", None, None),
        ({"thorough": True}, "published", [30], 10),
        ({"rounds": 2}, "published", [30], 10),
        ({"size": "published"}, "published", [30], 10),
        ({"batch_size": [4]}, "published", [4], 10),
        ({"batches": 2}, "published", [30], 2),
        ({"vocab": [100]}, "published", [30], 10),
        ({"max_frames": 900}, "published", None, 10),
        ({"rounds": 2, "size": "fit"}, "fit", None, None),
    ],
)
def test_a_given_size_is_taken_with_published_values_for_the_rest(
    settings: dict[str, Any], size: str, batch_size: list[int] | None, batches: int | None
) -> None:
    spec = LossSpec(**settings)
    assert (spec.size, spec.batch_size, spec.batches) == (size, batch_size, batches)
    # What a file stores of it reads as the same run.
    assert LossSpec(**spec.stored()).stored()["rounds"] == spec.rounds


def test_a_size_cannot_be_chosen_and_given() -> None:
    with pytest.raises(stopwav.StopwavError, match="--size fit chooses the size of batches, and --batch-size gives it"):
        stopwav.loss(["torch"], size="fit", batch_size=[2])


def test_the_chosen_size_is_in_the_header_and_the_same_command_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said: list[str] = []

    class Progress:
        def __call__(self, task: str, done: int, total: int) -> None:
            if task == "first sweep" and done:
                raise KeyboardInterrupt

        def say(self, text: str) -> None:
            said.append(text)

    options: dict[str, Any] = {"batch_size": None, "batches": None, "vocab": [500], "dim": 512, "rounds": None}
    options |= {"budget_s": 5}
    with pytest.raises(KeyboardInterrupt):
        run(["torch"], tmp_path, **options, progress=Progress())
    (path,) = tmp_path.glob("*.jsonl")
    stopped = stopwav.Record.read(path)
    assert not stopped.complete
    (setting,) = stopped.header.corpus["settings"]
    assert said[1:] == [size_text(stopped.header.corpus)]
    assert stopped.header.spec["batch_size"] is None
    (result,) = stopwav.results(stopped)
    assert result.params["batch_size"] == setting["setting"]["batch_size"]
    assert "incomplete" in [warning.code for warning in result.warnings]
    resumed = run(["torch"], tmp_path, **options, resume=True)
    assert resumed.path == path
    assert resumed.complete
