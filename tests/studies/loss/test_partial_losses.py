"""Losses that fail on a part of the work: compared on the batches that all share, never ahead of those that did all."""

from pathlib import Path
from typing import Any

import pytest
from command_line import command
from loss_runs import by_loss, checked, made_up, run

import stopwav
from stopwav.record import Record, Result

# Milliseconds of each batch: `whole` does all of them; the others are ten times as fast on what they do.
WHOLE_MS = (10.0, 20.0, 40.0, 80.0)
SOME: dict[str, Any] = {"batches": 4, "sort": "pairs"}

OWN = """
import os
from pathlib import Path
from stopwav.losses.oracle import plain_loss

def exiting(logits, *rest):
    if logits.shape[1] > 30:
        os._exit(7)
    return plain_loss(logits, *rest)

def late(logits, *rest):
    first = Path(__file__).with_suffix(".pid")
    if logits.shape[1] > 30:
        if not first.exists():
            first.write_text(str(os.getpid()))
        if first.read_text() != str(os.getpid()):
            raise RuntimeError("not in the process of round 0")
    return plain_loss(logits, *rest)
"""


def time_s(failing: dict[str, Any], ratio: float = 0.1) -> Any:
    """The time of a round; `failing` has, by loss, whether it fails on a batch in a round."""

    def time(loss: str, batch: int, index: int) -> float | str:
        if loss in failing and failing[loss](batch, index):
            return "error"
        return WHOLE_MS[batch] / 1e3 * (ratio if loss in failing else 1) * (1 + 0.01 * index)

    return time


def compared(folder: Path, failing: dict[str, Any], *more: str, rounds: int = 3, **checks: Any) -> Record:
    names = ["whole", *more, *failing]
    return made_up(folder, time_s(failing), checks={n: checks.get(n, checked()) for n in names}, rounds=rounds, **SOME)


def by_name(record: Record) -> dict[str, Result]:
    return {result.name: result for result in stopwav.results(record)}


def codes(result: Result) -> dict[str, str]:
    return {warning.code: warning.message for warning in result.warnings}


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_loss_that_fails_on_long_batches_is_not_the_fastest(tmp_path: Path, rounds: int) -> None:
    record = compared(tmp_path, {"short": lambda batch, _: batch == 3}, rounds=rounds)
    found = by_name(record)
    # 10, 20 and 40 ms: the same three batches for both.
    growth = 1.0 if rounds == 1 else 1.00997
    assert found["whole"].metrics["step_time"].value == pytest.approx(0.070 / 3 * growth, rel=1e-4)
    assert found["short"].metrics["step_time"].value == pytest.approx(0.007 / 3 * growth, rel=1e-4)
    ranks = [found[name].metrics["rank"].value for name in ("whole", "short")]
    assert ranks == ([1, 2] if rounds > 1 else [None, None])
    assert codes(found["short"])["loss-error"] == "1 of 4 batches, first batch 3 (batch 3; longest T 40): message of 3"
    assert "over 3 of 4 batches" in codes(found["whole"])["shared-batches"]
    done = command("report", record.path, COLUMNS="120")
    text = " ".join(done.stdout.split())
    assert done.code == 1
    assert "short is the fastest" not in text
    assert "short came first" not in text
    assert "Times and memory over 3 of 4 batches, those that every compared loss completed" in text
    assert "† failed on some batches or rounds, and ranks below every loss that completed all" in text
    assert "Failed on some batches or rounds, see the warnings: short" in text


def test_a_loss_that_fails_nearly_everywhere_takes_no_batch_from_the_others(tmp_path: Path) -> None:
    failing = {"once": lambda batch, _: batch > 0, "never": lambda *_: True}
    found = by_name(compared(tmp_path, failing, "level"))
    assert found["whole"].metrics["step_time"].value == pytest.approx(0.150 / 4 * 1.00997, rel=1e-4)
    assert "shared-batches" not in codes(found["whole"])
    for name in failing:
        assert (found[name].status, found[name].metrics) == ("error", {})
    assert "it lacks batches 1, 2, 3" in codes(found["once"])["loss-not-compared"]
    assert codes(found["never"])["loss-error"] == "4 of 4 batches, first batch 0: message of 0"


def test_losses_that_share_no_batch_are_not_compared(tmp_path: Path) -> None:
    failing = {"short": lambda batch, _: batch > 1, "long": lambda batch, _: batch < 2}
    record = made_up(tmp_path, time_s(failing), checks={name: checked() for name in failing}, **SOME)
    found = by_name(record)
    assert found["short"].metrics["rank"].value == 1
    assert found["long"].metrics == {}
    assert command("report", record.path).code == 1


def test_a_loss_that_is_wrong_takes_no_batch_from_the_right_ones(tmp_path: Path) -> None:
    record = compared(tmp_path, {"wrong": lambda batch, _: batch == 3}, wrong=checked(0.5))
    found = by_name(record)
    assert found["whole"].metrics["step_time"].value == pytest.approx(0.150 / 4 * 1.00997, rel=1e-4)
    assert found["wrong"].metrics == {}
    assert {"loss-wrong", "loss-error", "loss-not-compared"} <= set(codes(found["wrong"]))


def test_a_round_that_fails_is_said_and_ranks_below(tmp_path: Path) -> None:
    record = compared(tmp_path, {"late": lambda batch, index: batch > 1 and index == 1})
    found = by_name(record)
    assert [found[name].metrics["rank"].value for name in ("whole", "late")] == [1, 2]
    assert codes(found["late"])["rounds-failed"] == (
        "2 of 6 rounds of batches 2, 3; longest T 18 to 40, the first in round 1: error: message of 2"
    )
    # All batches have a round, so none is lost.
    assert "shared-batches" not in codes(found["whole"])
    assert command("report", record.path).code == 1


def test_batches_that_nobody_completes_make_nobody_rank_lower(tmp_path: Path) -> None:
    record = made_up(
        tmp_path,
        lambda loss, batch, index: "oom" if batch == 3 else (0.01 if loss == "quick" else 0.04) * (1 + 0.01 * index),
        checks={"slow": checked(), "quick": checked()},
        **SOME,
    )
    found = by_name(record)
    assert [found[name].metrics["rank"].value for name in ("quick", "slow")] == [1, 2]
    text = " ".join(command("report", record.path, COLUMNS="120").stdout.split())
    assert "quick is the fastest exact loss on the batches that all of them completed" in text


@pytest.mark.parametrize(("error", "code"), [(1e-6, 0), (0.5, 1)])
def test_a_failed_check_is_in_the_exit_code(tmp_path: Path, error: float, code: int) -> None:
    record = made_up(tmp_path, lambda *_: 0.01, checks={"quick": checked(), "other": checked(error)})
    assert command("report", record.path).code == code


@pytest.mark.soak
def test_losses_of_a_file_that_exit_or_raise_late(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "own.py").write_text(OWN)
    losses = [f"{tmp_path / 'own.py'}:{name}" for name in ("exiting", "late")]
    record = run(losses, tmp_path, batches=4, sort="pairs", rounds=2)
    found = by_loss(record)
    assert record.complete
    assert found["late"].params["compared_batches"] == [0, 1, 2]
    assert "batch 3; longest T 40" in codes(found["exiting"])["loss-crashed"]
    assert "not in the process of round 0" in codes(found["late"])["rounds-failed"]
    assert command("report", record.path).code == 1
