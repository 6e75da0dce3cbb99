"""A grid that spends a budget: what it measures first, where its rounds go, when it stops, and what it leaves open."""

import time
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import FAST, good_round, made_up
from test_grid_study import by_place

import stopwav
from stopwav.record import Record
from stopwav.studies.budget import Budget, spent_s
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cell_place, rising_cells
from stopwav.studies.grid.costs import Costs, costs_of
from stopwav.studies.grid.schedule import Spending, choose_cells, is_open, sweep_visit_s
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.stored_rounds import round_to_piece


class Hands:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def budgeted(folder: Path, times_s: dict[GridCell, list[float]], **spec: Any) -> Record:
    """A run by budget whose rounds of each cell took these seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = {"durations": [cell.duration_s for cell in times_s], "batch_sizes": [c.batch_size for c in times_s]}
    template = made_up(folder, lambda *_: "ok", rounds=1, complete=False, durations=[1], batch_sizes=[1])
    header = template.header.model_copy(update={"spec": GridSpec(engine="made-up", **{**cells, **spec}).stored()})
    template.path.unlink()
    with Record.create(template.path, header) as record:
        for cell, rounds in times_s.items():
            for index, took_s in enumerate(rounds):
                record.append(round_to_piece(cell_place(cell).key(index, 0), good_round(index, cell, took_s)))
    return Record.read(template.path)


def spending(record: Record, total_s: float, spent: float = 0.0) -> Spending:
    clock = Hands()
    return Spending(GridSpec(**record.header.spec), record, Budget(total_s, spent, clock))


SMALL, MIDDLE, LARGE = GridCell(1, 1), GridCell(8, 1), GridCell(64, 1)


def test_the_sweep_shares_a_quarter_of_the_budget_after_the_calls_that_fit() -> None:
    """Of 100 s, 25 are for the sweep and 20 of them planned: 1 s × 2 + 8 s are calls, and two cells share the rest."""
    budget = Budget(100.0, 0.0, Hands())
    costs = Costs({SMALL: 1.0}, {"": 1.0})
    assert costs.call_s(MIDDLE) == 8
    assert sweep_visit_s(budget, costs, [SMALL, MIDDLE, LARGE]) == pytest.approx(1 + (20 - 2 - 8) / 2)
    # One whose call alone takes longer than the quarter is called once.
    assert sweep_visit_s(budget, costs, [LARGE]) == pytest.approx(64)
    # Nothing is known before the first call.
    assert sweep_visit_s(budget, Costs({}, {"": 3.0}), [SMALL, MIDDLE]) == pytest.approx(25 / 4)


def test_cells_come_in_the_order_of_what_they_cost() -> None:
    order = rising_cells(GridSpec(engine="fake"))
    assert [cell.audio_s for cell in order] == sorted(cell.audio_s for cell in order)
    assert (order[0], order[-1]) == (GridCell(1, 1), GridCell(32, 8))
    assert len(order) == 15


def test_rounds_go_to_cells_that_can_have_an_interval(tmp_path: Path) -> None:
    """Two more rounds are lacking everywhere: 2 × (0.5 s load + 0.1 + 0.8 s) fit into 4 s, with the large cell not."""
    times = {SMALL: [0.1], MIDDLE: [0.8], LARGE: [6.4]}
    run = spending(budgeted(tmp_path, times), total_s=20, spent=16)
    assert choose_cells(run, run.measured) == [SMALL, MIDDLE]
    # With more time all of them; where nothing fits so often, what fits once; then nothing.
    assert len(choose_cells(spending(run.record, 20), run.measured)) == 3
    assert choose_cells(spending(run.record, 20, 18.9), run.measured) == [SMALL]
    assert choose_cells(spending(run.record, 20, 19.9), run.measured) == []


def test_the_cells_nearest_real_time_come_first_then_those_with_few_rounds_then_the_widest(tmp_path: Path) -> None:
    near, few = GridCell(2, 1), GridCell(4, 1)
    wide, narrow = GridCell(8, 1), GridCell(16, 1)
    times = {narrow: [1.6, 1.62, 1.61], wide: [0.8, 1.0, 0.9], few: [0.4, 0.4], near: [1.9, 2.3, 2.0]}
    run = spending(budgeted(tmp_path, times), total_s=1000)
    assert choose_cells(run, run.measured) == [near, few, wide]
    assert not is_open(run, narrow, run.measured[narrow])


def test_an_implausible_cell_is_taken_again_first_and_flagged_if_it_stays(tmp_path: Path) -> None:
    """RTFx 1.2 at 1 s and 57 at 2 s, as a busy machine once had it."""
    times = {GridCell(1, 1): [0.83], GridCell(2, 1): [0.035], GridCell(5, 1): [0.09], GridCell(8, 1): [0.14]}
    run = spending(budgeted(tmp_path, times), total_s=1000)
    assert choose_cells(run, run.measured)[0] == GridCell(1, 1)
    cells = by_place(run.record)
    flagged = [place for place, cell in cells.items() if "implausible" in {w.code for w in cell.warnings}]
    assert flagged == [(1, 1)]
    healthy = budgeted(tmp_path / "healthy", {**times, GridCell(1, 1): [0.018]})
    assert not any(w.code == "implausible" for cell in by_place(healthy).values() for w in cell.warnings)


def test_one_process_decides_nothing_and_a_few_rounds_do(tmp_path: Path) -> None:
    one = budgeted(tmp_path / "one", {SMALL: [0.05]})
    (cell,) = by_place(one).values()
    assert (cell.params["real_time"], cell.params["rule"], cell.params["rounds"]) == ("undecided", "anytime", 1)
    assert "Faster than real time" not in command("report", one.path).stdout
    four = budgeted(tmp_path / "four", {SMALL: [0.05, 0.051, 0.049, 0.05]})
    (cell,) = by_place(four).values()
    assert (cell.params["real_time"], cell.params["rounds"]) == ("above", 4)
    shown = " ".join(command("report", four.path, "--all").stdout.split())
    assert "confidence sequence, valid at any stop" in shown


def test_what_is_open_says_how_much_more_time_would_settle_it(tmp_path: Path) -> None:
    record = budgeted(tmp_path, {SMALL: [0.9, 1.2, 1.0], MIDDLE: [0.4, 0.41, 0.4]})
    shown = " ".join(command("report", record.path).stdout.split())
    assert "Still open: 1 of 2 cells are undecided or wider than ± 5 %" in shown
    assert "more would settle them: --resume --budget" in shown


def grid(folder: Path, engine: str, budget_s: float, **options: Any) -> Record:
    return stopwav.grid(engine, save=folder, budget_s=budget_s, **{"batch_sizes": [1], "plan": FAST, **options})


def test_a_grid_stops_when_all_is_precise_and_decided(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    record = grid(tmp_path, "fake,second_ms=20", 60, durations=[0.5, 1], precision="50%")
    assert time.monotonic() - begun_s < 50
    assert record.complete
    assert spent_s(record) < 50
    for cell in by_place(record).values():
        assert cell.params["rounds"] >= 3
        assert cell.params["real_time"] == "above"
        assert cell.metrics["first_call_time"].value is not None
    assert command("report", record.path).code == 0


def test_what_the_budget_has_no_time_for_is_left_out_and_measured_with_more(tmp_path: Path) -> None:
    """4 s of audio take 3.2 s, more than is left of 3 s after the others."""
    options: dict[str, Any] = {"durations": [0.1, 4]}
    first = grid(tmp_path, "fake,second_ms=800", 3, **options)
    cells = by_place(first)
    assert (cells[0.1, 1].status, cells[4, 1].status) == ("ok", "skipped")
    (reason,) = cells[4, 1].warnings
    assert reason.code == "budget"
    assert "a call takes about 3 s: --resume --budget 1min" in reason.message
    done = command("report", first.path)
    assert done.code == 0
    assert "no time, about 3 s" in done.stdout
    again = grid(tmp_path, "fake,second_ms=800", 9, resume=True, **options)
    assert again.path == first.path
    assert by_place(again)[4, 1].status == "ok"
    assert again.complete
    # With no more time than it has spent, there is nothing to do.
    pieces = len(again.pieces)
    assert len(grid(tmp_path, "fake,second_ms=800", 3, resume=True, **options).pieces) == pieces


def test_a_visit_that_outlasts_the_budget_is_ended_with_it(tmp_path: Path) -> None:
    """Nothing is known of a first call: it is not waited for much longer than there is time."""
    begun_s = time.monotonic()
    record = grid(tmp_path, "fake,second_ms=60000", 2, durations=[1])
    assert time.monotonic() - begun_s < 15
    (cell,) = by_place(record).values()
    assert (cell.status, cell.warnings[0].code) == ("skipped", "budget")


def test_the_search_for_the_largest_batch_is_bounded_by_the_budget(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    record = grid(tmp_path, "fake,batch_ms=200", 4, durations=[0.1], frontier=True)
    assert time.monotonic() - begun_s < 20
    assert record.complete
    (frontier,) = [result for result in stopwav.results(record) if result.kind == "frontier"]
    assert frontier.metrics["largest_batch"].value >= 1  # type: ignore[operator]


def test_costs_are_measured_or_in_proportion_to_the_nearest(tmp_path: Path) -> None:
    record = budgeted(tmp_path, {SMALL: [0.1, 0.3, 0.2], MIDDLE: [2.4]})
    costs = costs_of(dict(spending(record, 1).measured))
    assert costs.call_s(SMALL) == pytest.approx(0.2)
    assert costs.call_s(GridCell(2, 1)) == pytest.approx(0.4)
    assert costs.call_s(LARGE) == pytest.approx(8 * 2.4)
    # A long call gives its peak too, a short one is called once more for it.
    assert costs.least_s(SMALL, peaks=True) == pytest.approx(0.4)
    assert costs.least_s(MIDDLE, peaks=True) == pytest.approx(2.4)
