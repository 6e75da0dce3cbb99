"""A loss run as tables, Markdown, CSV, charts and page, from made-up rounds whose numbers are known."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import altair
import pytest
from command_line import command
from loss_runs import checked, made_up

import stopwav
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.studies.loss.definitions import DEFINITIONS
from stopwav.studies.study import StudyRun

# Milliseconds of a batch: the wrong one is the fastest of all, and the pruned one faster than what it approximates.
TIMES_MS = {"wrong": 1.0, "pruned": 2.0, "quick": 10.0, "level": 10.0, "slow": 40.0}
CHECKS = {
    "slow": checked(),
    "quick": checked(),
    "level": checked(),
    "wrong": checked(0.5),
    "pruned": checked(gap=0.1),
    "dead": checked(),
    "absent": {},
}


def time_s(loss: str, batch: int, index: int) -> float | str:
    """Batches of 1, 2 and 3 times the time, rounds that differ by 1 %; `dead` crashes."""
    if loss == "dead":
        return "crashed"
    # `level` and `quick` take turns at being the faster one.
    turn = 1.005 if (loss == "level") == (index % 2 == 0) else 1.0
    return TIMES_MS[loss] / 1e3 * (batch + 1) * (1 + 0.01 * index) * turn


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return made_up(tmp_path, time_s, checks=CHECKS)


def by_name(record: Record) -> dict[str, stopwav.Result]:
    return {result.name: result for result in stopwav.results(record)}


def test_the_mean_over_batches_is_the_one_on_paper(record: Record) -> None:
    slow = by_name(record)["slow"].metrics
    # 40, 80 and 120 ms, each 1, 1.01 and 1.02 times that; the geometric mean of those is 1.00997.
    assert slow["step_time"].value == pytest.approx(0.080 * 1.00997 * 1.005 ** (1 / 3), rel=2e-3)
    assert slow["forward_time"].value == pytest.approx(slow["step_time"].value / 4)  # type: ignore[operator]
    assert slow["backward_time"].value == pytest.approx(slow["step_time"].value / 2)  # type: ignore[operator]
    # t of 2 degrees of freedom is 4.303; the standard deviation is that of 40, 80, 120. On the log scale the relative
    # error is that on either side; the bootstrap gives the side below more, where 40 lies farther from 80 than 120.
    half = 4.303 * 0.0404 / 3**0.5 / slow["step_time"].value  # type: ignore[operator]
    below, above = (
        abs(math.log(end / slow["step_time"].value)) for end in (slow["step_time"].low, slow["step_time"].high)
    )  # type: ignore[operator]
    assert above < half < below
    assert below < 2 * half
    assert slow["step_time"].rough
    assert slow["peak_host_over_inputs_bytes"].value == 100e6
    assert slow["peak_host_bytes"].value == 190e6


def test_only_right_and_exact_losses_are_ranked_and_equals_share_a_rank(record: Record) -> None:
    ranks = {name: result.metrics["rank"].value for name, result in by_name(record).items() if result.metrics}
    assert ranks == {"quick": 1, "level": 1, "slow": 3, "wrong": None, "pruned": None}


def test_one_round_has_no_rank_and_says_why(tmp_path: Path) -> None:
    record = made_up(tmp_path, time_s, checks={"slow": checked(), "quick": checked()}, rounds=1)
    for name in ("quick", "slow"):
        rank = by_name(record)[name].metrics["rank"]
        assert rank.value is None
        assert rank.note == "not ranked yet: needs at least 2 rounds per side"


def test_one_round_names_no_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    record = made_up(tmp_path, time_s, checks={"slow": checked(), "quick": checked()}, rounds=1)
    text = " ".join(command("report", record.path).stdout.split())
    assert "No winner yet of quick and slow: needs at least 2 rounds per side" in text
    assert "Undecided: slow and quick (9 more rounds)" in text
    assert "– quick" in text
    assert "– slow" in text
    page = tmp_path / "page.html"
    command("report", record.path, "--html", page)
    for shown in (text, page.read_text(), command("report", record.path, "--markdown").stdout):
        assert "the fastest" not in shown
        assert "came first" not in shown
        assert "the least memory" not in shown


def test_a_verdict_names_its_rule(record: Record) -> None:
    assert "Student t, for a fixed number of rounds" in by_name(record)["quick"].metrics["rank"].note
    text = " ".join(command("report", record.path).stdout.split())
    assert "(95 % Student t, for a fixed number of rounds)" in text


def test_the_terminal_shows_the_table_of_the_field(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    printed = command("report", record.path, "--all")
    lines = [line.split() for line in printed.stdout.splitlines()]
    starts = [line[:2] for line in lines]
    order = [
        starts.index([mark, name]) for mark, name in (("✗", "wrong"), ("~", "pruned"), ("1", "quick"), ("3", "slow"))
    ]
    assert order == sorted(order)
    assert ["dead", "crashed"] in lines
    assert ["absent", "missing"] in lines
    text = " ".join(printed.stdout.split())
    assert "× padding (efficiency 0." in text
    assert "6 of 8 utterances of shapes.csv" in text
    assert "quick and level are the fastest exact losses" in text or "level and quick are the fastest" in text
    assert "✗ does not match the oracle" in text
    assert "pruned +10.0%" in text
    assert printed.code == 1


def test_it_is_readable_at_80_columns(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    printed = command("report", record.path, "--all").stdout
    assert max(map(len, printed.splitlines()[:-1])) <= 80
    assert "gradient_deviation" in printed


def test_the_largest_batch_fits_80_columns_in_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times_ms = {"optimized-transducer": 15_204.0, "k2-pruned,range=5": 210.0, "warp-rnnt-compact": 1_520.0}
    checks = {name: checked(gap=0.1 if "pruned" in name else None) for name in times_ms}
    record = made_up(tmp_path, lambda loss, *_: times_ms[loss] / 1e3, checks={**checks, "gone": {}}, largest_batch=True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = command("report", record.path).stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    (head,) = [line.split() for line in lines if line.split()[:1] == ["rank"]]
    assert head[-1] == "batch"
    assert "forward" not in head
    lines = command("report", record.path, "--all").stdout.splitlines()
    head = next(line.split() for line in lines if line.split()[:1] == ["rank"])
    assert head == ["rank", "loss", "ms", "forward", "backward", "memory", "error", "batch"]


def test_times_of_seconds_are_written_without_exponents(tmp_path: Path) -> None:
    record = made_up(tmp_path, lambda *_: 1.5234, checks={"slow": checked()})
    page = tmp_path / "page.html"
    assert command("report", record.path, "--html", page).stdout == ""
    printed = command("report", record.path)
    (memory,) = [chart for name, chart in StudyRun(record).charts.items() if name == "memory"]
    assert "slow 1523 ms, 100 MB" in memory.description
    assert "e+0" not in printed.stdout
    assert "1523" in printed.stdout
    drawn = "".join(chart_svg(chart.spec) for chart in StudyRun(record).charts.values())
    assert "e+" not in drawn


@pytest.mark.parametrize(
    ("options", "title", "code"),
    [
        ({"order": "file"}, "4 batches of 2, in the order of the file; 12", None),
        (
            {"order": "file", "first": 2, "skip": 1},
            "2 batches of 2, in the order of the file, from batch 2 on; 12",
            None,
        ),
        ({"order": "longest-first", "first": 1}, "1 batch of 2, longest first, from batch 1 on; 12", "first-batches"),
        ({"sort": "pairs"}, "4 batches of 2, sorted; 12", None),
    ],
)
def test_the_order_and_the_choice_of_batches_are_said(
    tmp_path: Path, options: dict[str, Any], title: str, code: str | None
) -> None:
    record = made_up(tmp_path, lambda *_: 0.01, checks={"quick": checked()}, batches=options.get("first", 4), **options)
    assert title in command("report", record.path).stdout
    (result,) = stopwav.results(record)
    assert [warning.code for warning in result.warnings if "batches" in warning.code] == ([code] if code else [])


def test_columns_that_were_sorted_separately_are_warned_about(tmp_path: Path) -> None:
    record = made_up(tmp_path, time_s, checks={"quick": checked()}, sort="columns-independently")
    text = " ".join(command("report", record.path).stdout.split())
    assert "T and U sorted separately" in text
    assert "columns-independently: T and U were sorted separately" in text
    assert "exist in no utterance" in text


def test_markdown_csv_and_json(record: Record) -> None:
    page = command("report", record.path, "--markdown").stdout
    assert "| rank | loss | step, ms | forward | backward | peak memory | max relative error |" in page
    assert "| ✗ | wrong | 2 ≈[0.3–6] |" in page
    assert "**loss-wrong** wrong:" in page
    rows = list(csv.DictReader(io.StringIO(command("report", record.path, "--csv").stdout)))
    assert {row["metric"] for row in rows if row["name"] == "slow"} == set(by_name(record)["slow"].metrics)
    (dead,) = [row for row in rows if row["name"] == "dead"]
    assert dead["note"] == "crashed: 3 of 3 batches, first batch 0: message of 0"
    found = json.loads(command("report", record.path, "--json").stdout)
    assert found["study"] == "loss"
    assert found["results"][0]["metrics"]["step_time"]["unit"] == "s"


def test_every_metric_has_a_definition_with_its_unit(tmp_path: Path) -> None:
    record = made_up(tmp_path, time_s, checks=CHECKS, largest_batch=True)
    estimates = {name: metric for result in stopwav.results(record) for name, metric in result.metrics.items()}
    assert set(estimates) == {name for group in DEFINITIONS.groups.values() for name in group}
    for name, estimate in estimates.items():
        definition = DEFINITIONS.find(name)
        assert definition is not None
        assert definition.unit == estimate.unit, name


def test_charts_follow_the_schema_and_are_drawn(tmp_path: Path) -> None:
    sizes = {"batch_size": [1, 2], "vocab": [12, 24]}
    record = made_up(tmp_path, time_s, checks=CHECKS, **sizes)
    charts = StudyRun(record).charts
    kinds = [f"{kind}-{number}" for number in (1, 2, 3, 4) for kind in ("time", "memory")]
    assert list(charts) == [*kinds, "over-batch-size", "over-vocab"]
    for chart in charts.values():
        altair.LayerChart.from_dict(json.loads(json.dumps(dict(chart.spec))))
        assert chart_svg(chart.spec).startswith("<svg")
        assert chart.description


def test_the_page_has_tables_charts_and_definitions(record: Record, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command("report", record.path, "--html", page)
    html = page.read_text()
    for text in ("The losses", "At a glance", "Time against memory", "padding efficiency", "step time"):
        assert text in html
    timed = [result for result in StudyRun(record).results if result.metrics]
    assert f"{len(timed)} transducer losses on cpu, float32" in html
    assert all(f"<bdi>{name}</bdi>" in html for name in CHECKS)


def test_names_from_outside_do_nothing(tmp_path: Path) -> None:
    evil = "<b>|x|</b>\x1b[31m.py:f"
    record = made_up(tmp_path, lambda *_: 0.01, checks={evil: checked()})
    page = tmp_path / "page.html"
    command("report", record.path, "--html", page)
    assert "<b>|x|" not in page.read_text()
    assert "<b>" not in command("report", record.path, "--markdown").stdout
    assert "\x1b[31m" not in command("report", record.path).stdout
