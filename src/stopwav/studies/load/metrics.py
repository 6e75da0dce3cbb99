"""The metrics of one level: pooled over the sessions of all its rounds, with intervals over sessions."""

from __future__ import annotations

import math

import numpy as np

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT
from stopwav.speech.events import Floats
from stopwav.stats import (
    Estimate,
    binomial_share,
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    cluster_ratios,
    inverse,
    nearest_rank,
    t_quantile,
)
from stopwav.studies.error_rates import error_rates
from stopwav.studies.load.definitions import DEFINITIONS
from stopwav.studies.load.judgement import session_latencies, values_of
from stopwav.studies.load.level_table import LevelRound, LevelTable, invalid_reason
from stopwav.studies.load.objective import EVENTS

PERCENTILES = (0.50, 0.90, 0.95, 0.99)
INVALID = "invalid"
# A slope of memory through fewer looks at the server says nothing.
FEWEST_LOOKS = 10
# Python and the C library take memory from the system in pieces of up to a megabyte, and touch it page by page: growth
# by less than one of them over a whole level shows how full the last one is, and no leak.
ARENA_BYTES = 2**20


def level_metrics(level: LevelTable, seed: int, untrained: bool) -> dict[str, Estimate]:
    """Return the metrics of a level; times that our own client spoiled are not given."""
    metrics = {**_times(level, seed), **_waits(level, seed), **_texts(level, seed), **_sessions(level)}
    metrics |= _line(level, seed) if level.is_virtual else {**_client(level, seed), **_server(level)}
    reason = invalid_reason(level)
    own = ("sessions", "failed", "unfinished", "served", "send_lateness", "client_cores", "network")
    return {name: _allowed(name, estimate, reason, own, untrained, level) for name, estimate in metrics.items()}


def _allowed(
    name: str, estimate: Estimate, invalid: str, own: tuple[str, ...], untrained: bool, level: LevelTable
) -> Estimate:
    """The estimate, or in its place the reason why it is not given."""
    definition = DEFINITIONS.find(name)
    if invalid and not name.startswith(own) and (definition is None or definition.rests_on_speed):
        return Estimate(None, unit=estimate.unit, note=f"invalid: {invalid}", code=INVALID)
    if definition is not None and definition.rests_on_text and untrained:
        return Estimate(None, unit=estimate.unit, note=UNTRAINED, code=UNTRAINED)
    untold = len(level.table) and not level.table.transcribed.any()
    if definition is not None and definition.needs_transcript and untold:
        return Estimate(None, unit=estimate.unit, note=WITHOUT_TRANSCRIPT, code=NO_TRANSCRIPT)
    return estimate


def _times(level: LevelTable, seed: int) -> dict[str, Estimate]:
    metrics: dict[str, Estimate] = {}
    for family in (*EVENTS, "final_latency_from_end"):
        values, sessions = values_of(family, level)
        if family == "endpoint_latency" and not values.size:
            continue
        by_p = cluster_percentiles(values, sessions, PERCENTILES, seed=seed)
        metrics |= {f"{family}_p{round(100 * p)}": estimate for p, estimate in by_p.items()}
    return metrics


def _waits(level: LevelTable, seed: int) -> dict[str, Estimate]:
    """Mean word latency and its parts, those that are nothing left out."""
    words = level.table.words
    shown, streams = words.shown, words.stream[words.shown]
    metrics = {"word_latency_mean": cluster_mean(words.latency_s[shown], streams, seed=seed)}
    counts = words.count(shown)
    sessions = np.flatnonzero(counts)
    sums = {part: own for part, own in words.parts.items() if own.shown.any()}
    tops, least = [own.shown[sessions] for own in sums.values()], [own.least for own in sums.values()]
    n = int(counts.sum())
    means = cluster_ratios(tops, counts[sessions], sessions, seed=seed, unit="s", n=n, least=least)
    return metrics | {f"waterfall_{part}": mean for part, mean in zip(sums, means, strict=True)}


