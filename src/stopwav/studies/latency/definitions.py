"""The metrics of a latency run: one title, one unit and one sentence each, and which of them the tables show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, Result
from stopwav.studies.definition import (
    ERROR_RATES,
    NO_SPACES,
    PARTS_OF_WER,
    Definition,
    Definitions,
    ratio,
    seconds,
    size,
)
from stopwav.studies.latency.chunk_definitions import (
    CHUNKS,
    NO_ENDPOINT,
    REMOTE,
    REMOTE_CODE,
    each,
    own_stage,
    percentiles,
)


def _of_reference(title: str, text: str) -> Definition:
    return Definition(title, "s", text, rests_on_transcript=True)


WORDS = each(
    {
        "word_latency": replace(
            percentiles(
                "word latency (UPL)",
                "From the end of a spoken word to its first correct appearance in the text (user-perceived latency); "
                "negative where it appears before it ends.",
            ),
            headline="word latency P{p}, s",
            headline_percentiles=(50, 95),
        ),
        "word_latency_mean": replace(
            seconds("word latency (UPL), mean", "The mean of word latency; the waterfall adds up to it."), scale=1e3
        ),
        "stabilisation": percentiles(
            "stabilisation (STAB)", "From a word's first correct appearance to the moment after which it never changes."
        ),
        "committed_latency": replace(
            percentiles(
                "word finalization latency",
                "From the end of a spoken word to the moment after which it never changes (committed latency).",
            ),
            headline="word finalization latency P{p}, s",
            headline_percentiles=(50,),
        ),
    },
    rests_on_text=True,
    rests_on_word_times=True,
) | each(
    {
        "words_recognised": ratio(
            "words recognised", "Reference words with known times that were ever in the text / all such words."
        ),
    },
    rests_on_text=True,
    rests_on_transcript=True,
    rests_on_speed=False,
)

# Waiting for audio takes as long on any machine.
_AUDIO_WAITS = {
    "waterfall_buffering": seconds(
        "buffering", "Mean wait until the chunk that holds the end of the word is full, without look-ahead."
    ),
    "waterfall_lookahead": seconds(
        "look-ahead", "Mean wait for the audio after the word that the engine needs before it starts."
    ),
    "waterfall_emission": seconds(
        "emission delay",
        "Mean audio that the model waited for after the first chunk that could show the word; negative where it was "
        "quicker.",
    ),
}
_CHUNK_WAITS = {
    "waterfall_queue": seconds("queue", "Mean wait of the chunk that showed the word for earlier chunks."),
    "waterfall_features": seconds("features", "Mean time in stage `features` of the chunk that showed the word."),
    "waterfall_copy": seconds("copy", "Mean time in stage `copy` (host to device) of the chunk that showed the word."),
    "waterfall_inference": seconds("inference", "Mean time in stage `inference` of the chunk that showed the word."),
    "waterfall_post": seconds("post-processing", "Mean time in stage `post` of the chunk that showed the word."),
    "waterfall_other": seconds("other", "Mean time of the chunk that showed the word outside those four stages."),
}
_REMOTE_WAITS = {
    "waterfall_network": seconds("network", "Mean of half a round trip to the server, by the protocol's ping."),
    "waterfall_server": seconds(
        "server",
        "Mean wait for the server: all of word latency that is neither buffering, look-ahead, queue nor network, audio "
        "that its model waited for included.",
    ),
}
WATERFALL = each(
    each(_AUDIO_WAITS, rests_on_speed=False) | _CHUNK_WAITS | _REMOTE_WAITS,
    scale=1e3,
    rests_on_text=True,
    rests_on_word_times=True,
)

SHARES = each(
    {
        "share_waiting": ratio(
            "share of waiting for audio",
            "Σ (buffering + look-ahead + emission delay) / Σ word finalization latency, over words.",
        ),
        "share_queue": ratio("share of queueing", "Σ queue / Σ word finalization latency, over words."),
        "share_computing": ratio(
            "share of computing",
            "Σ (features + copy + inference + post + other) / Σ word finalization latency, over words.",
        ),
        "share_server": ratio(
            "share of server and network", "Σ (network + server) / Σ word finalization latency, over words."
        ),
        "share_stabilisation": ratio(
            "share of stabilisation", "Σ stabilisation / Σ word finalization latency, over words."
        ),
    },
    rests_on_text=True,
    rests_on_word_times=True,
)

_LAGGING = {
    "al": _of_reference(
        "average lagging (AL)",
        "Mean lag of committed words, in audio heard, behind a recogniser that spreads the reference words evenly "
        "over the audio.",
    ),
    "laal": _of_reference(
        "length-adaptive average lagging (LAAL)", "AL with the rate of the longer of reference and recognised text."
    ),
    "dal": seconds(
        "differentiable average lagging (DAL)", "AL over all words, each at least one even step after the one before."
    ),
}
_COMPUTATION_AWARE = {
    "al_ca": _of_reference("AL, computation-aware", "AL in elapsed time, computing and queueing included."),
    "laal_ca": _of_reference("LAAL, computation-aware", "LAAL in elapsed time, computing and queueing included."),
    "dal_ca": seconds("DAL, computation-aware", "DAL in elapsed time, computing and queueing included."),
}
UTTERANCES = {
    "first_word_latency": replace(
        percentiles("time to first partial", "From the start of the first word to the first text that is not empty."),
        rests_on_text=True,
        rests_on_word_times=True,
    ),
    "first_word_latency_from_start": replace(
        percentiles(
            "time to first partial, from the start", "From the start of the stream to the first text that is not empty."
        ),
        rests_on_text=True,
    ),
    "final_latency": replace(
        percentiles("finalization latency", "From the end of the last word to the final text."),
        rests_on_word_times=True,
    ),
    "final_latency_from_end": percentiles(
        "end-of-stream finalization latency", "From the signal that the stream is over to the final text."
    ),
    "endpoint_latency": replace(
        percentiles(
            "endpoint latency",
            "From the end of the last word to the event by which the engine or server says that the utterance is over.",
        ),
        rests_on_word_times=True,
    ),
    **each(_LAGGING, rests_on_text=True, rests_on_speed=False),
    **each(_COMPUTATION_AWARE, rests_on_text=True),
}

PACE = {
    "rtf": replace(
        ratio("real-time factor (RTF)", "Σ compute / Σ audio, each sample counted once."),
        decimals=4,
        headline="RTF",
    ),
    "rtfx": replace(
        ratio("inverse real-time factor (RTFx)", "Σ audio / Σ compute: seconds of audio processed per second."),
        headline="RTFx",
    ),
    "keeps_up": Definition(
        "keeps up",
        "bool",
        "1 where RTF is surely below 1 and the backlog not surely growing, 0 where RTF is surely above 1 or the "
        "backlog surely growing, none where the intervals leave it undecided.",
    ),
    "backlog_slope": Definition(
        "backlog slope", "s/s", "Seconds by which the queue's low points rise per second of audio, mean over streams."
    ),
}

TEXT = ERROR_RATES | each(
    {
        "upwr": replace(
            ratio(
                "unstable words per 100 (UPWR)",
                "Words of partials that are later changed or removed / words of the final text; above 1 where words "
                "change more than once. Shown per 100.",
            ),
            scale=100.0,
        ),
        "normalised_erasure": ratio(
            "normalised erasure", "Words that a display which can only append has to erase / words of the final text."
        ),
    },
    rests_on_text=True,
    rests_on_speed=False,
)

PROCESS = {
    "load_time": seconds("load time", "Time to make the engine in a fresh process."),
    "peak_host_bytes": replace(
        size("peak memory", "Most host memory resident while the longest utterance streams."), headline="peak memory"
    ),
    "peak_host_over_baseline_bytes": size(
        "peak memory over baseline", "The same, minus what was resident once the engine was loaded."
    ),
}


# In the order in which a reader meets them.
DEFINITIONS = Definitions(
    {
        "Words: what a listener feels": WORDS,
        "Why a word takes so long": WATERFALL,
        "Shares of word finalization latency": SHARES,
        "Utterances": UTTERANCES,
        "Chunks: what the machine does": CHUNKS,
        "Keeping up": PACE,
        "Servers: the way there": REMOTE,
        "What is written": TEXT,
        "The process": PROCESS,
    },
    derive=own_stage,
)


# A row only where no utterance has a transcript, and so the time from the first word is not known.
_WITHOUT_WORDS = "first_word_latency_from_start_p50"
# The lines of the classic analysis of a streaming transducer; for engines that mark its stages.
LEGACY = "Legacy breakdown, ms"
# The metrics of the table by heading, each with its unit where the heading does not say it.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "What a listener feels, in seconds": {
        "word_latency_p50": "",
        "word_latency_p95": "",
        "committed_latency_p50": "",
        "committed_latency_p95": "",
        "first_word_latency_p50": "",
        _WITHOUT_WORDS: "",
        "final_latency_p50": "",
        "final_latency_from_end_p50": "",
        "endpoint_latency_p50": "",
    },
    "Why it takes so long, mean ms": dict.fromkeys((*WATERFALL, "word_latency_mean"), ""),
    "What the machine does": {
        "rtf": "",
        "rtfx": "",
        "keeps_up": "",
        "chunk_lag_p50": "ms",
        "chunk_lag_p95": "ms",
        "chunk_lag_p99": "ms",
        "peak_host_bytes": "",
        "send_lateness_p99": "ms",
    },
    "What it writes": {"wer": "%", "cer": "%", **dict.fromkeys(PARTS_OF_WER, "%"), "upwr": ""},
    LEGACY: {
        "algorithmic_latency": "",
        "inference_p95": "",
        "features_p95": "",
        "copy_p95": "",
        "sum_of_p95s": "",
        "rtf": "",
        "rtfx": "",
        "longest_wait_p95": "",
    },
}
# A reader compares engines by these, a column each, under headings as short as can be.
GLANCE: Mapping[str, str] = {
    "word_latency_p50": "word latency P50, s",
    "word_latency_p95": "word latency P95, s",
    "committed_latency_p50": "word finalization latency P50, s",
    "final_latency_from_end_p50": "end-of-stream finalization latency P50, s",
    "rtf": "RTF",
    "rtfx": "RTFx",
    "keeps_up": "keeps up",
    "wer": "WER, %",
    "peak_host_bytes": "peak memory",
}


def glance(results: Sequence[Result]) -> Mapping[str, str]:
    """Return the metrics that engines are compared by, with their headings: CER where there are no words to count."""
    if any(result.metrics["wer"].code == NO_SPACES for result in results if result.metrics):
        return {("cer" if metric == "wer" else metric): title.replace("WER", "CER") for metric, title in GLANCE.items()}
    return GLANCE


def shown_sections(results: Sequence[Result], *, page: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the headings with those of their metrics that say something about some engine."""
    for heading, metrics in SECTIONS.items():
        roomy = {metric: unit for metric, unit in metrics.items() if page or metric not in PARTS_OF_WER}
        shown = {metric: unit for metric, unit in roomy.items() if _is_shown(metric, heading, results)}
        if shown:
            yield heading, shown


