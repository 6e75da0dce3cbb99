"""The results of a loss run: time, memory, correctness and rank of every loss, at every setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stopwav.errors import Caution, Status
from stopwav.measure.float32_products import CHANGED
from stopwav.measure.rounds import Round
from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.speech.batches import BY_LENGTH, COLUMNS
from stopwav.stats import Estimate
from stopwav.studies.budget import verdict_rule
from stopwav.studies.corpus_header import first_names, header_warnings
from stopwav.studies.frontier import largest_estimate
from stopwav.studies.loss.batch_sets import BatchSet, batch_sets
from stopwav.studies.loss.check import (
    TOLERANCES,
    exact_losses,
    is_right,
    leaves_paths_out,
    matches_oracle,
    right_losses,
)
from stopwav.studies.loss.largest_batch import largest_of, next_size
from stopwav.studies.loss.metrics import peak_spans, step_metrics
from stopwav.studies.loss.ranks import ranks
from stopwav.studies.loss.rounds import LossRounds, load_rounds
from stopwav.studies.loss.shared_batches import SharedBatches, shared_batches
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.stored_rounds import failure_message
from stopwav.studies.traces import failed_trace_warning

# Batches that a warning names by their numbers; how many more there are is said.
MOST_NUMBERS = 10


def loss_results(record: Record) -> list[Result]:
    """Return one result per loss and setting, in the order in which they were named."""
    spec = LossSpec(**record.header.spec)
    checks = {name: _piece(record, ("check", name)) for name in spec.losses}
    right, exact = right_losses(record, spec), exact_losses(record, spec)
    results = []
    for batch_set in batch_sets(record.header):
        measured = {name: load_rounds(record, name, batch_set) for name in spec.losses}
        shared = shared_batches(measured, right)
        ranked = ranks({name: measured[name] for name in exact}, shared, verdict_rule(record))
        for name in spec.losses:
            rank = ranked.get(name) or Estimate(None, note=_unranked_note(checks[name]))
            results.append(_result(record, spec, batch_set, name, measured[name], checks[name], shared, rank))
    return results


def _result(
    record: Record,
    spec: LossSpec,
    batch_set: BatchSet,
    loss: str,
    rounds: LossRounds,
    check: Piece | None,
    shared: SharedBatches,
    rank: Estimate,
) -> Result:
    label = batch_set.setting.label
    several = len(record.header.corpus["settings"]) > 1
    name = f"{loss} ({label})" if several else loss
    params = _params(record, spec, batch_set, loss, check)
    params |= {"compared_batches": list(shared.numbers), "failed_batches": _failed_batches(rounds)}
    params |= {"rounds": len(rounds.indices), "peak_spans": peak_spans(rounds.only(shared.numbers))}
    absent = _piece(record, ("absent", loss))
    if absent is not None:
        reason = Caution(absent.data["code"], absent.message)
        return Result(name, params, "skipped", {}, (reason, *_run_warnings(record, spec, batch_set)), kind="loss")
    trace = _piece(record, ("trace", loss, label))
    warnings = (
        *_check_warnings(check),
        *_adapter_warnings(check, rounds),
        *_failure_warnings(rounds),
        *_comparison_warnings(loss, rounds, shared),
        *(() if trace is None or trace.status == "ok" else (failed_trace_warning(trace),)),
        *_run_warnings(record, spec, batch_set),
    )
    if loss not in shared.timed:
        return Result(name, params, _failed_status(rounds), {}, warnings, kind="loss")
    metrics = {**step_metrics(rounds, batch_set, shared), **_check_metrics(check), "rank": rank}
    if spec.largest_batch:
        frontier = largest_of(record, loss, batch_set.setting.vocab)
        ended = not spec.is_budgeted or next_size(record, spec, loss, batch_set.setting.vocab) is None
        metrics["largest_batch"] = largest_estimate(frontier, record.header.corpus["count"], ended=ended)
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
        "shapes": record.header.corpus["name"],
        "utterances": sum(len(batch) for batch in batches),
        "batches": len(batches),
        "corpus_utterances": record.header.corpus["count"],
        "covered": list(batch_set.covered),
        "frames": [min(frames), max(frames)],
        "corpus_padding_efficiency": batch_set.corpus_padding_efficiency,
        "approximate": leaves_paths_out(check),
        "right": matches_oracle(check),
    }


def _piece(record: Record, key: tuple[str, ...]) -> Piece | None:
    return next((piece for piece in record.pieces if tuple(piece.key) == key), None)


def _unranked_note(check: Piece | None) -> str:
    if check is None or check.status != "ok":
        return "not ranked: it was not checked"
    if not matches_oracle(check):
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
        "value_deviation": _computed(errors["value"]),
        "gradient_deviation": _computed(max(gradients.values()), note=each),
        "correct": _computed(float(is_right(check.data)), "bool"),
        "deterministic": _computed(float(check.data["deterministic"]), "bool"),
    }
    if check.data["gap"] is not None:
        note = "on random logits: those of a trained model leave less outside the range"
        metrics["pruning_gap"] = _computed(check.data["gap"], note=note)
    return metrics


def _computed(value: float, unit: str = "", note: str = "") -> Estimate:
    """A number that is computed, and not measured: its interval is the number itself."""
    return Estimate(value, value, value, 1, unit, note)


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


def _adapter_warnings(check: Piece | None, rounds: LossRounds) -> Iterator[Caution]:
    """What its adapter puts right, and how the loss changed the precision in its check or in a round; each once."""
    of_check = [] if check is None else [Caution(*caution) for caution in check.data.get("cautions", ())]
    samples = [round_.samples for of_batch in rounds.rounds for round_ in of_batch if round_.samples is not None]
    of_rounds = [caution for of_round in samples for caution in of_round.cautions if caution.code == CHANGED]
    yield from dict.fromkeys([*of_check, *of_rounds])


def _failed_status(rounds: LossRounds) -> Status:
    """How the first round ended that did not complete; `skipped` where there is none."""
    statuses = (round_.status for of_batch in rounds.rounds for round_ in of_batch)
    return next((status for status in statuses if status != "ok"), "skipped")


def _failed_batches(rounds: LossRounds) -> list[int]:
    """The numbers of the batches that were tried, and of which no round completed."""
    return [number for number, of_batch in enumerate(rounds.rounds) if of_batch and number not in rounds.good]


def _failure_warnings(rounds: LossRounds) -> Iterator[Caution]:
    """How rounds ended that did not complete: a warning per status of lost batches, and one on those lost in part."""
    failed: dict[str, list[int]] = {}
    for number in _failed_batches(rounds):
        failed.setdefault(rounds.rounds[number][0].status, []).append(number)
    for status, numbers in failed.items():
        where = f"{len(numbers)} of {len(rounds.rounds)} batches, first batch {numbers[0]}"
        if len(numbers) < len(rounds.rounds):
            where += f" ({_batches_text(rounds, numbers)})"
        yield Caution(f"loss-{status}", f"{where}: {failure_message(rounds.rounds[numbers[0]][0])}")
    partly = {number: bad for number in rounds.good if (bad := [r for r in rounds.rounds[number] if r.status != "ok"])}
    if partly:
        first: Round = next(iter(partly.values()))[0]
        of_all = f"{sum(map(len, partly.values()))} of {sum(len(rounds.rounds[number]) for number in partly)} rounds"
        where = f"{of_all} of {_batches_text(rounds, list(partly))}, the first in round {first.index}"
        yield Caution("rounds-failed", f"{where}: {first.status}: {failure_message(first)}")


def _comparison_warnings(loss: str, rounds: LossRounds, shared: SharedBatches) -> Iterator[Caution]:
    """Why a loss that completed some batches has no time, or why its time is of fewer batches than it completed."""
    compared = f"{len(shared.numbers)} of {len(rounds.rounds)} batches"
    if rounds.good and loss not in shared.timed:
        lacking = [number for number in shared.numbers if number not in rounds.good]
        message = f"it has no time: losses are compared on {compared}, of which it lacks {_numbers_text(lacking)}"
        yield Caution("loss-not-compared", f"{message}; measure it alone, or on shorter batches")
    elif len(rounds.good) > len(shared.numbers):
        message = f"times, memory and rank are over {compared}, those that every compared loss completed"
        yield Caution("shared-batches", f"{message}; leave out a loss that fails to have all of them")


def _batches_text(rounds: LossRounds, numbers: Sequence[int]) -> str:
    """The numbers of batches, and how long their longest utterances are."""
    lengths = [max(rounds.batches[number].frames) for number in numbers]
    span = f"{min(lengths)}" if min(lengths) == max(lengths) else f"{min(lengths)} to {max(lengths)}"
    return f"{_numbers_text(numbers)}; longest T {span}"


def _numbers_text(numbers: Sequence[int]) -> str:
    noun = "batch" if len(numbers) == 1 else "batches"
    return f"{noun} {first_names([str(number) for number in numbers], MOST_NUMBERS)}"


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
