"""`stopwav report` and the pages that studies write, as a user meets them."""

import csv
import io
import json
import re
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Done
from command_line import command as stopwav

from stopwav.cli import main
from stopwav.record import Record, Result
from stopwav.report import page as page_module
from stopwav.studies.study import find_study

DATA = Path(__file__).parent.parent / "data"
REAL = DATA / "latency-real.jsonl"
FAILURES = DATA / "latency-failures.jsonl"

MakeCorpus = Callable[..., Path]


def latency(corpus: Path, save: Path, *arguments: object) -> Done:
    places = ("--corpus", corpus, "--words", corpus / "words.ctm", "--save", save, "--rounds", 1)
    return stopwav("latency", "fake", *places, *arguments)


@pytest.fixture
def quick_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are not rendered: for tests of where they go."""
    monkeypatch.setattr(page_module, "render_page", lambda *arguments: "<!doctype html>")


def test_several_runs_are_printed_one_after_the_other() -> None:
    done = stopwav("report", REAL, FAILURES)
    assert done.code == 1  # streams were lost in the second
    first, _, second = done.stdout.partition(f"run file: {REAL}")
    assert "moonshine" in first
    assert "flaky.py:Never" in second
    assert second.rstrip().endswith(str(FAILURES))


def test_the_json_of_several_runs_is_one_object() -> None:
    printed = json.loads(stopwav("report", REAL, FAILURES, "--json").stdout)
    assert set(printed) == {"stopwav", "runs"}
    assert [run["run"] for run in printed["runs"]] == [str(REAL), str(FAILURES)]
    alone = json.loads(stopwav("report", REAL, "--json").stdout)
    assert printed["runs"][0] == {key: value for key, value in alone.items() if key != "stopwav"}


def test_one_page_holds_several_runs_with_a_comparison_on_top(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    done = stopwav("report", REAL, FAILURES, "--html", page)
    assert f"page: {page}" in done.stderr
    html = page.read_text()
    for part in ("2 runs compared", "These runs differ in corpus", 'href="#s1-run"', 'id="s1-run"', "flaky.py:Never"):
        assert part in html
    assert html.index('id="comparison"') < html.index('id="s0-run"')


def test_markdown_csv_and_trace_of_several_runs(tmp_path: Path) -> None:
    text = stopwav("report", REAL, FAILURES, "--markdown").stdout
    assert text.startswith("### stopwav: Latency of pocketsphinx and moonshine\n")
    assert "\n### stopwav: Latency of fake:script.json" in text
    assert "| normalised&#95;erasure |" not in text
    rows = list(csv.DictReader(io.StringIO(stopwav("report", REAL, FAILURES, "--csv").stdout)))
    assert {row["run"] for row in rows} == {str(REAL), str(FAILURES)}
    trace = tmp_path / "trace.json"
    done = stopwav("report", REAL, FAILURES, "--trace", trace)
    assert f"trace: {trace}" in done.stderr
    assert done.stdout == ""
    events = json.loads(trace.read_text())["traceEvents"]
    names = json.dumps([event for event in events if event["ph"] == "M"])
    assert "moonshine" in names
    assert "flaky.py:Flaky" in names


@pytest.mark.parametrize("stem", ["compare-rounds", "grid-emformer", "latency-real", "loss-settings", "step-ddp"])
def test_all_prints_every_metric_of_every_study(stem: str) -> None:
    run = DATA / f"{stem}.jsonl"
    metrics = {metric for row in json.loads((DATA / f"{stem}.json").read_text()).values() for metric in row}
    assert metrics
    printed, text = (stopwav("report", run, "--all", *more, COLUMNS="300").stdout for more in ((), ("--markdown",)))
    usual = stopwav("report", run, COLUMNS="300").stdout
    for metric in metrics:
        assert f" {metric} " in printed
        assert f"| {metric} |" in text.replace("&#95;", "_")
    assert len(usual) < len(printed)


@pytest.mark.parametrize("markdown", [(), ("--markdown",)], ids=["terminal", "markdown"])
def test_options_of_one_study_change_its_table(markdown: tuple[str, ...]) -> None:
    def report(stem: str, *options: str) -> str:
        return stopwav("report", DATA / f"{stem}.jsonl", *options, *markdown, COLUMNS="200").stdout

    assert re.search(r"\d\.\d\dE-\d\d", report("grid-emformer", "--scientific"))
    assert not re.search(r"\d\.\d\dE-\d\d", report("grid-emformer"))
    # Layers that repeat are one row until they are unfolded; a pattern chooses among the rows.
    usual, unfolded = report("step-profile"), report("step-profile", "--unfold")
    assert len(unfolded.splitlines()) > len(usual.splitlines())
    chosen = report("step-profile", "--labels", "rnnt")
    assert "prune" in chosen
    assert "predictor" in usual
    assert "predictor" not in chosen


class Terminal(io.TextIOWrapper):
    """A terminal that knows no sign beyond its encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", ["--markdown", "--csv", "--all"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_the_signs_gets_the_whole_document(
    encoding: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(encoding)
    monkeypatch.setattr(sys, "stdout", terminal)
    with pytest.raises(SystemExit) as end:
        main(["report", str(FAILURES), option])
    assert end.value.code == 1
    assert "flaky.py:Never" in terminal.text()


