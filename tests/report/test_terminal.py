"""Numbers and tables in a terminal: the digits the data support, 80 columns, and no character that acts."""

import unicodedata
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from shown_runs import printed, study_run
from stored_runs import FAILURES, HOSTILE, REAL, found_in

from stopwav.errors import Caution
from stopwav.report.text import DASH, format_bytes, format_interval, format_value, plain
from stopwav.stats import Estimate
from stopwav.studies.latency.definitions import definition_of

numbers = st.floats(allow_nan=False, allow_infinity=False)
ordinary = st.floats(-1e9, 1e9)
scales = st.sampled_from([1.0, 100.0, 1e3])
decimals = st.integers(0, 6)


def half_a_digit(printed: str) -> Decimal:
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(exponent - 1)


@st.composite
def estimates(draw: st.DrawFn, values: st.SearchStrategy[float] = ordinary) -> Estimate:
    low, value, high = sorted([draw(values), draw(values), draw(values)])
    return Estimate(value, low, high, 10) if draw(st.booleans()) else Estimate(value, n=10)


@given(estimates(), scales, decimals)
def test_a_printed_value_is_within_half_its_last_digit(estimate: Estimate, scale: float, most: int) -> None:
    printed = format_value(estimate, scale, most)
    assert estimate.value is not None
    # A float's own rounding is the 1e-12.
    exact = Decimal(estimate.value * scale)
    assert abs(Decimal(printed) - exact) <= half_a_digit(printed) * Decimal("1.000000000001")
    assert len(printed.partition(".")[2]) <= most or "e" in printed


@given(estimates(), scales, decimals)
def test_a_printed_interval_holds_its_value_and_has_its_digits(estimate: Estimate, scale: float, most: int) -> None:
    printed = format_interval(estimate, scale, most)
    value, _, bracket = printed.partition(" [")
    if not bracket:
        return
    low, high = bracket.rstrip("]").split(" to " if " to " in bracket else "–")
    assert Decimal(low) <= Decimal(value) <= Decimal(high)
    if "e" not in printed:
        assert len({part.partition(".")[2].__len__() for part in (low, value, high)}) == 1


@given(ordinary, st.floats(1e-6, 1e6))
def test_the_last_digit_is_not_finer_than_a_tenth_of_the_half_width(value: float, width: float) -> None:
    printed = format_value(Estimate(value, value - width, value + width, 10), most=9)
    if "." in printed:
        # One or two digits of the half-width are shown, so the last is a hundredth of it at the least.
        assert half_a_digit(printed) * 2 >= Decimal(width) / 200


@given(estimates(numbers), scales, decimals)
def test_any_finite_number_is_printed_in_a_few_characters(estimate: Estimate, scale: float, most: int) -> None:
    assert len(format_value(estimate, scale, most)) <= 12 + most
    assert len(format_interval(estimate, scale, most)) <= 3 * (12 + most) + 8


@pytest.mark.parametrize("value", [-0.0, -0.0004, -1e-9])
def test_there_is_no_negative_zero(value: float) -> None:
    assert not format_value(Estimate(value)).startswith("-")
    assert "-0 " not in format_interval(Estimate(value, -0.3, 10.0, 5)).replace("[", "").replace("–", " ")


@pytest.mark.parametrize(
    ("estimate", "printed"),
    [
        (Estimate(None), DASH),
        (Estimate(0.1234, 0.11, 0.14), "0.123 [0.110–0.140]"),
        (Estimate(0.1234, 0.05, 0.25), "0.12 [0.05–0.25]"),
        # Wide, and not 0.1 [0.1–0.6]; nor 1 [1–6]: the low end is not the value.
        (Estimate(0.1234, 0.05, 0.55), "0.12 [0.05–0.55]"),
        (Estimate(1.4, 1.1, 6.0), "1.4 [1.1–6.0]"),
        # A positive end keeps a digit, and is not shown as 0; nor 0.053 as 0.1 next to an RTFx of 5 [2–19].
        (Estimate(0.2, 0.053, 0.6), "0.2 [0.05–0.6]"),
        (Estimate(0.6, 0.04, 1.6), "0.6 [0.04–1.6]"),
        (Estimate(0.6, 0.0, 1.6), "0.6 [0.0–1.6]"),
        (Estimate(0.001, 0.0006, 0.0012), "0.001 [0.001–0.001]"),
        (Estimate(0.6, 0.22, 1.62, rough=True), "0.6 ≈[0.2–1.6]"),
        (Estimate(0.0001, 0.00005, 0.0002, rough=True), "0.000 ≈[0.000–0.000]"),
        (Estimate(12.5, -3.0, 28.0), "12 [-3 to 28]"),
        (Estimate(1e-320, 0.0, 1e-320), "0.000 [0.000–0.000]"),
    ],
)
def test_intervals_by_hand(estimate: Estimate, printed: str) -> None:
    assert format_interval(estimate, most=3) == printed


