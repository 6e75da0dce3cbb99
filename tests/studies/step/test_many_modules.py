"""Step runs of models with thousands of modules: the work grows in proportion, and what is shown stays small."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from shown_runs import markdown, page, printed
from synthetic_steps import deep, flat, made_up_step, repeated

import stopwav
from stopwav.report.document import Detail
from stopwav.studies.step.tree import MOST_ROWS, StepTree
from stopwav.studies.study import StudyRun

# Of four times as many modules: a little more than four times the calls, and far from the sixteen of a loop in a loop.
FACTOR, MOST_GROWTH = 4, 5.5


def calls_of(work: Callable[[], object]) -> int:
    """The number of Python and C functions that are called: on a busy machine a better measure than time."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def show(run: StudyRun) -> None:
    """Compute and lay out everything that a report shows."""
    run.document(Detail(page=True))
    run.document(Detail(unfold=True))
    run.study.charts(run)


@pytest.mark.parametrize(
    ("modules", "options"),
    [
        (flat, {}),
        (repeated, {}),
        (deep, {}),
        (lambda count: flat(20), {"labels": 1}),
        (lambda count: flat(20), {"stages": 1}),
    ],
    ids=["flat", "repeated", "deep", "labels", "stages"],
)
def test_the_work_grows_in_proportion(tmp_path: Path, modules: Any, options: dict[str, int]) -> None:
    def calls(count: int) -> int:
        sizes = {name: count * size for name, size in options.items()}
        run = StudyRun(made_up_step(tmp_path, modules(count), **sizes))
        return calls_of(lambda: run.results) + calls_of(lambda: show(run))

    calls(8)  # what is imported and made at first use
    few = calls(100)
    assert calls(100 * FACTOR) < MOST_GROWTH * few


def test_finding_the_modules_grows_in_proportion() -> None:
    torch = pytest.importorskip("torch")
    from stopwav.measure.module_rows import rows_of

    def calls(count: int) -> int:
        model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Identity()) for _ in range(count)))
        return calls_of(lambda: rows_of(model, 3))

    assert calls(100 * FACTOR) < MOST_GROWTH * calls(100)


def test_sums_are_those_on_paper(tmp_path: Path) -> None:
    record = made_up_step(tmp_path, [("a", "a"), ("a.b", "a.b"), ("a.b.c", "a.b.c"), ("d", "d")], steps=1)
    rows = {result.name: result.metrics for result in stopwav.results(record)}
    # Each takes 2 ms forward and 1 ms backward, and the model 1 ms itself: 13 ms.
    forward = {name: rows[name]["forward_time"].value for name in ("model", "a", "a.b", "a.b.c", "d")}
    assert forward == pytest.approx({"model": 9e-3, "a": 6e-3, "a.b": 4e-3, "a.b.c": 2e-3, "d": 2e-3})
    assert rows["a"]["backward_time"].value == pytest.approx(3e-3)
    assert rows["a"]["share"].value == pytest.approx(9 / 13)
    assert rows["a"]["self_share"].value == pytest.approx(3 / 13)
    assert [rows[name]["held_bytes"].value for name in ("model", "a", "a.b.c")] == [400, 300, 100]


def test_a_page_of_many_rows_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = StudyRun(made_up_step(tmp_path, flat(800)))
    sentence = f"Shown: the {MOST_ROWS} of 801 rows with the largest shares"
    html = page(run)
    assert sentence in html
    assert "every metric of these rows alone" in html
    assert html.count("part799") == 0
    assert len(printed(run, width=200).splitlines()) < 30
    text = markdown(run)
    assert sentence in text
    assert len(text.splitlines()) < MOST_ROWS + 50
    # The rest is where the sentence says.
    rows = json.loads(command("report", run.record.path, "--json").stdout)["results"]
    assert len(rows) == 802
    assert "part799" in command("report", run.record.path, "--csv").stdout


def test_of_many_rows_those_are_shown_that_take_most_and_the_rows_around_them(tmp_path: Path) -> None:
    # `last` has the time of `inner` too.
    record = made_up_step(tmp_path, [*flat(2 * MOST_ROWS), ("last", "last"), ("last.inner", "last.inner")])
    shown = StepTree(stopwav.results(record)).shown()
    assert len(shown) == MOST_ROWS
    assert [row.name for row in shown][:2] == ["model Model", "part0"]
    assert shown[-1].name == "last"


def test_few_rows_are_all_shown_without_a_word(tmp_path: Path) -> None:
    run = StudyRun(made_up_step(tmp_path, flat(20)))
    assert "Shown:" not in page(run)
    assert "part19" in printed(run, every_metric=True)
    assert "part19" in markdown(run)
