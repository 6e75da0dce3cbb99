"""How far words and chunks fall behind the audio: average lagging and its variants, and the slope of the backlog.

Each function takes many streams at once, whose values follow each other: a corpus has hundreds of thousands of streams.
Definitions: docs/concepts/latency.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats, Integers

# A recogniser that decodes every half second has a queue in between and none right after. A backlog is the queue at its
# lowest, so it is measured in windows longer than any such period in use.
BACKLOG_WINDOW_S = 1.0


class Laggings(NamedTuple):
    """One value per stream, NaN where it has none."""

    # AL, as simultaneous translation defines it: the mean lag up to the first word after all audio.
    al: Floats
    # AL with as many ideal words as the longer of reference and hypothesis has.
    laal: Floats
    # DAL: the mean lag over all words, each at least one ideal step after the word before.
    dal: Floats


def laggings(delays_s: Floats, sizes: Integers, audio_s: Floats, words: Integers) -> Laggings:
    """Return the mean lags of streams behind an ideal recogniser that spreads its words evenly over the audio.

    Of each stream are given how many delays it has, the length of its audio, and the number of words in its reference,
    -1 where it has none. A delay is the audio heard (algorithmic) or the time passed (computation-aware) when a word
    was committed.
    """
    references = np.where(words < 0, -1, np.maximum(words, sizes))
    al, laal = (_lagging(delays_s, sizes, audio_s, ideal) for ideal in (words, references))
    return Laggings(al, laal, _differentiable(delays_s, sizes, audio_s))


def _lagging(delays_s: Floats, sizes: Integers, audio_s: Floats, words: Integers) -> Floats:
    usable = (sizes > 0) & (audio_s > 0) & (words > 0)
    step_s = np.divide(audio_s, words, out=np.zeros(sizes.size), where=usable)
    total, count, open_ = np.zeros(sizes.size), np.zeros(sizes.size), usable.copy()
    for place, streams, values_s in _by_place(delays_s, sizes):
        streams, values_s = streams[open_[streams]], values_s[open_[streams]]
        if not streams.size:
            break
        total[streams] += values_s - place * step_s[streams]
        count[streams] += 1
        open_[streams] = values_s < audio_s[streams]
    return _divide(total, count, usable)


def _differentiable(delays_s: Floats, sizes: Integers, audio_s: Floats) -> Floats:
    usable = (sizes > 0) & (audio_s > 0)
    step_s = np.divide(audio_s, sizes, out=np.zeros(sizes.size), where=usable)
    total, previous_s = np.zeros(sizes.size), np.full(sizes.size, -np.inf)
    for place, streams, values_s in _by_place(delays_s, sizes):
        previous_s[streams] = np.maximum(values_s, previous_s[streams] + step_s[streams])
        total[streams] += previous_s[streams] - place * step_s[streams]
    return _divide(total, sizes, usable)


def _divide(top: Floats, bottom: Floats | Integers, where: NDArray[np.bool_]) -> Floats:
    quotients: Floats = np.divide(top, bottom, out=np.full(top.size, np.nan), where=where)
    return quotients


def _by_place(values: Floats, sizes: Integers) -> Iterator[tuple[int, Integers, Floats]]:
    """Yield the first values of all streams, the second, and so on: the place, the streams that have one, and those."""
    firsts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    # How many streams have more values than a place.
    longer = np.searchsorted(-sizes[order], -np.arange(int(sizes.max(initial=0))), side="left")
    for place, count in enumerate(longer.tolist()):
        streams = order[:count]
        yield place, streams, values[firsts[streams] + place]


def backlog_slopes(due_s: Floats, queue_s: Floats, sizes: Integers) -> Floats:
    """Return the seconds of backlog gained per second of audio, from the queue's low points; NaN of short streams.

    The values are those of chunks with audio, of which each stream has so many.
    """
    stream = np.repeat(np.arange(sizes.size), sizes)
    if not stream.size:
        return np.full(sizes.size, np.nan)
    window = np.floor(due_s / BACKLOG_WINDOW_S)
    first = np.flatnonzero(np.append(True, (np.diff(stream) != 0) | (np.diff(window) != 0)))
    lengths = np.diff(np.append(first, stream.size))
    low_s = np.minimum.reduceat(queue_s, first)
    # The first chunk of each window whose queue is the lowest.
    places = np.where(queue_s == np.repeat(low_s, lengths), np.arange(stream.size), stream.size)
    lowest = np.minimum.reduceat(places, first)
    low_due_s, of_stream = due_s[lowest], stream[first]
    windows = np.bincount(of_stream, minlength=sizes.size)
    long = windows >= 2
    mean_due_s, mean_low_s = (
        np.divide(np.bincount(of_stream, values, sizes.size), windows, out=np.zeros(sizes.size), where=long)
        for values in (low_due_s, low_s)
    )
    away_s = low_due_s - mean_due_s[of_stream]
    covariance = np.bincount(of_stream, away_s * (low_s - mean_low_s[of_stream]), sizes.size).astype(float)
    return _divide(covariance, np.bincount(of_stream, away_s**2, sizes.size), long)
