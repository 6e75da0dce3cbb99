"""What a loss run found: time, memory, correctness and rank of every loss, at every setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stopwav.errors import Caution
from stopwav.measure.rounds import Round
from stopwav.record import Piece, Record, Result
from stopwav.speech.batches import COLUMNS
from stopwav.stats import Estimate
from stopwav.studies.loss.check import TOLERANCES, is_right
from stopwav.studies.loss.largest_batch import largest_of
from stopwav.studies.loss.metrics import Steps, largest_estimate, step_metrics
from stopwav.studies.loss.ranks import ranks
from stopwav.studies.loss.setting import Fed, fed_of
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.loss.traces import trace_cautions
from stopwav.studies.stored_rounds import round_from_piece


def loss_results(record: Record) -> list[Result]:
    """One result per loss and setting, in the order in which they were named."""
    spec = LossSpec(**record.header.spec)
    found = []
    for fed in fed_of(record.header):
        measured = {name: _steps(record, name, fed) for name in spec.losses}
        checks = {name: _check(record, name) for name in spec.losses}
        right = [name for name in spec.losses if _is_right(checks[name]) and not _is_pruned(checks[name])]
        ranked = ranks({name: measured[name] for name in right})
        for name in spec.losses:
            rank = ranked.get(name) or Estimate(None, note=_unranked(checks[name]))
            found.append(_result(record, spec, fed, name, measured[name], rank))
    return found


def _result(record: Record, spec: LossSpec, fed: Fed, name: str, steps: Steps, rank: Estimate) -> Result:
    check = _check(record, name)
    several = len(record.header.corpus["settings"]) > 1
    shown = f"{name} ({fed.setting.label})" if several else name
    params = _params(record, spec, fed, name, check)
    absent = _piece(record, ("absent", name))
    if absent is not None:
        why = Caution(absent.data["code"], absent.message)
        return Result(shown, params, "skipped", {}, (why, *_run_doubts(record, spec, fed)))
    rounds = [one for batch in steps.rounds for one in batch]
    cautions = (
        *_check_doubts(check),
        *_failures(steps),
        *trace_cautions(record, name, fed.setting.label),
        *_run_doubts(record, spec, fed),
    )
    if not steps.good:
        status = rounds[0].status if rounds else "skipped"
        return Result(shown, params, status, {}, cautions)
    metrics = {**step_metrics(steps, fed), **_check_metrics(check), "rank": rank}
    if spec.largest_batch:
        metrics["largest_batch"] = largest_estimate(largest_of(record, name, fed.setting.vocab))
    return Result(shown, params, "ok", metrics, cautions)


def _params(record: Record, spec: LossSpec, fed: Fed, name: str, check: Piece | None) -> dict[str, object]:
    return {
        "loss": name,
        "version": "" if check is None else check.data.get("version", ""),
        "batch_size": fed.setting.batch_size,
        "max_frames": spec.max_frames,
        "sort": spec.sort,
        "buckets": spec.buckets,
        "vocab": fed.setting.vocab,
        "dim": spec.dim,
        "dtype": spec.dtype,
        "device": spec.device,
        "rounds": spec.rounds,
        "shapes": record.header.corpus["name"],
        "utterances": sum(len(batch) for batch in fed.batches),
        "batches": len(fed.batches),
        "corpus_utterances": record.header.corpus["count"],
        "covered": list(fed.covered),
        "frames": [min(t for b in fed.batches for t in b.frames), max(t for b in fed.batches for t in b.frames)],
        "corpus_padding_efficiency": fed.corpus_padding_efficiency,
        "approximate": _is_pruned(check),
        "right": _is_right(check),
    }


def _steps(record: Record, name: str, fed: Fed) -> Steps:
    """The rounds of every batch of a loss."""
    rounds: list[list[Round]] = [[] for _ in fed.batches]
    for piece in record.pieces:
        if piece.key[0] == "step" and piece.key[2:4] == [name, fed.setting.label]:
            rounds[int(piece.key[4])].append(round_from_piece(piece))
    return Steps(fed.batches, tuple(map(tuple, rounds)))


def _check(record: Record, name: str) -> Piece | None:
    return _piece(record, ("check", name))


def _piece(record: Record, key: tuple[str, ...]) -> Piece | None:
    return next((piece for piece in record.pieces if tuple(piece.key) == key), None)


def _is_right(check: Piece | None) -> bool:
    return check is not None and check.status == "ok" and is_right(check.data)


def _is_pruned(check: Piece | None) -> bool:
    return check is not None and check.data.get("gap") is not None


def _unranked(check: Piece | None) -> str:
    if check is None or check.status != "ok":
        return "not ranked: it was not checked"
    if not _is_right(check):
        return "not ranked: it is wrong"
    return "not ranked: it approximates what the others compute"


def _check_metrics(check: Piece | None) -> dict[str, Estimate]:
    """How far the loss is from the oracle, and whether it repeats itself."""
    if check is None or check.status != "ok":
        why = "not checked yet" if check is None else f"the check ended with {check.status}: {check.message}"
        return {name: Estimate(None, note=why) for name in ("value_deviation", "gradient_deviation")}
    deviations: Mapping[str, float] = check.data["deviations"]
    gradients = {name: value for name, value in deviations.items() if name != "value"}
    each = ", ".join(f"{name} {value:.1e}" for name, value in gradients.items())
    found = {
        "value_deviation": Estimate(deviations["value"], n=1),
        "gradient_deviation": Estimate(max(gradients.values()), n=1, note=each),
        "deterministic": Estimate(float(check.data["deterministic"]), n=1, unit="bool"),
    }
    if check.data["gap"] is not None:
        note = "on random logits: those of a trained model leave less outside the range"
        found["pruning_gap"] = Estimate(check.data["gap"], n=1, note=note)
    return found


def _check_doubts(check: Piece | None) -> Iterator[Caution]:
    if check is None:
        return
    if check.status != "ok":
        words = f"; its last words: {check.last_words}" if check.last_words else ""
        yield Caution(
            "loss-unchecked", f"the check against the oracle ended with {check.status}: {check.message}{words}"
        )
    elif not is_right(check.data):
        worst = max(check.data["deviations"].items(), key=lambda pair: float(pair[1]))
        rounding = TOLERANCES[check.data["precision"]]
        told = f"its {worst[0]} is off by {worst[1]:.1e} of the oracle's; up to {rounding:g} would be rounding"
        yield Caution("loss-wrong", f"{told}; it is timed all the same, and not ranked")


def _failures(steps: Steps) -> Iterator[Caution]:
    """How the batches of which no round went well ended: each way once, with the first of its last words."""
    failed: dict[str, list[tuple[int, Round]]] = {}
    for number, rounds in enumerate(steps.rounds):
        if rounds and not any(one.status == "ok" for one in rounds):
            failed.setdefault(rounds[0].status, []).append((number, rounds[0]))
    for status, ones in failed.items():
        number, first = ones[0]
        words = f"; its last words: {first.last_words}" if first.last_words else ""
        where = f"{len(ones)} of {len(steps.rounds)} batches, first batch {number}"
        yield Caution(f"loss-{status}", f"{where}: {first.message}{words}")


def _run_doubts(record: Record, spec: LossSpec, fed: Fed) -> Iterator[Caution]:
    """What casts doubt on every loss."""
    for warning in record.header.warnings:
        yield Caution(warning["code"], warning["message"])
    if spec.sort == COLUMNS:
        told = f"T and U were sorted each for itself: {fed.invented:.0%} of the pairs are in no utterance"
        yield Caution("columns-independently", f"{told}; this reproduces an old mistake, use --sort")
    if not record.complete:
        yield Caution("incomplete", "the run stopped early; --resume goes on")
