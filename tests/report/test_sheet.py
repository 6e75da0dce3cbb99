"""Tables for the terminal, and seconds as text."""

import io

import pytest

from stopwav.report.terminal import Sheet, format_seconds, print_sheet, sheet_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0.00 µs"),
        (2.5e-9, "0.00 µs"),
        (1.234e-6, "1.23 µs"),
        (0.000999, "999 µs"),
        (0.0009996, "1.00 ms"),
        (0.01234, "12.3 ms"),
        (0.9996, "1.00 s"),
        (12.345, "12.3 s"),
        (4321.0, "4321 s"),
    ],
)
def test_seconds_have_three_digits_and_a_unit(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text


def test_names_and_notes_from_outside_cannot_rewrite_the_terminal() -> None:
    section = ("", ("name", "calls"), [("\x1b[2Jevil [red]name", "1")])
    text = sheet_text(Sheet((section,), ("a note \x1b]0;title\x07",)))
    assert "\x1b" not in text
    assert "[red]name" in text


@pytest.mark.parametrize("width", [20, 60, 80, 100, 140, 300])
def test_a_narrow_terminal_loses_no_number(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    numbers = tuple(f"{number}.{number} GB" for number in range(10, 22))
    print_sheet(Sheet((("", ("stopwav profile", *["peak memory"] * 12), [("a_function", *numbers)]),)))
    text = written.getvalue()
    assert all(number in text for number in numbers)
    # Where there is room for some columns only, each part of the table has the name.
    assert "a_function" in text or width == 20
