"""The data of charts and timelines of a latency run: bins, quantiles, means and one timeline per utterance.

Everything is an aggregate or a sample drawn by a fixed rule, so that the page of a large corpus stays small and the
same run always gives the same page. Times are milliseconds where the name says so, else seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.record import Piece
from stopwav.speech.audio import load
from stopwav.speech.events import Chunk
from stopwav.speech.latency import WATERFALL, stage_seconds
from stopwav.speech.utterance import Utterance
from stopwav.stats import minimum_count, nearest_rank
from stopwav.studies.corpus_header import engine_names, utterance_from_json
from stopwav.studies.latency.metrics import Stream, streams_of
from stopwav.studies.latency.results import is_untrained
from stopwav.studies.study import StudyRun

# Bars of a histogram: narrower than a P50 mark's label, wide enough that 100 chunks still show a shape.
BINS = 40
# Corners of an ECDF: more than the pixels of a small chart can tell apart.
ECDF_CORNERS = 120
# A microsecond: about the resolution of a stage's clock. A logarithmic axis has an end; shorter times are drawn there.
FLOOR_MS = 1e-3
# Dots of the scatter, over all engines: enough to see the cloud, few enough to draw in an instant.
MOST_POINTS = 1200
# Groups along the utterance; the quartiles of fewer words than this say nothing.
POSITION_GROUPS, FEWEST_IN_GROUP = 12, 8
# Columns of a waveform: as many as a wide screen shows; fewer for a large corpus, where they would fill the page.
ENVELOPE_COLUMNS, ENVELOPE_COLUMNS_MANY, MANY_UTTERANCES = 400, 160, 200
# Rate at which audio is read for its outline: that of most corpora, so that nothing is resampled.
ENVELOPE_RATE_HZ = 16_000
# Decoding an hour of audio takes some seconds; a report should not take minutes for waveforms that nobody opens.
ENVELOPE_LIMIT_S = 3600.0
ENVELOPE_LEVELS = 64
_TOO_MUCH = "no waveform: only the first hour of a corpus is read for waveforms"


def latency_view(run: StudyRun) -> dict[str, Any]:
    """Return what the charts and timelines of a latency run show, as values that JSON can hold."""
    record = run.record
    utterances = {fields["id"]: utterance_from_json(fields) for fields in record.header.corpus["utterances"]}
    names = engine_names(record.header.spec["engines"])
    by_engine: dict[str, list[Piece]] = {name: [] for name in names}
    for piece in record.pieces:
        by_engine.setdefault(str(piece.key[2]), []).append(piece)
    streams = {name: streams_of(by_engine[name], utterances) for name in names}
    for name in names:
        if is_untrained(by_engine[name]):
            # Words that random weights happened to write were not waited for.
            streams[name] = [replace(stream, delays=[]) for stream in streams[name]]
    return {
        "engines": names,
        "distributions": _distributions(streams),
        "waterfall": [row for name in names for row in _waterfall(name, streams[name])],
        "positions": _positions(streams),
        "timelines": _timelines(utterances, streams, by_engine),
    }


def _distributions(streams: Mapping[str, Sequence[Stream]]) -> list[dict[str, Any]]:
    """One entry per quantity and engine, the quantities in the order in which they occur in a chunk."""
    samples = {name: _chunk_samples(own) for name, own in streams.items()}
    entries = []
    for quantity in dict.fromkeys(quantity for by_quantity in samples.values() for quantity in by_quantity):
        values = {name: by_quantity[quantity] for name, by_quantity in samples.items() if quantity in by_quantity}
        if any(np.any(array > FLOOR_MS) for array in values.values()):
            edges = _edges(values.values())
            entries += [{"quantity": quantity, "engine": name, **_spread(a, edges)} for name, a in values.items()]
    return entries


def _chunk_samples(streams: Sequence[Stream]) -> dict[str, NDArray[np.float64]]:
    """Milliseconds of every chunk with audio, by quantity: latency, queue, compute, then the stages."""
    chunks = [chunk for stream in streams for chunk in stream.trace.chunks[:-1]]
    if not chunks:
        return {}
    times: dict[str, Callable[[Chunk], float]] = {
        "chunk_lag": lambda chunk: chunk.lag_s,
        "queue": lambda chunk: chunk.queue_s,
        "service": lambda chunk: chunk.service_s,
    }
    samples = {name: np.array([1e3 * time_s(chunk) for chunk in chunks]) for name, time_s in times.items()}
    stages = [stage_seconds(chunk) for chunk in chunks]
    for path in dict.fromkeys(path for seconds in stages for path in seconds):
        samples[path] = np.array([1e3 * seconds.get(path, 0.0) for seconds in stages])
    return samples


def _edges(samples: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The edges of bins that are equally wide on a logarithmic axis, the same for all engines."""
    pooled = np.concatenate(list(samples))
    positive = pooled[pooled > FLOOR_MS]
    # The quickest thousandth would stretch the axis by decades for the sake of a few events.
    low = 10 ** (math.floor(4 * math.log10(nearest_rank(positive, 0.001))) / 4)
    high = 10 ** (math.ceil(4 * math.log10(float(positive.max()) * 1.0001)) / 4)
    return np.geomspace(low, high, BINS + 1)


