"""The metrics of chunks: what the machine does with them in a process, and how late they are sent to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stopwav.studies.definition import Definition, seconds

# The code and the note of what cannot be seen through a protocol.
REMOTE_CODE, REMOTE_NOTE = "behind-protocol", "not visible behind a protocol"
# The code of an endpoint latency where no stream had an endpoint.
NO_ENDPOINT = "no-endpoint"


def percentiles(title: str, text: str) -> Definition:
    """Return the definition of a time that is given by its percentiles."""
    return Definition(title, "s", text, percentiles=True)


def each(group: Mapping[str, Definition], **fields: Any) -> dict[str, Definition]:
    """Return the definitions with these fields in each of them."""
    return {name: replace(definition, **fields) for name, definition in group.items()}


_STAGES = {
    "features": percentiles("features (FEAT)", "Time of a chunk in stage `features`."),
    "copy": percentiles("copy (COPY)", "Time of a chunk in stage `copy`: moving data to the device (MEM)."),
    "inference": percentiles("inference (INF)", "Time of a chunk in stage `inference`."),
    "post": percentiles("post-processing (POST)", "Time of a chunk in stage `post`: from tokens to text."),
    "other": percentiles("other", "Time of a chunk outside all stages."),
}
_ALGORITHMIC = {
    "algorithmic_latency": seconds(
        "algorithmic latency (ALGO)", "chunk + look-ahead: the longest wait on an infinitely fast machine."
    ),
    "algorithmic_latency_mean": seconds(
        "algorithmic latency, mean", "chunk / 2 + look-ahead: the mean wait on an infinitely fast machine."
    ),
}
CHUNKS = each(
    {
        "chunk_lag": replace(
            percentiles(
                "chunk latency (queue + compute)", "From the last sample of a chunk to the end of its processing."
            ),
            headline="chunk latency P{p}, ms",
            headline_percentiles=(95,),
        ),
        "queue": percentiles("queue", "From the last sample of a chunk to the start of its processing."),
        "service": percentiles("compute (service)", "Processing time of a chunk: all its stages, and the rest."),
        **_STAGES,
        **each(_ALGORITHMIC, rests_on_speed=False),
        "longest_wait": percentiles(
            "worst-case chunk latency",
            "algorithmic latency + chunk latency: from the first sample of a chunk to the end of its processing, "
            "look-ahead included.",
        ),
        "sum_of_p95s": seconds(
            "sum of P95s (upper bound)",
            "algorithmic latency + P95 of features, of copy and of inference: an upper bound where nothing queues, and "
            "not a percentile; for comparison with older reports.",
        ),
    },
    scale=1e3,
)

REMOTE = {
    "send_lateness": replace(
        percentiles(
            "send lateness",
            "From when a chunk was due to when it was sent: a delay of ours, not of the server.",
        ),
        scale=1e3,
    ),
    "network": replace(seconds("network", "Half of a round trip to the server, by the protocol's ping."), scale=1e3),
}


def own_stage(family: str) -> Definition | None:
    """Return the definition of a stage that the engine named itself: a part of one of the four, or another one."""
    kind, _, name = family.partition("_")
    if not name or kind not in ("features", "copy", "inference", "post", "stage"):
        return None
    stage = name if kind == "stage" else f"{kind}/{name}"
    text = f"Time of a chunk in the engine's own stage `{stage}` (further `/` are written as `_`)."
    return replace(percentiles(stage, text), scale=1e3)
