"""The waterfall of word latency: why a listener waits for a word, in parts that add up to the wait."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from stopwav.speech.events import Floats, Integers

# The stages that a waterfall names, in the order of a chunk's work; other stages of an engine, and time outside of all
# stages, are `other`.
STAGES = ("features", "copy", "inference", "post")
# Why a listener waits for a word, in the order in which the causes occur; behind a protocol, the last two are all that
# can be told apart of what happens between a chunk and a text.
WATERFALL = ("buffering", "lookahead", "emission", "queue", *STAGES, "other", "network", "server")


def earliest_chunk(due_s: Sequence[float], needed_s: float) -> int:
    """Return the first chunk by which so much audio was heard, of chunks that are due then; at the end, the last."""
    return min(bisect_left(due_s, needed_s), len(due_s) - 1)


def waterfalls(
    due_s: Floats,
    start_s: Floats,
    done_s: Floats,
    stages: Mapping[str, Floats],
    end_s: Floats,
    lookahead_s: Floats | float,
    earliest: Integers,
    shown: Integers,
) -> dict[str, Floats]:
    """Return the parts of the latency of words, which add up to it: an array for each part, with a value per word.

    Times and stages are of chunks. Of each word are given its end, and the indexes of the earliest chunk that could
    show it and of the chunk that did. Buffering and look-ahead last until the earliest chunk; emission is the audio
    that the model waited for beyond it (negative where it was quicker); the rest is the queue and work of the chunk
    that showed the word.
    """
    # Near the end there may be less audio left than the look-ahead needs.
    ahead_s = np.maximum(0.0, np.minimum(lookahead_s, due_s[earliest] - end_s))
    parts = {
        "buffering": due_s[earliest] - end_s - ahead_s,
        "lookahead": ahead_s,
        "emission": due_s[shown] - due_s[earliest],
        "queue": start_s[shown] - due_s[shown],
        **{name: stages[name][shown] if name in stages else np.zeros(len(shown)) for name in STAGES},
    }
    parts["other"] = done_s[shown] - start_s[shown] - sum(parts[name] for name in STAGES)
    nothing = np.zeros(len(shown))
    return {**parts, "network": nothing, "server": nothing}


def remote_waterfalls(
    due_s: Floats,
    sent_s: Floats,
    end_s: Floats,
    lookahead_s: Floats | float,
    earliest: Integers,
    shown_s: Floats,
    network_s: Floats,
    reported_s: Floats,
) -> dict[str, Floats]:
    """Return the parts of the latency of words behind a protocol, which add up to it.

    Buffering and look-ahead last until the earliest chunk that could show the word; the queue is how late we sent that
    chunk, and what the server reports of its own queue. Half of a round trip is the network; all else is the server's,
    audio that its model waited for included.
    """
    ahead_s = np.maximum(0.0, np.minimum(lookahead_s, due_s[earliest] - end_s))
    nothing = np.zeros(len(shown_s))
    parts = {
        **dict.fromkeys(WATERFALL, nothing),
        "buffering": due_s[earliest] - end_s - ahead_s,
        "lookahead": ahead_s,
        "queue": sent_s[earliest] - due_s[earliest] + reported_s,
        "network": network_s,
    }
    return {**parts, "server": shown_s - end_s - sum(parts.values())}