def _spread(values: NDArray[np.float64], edges: NDArray[np.float64]) -> dict[str, Any]:
    """Bins, ECDF and the percentiles that the sample supports; what is shorter than the axis is put at its end."""
    clipped = np.clip(values, edges[0], edges[-1])
    counts, _ = np.histogram(clipped, edges)
    ordered = np.sort(clipped)
    ranks = np.unique(np.linspace(1, ordered.size, min(ordered.size, ECDF_CORNERS)).round().astype(int))
    marks = {
        f"p{round(100 * p)}_ms": _short(nearest_rank(values, p)) if values.size >= minimum_count(p) else None
        for p in (0.5, 0.95)
    }
    return {
        "n": int(values.size),
        "below_axis": int(np.count_nonzero(values < edges[0])),
        "edges_ms": [_short(edge) for edge in edges],
        "shares": [_short(count / values.size) for count in counts],
        "ecdf": [[_short(ordered[rank - 1]), _short(rank / ordered.size)] for rank in ranks],
        **marks,
    }


def _waterfall(name: str, streams: Sequence[Stream]) -> list[dict[str, Any]]:
    """The mean of each part of word latency; the parts add up to mean word latency."""
    parts = [delay.waterfall for stream in streams for delay in stream.delays if delay.waterfall is not None]
    if not parts:
        return []
    means = {part: 1e3 * sum(waterfall[part] for waterfall in parts) / len(parts) for part in WATERFALL}
    return [{"engine": name, "part": part, "mean_ms": _short(mean), "n": len(parts)} for part, mean in means.items()]


def _positions(streams: Mapping[str, Sequence[Stream]]) -> dict[str, Any]:
    """Word latency against the moment the word ends: quartiles in groups of equal length, and a sample of the words."""
    words = {name: _latencies(own) for name, own in streams.items()}
    longest_s = max((float(array[:, 0].max()) for array in words.values() if array.size), default=0.0)
    step_s = longest_s / POSITION_GROUPS or 1.0
    total = sum(len(array) for array in words.values())
    # Every k-th word in order of position: no seed, no clusters, the same dots each time.
    stride = max(1, math.ceil(total / MOST_POINTS))
    return {
        "total": total,
        "stride": stride,
        "groups": [group for name, array in words.items() for group in _groups(name, array, step_s)],
        "points": [
            {"engine": name, "at_s": _short(at_s), "latency_s": _short(latency_s)}
            for name, array in words.items()
            for at_s, latency_s in array[::stride]
        ],
    }


def _latencies(streams: Sequence[Stream]) -> NDArray[np.float64]:
    """Rows of (end of the word, its latency), in order of the former."""
    rows = [(d.word.end_s, d.latency_s) for s in streams for d in s.delays if d.latency_s is not None]
    array = np.array(rows, dtype=float).reshape(-1, 2)
    return array[np.lexsort((array[:, 1], array[:, 0]))]


