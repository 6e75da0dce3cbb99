"""The results of a loss run: time, memory, correctness and rank of every loss, at every setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stopwav.errors import Caution
from stopwav.measure.rounds import Round
from stopwav.record import Piece, Record, Result
from stopwav.speech.batches import BY_LENGTH, COLUMNS
from stopwav.stats import Estimate
from stopwav.studies.corpus_header import header_warnings
from stopwav.studies.frontier import largest_estimate
from stopwav.studies.loss.batch_sets import BatchSet, batch_sets
from stopwav.studies.loss.check import TOLERANCES, is_right
from stopwav.studies.loss.largest_batch import largest_of
from stopwav.studies.loss.metrics import ranks, step_metrics
from stopwav.studies.loss.rounds import LossRounds, load_rounds
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.stored_rounds import failure_message
from stopwav.studies.traces import failed_trace_warning


def loss_results(record: Record) -> list[Result]:
    """Return one result per loss and setting, in the order in which they were named."""
    spec = LossSpec(**record.header.spec)
    checks = {name: _piece(record, ("check", name)) for name in spec.losses}
    exact = [name for name in spec.losses if _is_right(checks[name]) and not _is_pruned(checks[name])]
    results = []
    for batch_set in batch_sets(record.header):
        measured = {name: load_rounds(record, name, batch_set) for name in spec.losses}
        ranked = ranks({name: measured[name] for name in exact})
        for name in spec.losses:
            rank = ranked.get(name) or Estimate(None, note=_unranked_note(checks[name]))
            results.append(_result(record, spec, batch_set, name, measured[name], checks[name], rank))
    return results


def _result(
    record: Record,
    spec: LossSpec,
    batch_set: BatchSet,
    loss: str,
    rounds: LossRounds,
    check: Piece | None,
    rank: Estimate,
) -> Result:
    label = batch_set.setting.label
    several = len(record.header.corpus["settings"]) > 1
    name = f"{loss} ({label})" if several else loss
    params = _params(record, spec, batch_set, loss, check)
    absent = _piece(record, ("absent", loss))
    if absent is not None:
        reason = Caution(absent.data["code"], absent.message)
        return Result(name, params, "skipped", {}, (reason, *_run_warnings(record, spec, batch_set)), kind="loss")
    trace = _piece(record, ("trace", loss, label))
    warnings = (
        *_check_warnings(check),
        *_failure_warnings(rounds),
        *(() if trace is None or trace.status == "ok" else (failed_trace_warning(trace),)),
        *_run_warnings(record, spec, batch_set),
    )
    if not rounds.good:
        first = next((round_ for of_batch in rounds.rounds for round_ in of_batch), None)
        return Result(name, params, "skipped" if first is None else first.status, {}, warnings, kind="loss")
    metrics = {**step_metrics(rounds, batch_set), **_check_metrics(check), "rank": rank}
    if spec.largest_batch:
        frontier = largest_of(record, loss, batch_set.setting.vocab)
        metrics["largest_batch"] = largest_estimate(frontier, record.header.corpus["count"])
    return Result(name, params, "ok", metrics, warnings, kind="loss")


def _params(record: Record, spec: LossSpec, batch_set: BatchSet, loss: str, check: Piece | None) -> dict[str, object]:
    batches = batch_set.batches
    frames = [count for batch in batches for count in batch.frames]
    return {
        "loss": loss,
        "version": "" if check is None else check.data.get("version", ""),
        "batch_size": batch_set.setting.batch_size,
        "max_frames": spec.max_frames,
        "order": spec.order,
        "sort": spec.sort,
        "first": spec.first,
        "skip": spec.skip,
        "buckets": spec.buckets,
        "vocab": batch_set.setting.vocab,
        "dim": spec.dim,
        "dtype": spec.dtype,
        "device": spec.device,
        "rounds": spec.rounds,
        "shapes": record.header.corpus["name"],
        "utterances": sum(len(batch) for batch in batches),
        "batches": len(batches),
        "corpus_utterances": record.header.corpus["count"],
        "covered": list(batch_set.covered),
        "frames": [min(frames), max(frames)],
        "corpus_padding_efficiency": batch_set.corpus_padding_efficiency,
        "approximate": _is_pruned(check),
        "right": _is_right(check),
    }


def _piece(record: Record, key: tuple[str, ...]) -> Piece | None:
    return next((piece for piece in record.pieces if tuple(piece.key) == key), None)


def _is_right(check: Piece | None) -> bool:
    return check is not None and check.status == "ok" and is_right(check.data)


def _is_pruned(check: Piece | None) -> bool:
    return check is not None and check.data.get("gap") is not None


def _unranked_note(check: Piece | None) -> str:
    if check is None or check.status != "ok":
        return "not ranked: it was not checked"
    if not _is_right(check):
        return "not ranked: it is wrong"
    return "not ranked: it approximates what the others compute"


def _check_metrics(check: Piece | None) -> dict[str, Estimate]:
    if check is None or check.status != "ok":
        reason = "not checked yet" if check is None else f"the check ended with {check.status}: {check.message}"
        return {name: Estimate(None, note=reason) for name in ("value_deviation", "gradient_deviation")}
    errors: Mapping[str, float] = check.data["deviations"]
    gradients = {name: error for name, error in errors.items() if name != "value"}
    each = ", ".join(f"{name} {error:.1e}" for name, error in gradients.items())
    metrics = {
        "value_deviation": Estimate(errors["value"], n=1),
        "gradient_deviation": Estimate(max(gradients.values()), n=1, note=each),
        "deterministic": Estimate(float(check.data["deterministic"]), n=1, unit="bool"),
    }
    if check.data["gap"] is not None:
        note = "on random logits: those of a trained model leave less outside the range"
        metrics["pruning_gap"] = Estimate(check.data["gap"], n=1, note=note)
    return metrics


def _check_warnings(check: Piece | None) -> Iterator[Caution]:
    if check is None:
        return
    if check.status != "ok":
        message = f"the check against the oracle ended with {check.status}: {failure_message(check)}"
        yield Caution("loss-unchecked", message)
    elif not is_right(check.data):
        name, error = max(check.data["deviations"].items(), key=lambda pair: float(pair[1]))
        tolerance = TOLERANCES[check.data["precision"]]
        message = f"the relative error of its {name} is {error:.1e}; rounding explains up to {tolerance:g}"
        yield Caution("loss-wrong", f"{message}; it is timed all the same, and not ranked")


def _failure_warnings(rounds: LossRounds) -> Iterator[Caution]:
    """How the batches ended of which no round completed: a warning per status, with the first of its last words."""
    failed: dict[str, list[tuple[int, Round]]] = {}
    for number, of_batch in enumerate(rounds.rounds):
        if of_batch and not any(round_.status == "ok" for round_ in of_batch):
            failed.setdefault(of_batch[0].status, []).append((number, of_batch[0]))
    for status, failures in failed.items():
        number, first = failures[0]
        where = f"{len(failures)} of {len(rounds.rounds)} batches, first batch {number}"
        yield Caution(f"loss-{status}", f"{where}: {failure_message(first)}")


def _run_warnings(record: Record, spec: LossSpec, batch_set: BatchSet) -> Iterator[Caution]:
    """The warnings about every loss."""
    yield from header_warnings(record.header)
    if spec.order == COLUMNS:
        message = f"T and U were sorted separately: {batch_set.invented:.0%} of the pairs exist in no utterance"
        yield Caution("columns-independently", f"{message}; this reproduces an old mistake, use --order sorted")
    if spec.first is not None and spec.order in BY_LENGTH:
        low, high = batch_set.covered
        message = f"the first batches of a sorted corpus: only from {low:.1%} to {high:.1%} of its lengths"
        yield Caution("first-batches", f"{message}; --batches measures the whole range")
    if not record.complete:
        yield Caution("incomplete", "the run stopped early; continue with --resume")
