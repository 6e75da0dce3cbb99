"""The results of a comparison: one per engine, one per engine and length, and a scaling fit per engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stopwav.errors import Caution, Status
from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Record, Result
from stopwav.speech.normaliser import stored_normaliser
from stopwav.stats import (
    FEWEST_POINTS,
    Estimate,
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    fit_growth,
    summarise_rounds,
)
from stopwav.stats.estimate import inverse, scaled
from stopwav.studies.compare.energy import (
    disagreement_warnings,
    energy_metrics,
    overall_energy,
    small_net_warnings,
)
from stopwav.studies.compare.engine_runner import FRAME_S, NOT_TORCH, device_of
from stopwav.studies.compare.network_size import FLOPS_PER_MULTIPLY_ADD
from stopwav.studies.compare.pieces import EngineData, load_failure
from stopwav.studies.compare.run_data import RunData, implausible_lengths, read_run, rounds_of
from stopwav.studies.compare.samples import Sample, inputs_of
from stopwav.studies.corpus_header import failed_utterances, header_warnings, language_warnings
from stopwav.studies.definition import ERROR_RATES
from stopwav.studies.engine_names import engine_settings
from stopwav.studies.error_rates import error_rates
from stopwav.studies.growth import Axis, coefficients, held_out
from stopwav.studies.recognised_text import Attempt, RecognisedText, recognised_texts
from stopwav.studies.stored_rounds import failure_message
from stopwav.studies.study import StudyRun

_NO_PARAMETERS = "unknown: the engine reports no parameter count"
_NO_TOKENS = "the engine does not report them"


def compare_results(record: Record) -> list[Result]:
    """Return a result per engine, then one per engine and length, then a scaling fit per engine with enough lengths."""
    data = read_run(record)
    warnings = tuple(_run_warnings(record, data))
    return [
        *(_engine_result(data, engine, (*_of_language(record, engine), *warnings)) for engine in data.engines),
        *(_length_result(data, engine, frames) for engine in data.engines for frames in data.spec.frames),
        *_fits(data.engines),
    ]


def compare_texts(run: StudyRun) -> list[RecognisedText]:
    """Return the text of every sample."""
    data: RunData = run.view["data"]
    references = {utterance.id: utterance.text for utterance in inputs_of(run.record)}
    normaliser = stored_normaliser(run.record.header.normaliser)
    texts = []
    for engine in data.engines:
        failed = (piece for piece in engine.failed if piece.key[0] == "sample")
        attempts = [
            *(
                Attempt(sample.utterance.id, sample.utterance.text, sample.text, "", sample.errors, sample.characters)
                for sample in engine.samples
            ),
            *(Attempt(p.data["id"], references[p.data["id"]], None, f"{p.status}: {p.message}") for p in failed),
        ]
        texts += recognised_texts(engine.name, attempts, normaliser, untrained=engine.untrained)
    return texts


def _engine_result(data: RunData, engine: EngineData, warnings: Sequence[Caution]) -> Result:
    failed = [piece for piece in engine.failed if piece.key[0] in ("sample", "model")]
    status: Status = "ok" if engine.samples else failed[0].status if failed else "skipped"
    params: dict[str, Any] = {
        "kind": "engine",
        "engine": dict(engine.info),
        "setting": engine_settings({"engines": data.spec.engines})[engine.name],
        "corpus": data.spec.corpus,
        "samples": len(engine.samples),
        "utterances": len({sample.utterance.id for sample in engine.samples}),
        "transcripts": len({sample.utterance.id for sample in engine.samples if sample.errors is not None}),
        "audio_s": sum(sample.audio_s for sample in engine.samples),
        "rounds": len(rounds_of(engine)),
        "modules": list((engine.parameters or {}).get("modules", [])),
        "shared": list((engine.parameters or {}).get("shared", [])),
    }
    metrics = _parameter_metrics(engine)
    if engine.samples:
        metrics |= _sample_metrics(engine, data.spec.seed)
    if data.energy is not None and engine.info:
        metrics |= overall_energy(data.energy, engine)
    small_nets = () if data.energy is None else small_net_warnings(data.energy, engine)
    own = (*_failure_warnings(engine), *_engine_warnings(engine), *small_nets)
    return Result(engine.name, params, status, metrics if engine.info else {}, (*own, *warnings))


def _parameter_metrics(engine: EngineData) -> dict[str, Estimate]:
    counted = engine.parameters
    if counted is None:
        reported = engine.info.get("parameters")
        missing = Estimate(None, note=_NO_PARAMETERS)
        return {
            "parameters": _count(reported, note="as the engine reports") if reported else missing,
            "trainable_parameters": missing,
            "parameter_bytes": Estimate(None, unit="B", note=_NO_PARAMETERS),
        }
    shared = "; ".join(f"counted once: {' = '.join(tensor['names'])}" for tensor in counted["shared"])
    frozen = "" if counted["trainable"] else "the engine keeps its weights fixed"
    return {
        "parameters": _count(counted["parameters"], note=shared),
        "trainable_parameters": _count(counted["trainable"], note=frozen),
        "parameter_bytes": _count(counted["bytes"], "B"),
    }


def _sample_metrics(engine: EngineData, seed: int) -> dict[str, Estimate]:
    samples = engine.samples
    ids, rounds = [sample.utterance.id for sample in samples], [sample.round for sample in samples]
    seconds, audio = [sample.seconds for sample in samples], [sample.audio_s for sample in samples]
    percentiles = cluster_percentiles(seconds, ids, (0.5, 0.95), rounds=rounds, seed=seed)
    rtf = cluster_ratio(seconds, audio, ids, rounds, seed, positive=True)
    return {
        "latency_mean": cluster_mean(seconds, ids, rounds, seed, positive=True),
        "latency_p50": percentiles[0.5],
        "latency_p95": percentiles[0.95],
        "rtf": rtf,
        "rtfx": inverse(rtf),
        **_error_rates(engine, seed),
        "emitted_tokens": _emitted_tokens(samples, seed),
        "load_time": summarise_rounds([[piece.data["load_s"]] for piece in engine.loads]),
    }


def _error_rates(engine: EngineData, seed: int) -> dict[str, Estimate]:
    """Word and character error rate, of the samples that have a transcript."""
    if engine.untrained:
        return dict.fromkeys(ERROR_RATES, Estimate(None, note=UNTRAINED, code=UNTRAINED))
    counted = [(s, s.errors, s.characters) for s in engine.samples if s.errors is not None and s.characters is not None]
    if not counted:
        return dict.fromkeys(ERROR_RATES, Estimate(None, note=WITHOUT_TRANSCRIPT, code=NO_TRANSCRIPT))
    labels = [s.utterance.id for s, _, _ in counted], [s.round for s, _, _ in counted]
    return error_rates(
        [words for _, words, _ in counted],
        [characters for _, _, characters in counted],
        lambda wrong, total: cluster_ratio(wrong, total, *labels, seed),
        by_character=engine.by_character,
    )


def _emitted_tokens(samples: Sequence[Sample], seed: int) -> Estimate:
    counted = [sample for sample in samples if sample.emitted_tokens is not None]
    if not counted:
        return Estimate(None, note=_NO_TOKENS)
    tokens = [float(sample.emitted_tokens or 0) for sample in counted]
    ids, rounds = [sample.utterance.id for sample in counted], [sample.round for sample in counted]
    return cluster_mean(tokens, ids, rounds, seed, unit="", positive=True)


def _length_result(data: RunData, engine: EngineData, frames: int) -> Result:
    measured = engine.lengths.get(frames)
    params: dict[str, Any] = {"kind": "length", "of": engine.name, "frames": frames, "audio_s": frames * FRAME_S}
    name = f"{engine.name} {frames} frames"
    if measured is None:
        if (piece := load_failure(engine.failed, engine.name)) is not None:
            return Result(name, params, piece.status, kind="length")
        return Result(name, params, "skipped", {}, (Caution("incomplete", "not measured yet"),), "length")
    operations = engine.operations.get(frames)
    params["modules"] = {} if operations is None else dict(operations.data.get("modules", {}))
    if not measured.good:
        first = measured.rounds[0]
        warning = Caution(f"cell-{first.status}", failure_message(first))
        return Result(name, params, measured.status, {}, (warning,), "length")
    metrics = _length_metrics(engine, frames)
    energy_runs = engine.energy.get(frames, [])
    if data.energy is not None:
        metrics |= energy_metrics(data.energy, energy_runs, frames)
        params["meters"] = [{"source": run.source, "tick_s": run.tick_s} for run in energy_runs[:1]]
    warnings = (*measured.cautions, *_implausible(engine, frames), *disagreement_warnings(energy_runs))
    return Result(name, params, "ok", metrics, warnings, "length")


def _implausible(engine: EngineData, frames: int) -> Iterator[Caution]:
    if frames in implausible_lengths(engine):
        rounds = len(engine.lengths[frames].good)
        yield Caution(
            "implausible",
            f"its latency does not fit to that at the other lengths, in {rounds} round{'' if rounds == 1 else 's'}: "
            "something else ran meanwhile, or the engine stopped early; measure it again",
        )


def _length_metrics(engine: EngineData, frames: int) -> dict[str, Estimate]:
    latency = engine.lengths[frames].time
    rtf = scaled(latency, 1 / (frames * FRAME_S))
    tokens = engine.emitted_tokens.get(frames)
    multiply_adds = _multiply_adds(engine, frames)
    return {
        "latency": latency,
        **_device_latency(engine, frames),
        "rtf": rtf,
        "rtfx": inverse(rtf),
        "emitted_tokens": Estimate(None, note=_NO_TOKENS) if tokens is None else _count(tokens),
        "multiply_adds": multiply_adds,
        "operations_per_s": _operation_rate(multiply_adds, latency),
    }


def _device_latency(engine: EngineData, frames: int) -> dict[str, Estimate]:
    """The latency by the device's own events, where there is one."""
    values = [round_.samples.device_values_s for round_ in engine.lengths[frames].good if round_.samples]
    return {"device_latency": summarise_rounds(values)} if all(values) else {}