def test_open_starts_the_browser_with_the_page(
    tmp_path: Path, quick_pages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "my run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    done = stopwav("report", run, "--open")
    page = tmp_path / "my run.html"
    assert page.is_file()
    assert opened == [page.as_uri()]
    assert "no browser" not in done.stderr


def test_a_browser_that_does_not_start_is_a_warning(
    tmp_path: Path, quick_pages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    page = tmp_path / "page.html"
    done = stopwav("report", FAILURES, "--open", "--html", page)
    assert f"open {page} yourself" in done.stderr
    assert page.is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--json", "--csv"), "--json and --csv"),
        (("--markdown", "--csv"), "--markdown and --csv"),
        (("--html", "RUN"), "is the run itself"),
        (("--trace", "RUN"), "is the run itself"),
        (("--html", "x", "--trace", "x"), "the same file"),
        (("--html", "/proc/nowhere/page.html"), "/proc/nowhere/page.html: cannot be written"),
        (("--trace", "/proc/nowhere/x.json"), "/proc/nowhere/x.json: cannot be written"),
        (("nowhere.jsonl",), "nowhere.jsonl"),
        (("RUN", "--open"), "--open with 2 runs"),
        ((str(DATA / "grid-emformer.jsonl"), "--trace", "x.json"), "a run of 'grid' has no streams to trace"),
    ],
)
def test_an_error_is_one_line_and_harms_nothing(
    arguments: tuple[str, ...], said: str, tmp_path: Path, quick_pages: None
) -> None:
    run = tmp_path / "run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    done = stopwav("report", run, *(str(run) if argument == "RUN" else argument for argument in arguments))
    assert done.code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert run.read_bytes() == FAILURES.read_bytes()
    assert list(tmp_path.iterdir()) == [run]


def test_a_run_that_cannot_be_read_is_an_error_in_one_line(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in FAILURES.read_text().splitlines()]
    next(line for line in lines if line.get("key", [""])[0] == "stream" and line["status"] == "ok")["data"] = {}
    run = tmp_path / "run.jsonl"
    run.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = stopwav("report", run)
    assert done.code == 2
    assert "run.jsonl:3: not the trace of a stream (KeyError: 'trace')" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_path_is_no_markup(tmp_path: Path) -> None:
    run = tmp_path / "[red]run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    assert f"run file: {run}" in stopwav("report", run).stdout


