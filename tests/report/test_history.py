"""The history of a folder: a chart per metric, points that lead to their reports, and machines kept apart."""

import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import altair
import pytest
from command_line import command as stopwav
from parsed_html import Seen
from rich.cells import cell_len
from rich.console import Console
from stored_runs import FAILURES, HOSTILE, REAL, changed, renamed

from stopwav.cli.history import past_run
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.report.history import PastRun, Point, letter, metrics_of, points_of
from stopwav.report.history_chart import history_chart, history_charts
from stopwav.report.history_document import history_document
from stopwav.report.level_shift import LevelShifts
from stopwav.report.page import PageSection, render_page
from stopwav.report.terminal import print_document
from stopwav.studies.study import StudyRun


def at(started: str, machine: str = "aaaa") -> Any:
    def change(lines: list[dict[str, Any]]) -> None:
        lines[0]["started"] = started
        lines[0]["machine"]["fingerprint"] = machine

    return change


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs of the same on one machine and one on another, a run of something else, and what is no run."""
    for number, started in enumerate(("2026-01-03", "2026-01-01", "2026-01-02")):
        changed(REAL, tmp_path / f"latency-{number}.jsonl", at(f"{started}T00:00:00Z"))
    changed(REAL, tmp_path / "other machine.jsonl", at("2026-01-04T00:00:00Z", "bbbb"))
    changed(FAILURES, tmp_path / "failures.jsonl", at("2026-01-05T00:00:00Z"))
    (tmp_path / "notes.jsonl").write_text("no run\n")
    return tmp_path


def past(paths: list[Path]) -> list[PastRun]:
    return [past_run(StudyRun(Record.read(path)), f"./{path.stem}.html") for path in paths]


def page_of(runs: list[PastRun], folder: Path) -> str:
    return render_page([PageSection(history_document(runs, folder.name, LevelShifts()), {}, runs[0].define)])


def rows_in(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The data of a chart."""
    (rows,) = spec["datasets"].values()
    return list(rows)


def placeholders(folder: Path) -> None:
    """Pages where those of the runs belong, so that a test need not wait for real ones."""
    for path in folder.glob("*.jsonl"):
        path.with_suffix(".html").write_text("page")


def chart_ids(html: str) -> dict[str, str]:
    """The id of each chart by its title."""
    return {title: chart for chart, title in re.findall(r'id="([\w-]+)" role="img" aria-label="([^"]*)"', html)}


def test_the_page_has_a_chart_per_metric_and_every_point_leads_to_its_report(folder: Path) -> None:
    placeholders(folder)
    done = stopwav("history", folder)
    assert done.code == 0, done.stderr
    assert f"page: {folder / 'history.html'}" in done.stderr
    html = (folder / "history.html").read_text()
    specs = json.loads(re.search(r'id="charts">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert len(specs) > 60
    spec = specs[chart_ids(html)["real-time factor (RTF)"]]
    rows = rows_in(spec)
    # Two engines in each of four runs, and two scripted ones that gave a number.
    assert len(rows) == 10
    for row in rows:
        assert (folder / unquote(row["href"])).is_file()
        assert re.search(r"\d", row["text"])
    addresses = [link["href"] or "" for link in Seen(html).of("a")]
    assert all(not re.match("[a-z]+:", address) for address in addresses)


def test_the_page_asks_nobody_for_anything(folder: Path) -> None:
    page = Seen(page_of(past([folder / "latency-0.jsonl"]), folder))
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "iframe", "object", "image", "use"})
    policy = next(meta["content"] for meta in page.of("meta") if meta.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]


def test_lines_join_only_one_engine_on_one_machine_under_one_setting(folder: Path) -> None:
    runs = past([*sorted(folder.glob("latency-*.jsonl")), folder / "other machine.jsonl", folder / "failures.jsonl"])
    points = points_of("rtf", runs, 1.0, "ratio")
    # pocketsphinx and moonshine on A, the same on B, two scripted engines.
    assert sorted(Counter(point.line for point in points).values()) == [1, 1, 1, 1, 3, 3]
    longer = changed(REAL, folder / "x.jsonl", lambda lines: lines[0]["spec"].update(chunk_ms=320.0))
    apart = points_of("rtf", past([folder / "latency-0.jsonl", longer]), 1.0, "ratio")
    assert list(Counter(point.line for point in apart).values()) == [1, 1, 1, 1]
    html = page_of(runs, folder)
    for part in ("Machine A", "Machine B", "fingerprint aaaa", "fingerprint bbbb"):
        assert part in html


def test_runs_stand_in_the_order_of_time(folder: Path) -> None:
    printed = json.loads(stopwav("history", folder, "--json").stdout)
    assert [run["started"][:10] for run in printed["runs"]] == [f"2026-01-0{day}" for day in range(1, 6)]
    assert [run["machine"] for run in printed["runs"]] == ["aaaa", "aaaa", "aaaa", "bbbb", "aaaa"]
    assert set(printed) == {"stopwav", "folder", "runs", "skipped", "change_points"}
    assert [Path(file["where"]).name for file in printed["skipped"]] == ["notes.jsonl"]
    assert not (folder / "history.html").exists()
    for run in printed["runs"]:
        assert set(run) == {"study", "run", "results", "verdicts", "started", "machine", "page"}


def test_a_page_elsewhere_still_leads_to_the_reports(folder: Path) -> None:
    placeholders(folder)
    target = folder / "site" / "deep" / "index.html"
    assert stopwav("history", folder, "--html", target).code == 0
    addresses = [link["href"] or "" for link in Seen(target.read_text()).of("a")]
    addresses = [address for address in addresses if not address.startswith("#")]
    assert addresses
    for address in addresses:
        assert (target.parent / unquote(address)).is_file()


