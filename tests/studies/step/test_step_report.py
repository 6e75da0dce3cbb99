"""A step in the terminal, as Markdown, as charts and on a page."""

from pathlib import Path

import pytest
import torch
from command_line import command
from rich.console import Console
from torch import nn

import stopwav
from stopwav.cli.output import write_page
from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.report.document import Detail
from stopwav.report.markdown import render_markdown
from stopwav.report.terminal import bar, print_document
from stopwav.studies.step.comparison_document import step_comparison
from stopwav.studies.step.definitions import DEFINITIONS
from stopwav.studies.step.run import step
from stopwav.studies.step.tree import StepTree
from stopwav.studies.study import StudyRun


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
def run(record: Record) -> StudyRun:
    return StudyRun(record)


def printed(run: StudyRun, width: int = 80, **detail: object) -> str:
    console = Console(width=width, force_terminal=False, markup=False, highlight=False)
    with console.capture() as captured:
        every = bool(detail.get("every_metric"))
        print_document(run.document(Detail(**detail)), console, every_metric=every)  # type: ignore[arg-type]
    return captured.get()


def page_of(*runs: StudyRun, path: Path) -> str:
    write_page(runs, path)
    return path.read_text()


def test_the_tree_folds_layers_and_unfolds_them(run: StudyRun) -> None:
    tree = StepTree(run.results)
    folded = [(row.depth, row.name) for row in tree.shown()]
    assert folded == [
        (0, "(data)"), (0, "model Tower"), (1, "layers.* ×3"), (2, "0 ×3"), (2, "1 ×3"), (1, "head"),
        (1, "<b>head</b>"), (0, "(loss)"), (0, "(optimizer)"), (0, "(rest)"),
    ]  # fmt: skip
    names = [row.name for row in tree.shown(unfold=True)]
    assert "layers.1" in names
    assert "layers.* ×3" not in names


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_cuts_no_number(run: StudyRun, width: int) -> None:
    assert "Peak memory" in printed(run, width)
    text = printed(run, width, every_metric=True)
    assert "layers.* ×3" in text
    assert all(len(line) <= width for line in text.splitlines())
    row = next(line for line in text.splitlines() if "layers.*" in line)
    assert "…" not in row
    assert "By phase: data" in text
    assert "Peak memory" in text
    assert "Profiling overhead" in text
    assert "20 % padding" in " ".join(text.split())
    assert ("parameters" in text.partition("By phase")[0]) == (width == 140)
    assert "layers.1" in printed(run, width, unfold=True)


def test_labels_filter_the_rows(run: StudyRun) -> None:
    text = printed(run, labels="^tower")
    assert "tower_layer" in text
    assert "tower_head" in text
    assert "optimizer" not in text
    with pytest.raises(StopwavError, match="not a regular expression"):
        printed(run, labels="(")


def test_markdown_and_csv_have_every_row(record: Record) -> None:
    text = command("report", record.path, "--markdown").stdout
    assert "| share |" in text
    assert "layers.&#42; ×3" in text
    assert "<b>" not in text
    assert "layers.*,backward_time" in command("report", record.path, "--csv").stdout


def test_charts_are_drawn_and_the_page_escapes_names(run: StudyRun, tmp_path: Path) -> None:
    charts = run.charts
    assert list(charts) == ["icicle", "kinds", "memory-timeline", "layers"]
    for chart in charts.values():
        assert chart_svg(chart.spec).startswith("<svg")
    page = page_of(run, path=tmp_path / "page.html")
    assert "Where the step goes" in page
    assert "<b>head</b>" not in page.partition("<script")[0]


def test_boxes_of_the_icicle_lie_inside_the_box_of_their_parent(run: StudyRun) -> None:
    (boxes,) = run.charts["icicle"].spec["datasets"].values()
    times = [box for box in boxes if box["mode"] == "time"]
    assert sum(box["to"] - box["from"] for box in times if box["depth"] == 0) == pytest.approx(1)
    model = next(box for box in times if box["path"] == "model")
    for box in times:
        if box["depth"] == 1 and not box["path"].startswith("("):
            assert model["from"] - 1e-9 <= box["from"] <= box["to"] <= model["to"] + 1e-9


def test_every_metric_is_defined(run: StudyRun) -> None:
    for result in run.results:
        for name, estimate in result.metrics.items():
            definition = DEFINITIONS.find(name)
            assert definition is not None, name
            assert definition.unit == estimate.unit, name


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(0.5) == "████    "
    assert bar(0.25 + 1 / 64) == "██▏     "
    assert bar(2.0) == "████████"


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    def make_batch(index: int) -> None:
        raise MemoryError("nothing left")

    model = nn.Linear(2, 2)
    failed = step(model, make_batch, lambda y, _: y.sum(), torch.optim.SGD(model.parameters()), steps=2, save=tmp_path)
    run = StudyRun(failed)
    assert run.results[0].status == "oom"
    assert "Nothing was measured" in printed(run)
    assert "Nothing was measured" in render_markdown(run.document(Detail()))
    assert "Nothing was measured" in page_of(run, path=tmp_path / "page.html")


def test_two_steps_are_compared_row_by_row(record: Record, run: StudyRun, tmp_path: Path) -> None:
    other = StudyRun(record)
    other.results = [result for result in run.results if result.name != "head"]
    (table,) = step_comparison([run, other]).blocks
    texts = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in table.rows}  # type: ignore[union-attr]
    assert list(texts)[:2] == ["run", "clean step, wall time"]
    assert len(texts["layers.* ×3"]) == 2
    assert texts["head"][0].endswith(" %)")
    assert texts["head"][1] == "–"
    page = page_of(run, other, path=tmp_path / "page.html")
    assert "2 runs compared" in page
    assert 'href="#s1-run"' in page
    assert "<b>head</b>" not in page.partition("<script")[0]


def test_a_title_is_the_model_and_what_it_was_made_with_stands_below_it_whole() -> None:
    run = StudyRun(Record.read(Path(__file__).parents[2] / "data" / "step-profile.jsonl"))
    model = run.record.header.spec["model"]
    assert len(model) > 60
    document = run.document(Detail(page=True))
    assert document.title == "Training step of conformer-transducer"
    assert any(model in getattr(block, "text", "") for block in document.blocks)


def test_the_charts_of_a_step_say_what_they_show() -> None:
    run = StudyRun(Record.read(Path(__file__).parents[2] / "data" / "step-profile.jsonl"))
    charts = run.charts
    assert "Of the time: model ConformerTransducer 87.6 %, encoder 82.8 %" in charts["icicle"].description
    assert "SelfAttention 1508 ms, Convolution 1454 ms" in charts["kinds"].description
    assert "encoder.layers.0.dropout, 7.79 ms, 1.91 times the mean of its row" in charts["layers"].description
    # A box shows what it has room for; its name is whole.
    names = {row["name"] for rows in charts["icicle"].spec["datasets"].values() for row in rows}
    assert "(optimizer)" in names
