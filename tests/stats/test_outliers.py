import math

from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import Outliers, classify_outliers


def test_fences_by_hand():
    # quartiles 2 and 6, range 4: fences at -4, 12 (mild) and -10, 18 (severe)
    values = [-11, -10, -5, -4, *[2] * 10, *[4] * 10, *[6] * 10, 12, 13, 18, 19, 100]
    assert classify_outliers(values) == Outliers(low_severe=1, low_mild=2, high_mild=2, high_severe=2, n=39)
    assert classify_outliers(values).count == 7


def test_degenerate_input():
    assert classify_outliers([]) == Outliers(0, 0, 0, 0, 0)
    assert classify_outliers([5.0]) == Outliers(0, 0, 0, 0, 1)
    assert classify_outliers([math.nan] * 3) == Outliers(0, 0, 0, 0, 3)
    assert classify_outliers([1, 1, 1, 1, 1, 1, 2]).high_severe == 1
    assert classify_outliers([1, 2, 3, 4, math.inf]).high_severe == 1


@given(st.lists(st.floats(-1e6, 1e6), max_size=100))
def test_mirrored_values_mirror_the_counts(values):
    one, other = classify_outliers(values), classify_outliers([-value for value in values])
    assert one.n == len(values) >= one.count
    if len(set(values)) > 3:
        assert abs(one.count - other.count) <= 2  # a value within rounding of a fence may change sides
