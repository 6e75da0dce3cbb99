"""`stopwav report` and the pages that studies write, as a user meets them."""

import csv
import io
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Done
from command_line import command as stopwav

DATA = Path(__file__).parent.parent / "data"
REAL = DATA / "latency-real.jsonl"
FAILURES = DATA / "latency-failures.jsonl"

MakeCorpus = Callable[..., Path]


def in_its_own_process(*arguments: object, **environment: str) -> Done:
    """What a command does where Python itself reads the environment."""
    command = [sys.executable, "-m", "stopwav", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", **environment})
    return Done(done.returncode, done.stdout, done.stderr)


def latency(corpus: Path, save: Path, *arguments: object) -> Done:
    places = ("--corpus", corpus, "--words", corpus / "words.ctm", "--save", save, "--quick")
    return stopwav("latency", "fake", *places, *arguments)


def browser(folder: Path, code: int = 0) -> str:
    """A browser that notes what it is asked to open."""
    script = folder / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > "{folder}/opened"\nexit {code}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"{script} %s"


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


def test_markdown_csv_and_trace(tmp_path: Path) -> None:
    markdown = stopwav("report", REAL, "--markdown").stdout
    assert markdown.startswith("### stopwav: Latency of pocketsphinx and moonshine\n")
    rows = list(csv.DictReader(io.StringIO(stopwav("report", REAL, FAILURES, "--csv").stdout)))
    assert {row["run"] for row in rows} == {str(REAL), str(FAILURES)}
    trace = tmp_path / "trace.json"
    done = stopwav("report", REAL, "--trace", trace)
    assert f"trace: {trace}" in done.stderr
    assert "moonshine" in done.stdout
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize("option", ["--markdown", "--csv"])
def test_a_terminal_that_knows_no_unicode_gets_the_whole_document(option: str) -> None:
    done = in_its_own_process("report", FAILURES, option, PYTHONIOENCODING="ascii")
    assert "Traceback" not in done.stderr
    assert "flaky.py:Never" in done.stdout


def test_open_starts_the_browser_with_the_page(tmp_path: Path) -> None:
    run = tmp_path / "my run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    done = in_its_own_process("report", run, "--open", BROWSER=browser(tmp_path))
    assert "Traceback" not in done.stderr
    page = tmp_path / "my run.html"
    assert page.is_file()
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()


def test_a_browser_that_does_not_start_is_a_warning(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    nothing = {"BROWSER": str(tmp_path / "nothing"), "PATH": "", "DISPLAY": ""}
    done = in_its_own_process("report", FAILURES, "--open", "--html", page, **nothing)
    assert f"open {page} yourself" in done.stderr
    assert "Traceback" not in done.stderr
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
    ],
)
def test_an_error_is_one_line_and_harms_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    done = stopwav("report", run, *(str(run) if one == "RUN" else one for one in arguments))
    assert done.code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert run.read_bytes() == FAILURES.read_bytes()
    assert list(tmp_path.iterdir()) == [run]


def test_a_run_that_makes_no_sense_is_an_error_in_one_line(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in FAILURES.read_text().splitlines()]
    next(line for line in lines if line.get("key", [""])[0] == "stream" and line["status"] == "ok")["data"] = {}
    run = tmp_path / "run.jsonl"
    run.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = stopwav("report", run)
    assert done.code == 2
    assert "cannot read the results of this run (KeyError: 'trace')" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_path_is_no_markup(tmp_path: Path) -> None:
    run = tmp_path / "[red]run.jsonl"
    run.write_bytes(FAILURES.read_bytes())
    assert f"run file: {run}" in stopwav("report", run).stdout


def test_a_study_writes_its_page_beside_its_run(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus()
    done = latency(corpus, tmp_path / "runs")
    (run,) = (tmp_path / "runs").glob("*.jsonl")
    assert f"page: {run.with_suffix('.html')}" in done.stderr
    assert run.with_suffix(".html").read_text().startswith("<!doctype html>")
    without = latency(corpus, tmp_path / "bare", "--no-html")
    assert "page:" not in without.stderr
    assert [path.suffix for path in (tmp_path / "bare").iterdir()] == [".jsonl"]


def test_a_page_that_cannot_be_written_loses_nothing(
    tiny_corpus: MakeCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import stopwav as package
    from stopwav.cli.output import print_run
    from stopwav.report import page

    def broken(*arguments: object, **options: object) -> str:
        raise RuntimeError("no\nchart")

    monkeypatch.setattr(page, "render_page", broken)
    corpus = tiny_corpus()
    record = package.latency(["fake"], corpus=str(corpus), words=str(corpus / "words.ctm"), rounds=1, save=tmp_path)
    print_run(record, as_json=False)
    printed = capsys.readouterr()
    assert "fake: keeps up" in printed.out
    assert printed.err == "stopwav: no page (RuntimeError: no chart); the run is kept\n"


def test_charts_are_written_and_shown_in_the_markdown(tmp_path: Path) -> None:
    done = stopwav("report", REAL, "--charts", tmp_path / "my charts", "--markdown")
    assert done.code == 0, done.stderr
    vectors = sorted((tmp_path / "my charts").glob("*.svg"))
    assert vectors
    for path in vectors:
        assert path.read_text().startswith("<svg")
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert path.as_posix().replace(" ", "%20") in done.stdout
