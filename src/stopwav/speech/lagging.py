"""Average lagging in three forms (AL, LAAL, DAL), over words, as simultaneous translation defines them.

Each compares the delay of word i with that of an ideal recogniser that spreads its words evenly over the audio.
A delay is the audio heard (algorithmic) or the time passed (computation-aware) when the word was committed.
"""

from __future__ import annotations

from collections.abc import Sequence


def average_lagging(delays_s: Sequence[float], audio_s: float, target_words: int) -> float | None:
    """AL: the mean lag up to the first word that came after all audio; the pace is that of the reference."""
    return _lagging(delays_s, audio_s, target_words)


def length_adaptive_average_lagging(delays_s: Sequence[float], audio_s: float, target_words: int) -> float | None:
    """LAAL: the same with the pace of the longer of reference and hypothesis, so that extra words earn nothing."""
    return _lagging(delays_s, audio_s, max(target_words, len(delays_s)))


def differentiable_average_lagging(delays_s: Sequence[float], audio_s: float) -> float | None:
    """DAL: the mean lag over all words, each at least one ideal step after the word before."""
    if not delays_s or audio_s <= 0:
        return None
    step_s = audio_s / len(delays_s)
    total = previous = 0.0
    for index, delay in enumerate(delays_s):
        previous = delay if index == 0 else max(delay, previous + step_s)
        total += previous - index * step_s
    return total / len(delays_s)


def _lagging(delays_s: Sequence[float], audio_s: float, words: int) -> float | None:
    if not delays_s or audio_s <= 0 or words == 0:
        return None
    if delays_s[0] > audio_s:
        return delays_s[0]
    step_s = audio_s / words
    total = 0.0
    for index, delay in enumerate(delays_s):
        total += delay - index * step_s
        if delay >= audio_s:
            break
    return total / (index + 1)
