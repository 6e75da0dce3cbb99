"""A step in the terminal, as Markdown, as charts and on a page."""

from pathlib import Path

import pytest
import torch
from rich.console import Console
from stopwav.report.charts import chart_svg, charts_of
from torch import nn

import stopwav
from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.report.csv_table import csv_table
from stopwav.report.page import Section, render_page
from stopwav.report.step_comparison import step_comparison_html
from stopwav.report.step_layout import arrange_step, bar
from stopwav.report.step_markdown import step_markdown
from stopwav.report.step_table import print_step
from stopwav.studies.step.definitions import STEP_DEFINITIONS
from stopwav.studies.step.results import step_view
from stopwav.studies.step.run import step


class Tower(nn.Module):
    """Three layers of one kind, an odd one, and a name that would break a page."""

    labels = {"layers.*": "tower_layer", "head": "tower_head"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        with stopwav.stage("<b>head</b>"):
            x = x * 2
        return self.head(x)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    model = Tower()
    data = stopwav.TrainingBatch(torch.randn(16, 8), None, 16, 16, 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    folder = tmp_path_factory.mktemp("step")
    return step(model, lambda _: data, lambda y, _: y.square().mean(), optimizer, steps=4, save=folder)


@pytest.fixture(scope="module")
def results(record: Record) -> list[stopwav.Result]:
    return stopwav.results(record)


def printed(results: list[stopwav.Result], width: int = 80, **options: object) -> str:
    console = Console(width=width, force_terminal=False, record=True, markup=False, highlight=False, file=None)
    with console.capture() as captured:
        print_step(results, console, **options)  # type: ignore[arg-type]
    return captured.get()


def test_the_tree_folds_layers_and_unfolds_them(results: list[stopwav.Result]) -> None:
    layout = arrange_step(results)
    folded = [(line.depth, line.name) for line in layout.lines()]
    assert folded == [
        (0, "(data)"), (0, "model Tower"), (1, "layers.* ×3"), (2, "0 ×3"), (2, "1 ×3"), (1, "head"),
        (1, "<b>head</b>"), (0, "(loss)"), (0, "(optimizer)"), (0, "(rest)"),
    ]  # fmt: skip
    names = [line.name for line in layout.lines(unfold=True)]
    assert "layers.1" in names
    assert "layers.* ×3" not in names


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_cuts_no_number(results: list[stopwav.Result], width: int) -> None:
    text = printed(results, width)
    assert "layers.* ×3" in text
    assert all(len(line) <= width for line in text.splitlines())
    row = next(line for line in text.splitlines() if "layers.*" in line)
    assert "…" not in row
    assert "By phase: data" in text
    assert "Peak memory" in text
    assert "Overhead of the watched steps" in text
    assert "80 % of what is computed is no padding" in " ".join(text.split())


def test_labels_filter_the_rows(results: list[stopwav.Result]) -> None:
    text = printed(results, labels="^tower")
    assert "tower_layer" in text
    assert "tower_head" in text
    assert "optimizer" not in text
    with pytest.raises(StopwavError, match="not a regular expression"):
        printed(results, labels="(")


def test_markdown_and_csv_have_every_row(record: Record, results: list[stopwav.Result]) -> None:
    text = step_markdown(record, results)
    assert "| share |" in text
    assert "layers.&#42; ×3" in text
    assert "<b>" not in text
    assert "layers.*,backward_time" in csv_table([(record, results)])


def test_charts_are_drawn_and_the_page_escapes_names(record: Record, results: list[stopwav.Result]) -> None:
    view = step_view(record)
    charts = charts_of("step", view, results)
    assert list(charts) == ["icicle", "kinds", "memory-timeline", "layers"]
    for chart in charts.values():
        assert chart_svg(chart.spec).startswith("<svg")
    page = render_page([Section(record, results, view)])
    assert "Where the step goes" in page
    assert "<b>head</b>" not in page.partition("<script")[0]


def test_boxes_of_the_icicle_lie_inside_the_box_around_them(record: Record, results: list[stopwav.Result]) -> None:
    chart = charts_of("step", step_view(record), results)["icicle"]
    (boxes,) = chart.spec["datasets"].values()
    time = [one for one in boxes if one["mode"] == "time"]
    assert sum(one["to"] - one["from"] for one in time if one["depth"] == 0) == pytest.approx(1)
    model = next(one for one in time if one["path"] == "model")
    for one in time:
        if one["depth"] == 1 and not one["path"].startswith("("):
            assert model["from"] - 1e-9 <= one["from"] <= one["to"] <= model["to"] + 1e-9


def test_every_metric_is_defined(results: list[stopwav.Result]) -> None:
    for result in results:
        for name, estimate in result.metrics.items():
            assert STEP_DEFINITIONS[name].unit == estimate.unit, name


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(0.5, 4) == "██  "
    assert bar(0.25 + 1 / 32, 4) == "█▏  "
    assert bar(2.0, 2) == "██"


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    def make_batch(index: int) -> None:
        raise MemoryError("nothing left")

    model = nn.Linear(2, 2)
    failed = step(model, make_batch, lambda y, _: y.sum(), torch.optim.SGD(model.parameters()), steps=2, save=tmp_path)
    found = stopwav.results(failed)
    assert found[0].status == "oom"
    assert "Nothing was measured" in printed(found)
    assert "Nothing was measured" in step_markdown(failed, found)
    assert "Nothing was measured" in render_page([Section(failed, found, step_view(failed))])


def test_two_steps_are_compared_row_by_row(record: Record, results: list[stopwav.Result]) -> None:
    text = step_comparison_html([(record, results), (record, [one for one in results if one.name != "head"])])
    assert text.count("layers.* ×3") == 1
    row = next(part for part in text.split("<tr>") if "<bdi>head</bdi>" in part)
    assert "–" in row
    assert "<b>head</b>" not in text
