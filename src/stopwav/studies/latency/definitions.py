"""What each metric means: one title, one unit and one sentence, for the reference pages and for whoever shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Definition:
    """A metric's title, the unit it is stored in ("" for a plain ratio), and what it is, in a sentence."""

    title: str
    unit: str
    text: str
    # Whether it comes as `NAME_p50`, `NAME_p90`, … and not as `NAME` itself.
    percentiles: bool = False


def _spread(title: str, text: str) -> Definition:
    return Definition(title, "s", text, percentiles=True)


def seconds(title: str, text: str) -> Definition:
    """A metric that is a time."""
    return Definition(title, "s", text)


def ratio(title: str, text: str) -> Definition:
    """A metric without a unit."""
    return Definition(title, "", text)


def size(title: str, text: str) -> Definition:
    """A metric in bytes."""
    return Definition(title, "B", text)


WORDS = {
    "word_latency": _spread(
        "word latency (UPL)",
        "From the end of a spoken word to the first moment at which it stands, correctly recognised, in the text; "
        "negative where it is shown before it ends.",
    ),
    "word_latency_mean": seconds("word latency, mean", "The mean of word latency; the waterfall adds up to it."),
    "stabilisation": _spread(
        "stabilisation (STAB)", "From a word's first correct appearance to the moment after which it never changes."
    ),
    "committed_latency": _spread(
        "committed latency", "From the end of a spoken word to the moment after which it never changes."
    ),
    "words_recognised": ratio(
        "words recognised", "Reference words with known times that ever stood in the text / all such words."
    ),
}

WATERFALL = {
    "waterfall_buffering": seconds(
        "buffering", "Mean wait for the chunk that holds the end of the word to be full, look-ahead not counted."
    ),
    "waterfall_lookahead": seconds("look-ahead", "Mean wait for the audio beyond the word that the engine asks for."),
    "waterfall_emission": seconds(
        "emission",
        "Mean audio that the model waited for beyond the first chunk that could hold the word; negative where it was "
        "quicker.",
    ),
    "waterfall_queue": seconds("queue", "Mean wait of the chunk that showed the word for the chunks before it."),
    "waterfall_features": seconds("features", "Mean time in stage `features` of the chunk that showed the word."),
    "waterfall_copy": seconds("copy", "Mean time in stage `copy` (host to device) of the chunk that showed the word."),
    "waterfall_inference": seconds("inference", "Mean time in stage `inference` of the chunk that showed the word."),
    "waterfall_post": seconds("post-processing", "Mean time in stage `post` of the chunk that showed the word."),
    "waterfall_other": seconds("other", "Mean time of the chunk that showed the word outside those four stages."),
}

SHARES = {
    "share_waiting": ratio(
        "share of waiting for audio", "Σ (buffering + look-ahead + emission) / Σ committed latency, over words."
    ),
    "share_queue": ratio("share of queueing", "Σ queue / Σ committed latency, over words."),
    "share_computing": ratio(
        "share of computing", "Σ (features + copy + inference + post + other) / Σ committed latency, over words."
    ),
    "share_stabilisation": ratio("share of stabilisation", "Σ stabilisation / Σ committed latency, over words."),
}

UTTERANCES = {
    "first_word_latency": _spread(
        "first-word latency", "From the start of the first word to the first text that is not empty."
    ),
    "first_word_latency_from_start": _spread(
        "first-word latency, from the start", "From the start of the stream to the first text that is not empty."
    ),
    "final_latency": _spread("final latency", "From the end of the last word to the final text."),
    "final_latency_from_end": _spread(
        "final latency, from the end of audio", "From the moment the end of the stream is signalled to the final text."
    ),
    "al": seconds(
        "average lagging (AL)",
        "Mean lag of committed words, in audio heard, behind a recogniser that spreads the reference words evenly "
        "over the audio.",
    ),
    "laal": seconds(
        "length-adaptive average lagging (LAAL)", "AL with the pace of the longer of reference and recognised text."
    ),
    "dal": seconds(
        "differentiable average lagging (DAL)", "AL over all words, each at least one even step after the one before."
    ),
    "al_ca": seconds("AL, computation-aware", "AL in time passed, computing and queueing included."),
    "laal_ca": seconds("LAAL, computation-aware", "LAAL in time passed, computing and queueing included."),
    "dal_ca": seconds("DAL, computation-aware", "DAL in time passed, computing and queueing included."),
}