def label_of(metric: str, unit: str) -> str:
    """Return the title of a metric, with its unit where one is given."""
    return ", ".join(filter(None, (definition_of(metric).title, unit)))


def definition_of(metric: str) -> Definition:
    """Return the definition of a metric that a table shows."""
    definition = DEFINITIONS.find(metric)
    assert definition is not None, metric
    return definition


def _is_shown(metric: str, heading: str, results: Sequence[Result]) -> bool:
    """Whether a row says something: a part that is zero for every engine (no look-ahead, no copy) does not."""
    if heading == LEGACY:
        return any({"features_p95", "inference_p95"} <= result.metrics.keys() for result in results)
    estimates = [result.metrics[metric] for result in results if metric in result.metrics]
    # What nobody can see through a protocol, of servers alone, is a line under the table; endpoints are told by few.
    if all(estimate.code in (REMOTE_CODE, NO_ENDPOINT) for estimate in estimates):
        return False
    # Without spaces there are characters alone.
    if estimates and all(estimate.code == NO_SPACES for estimate in estimates):
        return False
    # That texts mean nothing, or have no transcript, is said once, in place of the errors.
    if metric != "wer" and all(estimate.code in (UNTRAINED, NO_TRANSCRIPT) for estimate in estimates):
        return False
    if metric == _WITHOUT_WORDS:
        return all(result.metrics["first_word_latency_p50"].code == NO_TRANSCRIPT for result in results)
    return any(estimate.value != 0 or estimate.high or estimate.unit == "bool" for estimate in estimates)