def _multiply_adds(engine: EngineData, frames: int) -> Estimate:
    piece = engine.operations.get(frames)
    if piece is None or piece.status != "ok":
        return Estimate(None, note=f"not counted: {'not yet' if piece is None else piece.message}")
    if piece.data["multiply_adds"] is None:
        return Estimate(None, note=f"not counted: {piece.data.get('reason', NOT_TORCH)}")
    return _count(piece.data["multiply_adds"])


def _operation_rate(multiply_adds: Estimate, latency: Estimate) -> Estimate:
    if multiply_adds.value is None:
        return Estimate(None, unit="op/s", note=multiply_adds.note)
    return scaled(inverse(latency), FLOPS_PER_MULTIPLY_ADD * multiply_adds.value, "op/s")


def _count(value: int, unit: str = "", note: str = "") -> Estimate:
    """A number that is counted, and so exact: its interval is the number itself."""
    return Estimate(value, value, value, 1, unit, note)


def _fits(engines: Sequence[EngineData]) -> Iterator[Result]:
    """The scaling fit of each engine: how its latency grows with the length of the input."""
    for engine in engines:
        times = {frames: measured.time.value for frames, measured in engine.lengths.items()}
        points = [(frames * FRAME_S, float(time_s)) for frames, time_s in times.items() if time_s]
        if len(points) < FEWEST_POINTS:
            continue
        axis = Axis("length", 1.0, tuple(length_s for length_s, _ in points), tuple(time_s for _, time_s in points))
        fit = fit_growth(axis.x, axis.time_s)
        params: dict[str, Any] = {
            "kind": "law",
            "of": engine.name,
            "axis": "length",
            "law": "quadratic" if fit.is_quadratic else "linear",
            "cells": [list(point) for point in points],
        }
        metrics = {**coefficients(fit, axis), **held_out(axis)}
        yield Result(f"{engine.name}, latency over length", params, "ok", metrics, kind="fit")