CHUNKS = {
    "chunk_lag": _spread("chunk lag", "From a chunk's last sample spoken to its work done: queue + service."),
    "queue": _spread("queue", "From a chunk's last sample spoken to the start of its work."),
    "service": _spread("service", "The work on a chunk: all its stages and what no stage claims."),
    "features": _spread("features (FEAT)", "Time of a chunk in stage `features`."),
    "copy": _spread("copy (COPY)", "Time of a chunk in stage `copy`: moving data to the device."),
    "inference": _spread("inference (INF)", "Time of a chunk in stage `inference`."),
    "post": _spread("post-processing (POST)", "Time of a chunk in stage `post`: from tokens to text."),
    "other": _spread("other", "Time of a chunk that no stage claims."),
    "algorithmic_latency": seconds(
        "algorithmic latency (ALGO)", "chunk + look-ahead: the longest wait on an infinitely fast machine."
    ),
    "algorithmic_latency_mean": seconds(
        "algorithmic latency, mean", "chunk / 2 + look-ahead: the mean wait on an infinitely fast machine."
    ),
    "longest_wait": _spread(
        "longest wait",
        "algorithmic latency + chunk lag: from the first sample of a chunk spoken to its work done, with look-ahead.",
    ),
    "sum_of_p95s": seconds(
        "sum of P95s",
        "algorithmic latency + P95 of features, of copy and of inference: an upper bound where nothing queues, and "
        "not a percentile; for comparison with older reports.",
    ),
}

PACE = {
    "rtf": ratio("real-time factor (RTF)", "Σ service / Σ audio, each sample counted once."),
    "rtfx": ratio("inverse real-time factor (RTFx)", "Σ audio / Σ service: seconds of audio done in a second."),
    "keeps_up": Definition("keeps up", "bool", "1 where RTF < 1 and the backlog does not grow, 0 where not."),
    "backlog_slope": Definition(
        "backlog slope", "s/s", "Seconds by which the queue's low points rise per second of audio, mean over streams."
    ),
}

TEXT = {
    "wer": ratio(
        "word error rate (WER)",
        "Σ (substitutions + deletions + insertions) / Σ reference words, of the final text, after normalisation.",
    ),
    "upwr": ratio(
        "unstable partial words (UPWR)",
        "Words shown in some partial and later changed or removed / words of the final text; above 1 where words "
        "change more than once.",
    ),
    "normalised_erasure": ratio(
        "normalised erasure",
        "Words that a display which can only append would have to erase / words of the final text.",
    ),
}

PROCESS = {
    "load_time": seconds("load time", "Time to make the engine in a fresh process."),
    "peak_host_bytes": Definition("peak memory", "B", "Most host memory resident while the longest utterance streams."),
    "peak_host_over_baseline_bytes": Definition(
        "peak memory over baseline", "B", "The same, less what was resident once the engine was loaded."
    ),
}

# In the order in which a reader meets them.
GROUPS: dict[str, dict[str, Definition]] = {
    "Words: what a listener feels": WORDS,
    "Why a word takes so long": WATERFALL,
    "Shares of the wait until a word stands for good": SHARES,
    "Utterances": UTTERANCES,
    "Chunks: what the machine does": CHUNKS,
    "Keeping up": PACE,
    "What is written": TEXT,
    "The process": PROCESS,
}

DEFINITIONS: dict[str, Definition] = {name: one for group in GROUPS.values() for name, one in group.items()}

_PERCENTILE = re.compile(r"(?P<family>\w+)_p(?P<percent>\d\d)")


def definition(metric: str) -> Definition | None:
    """The definition of a metric by its name in a result, percentile suffix and all; `None` for no such metric.

    Engines may mark parts of the four stages, and stages of their own; their percentiles are defined here all the same.
    """
    found = _PERCENTILE.fullmatch(metric)
    if found is None:
        one = DEFINITIONS.get(metric)
        return None if one is None or one.percentiles else one
    family = DEFINITIONS.get(found["family"]) or own_stage(found["family"])
    if family is None or not family.percentiles:
        return None
    return replace(family, title=f"{family.title}, P{found['percent']}")


def own_stage(family: str) -> Definition | None:
    """The definition of a stage that the engine named itself: a part of one of the four, or one of its own."""
    kind, _, name = family.partition("_")
    if not name or kind not in ("features", "copy", "inference", "post", "stage"):
        return None
    stage = name if kind == "stage" else f"{kind}/{name}"
    return _spread(stage, f"Time of a chunk in the engine's own stage `{stage}` (further `/` are written as `_`).")
