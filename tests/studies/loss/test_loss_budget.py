"""A loss run with a budget: where its rounds go, when it stops, and what it says of what is left open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from loss_runs import checked, made_up, run

import stopwav
from stopwav.record import Record
from stopwav.studies.budget import Budget
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.loss.spending import LossBudget, next_round

TIMES_S = {"quick": 0.010, "slow": 0.040, "level": 0.0101}


def steady(loss: str, number: int, index: int) -> float:
    """Rounds that differ by a thousandth, in one loss now and then in the other."""
    return TIMES_S[loss] * (number + 1) * (1 + 0.001 * ((index + len(loss)) % 2))


def noisy(loss: str, number: int, index: int) -> float:
    """As `steady`, but of `quick` and `level` now one is faster by a tenth, now the other."""
    turn = 1.1 if loss == "level" and index % 2 else 1.0
    return steady(loss, number, index) * turn


def budgeted(folder: Path, time_s: Callable[[str, int, int], Any], *names: str, taken: int = 6, **spec: Any) -> Record:
    checks = {name: checked() for name in names}
    return made_up(folder, time_s, checks=checks, rounds=None, taken=taken, **spec)


def upcoming(record: Record, left_s: float, **settings: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The losses of the next round with their batches, where so many seconds of 300 are left."""
    spec = LossSpec(**record.header.spec, **settings)
    budget = Budget(300.0, 300.0 - left_s, now_s=lambda: 0.0)
    visits = next_round(LossBudget(spec, record, budget, spec.losses))
    assert sum(visit.time_s for visit in visits) <= left_s
    return [(visit.loss, visit.numbers) for visit in visits]


def test_a_run_that_is_decided_and_precise_has_no_next_round(tmp_path: Path) -> None:
    record = budgeted(tmp_path, steady, "quick", "slow")
    assert upcoming(record, 200) == []
    # A narrower interval was asked for than these rounds have.
    assert {loss for loss, _ in upcoming(record, 200, precision=1e-5)} == {"quick", "slow"}


def test_the_first_rounds_are_of_all_losses(tmp_path: Path) -> None:
    record = budgeted(tmp_path, steady, "quick", "slow", taken=1)
    assert sorted(upcoming(record, 200)) == [("quick", (0, 1, 2)), ("slow", (0, 1, 2))]


def test_rounds_go_to_the_undecided_pair_and_alternate(tmp_path: Path) -> None:
    record = budgeted(tmp_path, noisy, "quick", "slow", "level")
    assert [loss for loss, _ in upcoming(record, 200)] == ["quick", "level"]
    (tmp_path / "odd").mkdir()
    odd = budgeted(tmp_path / "odd", noisy, "quick", "slow", "level", taken=7)
    assert [loss for loss, _ in upcoming(odd, 200)] == ["level", "quick"]


def test_a_round_that_does_not_fit_is_not_begun(tmp_path: Path) -> None:
    record = budgeted(tmp_path, noisy, "quick", "slow", "level")
    # Two processes take 8 s to start, and 9 s are kept back for the end.
    assert upcoming(record, 16) == []
    assert upcoming(record, 20) != []


def test_a_slow_loss_has_one_batch_and_all_are_compared_on_it(tmp_path: Path) -> None:
    def time_s(loss: str, number: int, index: int) -> float | None:
        return None if loss == "slow" and number else steady(loss, number, index)

    record = budgeted(tmp_path, time_s, "quick", "slow")
    found = {result.name: result for result in stopwav.results(record)}
    assert found["quick"].params["compared_batches"] == [0]
    assert found["slow"].metrics["step_time"].value == pytest.approx(0.040, rel=0.01)
    assert found["quick"].metrics["step_time"].value == pytest.approx(0.010, rel=0.01)
    assert [found[name].metrics["rank"].value for name in ("quick", "slow")] == [1, 2]
    # Only what is shared is measured on.
    assert set(upcoming(record, 200, precision=1e-5)) == {("quick", (0,)), ("slow", (0,))}


@pytest.mark.parametrize("taken", [1, 2])
def test_few_rounds_of_a_budget_rank_nothing(tmp_path: Path, taken: int) -> None:
    record = budgeted(tmp_path, steady, "quick", "slow", taken=taken)
    for result in stopwav.results(record):
        assert result.metrics["rank"].value is None
        assert "rounds per side" in result.metrics["rank"].note
        assert result.params["rounds"] == taken


def test_a_verdict_that_a_budget_stopped_is_valid_at_any_stop_and_says_so(tmp_path: Path) -> None:
    record = budgeted(tmp_path, steady, "quick", "slow")
    text = " ".join(command("report", record.path, COLUMNS="200").stdout.split())
    assert "quick is the fastest exact loss: " in text
    assert "(95 % confidence sequence, valid at any stop)" in text


def test_what_is_open_says_how_much_more_time_decides_it(tmp_path: Path) -> None:
    record = budgeted(tmp_path, noisy, "quick", "level")
    text = " ".join(command("report", record.path, COLUMNS="200").stdout.split())
    # 6 rounds took 30 s.
    assert "Undecided: quick and level (" in text
    assert "more: --resume --budget " in text
    assert "no clear winner" in text


def test_any_beginning_of_a_run_has_results_without_a_winner_from_one_round(tmp_path: Path) -> None:
    lines = budgeted(tmp_path, steady, "quick", "slow", taken=2).path.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        (tmp_path / "cut.jsonl").write_text("".join(lines[:count]))
        cut = Record.read(tmp_path / "cut.jsonl")
        for result in stopwav.results(cut):
            assert "incomplete" in [warning.code for warning in result.warnings]
            assert "rank" not in result.metrics or result.metrics["rank"].value in (None, 1)
        done = command("report", cut.path)
        assert done.code in (0, 1, 2)
        assert "the fastest" not in done.stdout


def test_more_time_for_what_is_decided_and_precise_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    def time_s(loss: str, number: int, index: int) -> float:
        return steady({"torch": "quick", "fused": "slow"}[loss], number, index)

    record = budgeted(tmp_path, time_s, "torch", "fused")
    keys = [key for key in record.keys if key[0] != "spent"]
    asked: dict[str, Any] = {"batches": 3, "rounds": None, "plan": None, "resume": True}
    for budget_s in (20, 600):
        again = run(["torch", "fused"], tmp_path, budget_s=budget_s, **asked)
        assert again.path == record.path
        assert again.complete
        assert [key for key in again.keys if key[0] != "spent"] == keys


def test_the_search_for_the_largest_batch_says_where_time_ended_it(tmp_path: Path) -> None:
    record = budgeted(tmp_path, steady, "quick", "slow", largest_batch=True)
    for result in stopwav.results(record):
        largest = result.metrics["largest_batch"]
        assert largest.value is None
        assert "no time to search" in largest.note