def test_pages_that_are_missing_are_made(tmp_path: Path) -> None:
    run = changed(FAILURES, tmp_path / "run.jsonl", at("2026-01-01T00:00:00Z"))
    assert stopwav("history", tmp_path).code == 0
    assert run.with_suffix(".html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("hostile", [name for name in HOSTILE if "\ud800" not in name])
def test_hostile_names_are_text(hostile: str, tmp_path: Path) -> None:
    runs = past([renamed(FAILURES, tmp_path / "run.jsonl", hostile)])
    html = page_of(runs, tmp_path)
    page = Seen(html)
    assert "img" not in {tag for tag, _ in page.elements}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200f\x1b]", html)
    assert len(html) < 2_000_000


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path / "nowhere", "no such folder"),
        (lambda path: path, "has no run"),
    ],
)
def test_an_error_is_one_line(make: Any, said: str, tmp_path: Path) -> None:
    done = stopwav("history", make(tmp_path))
    assert done.code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_run_of_another_study_or_without_a_time_is_passed_over(tmp_path: Path) -> None:
    changed(FAILURES, tmp_path / "good.jsonl", at("2026-01-01T00:00:00Z"))
    changed(FAILURES, tmp_path / "loss.jsonl", lambda lines: lines[0].update(study="no-such-study"))
    changed(FAILURES, tmp_path / "when.jsonl", lambda lines: lines[0].update(started="some day"))
    changed(FAILURES, tmp_path / "torn.jsonl", lambda lines: lines[1].update(data={}))
    printed = json.loads(stopwav("history", tmp_path, "--json").stdout)
    assert len(printed["runs"]) == 1
    assert [Path(file["where"]).name for file in printed["skipped"]] == ["loss.jsonl", "torn.jsonl", "when.jsonl"]
    assert "'no-such-study'" in printed["skipped"][0]["message"]


def test_the_terminal_shows_a_line_per_run_and_engine(folder: Path) -> None:
    text = io.StringIO()
    long = renamed(FAILURES, folder / "long.jsonl", "漢字" * 50)
    print_document(
        history_document(past([folder / "latency-1.jsonl", long]), "x", LevelShifts()), Console(file=text, width=80)
    )
    assert max(cell_len(line) for line in text.getvalue().splitlines()) <= 80
    assert "2026-01-01 00:00" in text.getvalue()


def test_every_point_and_its_interval_is_in_the_chart() -> None:
    known = [(0.0, 1.5, 1.0, 2.0), (4e9, -1e6, None, None), (60.0, 0.0, 0.0, 0.0)]
    points = [Point("engine", "A", "setting", *numbers, "x", "") for numbers in known]
    chart = history_chart("t", "s", "what it means", points)
    assert [(row["value"], row["low"], row["high"]) for row in rows_in(chart.spec)] == [
        (1.5, 1.0, 2.0), (-1e6, -1e6, -1e6), (0.0, 0.0, 0.0),
    ]  # fmt: skip
    assert [key.label for key in chart.legend] == ["engine"]


def test_an_engine_has_one_colour_in_all_charts_and_one_that_failed_has_none(folder: Path) -> None:
    paths = [folder / "latency-0.jsonl", folder / "failures.jsonl", folder / "other machine.jsonl"]
    charts = history_charts(past(paths), LevelShifts())
    colours: dict[str, set[str]] = {}
    for chart in charts.values():
        assert len({key.colour for key in chart.legend}) == len(chart.legend)
        for key in chart.legend:
            colours.setdefault(key.label, set()).add(key.colour)
    # `flaky.py:Never` gave nothing.
    assert set(colours) == {"pocketsphinx", "moonshine", "fake:script.json", "flaky.py:Flaky"}
    assert all(len(own) == 1 for own in colours.values())


def test_a_result_that_failed_is_on_no_line_whatever_it_measured_before(folder: Path) -> None:
    (run,) = past([folder / "latency-0.jsonl"])
    failed = replace(run, results=[replace(result, status="timeout") for result in run.results])
    assert points_of("rtf", [failed], 1.0, "ratio") == []
    assert metrics_of([failed]) == []
    assert "rtf" in metrics_of([run, failed])


def test_the_page_begins_with_a_finding_and_where_its_runs_come_from(folder: Path) -> None:
    document = history_document(past(sorted(folder.glob("latency-*.jsonl"))), "x", LevelShifts())
    assert document.findings == ("Too few runs for change points: they take 6 of one setting on one machine",)
    assert document.facts[0] == ("Runs", "3 runs, 2026-01-01 to 2026-01-03")
    assert document.facts[1][0] == "Machine A"
    (finding,) = history_document(past([folder / "latency-0.jsonl"]), "x", LevelShifts((), 3)).findings
    assert finding.startswith("No change point")


def test_the_chart_is_valid_and_draws(folder: Path) -> None:
    runs = past([folder / "latency-0.jsonl", folder / "other machine.jsonl"])
    chart = history_chart("RTF", "ratio", "", points_of("rtf", runs, 1.0, "ratio"))
    altair.Chart.from_dict(dict(chart.spec), validate=True)
    assert "<path" in chart_svg(chart.spec)


def test_machines_have_letters() -> None:
    assert [letter(number) for number in (0, 25, 26, 27, 26 * 27)] == ["A", "Z", "AA", "AB", "AAA"]


def test_metrics_without_a_value_have_no_chart(folder: Path) -> None:
    assert "word_latency_p99" not in metrics_of(past([folder / "failures.jsonl"]))