def test_a_study_writes_its_page_beside_its_run(tiny_corpus: MakeCorpus, tmp_path: Path, quick_pages: None) -> None:
    corpus = tiny_corpus()
    done = latency(corpus, tmp_path / "runs")
    (run,) = (tmp_path / "runs").glob("*.jsonl")
    assert f"page: {run.with_suffix('.html')}" in done.stderr
    assert run.with_suffix(".html").read_text().startswith("<!doctype html>")
    without = latency(corpus, tmp_path / "bare", "--no-html")
    assert "page:" not in without.stderr
    assert [path.suffix for path in (tmp_path / "bare").iterdir()] == [".jsonl"]


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renderer of pages that fails."""

    def broken(*arguments: object, **options: object) -> str:
        raise RuntimeError("no\nchart")

    monkeypatch.setattr(page_module, "render_page", broken)


def test_a_page_that_cannot_be_written_loses_nothing(tiny_corpus: MakeCorpus, tmp_path: Path, no_pages: None) -> None:
    done = latency(tiny_corpus(), tmp_path)
    assert done.code == 0
    assert "fake: keeps up" in done.stdout
    assert done.stderr.endswith("stopwav: no page (RuntimeError: no chart); the run is kept\n")


def test_json_and_csv_render_no_page_unless_asked(tiny_corpus: MakeCorpus, tmp_path: Path, no_pages: None) -> None:
    corpus = tiny_corpus()
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"save: {tmp_path / 'plan'}\nstudies: [{{grid: {{engine: fake, durations: [0.1], rounds: 1}}}}]\n")
    printed = [
        latency(corpus, tmp_path / "runs", "--json"),
        stopwav("run", plan, "--set", "batch-sizes=1", "--json"),
        stopwav("report", REAL, "--json"),
        stopwav("report", REAL, "--csv"),
        stopwav("report", REAL, "--markdown"),
        stopwav("history", tmp_path / "runs", "--json"),
    ]
    for done in printed:
        assert done.code == 0, done.stderr
        assert "page" not in done.stderr
    assert list(tmp_path.rglob("*.html")) == []
    with pytest.raises(RuntimeError, match="no\nchart"):
        stopwav("report", REAL, "--json", "--html", tmp_path / "page.html")


@pytest.mark.parametrize("stem", ["compare-rounds", "grid-emformer", "latency-explained", "loss-settings", "step-ddp"])
def test_a_report_computes_the_results_once(stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = DATA / f"{stem}.jsonl"
    calls = count_calls(monkeypatch, stem.partition("-")[0])
    done = stopwav("report", run, run, "--all", "--html", tmp_path / "page.html")
    assert done.code == 0, done.stderr
    assert calls == [run, run]


def test_a_command_that_measures_computes_the_results_once(
    tiny_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tiny_corpus()
    calls = count_calls(monkeypatch, "latency")
    latency(corpus, tmp_path)
    assert len(calls) == 1
    latency(corpus, tmp_path, "--json", "--all")
    assert len(calls) == 2
    stopwav("history", tmp_path)
    assert len(calls) == 4


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Path]:
    """The runs of which a study computes the results from now on, by whichever name the function is called."""
    study = find_study(name)
    calls: list[Path] = []

    def counting(record: Record) -> list[Result]:
        calls.append(record.path)
        return study.results(record)

    for module in [module for key, module in sys.modules.items() if key.startswith("stopwav.")]:
        for attribute, value in list(vars(module).items()):
            if value is study.results:
                monkeypatch.setattr(module, attribute, counting)
            elif value is study:
                monkeypatch.setattr(module, attribute, replace(study, results=counting))
    return calls


def test_charts_of_several_runs_are_written_and_shown_in_the_markdown(tmp_path: Path) -> None:
    runs = [DATA / "grid-emformer.jsonl", DATA / "step-ddp.jsonl"]
    done = stopwav("report", *runs, "--charts", tmp_path / "my charts", "--markdown")
    assert done.code == 0, done.stderr
    vectors = sorted((tmp_path / "my charts").glob("*.svg"))
    assert {path.name.partition("-")[0] for path in vectors} == {"grid", "step"}
    for path in vectors:
        assert path.read_text().startswith("<svg")
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert path.as_posix().replace(" ", "%20") in done.stdout