def _groups(name: str, words: NDArray[np.float64], step_s: float) -> list[dict[str, Any]]:
    groups = []
    for index in range(POSITION_GROUPS):
        # The last group includes its upper end, where the last word is.
        above = words[:, 0] < (index + 1) * step_s if index < POSITION_GROUPS - 1 else True
        inside = words[(words[:, 0] >= index * step_s) & above, 1]
        if inside.size >= FEWEST_IN_GROUP:
            quartiles = {f"p{round(100 * p)}_s": _short(nearest_rank(inside, p)) for p in (0.25, 0.5, 0.75)}
            groups.append({"engine": name, "at_s": _short((index + 0.5) * step_s), "n": int(inside.size), **quartiles})
    return groups


def _timelines(
    utterances: Mapping[str, Utterance], streams: Mapping[str, Sequence[Stream]], pieces: Mapping[str, Sequence[Piece]]
) -> list[dict[str, Any]]:
    """One timeline per utterance: of each engine the first round that completed, or else how it failed."""
    first: dict[str, dict[str, Stream]] = {name: {} for name in streams}
    for name, own in streams.items():
        for stream in own:
            first[name].setdefault(stream.utterance.id, stream)
    failed = {
        name: {str(piece.key[3]): piece for piece in own if piece.key[0] == "stream" and piece.status != "ok"}
        for name, own in pieces.items()
    }
    columns = ENVELOPE_COLUMNS if len(utterances) <= MANY_UTTERANCES else ENVELOPE_COLUMNS_MANY
    read_s = 0.0
    timelines = []
    for key, utterance in sorted(utterances.items()):
        lanes = [_lane(name, first[name].get(key), failed[name].get(key)) for name in streams]
        audio_s = max((lane["audio_s"] for lane in lanes), default=0.0)
        read_s += audio_s
        envelope, note = _envelope(utterance, columns) if read_s <= ENVELOPE_LIMIT_S else (None, _TOO_MUCH)
        words = [[word.text, _short(word.start_s), _short(word.end_s)] for word in utterance.words]
        timelines.append(
            {
                "id": key,
                "text": utterance.text or "",
                "audio_s": audio_s,
                "words": words,
                "envelope": envelope,
                "envelope_note": note,
                "lanes": lanes,
            }
        )
    return timelines


def _lane(name: str, stream: Stream | None, failed: Piece | None) -> dict[str, Any]:
    """One engine on a timeline; times in whole tenths of a millisecond, finer than a pixel at any zoom."""
    if stream is None:
        message = "" if failed is None else f"{failed.status}: {failed.message}"
        return {"engine": name, "audio_s": 0.0, "failure": message or "not measured", "chunks": [], "texts": []}
    chunks = stream.trace.chunks
    texts: list[list[Any]] = []
    for chunk in chunks:
        for text in chunk.hypotheses:
            if text != (texts[-1][1] if texts else ""):
                texts.append([round(chunk.done_s, 4), text])
    return {
        "engine": name,
        "round": stream.round,
        "audio_s": round(stream.trace.audio_s, 4),
        "failure": "",
        "chunks": [[round(c.due_s, 4), round(c.queue_s, 4), round(c.service_s, 4)] for c in chunks],
        "texts": texts,
    }


def _envelope(utterance: Utterance, columns: int) -> tuple[list[int] | None, str]:
    """The waveform of the audio: the peak of each column in 64 levels, or why there is none."""
    try:
        audio = load(Path(utterance.path), ENVELOPE_RATE_HZ, utterance.start_s, utterance.end_s)
    except (StopwavError, OSError, ValueError) as error:
        return None, f"no waveform: {error}"
    size = max(1, math.ceil(len(audio.samples) / columns))
    padded = np.pad(np.abs(audio.samples), (0, -len(audio.samples) % size))
    peaks = padded.reshape(-1, size).max(axis=1)
    loudest = float(peaks.max()) or 1.0
    return [int(level) for level in np.rint(peaks / loudest * (ENVELOPE_LEVELS - 1))], ""


def _short(value: float) -> float:
    """Four digits: more than a pixel shows."""
    return float(f"{value:.4g}")
