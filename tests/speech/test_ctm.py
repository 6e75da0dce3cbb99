"""Reading and writing CTM files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.corpus import Word

NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: len(name.split()) == 1 and name == name.strip() and not name.startswith(";;") and name.isprintable()
)
TIMES = st.integers(0, 10_000_000).map(lambda ticks: ticks / 10_000)


@st.composite
def words(draw: st.DrawFn) -> Word:
    start_s = draw(TIMES)
    return Word(draw(NAMES), start_s, round(start_s + draw(TIMES), 4))


@given(st.dictionaries(NAMES, st.lists(words(), min_size=1, max_size=5).map(tuple), max_size=5))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, times: dict[str, tuple[Word, ...]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "words.ctm"
    ctm.write(path, times)
    assert ctm.read(path) == times


def test_writing_is_sorted_and_the_same_each_time(tmp_path: Path) -> None:
    times = {"b": (Word("two", 0.1, 0.25),), "a": (Word("one", 0.0, 1 / 3),)}
    ctm.write(tmp_path / "x.ctm", times)
    ctm.write(tmp_path / "y.ctm", dict(reversed(times.items())))
    assert (tmp_path / "x.ctm").read_text() == "a 1 0.0000 0.3333 one\nb 1 0.1000 0.1500 two\n"
    assert (tmp_path / "x.ctm").read_bytes() == (tmp_path / "y.ctm").read_bytes()


def test_comments_confidences_boms_and_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "x.ctm"
    path.write_bytes("\ufeff;; a comment\r\n\r\nu1 A 0.5 0.25 hello 0.98\r\nu1\tA 0.8\t0.1  world\r\n".encode())
    assert ctm.read(path) == {"u1": (Word("hello", 0.5, 0.75), Word("world", 0.8, 0.9))}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("u1 1 0.5 hello", "4 fields"),
        ("u1 1 0.5 0.1 hello 0.9 lex", "7 fields"),
        ("u1 1 soon 0.1 hello", "'soon' is not a time"),
        ("u1 1 0.5 nan hello", "'nan' is not a time"),
        ("u1 1 inf 0.1 hello", "'inf' is not a time"),
        ("u1 2 0.5 0.1 hello", "channels 1 and 2"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "x.ctm"
    path.write_text(f"u1 1 0.0 0.1 oh\n;; second\n{line}\n")
    with pytest.raises(StopwavError, match=r"x\.ctm:3: ") as caught:
        ctm.read(path)
    assert said in str(caught.value)


def test_files_that_are_no_ctm(tmp_path: Path) -> None:
    (tmp_path / "x.ctm").write_bytes(b"\xff\xfe\x00u")
    for name in ("x.ctm", "missing.ctm"):
        with pytest.raises(StopwavError, match=name):
            ctm.read(tmp_path / name)


@pytest.mark.parametrize("name", ["", "two words", "line\nbreak", ";;comment", " lead", "\ud800"])
def test_names_that_would_break_the_format_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.ctm"
    path.write_text("old")
    for times in ({name: (Word("a", 0.0, 0.1),)}, {"a": (Word(name, 0.0, 0.1),)}):
        with pytest.raises(StopwavError):
            ctm.write(path, times)
    assert path.read_text() == "old"
