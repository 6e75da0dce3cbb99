"""`stopwav.require`: what holds passes, and whatever else says why in its message."""

from pathlib import Path

import pytest
from stored_runs import DATA, HOSTILE, renamed

import stopwav
from stopwav import Caution, Estimate, Result, StopwavError
from stopwav.record import Record
from stopwav.testing.requirement import RequirementError, outcome_line

RTF = Estimate(0.42, 0.40, 0.45, n=10)


def result(name: str = "engine", **metrics: Estimate) -> Result:
    warning = Caution("busy-machine", "other processes took 1.4 of 2 cores")
    return Result(name, {}, "ok", {"rtf": RTF, **metrics}, (warning,))


def test_what_holds_is_returned_with_its_numbers() -> None:
    (outcome,) = stopwav.require(result(), "rtf < 0.5")
    assert (outcome.outcome, outcome.name, outcome.estimate.value) == ("holds", "engine", 0.42)
    assert outcome_line(outcome) == "holds: rtf < 0.5 of engine: 0.42 [0.40–0.45]"
    assert len(stopwav.require([result("a"), result("b")], "rtf < 0.5", "rtf > 0.1")) == 4


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("rtf < 0.3", "fails: rtf < 0.3 of engine: 0.42 [0.40–0.45], all of the interval is beyond the limit"),
        ("rtf < 0.42", "undecided: rtf < 0.42 of engine: 0.42 [0.40–0.45], its interval contains the limit"),
        ("final < 1", "absent: final < 1 of engine: no stream completed"),
        ("peak < 1GB", "fails: peak < 1GB of engine: 2.00 GB, all of the interval"),
        ("wait < 1", "undecided: wait < 1 of engine: 0.500 s, it has no interval: one round"),
    ],
)
def test_what_does_not_hold_explains_itself(condition: str, said: str) -> None:
    measured = result(
        final=Estimate(None, note="no stream completed"),
        peak=Estimate(2e9, 2e9, 2e9, n=1, unit="B"),
        wait=Estimate(0.5, n=1, unit="s", note="one round"),
    )
    with pytest.raises(AssertionError) as failed:
        stopwav.require(measured, "rtf < 0.5", condition)
    lines = str(failed.value).splitlines()
    assert lines[0] == "1 of 2 conditions is not known to hold"
    # What failed comes first, then what holds, then what may be the reason.
    assert lines[1].startswith(f"  {said}")
    assert lines[2] == "  holds: rtf < 0.5 of engine: 0.42 [0.40–0.45]"
    assert lines[3] == "  warning busy-machine: other processes took 1.4 of 2 cores"


def test_an_open_condition_passes_only_where_that_is_allowed() -> None:
    (outcome,) = stopwav.require(result(), "rtf < 0.42", allow_undecided=True)
    assert outcome.outcome == "undecided"
    with pytest.raises(RequirementError):
        stopwav.require(result(), "rtf < 0.42", "rtf < 0.1", allow_undecided=True)


def test_one_of_several_results_can_be_named() -> None:
    slow = Result("slow", {}, "ok", {"rtf": Estimate(0.9, 0.8, 1.0, n=5)})
    assert len(stopwav.require([result(), slow], "rtf < 0.5 of engine")) == 1
    with pytest.raises(RequirementError, match=r"fails: rtf < 0\.5 of slow: 0\.9"):
        stopwav.require([result(), slow], "rtf < 0.5")


def test_a_run_is_judged_by_its_results_and_named() -> None:
    record = Record.read(DATA / "latency-real.jsonl")
    assert len(stopwav.require(record, "rtf < 100")) == 2
    with pytest.raises(RequirementError) as failed:
        stopwav.require(record, "rtf < 0.001 of moonshine")
    assert "fails: rtf < 0.001 of moonshine: 0." in str(failed.value)
    assert f"run file: {record.path}; stopwav report shows all of it" in str(failed.value)


@pytest.mark.parametrize(
    ("measured", "condition", "said"),
    [
        (result(), "rtf = 1", "is not a condition"),
        (result(), "rft < 1", "did you mean 'rtf'"),
        (result(), "rtf < 1 of egnine", "did you mean 'engine'"),
        ([], "rtf < 1", "takes a run, a result or several"),
        ({"rtf": 1}, "rtf < 1", "takes a run, a result or several"),
    ],
)
def test_a_wrong_call_is_no_failed_requirement(measured: Result, condition: str, said: str) -> None:
    with pytest.raises(StopwavError, match=said):
        stopwav.require(measured, condition)
    with pytest.raises(StopwavError, match="no condition"):
        stopwav.require(result())


@pytest.mark.parametrize("hostile", [name for name in HOSTILE if name])
def test_hostile_names_are_text(hostile: str, tmp_path: Path) -> None:
    record = Record.read(renamed(DATA / "latency-failures.jsonl", tmp_path / "run.jsonl", hostile))
    with pytest.raises(RequirementError) as failed:
        stopwav.require(record, "rtf < 1e-9")
    message = str(failed.value)
    assert not set("\x1b\u202e\u2066\x07") & set(message)
    assert len(message) < 10_000
