"""The budget of a run: how it is written, what of it is left, and that a resumed run spends the rest."""

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Header, Record, now
from stopwav.stats import Estimate
from stopwav.studies.budget import (
    Budget,
    BudgetedSpec,
    half_width,
    is_finished,
    open_budget,
    parse_time,
    spent_s,
    store_spent,
    time_text,
    verdict_rule,
)
from stopwav.studies.spec import checked


class MovedClock:
    """Seconds that a test moves by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), (" 1.5 min ", 90), ("5min", 300), ("5 minutes", 300), ("2h", 7200), ("0.5H", 1800)],
)
def test_a_time_is_written_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds
    assert checked(BudgetedSpec, budget_s=text).total_s == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 days", "-5min", "5min30", "1e3"])
def test_what_is_no_time_is_an_error_that_says_how_to_write_one(text: str) -> None:
    with pytest.raises(StopwavError, match=r"--budget .*give a time, such as 90s, 5min or 2h"):
        checked(BudgetedSpec, budget_s=text)


@pytest.mark.parametrize(("given", "share"), [("5%", 0.05), ("0.5 %", 0.005), ("0.02", 0.02), (0.1, 0.1)])
def test_precision_is_a_percentage_or_a_share(given: object, share: float) -> None:
    assert checked(BudgetedSpec, precision=given).precision == pytest.approx(share)


def test_wrong_precision_is_an_error() -> None:
    for wrong in ("wide", "0%", "-5%"):
        with pytest.raises(StopwavError, match="--precision"):
            checked(BudgetedSpec, precision=wrong)


def test_a_plan_is_fixed_or_has_a_budget() -> None:
    assert checked(BudgetedSpec).total_s == 300
    assert checked(BudgetedSpec, rounds=2).total_s == math.inf
    assert checked(BudgetedSpec, thorough=True).rounds == 3
    assert checked(BudgetedSpec, thorough=True, rounds=7).rounds == 7
    for fixed in ({"rounds": 2}, {"thorough": True}):
        with pytest.raises(StopwavError, match="leave out --budget"):
            checked(BudgetedSpec, budget_s=60, **fixed)


@given(total=st.floats(1, 1e5), before=st.floats(0, 1e5), after=st.floats(0, 1e5))
def test_what_is_spent_and_what_is_left_are_the_whole(total: float, before: float, after: float) -> None:
    clock = MovedClock()
    budget = Budget(total, before, clock)
    clock.now_s += after
    assert budget.spent_s == pytest.approx(before + after, abs=1e-6)
    assert budget.left_s == pytest.approx(max(0.0, total - before - after), abs=1e-6)
    assert budget.sweep_left_s <= budget.left_s
    assert budget.fits(budget.left_s)
    assert not budget.fits(budget.left_s * 1.01 + 1e-3)


def make_record(folder: Path, rounds: int | None) -> Record:
    header = Header(stopwav="0.1.0", study="counting", started=now(), spec={"rounds": rounds})
    return Record.create(folder / f"counting-{rounds}.jsonl", header)


def test_the_time_of_earlier_commands_counts(tmp_path: Path) -> None:
    clock = MovedClock()
    spec = checked(BudgetedSpec, budget_s=100)
    with make_record(tmp_path, None) as record:
        budget = Budget(100, 0.0, clock)
        for seconds in (10, 20, 5):
            clock.now_s += seconds
            store_spent(record, budget)
        record.append(Piece(key=["count", 0, "sum"], status="ok", data={}))
        assert spent_s(record) == 35
        assert open_budget(spec, record).left_s == pytest.approx(65, abs=1)
        assert not is_finished(record, spec)
        record.finish()
        # More time than it has spent reopens it, and no more does not.
        assert not is_finished(record, spec)
        assert is_finished(record, checked(BudgetedSpec, budget_s=35))
        assert is_finished(record, checked(BudgetedSpec, rounds=3))


def test_only_a_complete_fixed_plan_has_verdicts_of_a_fixed_number_of_rounds(tmp_path: Path) -> None:
    for rounds, before, after in ((3, "anytime", "fixed"), (None, "anytime", "anytime")):
        with make_record(tmp_path, rounds) as record:
            assert verdict_rule(record) == before
            record.finish()
            assert verdict_rule(record) == after


def test_the_half_width_is_that_of_the_logarithm() -> None:
    assert half_width(Estimate(1.0, 1 / 1.05, 1.05)) == pytest.approx(0.05)
    for without in (Estimate(None), Estimate(1.0), Estimate(0.5, 0.0, 1.0), Estimate(0.5, -0.1, 1.1)):
        assert half_width(without) == math.inf


def test_times_are_said_with_few_digits() -> None:
    texts = [time_text(seconds) for seconds in (0.4, 45, 89.6, 90, 300, 5399, 5400, 7560)]
    assert texts == ["0 s", "45 s", "90 s", "2 min", "5 min", "90 min", "1.5 h", "2.1 h"]


def test_the_budget_is_no_part_of_what_is_measured() -> None:
    """A run that is given more time, or asked to be more precise, is the same run."""
    less, more = checked(BudgetedSpec, budget_s=60), checked(BudgetedSpec, budget_s=sys.maxsize % 10**6, precision=0.01)
    assert less.stored() == more.stored()
