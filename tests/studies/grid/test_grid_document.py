"""A grid as tables, Markdown, CSV, charts and page, from made-up rounds whose numbers are known."""

import csv
import io
import json
from html import escape
from pathlib import Path

import altair
import pytest
from command_line import command
from grid_runs import made_up

import stopwav
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.definitions import DEFINITIONS
from stopwav.studies.grid.document import fit_text
from stopwav.studies.study import StudyRun


def time_s(cell: GridCell, index: int) -> float | str:
    """RTFx 20 at batch 1, 0.5 at batch 4 (slower than real time), and 2 s × 4 out of memory."""
    if (cell.duration_s, cell.batch_size) == (2, 4):
        return "oom"
    return cell.audio_s / (20 if cell.batch_size == 1 else 0.5)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    sizes = {"durations": [1, 2, 8], "batch_sizes": [1, 4, 8], "triangle": True, "predict_s": 30.0}
    return made_up(tmp_path, time_s, **sizes)


def test_the_terminal_shows_pace_memory_and_how_cells_ended(record: Record) -> None:
    printed = command("report", record.path, "--all")
    lines = [line.split() for line in printed.stdout.splitlines()]
    assert ["×", "1", "×", "4", "×", "8"] in lines
    assert ["1", "s", "20.0", "0.50", "✗", "0.50", "✗"] in lines
    assert ["2", "s", "20.0", "OOM", "skipped"] in lines
    assert ["2", "s", "102", "MB", "(+12.0", "MB)", "OOM", "skipped"] in lines
    assert "slower than real time (RTFx below 1): 2 of 5 cells" in printed.stdout.replace("\n", " ")
    assert "no CUDA device" in printed.stdout
    assert "Predictions, not measurements" in printed.stdout
    # 1.5 s for 30 s of audio at batch 1.
    assert "30 s × 1: 1.5" in printed.stdout
    assert printed.code == 1


def test_the_notation_of_the_field_is_available(record: Record) -> None:
    assert "5.00E-02" in command("report", record.path, "--scientific").stdout
    page = command("report", record.path, "--scientific", "--markdown").stdout
    assert "| 1 s | 5.00E-02 | 2.00E+00 ✗ | 2.00E+00 ✗ |" in page


def test_markdown_has_a_row_for_each_duration(record: Record) -> None:
    page = command("report", record.path, "--markdown").stdout
    assert "|  | × 1 | × 4 | × 8 |" in page
    assert "| 2 s | 20.0 | OOM | skipped |" in page
    assert "**cell-oom** 2 s × 4:" in page


def test_csv_has_every_metric_of_every_cell(record: Record) -> None:
    rows = list(csv.DictReader(io.StringIO(command("report", record.path, "--csv").stdout)))
    (one,) = [row for row in rows if row["name"] == "made-up 1 s × 4" and row["metric"] == "rtf"]
    assert float(one["value"]) == pytest.approx(2)
    (lost,) = [row for row in rows if row["name"] == "made-up 2 s × 4"]
    assert (lost["metric"], lost["note"][:3]) == ("status", "oom")


def test_json_has_a_result_for_each_cell_with_its_place_and_status(record: Record) -> None:
    found = json.loads(command("report", record.path, "--json").stdout)
    assert found["study"] == "grid"
    cells = {
        (one["params"]["duration_s"], one["params"]["batch_size"]): one
        for one in found["results"]
        if one["params"]["kind"] == "cell"
    }
    assert len(cells) == 9
    assert cells[1, 4]["metrics"]["rtf"]["value"] == pytest.approx(2)
    assert cells[1, 4]["metrics"]["rtfx"]["value"] == pytest.approx(0.5)
    assert cells[1, 4]["metrics"]["peak_host_bytes"]["value"] == 104_000_000
    allocated = cells[1, 4]["metrics"]["peak_allocated_bytes"]
    assert (allocated["value"], allocated["note"]) == (None, "no CUDA device")
    assert (cells[2, 4]["status"], cells[8, 8]["status"]) == ("oom", "skipped")


def test_every_metric_is_defined_with_its_unit(record: Record) -> None:
    seen = set()
    for result in stopwav.results(record):
        for name, estimate in result.metrics.items():
            seen.add(name)
            known = DEFINITIONS.find(name)
            assert known is not None
            assert known.unit == estimate.unit, name
    listed = {name for group in DEFINITIONS.groups.values() for name in group}
    assert listed - seen == {"largest_batch"}


def test_the_page_shows_tables_charts_and_laws(record: Record, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command("report", record.path, "--html", page)
    html = page.read_text()
    assert "Grid of made-up" in html
    for told in ("How it scales", "Predictions, not measurements", "slower than real time", "OOM", "skipped"):
        assert told in html
    assert html.count('class="plot"') == 4


def test_the_page_tells_each_fit_once_and_its_chart_where_it_begins_and_ends(record: Record, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert command("report", record.path, "--html", page).code in (0, 1)
    shown = page.read_text().partition("Everything measured")[0]
    fits = [fit_text(result) for result in StudyRun(record).results if result.kind == "law"]
    assert fits
    assert [shown.count(escape(fit)) for fit in fits] == [1] * len(fits)
    assert "batch 1: 0.0500 s at seconds of audio 1, 0.400 s at 8." in shown


def test_charts_are_valid_and_draw(record: Record, tmp_path: Path) -> None:
    charts = StudyRun(record).charts
    assert list(charts) == ["rtfx", "memory-host", "scaling-duration", "scaling-batch"]
    for chart in charts.values():
        altair.Chart.from_dict(dict(chart.spec), validate=True)
        assert chart.description
        assert "<path" in chart_svg(chart.spec)
    command("report", record.path, "--charts", tmp_path / "charts", "--markdown")
    assert len(list((tmp_path / "charts").glob("*.png"))) == 4


def test_a_wide_grid_is_broken_into_tables_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = made_up(tmp_path, lambda cell, index: 0.1 * (1 + index), durations=[1], batch_sizes=list(range(1, 21)))
    printed = command("report", wide.path).stdout
    assert max(len(line) for line in printed.splitlines() if not line.startswith("run file")) <= 80
    assert "× 20" in printed


def test_history_follows_the_cells_and_not_the_laws(record: Record) -> None:
    printed = command("history", record.path.parent).stdout
    assert "made-up 1 s × 4" in printed
    assert "time over" not in printed


def test_a_cell_whose_interval_includes_real_time_is_undecided(tmp_path: Path) -> None:
    """RTFx 2, about 1 in rounds from 0.83 to 1.25, and 0.5."""

    def seconds(cell: GridCell, index: int) -> float:
        return cell.audio_s * {1: 0.5, 2: (0.8, 1.0, 1.2)[index % 3], 4: 2.0}[cell.batch_size]

    run = made_up(tmp_path, seconds, durations=[1], batch_sizes=[1, 2, 4], rounds=3)
    mixed = command("report", run.path, "--all").stdout
    assert "? undecided, as the interval includes RTFx 1 or there is none: 1 of 3 cells" in " ".join(mixed.split())
    assert "Slower than real time in 1 of 3 measured cells, undecided in 1, from RTFx" in " ".join(mixed.split())
    alone = made_up(tmp_path, seconds, durations=[1], batch_sizes=[2], rounds=3)
    shown = command("report", alone.path).stdout
    assert "Undecided whether it is faster than real time: RTFx 1.0 ≈[0." in shown
    assert "rough interval: from fewer than 5 utterances, rounds" in shown
    assert "undecided" in str(StudyRun(alone).charts["rtfx"].spec)
