"""What a terminal shows of a run by default: the answer first, few rows, one warning of each kind; and files alone."""

import re
from pathlib import Path

import pytest
from command_line import command
from shown_runs import printed

from stopwav.errors import Caution
from stopwav.record import Record, Result
from stopwav.report.document import Detail, Document, Note, Table, in_detail, shown
from stopwav.report.terminal import open_console, print_document
from stopwav.stats import Estimate
from stopwav.studies.study import StudyRun

DATA = Path(__file__).parent.parent / "data"
STEMS = sorted(path.stem for path in DATA.glob("*.jsonl"))
# A tall terminal: the narrow ones wrap findings and warnings.
MOST_LINES = 60


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("width", [80, 120])
def test_a_run_begins_with_its_findings_and_fits_a_screen(stem: str, width: int) -> None:
    run = StudyRun(Record.read(DATA / f"{stem}.jsonl"))
    brief, whole = printed(run, width=width), printed(run, width=width, every_metric=True)
    first = " ".join(run.document(Detail()).findings[0].split())[:60]
    for text in (brief, whole):
        assert " ".join(text.replace("\n", " ").split()).startswith(first[:40])
    assert len(brief.splitlines()) <= MOST_LINES
    assert len(brief.splitlines()) < len(whole.splitlines())
    assert all(len(line) <= width for line in brief.splitlines())
    assert brief.rstrip().endswith("more: --all")
    assert "more: --all" not in whole
    # Each kind of warning once, unless all are asked for.
    codes = re.findall(r"^! ([\w-]+):", brief, re.MULTILINE)
    assert len(codes) == len(set(codes))
    assert set(codes) == set(re.findall(r"^! ([\w-]+):", whole, re.MULTILINE))


@pytest.mark.parametrize("stem", ["latency-real", "grid-emformer", "compare-rounds", "load-levels", "step-profile"])
def test_colour_changes_no_text(stem: str) -> None:
    run = DATA / f"{stem}.jsonl"
    plain = command("report", run).stdout
    coloured = command("report", run, NO_COLOR="", FORCE_COLOR="1").stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("option", ["--html", "--charts", "--trace"])
def test_a_file_is_written_in_place_of_the_tables(option: str, tmp_path: Path) -> None:
    target = tmp_path / "written"
    done = command("report", DATA / "latency-real.jsonl", option, target)
    assert (done.code, done.stdout) == (0, "")
    assert target.exists()
    # Two outputs that were both asked for.
    assert command("report", DATA / "latency-real.jsonl", option, target, "--json").stdout.startswith("{")


def test_warnings_of_one_kind_are_one_line_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    slow, late, loud = Caution("slow", "it is slow"), Caution("slow", "it is late"), Caution("loud", "it is loud")
    results = [Result(f"engine-{index}", {}, "ok", {"rtf": Estimate(1.0)}, (slow,)) for index in range(5)]
    document = Document("Title", (), ("Found.",), warned=(*results, Result("last", {}, "ok", {}, (late, loud))))

    def told(*, every_metric: bool) -> str:
        print_document(document, open_console(), every_metric=every_metric)
        return " ".join(capsys.readouterr().out.split())

    brief, whole = told(every_metric=False), told(every_metric=True)
    assert "engine-0, engine-1, engine-2 and 2 more: it is slow (1 more like it: --all)" in brief
    assert "it is late" not in brief
    assert "last: it is loud" in brief
    assert "engine-3, engine-4: it is slow" in whole
    assert "last: it is late" in whole


def test_blocks_in_detail_are_in_every_medium_but_the_brief_one() -> None:
    note, table = Note("a"), Table((), ())
    (hidden,) = in_detail([note])
    assert shown((hidden, table), "brief") == [table]
    for medium in ("terminal", "markdown", "page"):
        assert shown((hidden, table), medium) == [hidden, table]  # type: ignore[arg-type]


def test_history_takes_the_word_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = command("history", "latest")
    assert (refused.code, len(refused.stderr.splitlines())) == (2, 1)
    folder = tmp_path / "stopwav-runs"
    folder.mkdir()
    (folder / "latency-1.jsonl").write_bytes((DATA / "latency-real.jsonl").read_bytes())
    assert "moonshine" in command("history", "latest").stdout


def test_one_of_something_is_singular() -> None:
    plural = r"(?<![\d.,–-])\b1 (?:utterances|words|rounds|cells|runs|samples|levels|streams|steps|sessions)\b"
    for stem in STEMS:
        text = printed(StudyRun(Record.read(DATA / f"{stem}.jsonl")), every_metric=True)
        assert not re.findall(rf"(?<!of ){plural}", text), stem
