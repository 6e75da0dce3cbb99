"""Targets that cannot be written, terminals without a width, hostile data: a line or a result, before the work."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import command as stopwav

from stopwav.errors import StopwavError
from stopwav.report import chart

DATA = Path(__file__).parent.parent / "data"
REAL = DATA / "latency-real.jsonl"
TRACE = DATA / "traces" / "cuda.json.gz"

MakeCorpus = Callable[..., Path]
HOSTILE = "\x1b[31m\u202e\x07"


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that takes long may be begun."""

    def begun(*arguments: object, **named: object) -> None:
        pytest.fail("the work was begun")

    for name in (
        # First: a module that is imported once the others are replaced would keep them.
        "stopwav.studies.latency.selection.load_corpus",
        "stopwav.speech.align.align_corpus",
        "stopwav.speech.shapes.load_shapes",
        "stopwav.profiling.trace_merge.merge_traces",
        "stopwav.record.Record.read",
    ):
        monkeypatch.setattr(name, begun)


@pytest.mark.parametrize(
    "arguments",
    [
        ("align", "bundled", "-o"),
        ("shapes", "librispeech", "-o"),
        ("report", REAL, "--html"),
        ("report", REAL, "--trace"),
        ("report", REAL, "--charts"),
        ("traces", "merge", TRACE, "-o"),
        ("history", DATA, "--html"),
        ("gate", REAL, REAL, "--markdown"),
        ("latency", "fake", "--save"),
    ],
    ids=lambda arguments: " ".join(map(str, (arguments[0], arguments[-1]))),
)
@pytest.mark.parametrize("place", ["/proc/nowhere/file", "file/below"])
def test_a_target_that_cannot_be_written_is_an_error_before_the_work(
    arguments: tuple[object, ...], place: str, tmp_path: Path, no_work: None
) -> None:
    (tmp_path / "file").touch()
    done = stopwav(*arguments, tmp_path / place)
    assert done.code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "name another place" in done.stderr or "choose another folder with --save" in done.stderr
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_is_not_there_is_made(tmp_path: Path, tiny_corpus: MakeCorpus) -> None:
    assert stopwav("shapes", "librispeech", "-o", tmp_path / "new" / "deep" / "s.csv").code == 0
    assert (tmp_path / "new" / "deep" / "s.csv").is_file()
    stopwav("align", tiny_corpus(count=1), "-o", tmp_path / "newer" / "w.ctm")
    assert (tmp_path / "newer" / "w.ctm").is_file()
    done = stopwav("align", "bundled", "-o", tmp_path)
    assert done.stderr == f"stopwav: {tmp_path}: is a folder; name a file in it\n"


@pytest.mark.parametrize("columns", ["0", "-1", "1", "none"])
def test_a_terminal_without_a_width_still_gets_the_result(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = stopwav("report", REAL)
    assert done.code == 0
    assert "pocketsphinx" in "".join(done.stdout.split())


def test_what_align_prints_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    line = {"audio_filepath": f"gone{HOSTILE}.wav", "id": f"id{HOSTILE}", "text": f"hi {HOSTILE}"}
    (tmp_path / "bad.wav").write_text("no audio")
    lines = [json.dumps(entry) for entry in (line, {**line, "audio_filepath": "bad.wav"})]
    (tmp_path / "m.jsonl").write_text("\n".join(lines))
    done = stopwav("align", tmp_path / "m.jsonl", "-o", tmp_path / f"w{HOSTILE}.ctm")
    assert len(done.stderr.splitlines()) == 2
    (tmp_path / "w.ctm").write_text(f"a{HOSTILE} 1 0 x{HOSTILE} word\n")
    wrong = stopwav("latency", "fake", "--words", tmp_path / "w.ctm", "--save", tmp_path / "runs")
    assert wrong.code == 2
    (tmp_path / "s.csv").write_text(f"# name: n{HOSTILE}\n# digest: d{HOSTILE}\n# note: x{HOSTILE}\nT,U\n100,10\n")
    shapes = stopwav("shapes", tmp_path / "s.csv")
    assert shapes.code == 0
    for text in (done.stdout, done.stderr, wrong.stderr, shapes.stdout, shapes.stderr):
        assert not any(char in text for char in HOSTILE if not char.isprintable())


def test_an_error_of_the_system_is_one_line() -> None:
    done = stopwav("init", "latency", "x" * 300)
    assert done.code == 2
    assert done.stderr.endswith("(File name too long); name another place\n")


def test_a_pipe_is_no_file_of_settings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.yaml")
    done = stopwav("run", tmp_path / "plan.yaml")
    assert (done.code, len(done.stderr.splitlines())) == (2, 1)
    assert "is not a file; name a file of settings" in done.stderr


def test_a_lone_surrogate_in_a_chart_is_a_question_mark() -> None:
    rows = [{"a": 1, "engine\ud800": "x\udc80y"}]
    encoding = {"x": {"field": "a"}, "y": {"field": "engine\ud800", "type": "nominal"}}
    assert ">x?y<" in chart.chart_svg({"data": {"values": rows}, "mark": "bar", "encoding": encoding})


def test_charts_are_not_begun_where_they_would_abort_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (8_000_000_000, resource.RLIM_INFINITY))
    with pytest.raises(StopwavError, match="need an address space of 72 GB, and this process has 8 GB; lift its limit"):
        chart.chart_png({})