def _failure_warnings(engine: EngineData) -> Iterator[Caution]:
    """One warning per reason for which inputs failed, and one for each failed description or energy measurement."""
    samples = (piece for piece in engine.failed if piece.key[0] == "sample")
    yield from failed_utterances("sample", ((str(piece.data["id"]), piece) for piece in samples))
    for piece in engine.failed:
        if piece.key[0] in ("model", "energy"):
            yield Caution(f"{piece.key[0]}-{piece.status}", piece.message)


def _engine_warnings(engine: EngineData) -> Iterator[Caution]:
    notes = [Caution("engine", note) for note in engine.info.get("notes", ())]
    of_loads = [Caution(*caution) for piece in engine.loads for caution in piece.data["cautions"]]
    yield from dict.fromkeys([*notes, *of_loads])


def _of_language(record: Record, engine: EngineData) -> Iterator[Caution]:
    return language_warnings(record.header, engine.name, [str(engine.info.get("language", ""))])


def _run_warnings(record: Record, data: RunData) -> Iterator[Caution]:
    """The warnings about the run as a whole: the machine, the corpus, and engines that are hard to compare."""
    yield from header_warnings(record.header)
    for problem in record.header.corpus["problems"]:
        yield Caution("corpus", f"{problem['where']}: {problem['message']}")
    inputs, different = len(record.header.corpus["inputs"]), len(record.header.corpus["utterances"])
    if inputs > different:
        of = "1 utterance" if different == 1 else f"{different} different utterances"
        yield Caution(
            "samples-repeat",
            f"{inputs} samples of {of}: each is used {inputs // different} times or more, and intervals rest on the "
            "utterances",
        )
    yield from _difference_warnings(record, data.engines)
    if data.energy is not None and data.energy.log_fault:
        yield Caution("meter-log", data.energy.log_fault)
    if not record.complete:
        yield Caution("incomplete", "the run stopped early; continue with --resume")


def _difference_warnings(record: Record, engines: Sequence[EngineData]) -> Iterator[Caution]:
    languages = {engine.name: engine.info["language"] for engine in engines if engine.info.get("language")}
    if len(set(languages.values())) > 1:
        listed = ", ".join(f"{name} {language}" for name, language in languages.items())
        yield Caution(
            "languages", f"the engines recognise different languages ({listed}): their word errors differ by it"
        )
    for engine, specified in zip(engines, record.header.spec["engines"], strict=True):
        device = device_of(specified)
        if engine.info and str(engine.info["device"]).split(":")[0] != device.split(":")[0]:
            yield Caution(
                "device",
                f"{engine.name} runs on {engine.info['device']} but was timed as on {device}: name it as device=…",
            )
