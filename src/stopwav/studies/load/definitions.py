"""The metrics of a load run: one title, one unit and one sentence each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from stopwav.speech.waterfall import WATERFALL
from stopwav.studies.definition import ERROR_RATES, Definition, Definitions, ratio, seconds, size


def _times(title: str, text: str, headline: str = "") -> Definition:
    percents = (50, 95) if headline else ()
    return Definition(title, "s", text, percentiles=True, headline=headline, headline_percentiles=percents)


CAPACITY = {
    "capacity": Definition(
        "capacity",
        "streams",
        "The most streams at which every condition of the objective holds. The interval: from the most at which it "
        "surely holds to the last below the fewest at which it surely does not.",
        headline="capacity, streams",
        decimals=0,
    ),
}

_OF_WORDS = {
    "word_latency": replace(
        _times(
            "word latency (UPL)",
            "From the end of a spoken word, by the schedule, to its first correct appearance.",
            "word latency P{p}, s",
        ),
        rests_on_text=True,
        rests_on_word_times=True,
    ),
    "committed_latency": replace(
        _times(
            "word finalization latency",
            "From the end of a spoken word, by the schedule, to the moment after which it never changes.",
        ),
        rests_on_text=True,
        rests_on_word_times=True,
    ),
    "first_word_latency": replace(
        _times(
            "time to first partial",
            "From the start of the first word to the first text.",
        ),
        rests_on_text=True,
        rests_on_word_times=True,
    ),
    "final_latency": replace(
        _times(
            "finalization latency",
            "From the end of the last word to the final text; of the end of the audio where words have no times.",
            "finalization latency P{p}, s",
        ),
        rests_on_text=True,
    ),
    "final_latency_from_end": _times(
        "end-of-stream finalization latency", "From the end of the audio to the final text."
    ),
    "endpoint_latency": replace(
        _times(
            "endpoint latency",
            "From the end of the last word to the event that says that the utterance is over.",
        ),
        rests_on_text=True,
        rests_on_word_times=True,
    ),
}

_PART_TITLES: Mapping[str, tuple[str, str]] = {
    "buffering": ("buffering", "Mean wait until the chunk that holds the end of the word is full."),
    "lookahead": ("look-ahead", "Mean wait for the audio after the word that the engine needs."),
    "emission": (
        "emission delay",
        "Mean audio that the model waited for beyond the first chunk that could show the word.",
    ),
    "queue": ("queue", "Mean wait for other streams and earlier chunks; of a server only what it reports itself."),
    "features": ("features", "Mean time in stage `features`."),
    "copy": ("copy", "Mean time in stage `copy`."),
    "inference": ("inference", "Mean time in stage `inference`."),
    "post": ("post-processing", "Mean time in stage `post`."),
    "other": ("other", "Mean time outside those four stages."),
    "network": ("network", "Mean of half a round trip, by the protocol's ping."),
    "server": ("server", "Mean wait for the server, queueing behind other streams included."),
}
WAITS = {
    "word_latency_mean": Definition(
        "word latency (UPL), mean",
        "s",
        "The mean of word latency; the parts add up to it.",
        scale=1e3,
        rests_on_text=True,
        rests_on_word_times=True,
    ),
    **{
        f"waterfall_{part}": Definition(
            *_PART_TITLES[part][:1], "s", _PART_TITLES[part][1], scale=1e3, rests_on_text=True, rests_on_word_times=True
        )
        for part in WATERFALL
    },
}

TEXTS = {
    **ERROR_RATES,
    "upwr": replace(
        ratio(
            "unstable words per 100 (UPWR)",
            "Words shown in some partial and later changed or removed / words of the final text.",
        ),
        scale=100.0,
        rests_on_text=True,
        rests_on_speed=False,
        decimals=1,
    ),
}

SESSIONS = {
    "sessions": replace(ratio("sessions", "Sessions that began in the steady part of a level."), decimals=0),
    "failed": replace(
        ratio("failed sessions", "Sessions that were refused, lost, or ended with an error / all sessions."),
        scale=100.0,
        headline="failed, %",
    ),
    "unfinished": replace(
        ratio("late sessions", "Sessions without a final text when the level was cut / all sessions."), scale=100.0
    ),
    "served": ratio("audio served", "Seconds of audio of completed sessions per second of the level."),
    "latency_slope": Definition(
        "rise of latency",
        "s/s",
        "Seconds by which the wait for the final text grows per second of the level.",
        decimals=4,
    ),
}

CLIENT = {
    "send_lateness": replace(
        _times("send lateness", "How late our client sent chunks to a server that had accepted the session."), scale=1e3
    ),
    "send_lateness_most": replace(seconds("send lateness, most", "The largest such lateness."), scale=1e3),
    "client_cores": ratio("client processor", "The share of a core that the busiest client process used."),
    "network": replace(seconds("network", "Half of a round trip to the server, by the protocol's ping."), scale=1e3),
}

SERVER = {
    "server_cores": ratio("server processor", "Cores that the server used, all of its processes together."),
    "core_s_per_stream_hour": ratio(
        "processor time per stream-hour", "Processor seconds of the server per hour of audio served."
    ),
    "server_bytes": size("server memory", "The most resident memory of all processes of the server."),
    "memory_slope": Definition(
        "rise of memory",
        "B/s",
        "Bytes by which the server's memory grows per second of the level.",
        rests_on_speed=False,
    ),
    "gpu_bytes": size("GPU memory", "The most GPU memory of the server's processes."),
    "gpu_share": replace(ratio("GPU use", "Mean share of the time in which the GPU was busy."), scale=100.0),
}

LINE = {
    "rtf": ratio("real-time factor (RTF)", "Compute per second of audio, of all streams together."),
    "rtfx": ratio("inverse real-time factor (RTFx)", "Seconds of audio per second of compute."),
    "chunk_lag": replace(
        _times("chunk latency (queue + compute)", "From the last sample of a chunk to the end of its processing."),
        scale=1e3,
    ),
}


def _derived(metric: str) -> Definition | None:
    """Energy by part, and the share of events beyond the limit of a condition, such as `over_p95_final_latency`."""
    match = re.fullmatch(r"over_p\d+_(\w+)", metric)
    family = match[1] if match else ""
    if metric.startswith("energy_"):
        part = metric.removeprefix("energy_").replace("_", " ")
        text = "Joules of this part of the machine per hour of audio served; gross, idling included."
        return Definition(f"energy per stream-hour, {part}", "J", text, decimals=0)
    if family not in _OF_WORDS:
        return None
    title = re.sub(r" \([^)]*\)", "", _OF_WORDS[family].title)
    return replace(
        ratio(f"{title} over the limit", "Share of words or sessions that took longer than the objective allows."),
        scale=100.0,
        decimals=1,
    )


DEFINITIONS = Definitions(
    {
        "Capacity": CAPACITY,
        "What a listener feels": _OF_WORDS,
        "What the wait consists of": WAITS,
        "What it writes": TEXTS,
        "Sessions": SESSIONS,
        "The server": SERVER,
        "One worker": LINE,
        "This client": CLIENT,
    },
    derive=_derived,
)
