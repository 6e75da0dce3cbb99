"""What a comparison found: a result per engine, one per engine and length, and the law of each engine's latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stopwav.errors import Caution, Status
from stopwav.record import UNTRAINED, Record, Result
from stopwav.stats import Estimate, cluster_mean, cluster_percentiles, cluster_ratio, summarise_rounds
from stopwav.stats.estimate import inverse, scaled
from stopwav.studies.compare.counter_check import disagreements
from stopwav.studies.compare.energy import Energy, energy_metrics, energy_of, lost_nets, whole_energy
from stopwav.studies.compare.engine_runner import FRAME_S, NOT_TORCH
from stopwav.studies.compare.operations import FLOPS_PER_MULTIPLY_ADD
from stopwav.studies.compare.pieces import Entrant, Sample, entrants, not_loaded
from stopwav.studies.compare.run import CompareSpec
from stopwav.studies.compare.warnings import run_cautions
from stopwav.studies.corpus_header import engine_names
from stopwav.studies.growth import Axis, coefficients, held_out

NOT_TOLD = "not told: neither a torch model nor a count by the engine"
_NO_TOKENS = "the engine does not say"


@dataclass(frozen=True)
class _Run:
    """What all results of a run are computed from."""

    spec: CompareSpec
    sides: list[Entrant]
    energy: Energy | None
    cautions: tuple[Caution, ...]


def compare_results(record: Record) -> list[Result]:
    """One result per engine, then one per engine and length, then one per engine whose latency follows a law."""
    spec = CompareSpec(**record.header.spec)
    sides = entrants(record, engine_names(spec.engines))
    energy = energy_of(record, sides)
    run = _Run(spec, sides, energy, tuple(run_cautions(record, sides, energy)))
    lengths = [_length_result(run, side, frames) for side in sides for frames in spec.frames]
    return [*(_engine_result(run, side) for side in sides), *lengths, *_laws(sides)]


def _engine_result(run: _Run, side: Entrant) -> Result:
    lost = [piece for piece in side.failed if piece.key[0] in ("sample", "model")]
    status: Status = "ok" if side.samples else lost[0].status if lost else "skipped"
    params: dict[str, Any] = {
        "kind": "engine",
        "engine": dict(side.info),
        "corpus": run.spec.corpus,
        "samples": len(side.samples),
        "utterances": len({sample.utterance.id for sample in side.samples}),
        "audio_s": sum(sample.audio_s for sample in side.samples),
        "rounds": run.spec.rounds,
        "modules": list((side.parameters or {}).get("modules", [])),
        "shared": list((side.parameters or {}).get("shared", [])),
    }
    metrics = _parameter_metrics(side)
    if side.samples:
        metrics |= _sample_metrics(side, run.spec.seed)
    if run.energy is not None and side.info:
        metrics |= whole_energy(run.energy, side)
    too_small = () if run.energy is None else lost_nets(run.energy, side)
    cautions = (*_lost_samples(side), *_own_cautions(side), *too_small, *run.cautions)
    return Result(side.name, params, status, metrics if side.info else {}, cautions)


def _parameter_metrics(side: Entrant) -> dict[str, Estimate]:
    counted = side.parameters
    if counted is None:
        told = side.info.get("parameters")
        none = {"trainable_parameters": "", "parameter_bytes": "B"}
        return {
            "parameters": _count(told, note="as the engine says") if told else Estimate(None, note=NOT_TOLD),
            **{name: Estimate(None, unit=unit, note=NOT_TOLD) for name, unit in none.items()},
        }
    shared = "; ".join(f"counted once: {' = '.join(one['names'])}" for one in counted["shared"])
    frozen = "" if counted["trainable"] else "the engine keeps its weights fixed"
    return {
        "parameters": _count(counted["parameters"], note=shared),
        "trainable_parameters": _count(counted["trainable"], note=frozen),
        "parameter_bytes": _count(counted["bytes"], "B"),
    }


def _sample_metrics(side: Entrant, seed: int) -> dict[str, Estimate]:
    samples = side.samples
    ids, rounds = [sample.utterance.id for sample in samples], [sample.round for sample in samples]
    seconds, audio = [sample.seconds for sample in samples], [sample.audio_s for sample in samples]
    percentiles = cluster_percentiles(seconds, ids, (0.5, 0.95), rounds=rounds, seed=seed)
    return {
        "latency_mean": cluster_mean(seconds, ids, rounds, seed),
        "latency_p50": percentiles[0.5],
        "latency_p95": percentiles[0.95],
        "rtf": cluster_ratio(seconds, audio, ids, rounds, seed),
        "rtfx": cluster_ratio(audio, seconds, ids, rounds, seed),
        "wer": _wer(side, seed),
        "emitted_tokens": _emitted(samples, seed),
        "load_time": summarise_rounds([[piece.data["load_s"]] for piece in side.loads]),
    }


def _wer(side: Entrant, seed: int) -> Estimate:
    if side.untrained:
        return Estimate(None, note=UNTRAINED)
    errors, words = [s.errors.errors for s in side.samples], [s.errors.words for s in side.samples]
    return cluster_ratio(errors, words, [s.utterance.id for s in side.samples], [s.round for s in side.samples], seed)


def _emitted(samples: Sequence[Sample], seed: int) -> Estimate:
    told = [sample for sample in samples if sample.emitted is not None]
    if not told:
        return Estimate(None, note=_NO_TOKENS)
    emitted = [float(sample.emitted or 0) for sample in told]
    return cluster_mean(emitted, [s.utterance.id for s in told], [s.round for s in told], seed, unit="")


def _length_result(run: _Run, side: Entrant, frames: int) -> Result:
    measured = side.lengths.get(frames)
    params: dict[str, Any] = {"kind": "length", "of": side.name, "frames": frames, "audio_s": frames * FRAME_S}
    name = f"{side.name} {frames} frames"
    if measured is None:
        if (piece := not_loaded(side.failed, side.name)) is not None:
            return Result(name, params, piece.status, {})
        return Result(name, params, "skipped", {}, (Caution("incomplete", "not measured yet"),))
    operations = side.operations.get(frames)
    params["modules"] = {} if operations is None else dict(operations.data.get("modules", {}))
    if not measured.good:
        first = measured.rounds[0]
        words = f"; its last words: {first.last_words}" if first.last_words else ""
        return Result(name, params, measured.status, {}, (Caution(f"cell-{first.status}", first.message + words),))
    latency = measured.time
    rtf = scaled(latency, 1 / (frames * FRAME_S))
    count = _multiply_adds(side, frames)
    metrics = {"latency": latency, **_device_latency(side, frames), "rtf": rtf, "rtfx": inverse(rtf)}
    emitted = side.emitted.get(frames)
    metrics["emitted_tokens"] = Estimate(None, note=_NO_TOKENS) if emitted is None else _count(emitted)
    metrics["multiply_adds"] = count
    metrics["operations_per_s"] = _rate(count, latency)
    metered = side.energy.get(frames, [])
    if run.energy is not None:
        metrics |= energy_metrics(run.energy, metered, frames)
        params["meters"] = [{"source": one.source, "tick_s": one.tick_s} for one in metered[:1]]
    return Result(name, params, "ok", metrics, (*measured.cautions, *disagreements(metered)))


def _device_latency(side: Entrant, frames: int) -> dict[str, Estimate]:
    """What the device took by its own events, where there is one."""
    values = [one.samples.device_values_s for one in side.lengths[frames].good if one.samples]
    return {"device_latency": summarise_rounds(values)} if all(values) else {}


def _multiply_adds(side: Entrant, frames: int) -> Estimate:
    piece = side.operations.get(frames)
    if piece is None or piece.status != "ok":
        return Estimate(None, note=f"not counted: {'not yet' if piece is None else piece.message}")
    if piece.data["multiply_adds"] is None:
        return Estimate(None, note=f"not counted: {piece.data.get('reason', NOT_TORCH)}")
    return _count(piece.data["multiply_adds"])


def _rate(count: Estimate, latency: Estimate) -> Estimate:
    if count.value is None:
        return Estimate(None, unit="op/s", note=count.note)
    return scaled(inverse(latency), FLOPS_PER_MULTIPLY_ADD * count.value, "op/s")


def _count(value: int, unit: str = "", note: str = "") -> Estimate:
    """A number that is counted, and so certain: its interval is itself."""
    return Estimate(value, value, value, 1, unit, note)


def _laws(sides: Sequence[Entrant]) -> Iterator[Result]:
    """How the latency of each engine grows with its input."""
    from stopwav.stats import fit_growth

    for side in sides:
        points = [(frames * FRAME_S, one.time.value) for frames, one in side.lengths.items() if one.time.value]
        if len(points) < 2:
            continue
        axis = Axis("length", 1.0, tuple(x for x, _ in points), tuple(float(y) for _, y in points))
        law = fit_growth(axis.x, axis.time_s)
        params: dict[str, Any] = {
            "kind": "law",
            "of": side.name,
            "axis": "length",
            "law": "quadratic" if law.is_quadratic else "linear",
            "cells": [[x, y] for x, y in points],
        }
        yield Result(f"{side.name}, latency over length", params, "ok", {**coefficients(law, axis), **held_out(axis)})


def _lost_samples(side: Entrant) -> Iterator[Caution]:
    """One caution per reason for which inputs were lost, and one where the engine could not be looked at."""
    lost = sorted((piece for piece in side.failed if piece.key[0] == "sample"), key=lambda piece: piece.message)
    for message, group in groupby(lost, key=lambda piece: piece.message):
        pieces = list(group)
        ids = list(dict.fromkeys(str(piece.data["id"]) for piece in pieces))
        which = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        yield Caution(f"sample-{pieces[0].status}", f"{which}: {message}")
    for piece in side.failed:
        if piece.key[0] in ("model", "energy"):
            yield Caution(f"{piece.key[0]}-{piece.status}", piece.message)


def _own_cautions(side: Entrant) -> Iterator[Caution]:
    notes = [Caution("engine", note) for note in side.info.get("notes", ())]
    found = [Caution(*caution) for piece in side.loads for caution in piece.data["cautions"]]
    yield from dict.fromkeys([*notes, *found])