def _texts(level: LevelTable, seed: int) -> dict[str, Estimate]:
    over = level.completed > 0
    final = np.array([text.final_words for text in level.table.texts], dtype=float)
    unstable = np.array([text.unstable_words for text in level.table.texts], dtype=float)
    texts = [text for text, completed in zip(level.table.texts, over, strict=True) if completed]
    metrics = error_rates(
        [text.errors for text in texts if text.errors is not None],
        [text.characters for text in texts if text.characters is not None],
        lambda wrong, total: cluster_ratio(wrong, total, np.arange(wrong.size), seed=seed),
        by_character=level.table.utterances.normaliser.by_character,
    )
    metrics["upwr"] = cluster_ratio(unstable[over], final[over], np.flatnonzero(over), seed=seed)
    return metrics


def _sessions(level: LevelTable) -> dict[str, Estimate]:
    count = level.sessions
    audio_s = level.table.audio_s[level.completed > 0].sum()
    steady_s = sum(round_.steady_s for round_ in level.rounds)
    return {
        "sessions": Estimate(float(count), n=count, note="counted"),
        "failed": binomial_share(len(level.failures), count),
        "unfinished": binomial_share(level.unfinished, count),
        "served": Estimate(
            float(audio_s) / steady_s if steady_s else None, n=count, unit="", note="a count, without interval"
        ),
        "latency_slope": _latency_slope(level),
    }


def _latency_slope(level: LevelTable) -> Estimate:
    """How the wait for the final text changes in the course of a level, each round about its own mean."""
    values_s = session_latencies(level)
    known = np.isfinite(values_s)
    if known.sum() < 8:
        return Estimate(None, unit="s/s", note="needs 8 completed sessions")
    begins_s, values_s, rounds = level.begin_s[known].copy(), values_s[known].copy(), level.round[known]
    for index in set(rounds.tolist()):
        begins_s[rounds == index] -= begins_s[rounds == index].mean()
        values_s[rounds == index] -= values_s[rounds == index].mean()
    return slope(begins_s, values_s, "s/s")


def slope(x: Floats, y: Floats, unit: str) -> Estimate:
    """Return the slope of a line through points, with its interval by Student's t."""
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    if x.size < 3 or not spread:
        return Estimate(None, unit=unit, note="needs three moments")
    value = float(x @ y) / spread
    residuals = y - value * x
    half = t_quantile(0.975, x.size - 2) * float(np.sqrt(residuals @ residuals / (x.size - 2) / spread))
    return Estimate(value, value - half, value + half, n=x.size, unit=unit)


def _client(level: LevelTable, seed: int) -> dict[str, Estimate]:
    late_s, network_s = level.lateness_s, level.table.network_s
    by_p = {
        p: Estimate(float(nearest_rank(late_s, p)), n=late_s.size, unit="s")
        if late_s.size
        else Estimate(None, unit="s")
        for p in PERCENTILES
    }
    metrics = {f"send_lateness_p{round(100 * p)}": estimate for p, estimate in by_p.items()}
    metrics["send_lateness_most"] = Estimate(float(late_s.max()) if late_s.size else None, n=late_s.size, unit="s")
    shares = [share for round_ in level.rounds for share in round_.processors]
    metrics["client_cores"] = Estimate(max(shares, default=None), n=len(shares))
    if network_s is not None and np.isfinite(network_s).any():
        known = np.flatnonzero(np.isfinite(network_s))
        metrics["network"] = cluster_mean(network_s[known], known, seed=seed)
    return metrics


