"""Numbers for people: digits that count, what stands before the point in full, and no exponents of everyday times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.report.text import amount_text, format_digits
from stopwav.stats.change import Change


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1523.4, "1523"),
        (152.34, "152"),
        (15.234, "15.2"),
        (1.5234, "1.52"),
        (0.0015234, "0.00152"),
        # Rounding may add a digit before the point.
        (9.996, "10.0"),
        (999.6, "1000"),
        (0, "0.00"),
        (-1523.4, "-1523"),
        (1e-7, "1.00e-07"),
    ],
)
def test_three_digits_on_paper(number: float, text: str) -> None:
    assert format_digits(number) == text


@given(st.floats(1e-4, 1e9), st.integers(1, 6))
def test_digits_are_those_of_the_number(number: float, digits: int) -> None:
    written = format_digits(number, digits)
    assert "e" not in written
    assert float(written) == pytest.approx(number, rel=0.51 * 10 ** (1 - digits))


def test_a_long_time_of_a_diff_has_no_exponent() -> None:
    change = Change("load_time", "s", 1.0, 1.0, "ratio", 1.0, 1.0, 1.0, "same", 0.95, 0.01, 3)
    assert amount_text(change, 1523.4) == "1523 s"
