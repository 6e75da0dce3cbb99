"""Lagging and backlog of one stream, as their definitions say it: the plain form of what is computed for many."""

from collections.abc import Sequence

from stopwav.speech.lagging import BACKLOG_WINDOW_S


def lagging(delays_s: Sequence[float], audio_s: float, words: int) -> float | None:
    """AL with so many words in the reference."""
    if not delays_s or audio_s <= 0 or words == 0:
        return None
    step_s = audio_s / words
    total = 0.0
    for index, delay in enumerate(delays_s):
        total += delay - index * step_s
        if delay >= audio_s:
            break
    return total / (index + 1)


def differentiable(delays_s: Sequence[float], audio_s: float) -> float | None:
    """DAL."""
    if not delays_s or audio_s <= 0:
        return None
    step_s = audio_s / len(delays_s)
    total = previous = 0.0
    for index, delay in enumerate(delays_s):
        previous = delay if index == 0 else max(delay, previous + step_s)
        total += previous - index * step_s
    return total / len(delays_s)


def backlog(due_s: Sequence[float], queue_s: Sequence[float]) -> float | None:
    """The slope through the low points of the queue, of chunks with audio."""
    lows: dict[int, tuple[float, float]] = {}
    for due, queue in zip(due_s, queue_s, strict=True):
        window = int(due / BACKLOG_WINDOW_S)
        if window not in lows or queue < lows[window][1]:
            lows[window] = (due, queue)
    if len(lows) < 2:
        return None
    mean_due = sum(due for due, _ in lows.values()) / len(lows)
    mean_queue = sum(queue for _, queue in lows.values()) / len(lows)
    covariance = sum((due - mean_due) * (queue - mean_queue) for due, queue in lows.values())
    return covariance / sum((due - mean_due) ** 2 for due, _ in lows.values())