@given(st.floats(0, 9e14))
def test_bytes_have_three_digits_and_are_right(size: float) -> None:
    number, unit = format_bytes(size).split(" ")
    factor = Decimal(1000) ** ["B", "kB", "MB", "GB", "TB"].index(unit)
    assert abs(Decimal(number) * factor - Decimal(size)) <= half_a_digit(number) * factor * Decimal("1.000000000001")
    assert Decimal(number) < 1000
    if unit != "B":
        assert len(number.replace(".", "")) == 3


def check(text: str, width: int = 80) -> None:
    for line in text.split("\n"):
        assert cell_len(line) <= width, line
    acting = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"}
    assert not acting


names = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=200),
    st.text(alphabet="漢字かなABC　🙂", max_size=120),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(names, min_size=1, max_size=6))
def test_tables_fit_whatever_the_engines_are_called_and_no_number_is_cut(called: list[str]) -> None:
    record, found = found_in(REAL)
    results = [replace(found[index % 2], name=name) for index, name in enumerate(called)]
    text = printed(study_run(record, results))
    check(text)
    # A name may hold the sign itself, and one beyond 100 characters is cut.
    assert "…" not in text.partition("\n\n")[0] or any("…" in name or len(name) > 100 for name in called)
    for metric, unit in (("word_latency_p50", ""), ("rtf", ""), ("wer", ", %")):
        # A label and its numbers stand in one line, whole: once for each table.
        definition = definition_of(metric)
        lines = [line for line in text.splitlines() if line.startswith(f" {definition.title}{unit} ")]
        for result in results:
            number = format_value(result.metrics[metric], definition.scale, definition.decimals)
            assert number in " ".join(lines)


@settings(max_examples=25, deadline=None)
@given(st.lists(estimates(numbers), min_size=3, max_size=3), st.integers(1, 5))
def test_tables_fit_whatever_the_numbers_are(drawn: list[Estimate], count: int) -> None:
    record, found = found_in(REAL)
    metrics = dict(found[0].metrics)
    for name, estimate in zip(("word_latency_p50", "rtf", "chunk_lag_p95"), drawn, strict=True):
        metrics[name] = estimate
    text = printed(study_run(record, [replace(found[0], metrics=metrics)] * count))
    check(text)
    assert format_value(drawn[1], most=4) in text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(hostile: str) -> None:
    record, found = found_in(FAILURES)
    assert record.complete
    caution = Caution(hostile, hostile)
    metrics = {**found[0].metrics, f"stage_{hostile}_p50": Estimate(1.0, note=hostile, unit="s")}
    metrics["word_latency_p95"] = Estimate(None, note=hostile)
    results = [replace(found[0], name=hostile, metrics=metrics, warnings=(caution,)), *found[1:]]
    for every_metric in (False, True):
        text = printed(study_run(record, results), every_metric=every_metric)
        check(text)
        # Nothing of a name is taken for markup: its first characters are there.
        assert plain(hostile)[:6].strip() in text


def test_square_brackets_are_no_markup() -> None:
    record, found = found_in(REAL)
    metrics = {**found[0].metrics, "stage_[red]vad[/red]_p50": Estimate(1.0, unit="s")}
    run = study_run(record, [replace(found[0], metrics=metrics)])
    assert "stage_[red]vad[/red]_p50" in printed(run, every_metric=True)


def test_engines_that_differ_only_late_in_their_names_are_told_apart() -> None:
    record, found = found_in(REAL)
    stem = "my_engine.py:MyEngine,model=large-v3,chunk=160,beam="
    text = printed(study_run(record, [replace(found[0], name=f"{stem}1"), replace(found[1], name=f"{stem}2")]))
    heading = "".join(text.partition("────")[0].split())
    assert "beam=1" in heading or "=1" in heading
    assert "=2" in heading


def test_numbers_stand_below_each_other() -> None:
    record, _ = found_in(REAL)
    lines = [
        line.rstrip() for line in printed(study_run(record)).splitlines() if line.startswith("   ") and "[" in line
    ]
    assert len({len(line) for line in lines}) <= 2  # with or without an interval in the last column
