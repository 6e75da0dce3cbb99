"""Limits as people write them: what is read is what was meant, in the unit of results, and is written back as such."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.studies.limit import UNITS, Limit, parse_limit


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("rtf<0.5", Limit("rtf", "<", 0.5)),
        (" rtf  <=  0.5 ", Limit("rtf", "<=", 0.5)),
        ("rtfx > 2", Limit("rtfx", ">", 2.0)),
        ("capacity>=20", Limit("capacity", ">=", 20.0)),
        ("word_latency_p95 < 800ms", Limit("word_latency_p95", "<", 0.8, "s")),
        ("load_time < 1.5 min", Limit("load_time", "<", 90.0, "s")),
        ("wer < 12.5%", Limit("wer", "<", 0.125, "")),
        ("wer < 7%", Limit("wer", "<", 0.07, "")),
        ("peak_host_bytes < 2GB", Limit("peak_host_bytes", "<", 2e9, "B")),
        ("peak_host_bytes < 2GiB", Limit("peak_host_bytes", "<", 2.0**31, "B")),
        ("gradient_deviation < 1e-3", Limit("gradient_deviation", "<", 0.001)),
        ("emission > -0.5s", Limit("emission", ">", -0.5, "s")),
        ("stage_a-B/c_p50<3us", Limit("stage_a-B/c_p50", "<", 3e-6, "s")),
    ],
)
def test_a_limit(text, limit):
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    "text", ["", "rtf", "rtf<", "<1", "rtf=1", "rtf==1", "rtf<1<2", "rtf < one", "rtf < 1 2", "a b<1"]
)
def test_what_is_no_limit_at_all(text):
    assert parse_limit(text) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rtf < 1.0.0", ["'1.0.0'", "not a number"]),
        ("rtf < .", ["'.'", "not a number"]),
        ("rtf < 1e999", ["1e999", "larger"]),
        ("rtf < 3 seconds", ["'seconds'", "ms, s"]),
        ("peak < 2gb", ["'gb'", "GB"]),
    ],
)
def test_an_error_names_the_value_and_the_way_out(text, named):
    with pytest.raises(StopwavError) as caught:
        parse_limit(text)
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in [repr(text), *named])


@given(
    st.sampled_from(["rtf", "word_latency_p95"]),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.floats(-1e12, 1e12).map(lambda number: float(f"{number:.6g}")),
    st.sampled_from(["", *UNITS]),
)
def test_what_is_written_back_is_the_same(metric, relation, number, unit):
    limit = parse_limit(f"{metric} {relation} {number!r}{unit}")
    assert limit is not None
    again = parse_limit(limit.text)
    assert again is not None
    assert (again.metric, again.relation) == (metric, relation)
    assert again.number == pytest.approx(limit.number, rel=1e-11)
