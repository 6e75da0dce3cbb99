"""Peaks of calls that nest and overlap, over a mark that is scripted."""

import pytest

from stopwav.profiling.peaks import Peaks


class ScriptedMark:
    """Memory that is what the test says it is, and a mark that can or cannot be reset."""

    def __init__(self, resettable: bool = True) -> None:
        self.resettable = resettable
        self.now = self.highest = 0

    def use(self, *amounts: int) -> None:
        for self.now in amounts:
            self.highest = max(self.highest, self.now)

    def now_bytes(self) -> int:
        return self.now

    def peak_bytes(self) -> int:
        return self.highest

    def reset(self) -> bool:
        if self.resettable:
            self.highest = self.now
        return self.resettable


def test_each_call_has_its_own_peak() -> None:
    mark = ScriptedMark()
    peaks = Peaks(mark)
    for height in (500, 200):
        mark.use(100)
        call = peaks.begin()
        mark.use(height, 150)
        found = peaks.end(call)
        assert (found.peak_bytes, found.over_baseline_bytes, found.exact) == (height, height - 100, True)


@pytest.mark.parametrize("before_inner", [900, 50])
def test_a_call_inside_another_does_not_lose_the_outer_ones_peak(before_inner: int) -> None:
    mark = ScriptedMark()
    peaks = Peaks(mark)
    mark.use(10)
    outer = peaks.begin()
    mark.use(before_inner, 20)
    inner = peaks.begin()
    mark.use(300, 20)
    assert peaks.end(inner).peak_bytes == 300
    mark.use(100)
    assert peaks.end(outer).peak_bytes == max(before_inner, 300)


def test_calls_that_overlap_each_see_what_was_highest_in_their_own_time() -> None:
    mark = ScriptedMark()
    peaks = Peaks(mark)
    first = peaks.begin()
    mark.use(70, 20)
    second = peaks.begin()
    mark.use(40, 30)
    assert peaks.end(first).peak_bytes == 70
    mark.use(60)
    found = peaks.end(second)
    assert (found.peak_bytes, found.baseline_bytes) == (60, 20)


def test_a_mark_that_cannot_be_reset_gives_a_lower_bound_or_a_new_height() -> None:
    mark = ScriptedMark(resettable=False)
    peaks = Peaks(mark)
    mark.use(1000, 10)
    call = peaks.begin()
    mark.use(500, 80)  # 500 is hidden below 1000
    bound = peaks.end(call)
    assert (bound.peak_bytes, bound.exact) == (80, False)
    call = peaks.begin()
    mark.use(2000, 80)
    found = peaks.end(call)
    assert (found.peak_bytes, found.exact) == (2000, True)