def _server(level: LevelTable) -> dict[str, Estimate]:
    """What the server used, of rounds in which its processes could be seen."""
    rounds = [(round_, steady_looks(round_)) for round_ in level.rounds]
    rounds = [(round_, looks) for round_, looks in rounds if len(looks) >= 2]
    if not rounds:
        note = "its processes are not visible from here; --pid names one of this machine"
        return {
            name: Estimate(None, unit=unit, note=note) for name, unit in (("server_cores", ""), ("server_bytes", "B"))
        }
    used_s = sum(float(looks[-1, 1] - looks[0, 1]) for _, looks in rounds)
    seen_s = sum(float(looks[-1, 0] - looks[0, 0]) for _, looks in rounds)
    cores = used_s / seen_s
    audio_s = float(level.table.audio_s[level.completed > 0].sum())
    steady_s = sum(round_.steady_s for round_ in level.rounds)
    count = sum(len(looks) for _, looks in rounds)
    metrics = {
        "server_cores": Estimate(cores, n=count),
        "server_bytes": Estimate(max(float(looks[:, 2].max()) for _, looks in rounds), n=count, unit="B"),
        "core_s_per_stream_hour": Estimate(cores * steady_s / audio_s * 3600 if audio_s else None, n=count),
        "memory_slope": _memory_slope(rounds[-1][1]),
    }
    metrics |= _energy(level)
    gpu = np.concatenate([looks[:, 3:] for _, looks in rounds])
    if np.isfinite(gpu[:, 0]).any():
        metrics["gpu_bytes"] = Estimate(float(np.nanmax(gpu[:, 0])), n=count, unit="B")
        metrics["gpu_share"] = Estimate(float(np.nanmean(gpu[:, 1])), n=count)
    return metrics


def _energy(level: LevelTable) -> dict[str, Estimate]:
    """Joules of the machine per hour of audio served, by part; gross, so that idling is included."""
    rounds = [round_ for round_ in level.rounds if round_.joules]
    steady_s = sum(round_.steady_s for round_ in level.rounds)
    audio_s = float(level.table.audio_s[level.completed > 0].sum())
    if not rounds or not audio_s:
        return {"energy_total": Estimate(None, unit="J", note=level.rounds[-1].energy_note)}
    window_s = sum(round_.window_s for round_ in rounds)
    metrics = {}
    for part in dict.fromkeys(part for round_ in rounds for part in round_.joules):
        watts = sum(round_.joules.get(part, 0.0) for round_ in rounds) / window_s
        metrics[f"energy_{part.replace(' ', '_')}"] = Estimate(
            watts * steady_s / audio_s * 3600, n=len(rounds), unit="J", note="gross, of the whole machine"
        )
    return metrics


def steady_looks(round_: LevelRound) -> Floats:
    """Return the looks at the server in the steady part, as rows."""
    rows = np.array([[np.nan if value is None else float(value) for value in look] for look in round_.looks]).reshape(
        -1, 5
    )
    end_s = round_.ramp_s + round_.steady_s
    return rows[(rows[:, 0] >= round_.ramp_s) & (rows[:, 0] <= end_s)]


def _memory_slope(looks: Floats) -> Estimate:
    """How memory grows, by what it grew from one block of looks to the next.

    Not by a line through the looks: memory keeps what it gained, so that looks are far from independent of each other,
    and a line would be sure of a slope where one large allocation was made.
    """
    if len(looks) < FEWEST_LOOKS:
        return Estimate(None, unit="B/s", note=f"needs {FEWEST_LOOKS} looks at the server; --soak takes them")
    blocks = np.array_split(looks, min(10, len(looks) // 2))
    times_s = np.array([block[:, 0].mean() for block in blocks])
    growths = np.diff(np.array([block[:, 2].mean() for block in blocks])) / np.diff(times_s)
    half = t_quantile(0.975, growths.size - 1) * float(growths.std(ddof=1)) / math.sqrt(growths.size)
    half += ARENA_BYTES / float(times_s[-1] - times_s[0])
    # The mean of what it grew, each block for the time that it stands for.
    value = float((growths * np.diff(times_s)).sum() / (times_s[-1] - times_s[0]))
    return Estimate(value, value - half, value + half, n=growths.size, unit="B/s")


def _line(level: LevelTable, seed: int) -> dict[str, Estimate]:
    """What one worker does in virtual time."""
    table = level.table
    sizes = table.chunks.audio_sizes
    sessions = np.arange(len(table))
    rtf = cluster_ratio(table.service_s, table.audio_s, sessions, seed=seed, positive=True)
    heard = sizes > 0
    lags = cluster_percentiles(table.chunks.lag_s(), sessions[heard], PERCENTILES, seed=seed, sizes=sizes[heard])
    return {"rtf": rtf, "rtfx": inverse(rtf)} | {f"chunk_lag_p{round(100 * p)}": lag for p, lag in lags.items()}
