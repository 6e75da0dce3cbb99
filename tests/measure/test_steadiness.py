"""How steady a core is, told from times that are known."""

from __future__ import annotations

from itertools import cycle

import pytest

from stopwav.measure.clock import FakeClock
from stopwav.measure.health import Steadiness, steadiness


def of_work(*takes_s: float) -> Steadiness:
    """The steadiness of a core on which the work takes each of these times in turn."""
    clock, durations = FakeClock(), cycle(takes_s)
    return steadiness(lambda: clock.advance(next(durations)), clock.now_ns)


def test_a_steady_core_is_no_caution() -> None:
    found = of_work(0.00100, 0.00109)
    assert found.p10_s == pytest.approx(0.00100)
    assert found.p90_s == pytest.approx(0.00109)
    assert found.cautions() == []
    # Two seconds of it, and no more.
    assert found.values == pytest.approx(2 / 0.001045, abs=1)


def test_a_core_that_a_stranger_slows_for_half_of_the_time_is_one_with_its_ratio() -> None:
    found = of_work(*[0.001] * 50, *[0.0019] * 50)
    [caution] = found.cautions()
    assert caution.code == "unsteady-core"
    assert "1.90 times" in caution.message
    assert str(found).startswith("1.00 to 1.90 ms")


def test_one_slow_moment_in_twenty_is_not() -> None:
    assert of_work(*[0.001] * 19, 0.050).cautions() == []


def test_slow_work_is_done_as_often_as_its_percentiles_need() -> None:
    assert of_work(5.0) == Steadiness(36, 5.0, 5.0, 5.0)
