import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import Estimate


def test_json_has_exactly_the_six_keys_of_a_metric():
    estimate = Estimate(0.5, 0.4, 0.6, 12, "s", "within one process")
    assert estimate.to_json() == {
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "n": 12,
        "unit": "s",
        "note": "within one process",
    }


def test_numpy_numbers_become_plain_ones():
    data = Estimate(np.float64(1.5), np.float32(1.0), np.float64(2.0), np.int64(3)).to_json()  # type: ignore[arg-type]
    assert [type(data[key]) for key in ("value", "low", "high", "n")] == [float, float, float, int]


@given(st.floats(), st.floats(), st.floats())
def test_nothing_that_is_not_finite_escapes(value, low, high):
    estimate = Estimate(value, low, high, 1, "s")
    json.dumps(estimate.to_json(), allow_nan=False)
    if not math.isfinite(value):
        assert estimate.value is estimate.low is estimate.high is None
    if not all(map(math.isfinite, (value, low, high))):
        assert estimate.note


def test_a_missing_value_keeps_its_reason():
    assert Estimate(None, note="needs 72 events, has 31").note == "needs 72 events, has 31"
    assert Estimate(math.nan, note="3 of 9 values are not finite").note == "3 of 9 values are not finite"
    assert Estimate(1.0, -math.inf, 2.0, note="x").note == "x; the interval is not finite"
    assert Estimate(None).note == "no value"


def test_an_estimate_cannot_be_changed():
    with pytest.raises(AttributeError):
        Estimate(1.0).value = 2.0  # type: ignore[misc]
