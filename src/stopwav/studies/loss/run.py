"""`stopwav loss`: speed, memory and correctness of transducer losses, on the shapes of a real corpus."""

from __future__ import annotations

from functools import partial
from typing import Any

from stopwav.measure.process import FreshProcess
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Piece, Record
from stopwav.studies.loss.check import LossCheck
from stopwav.studies.loss.loss_step import place_of
from stopwav.studies.loss.setting import Fed, batch_seed, corpus_of, fed_of
from stopwav.studies.loss.spec import LossSpec, check_settings, plan_of
from stopwav.studies.loss.turn import Turn
from stopwav.studies.resume import check_pieces, open_record
from stopwav.studies.spec import make_header, study_function


@study_function(LossSpec, "losses")
def loss(spec: LossSpec) -> Record:
    """Return the run of a loss study: every loss checked against the oracle, then timed on the same batches in turn.

    Without names, all losses that are installed and run on the device are measured, except the oracle. Of several batch
    sizes and vocabularies each pair is measured; without `batch_size` or `max_frames` a batch has 30 utterances. `sort`
    is `pairs`, or `columns-independently` to reproduce an old mistake. `plan` says how a batch is measured in a round.
    With `profile`, each loss that completed is profiled once more afterwards, in a pass that no number comes from; its
    traces are written beside the run file.
    """
    from stopwav.losses.registry import installed_losses

    spec = spec.model_copy(update={"losses": spec.losses or installed_losses(spec.device)})
    check_settings(spec)
    with open_record("loss", spec, partial(_header, spec), append=spec.profile) as record:
        check_pieces(record)
        if not record.complete:
            _run(spec, record)
            record.finish()
        if spec.profile:
            from stopwav.studies.loss.traces import trace_losses

            trace_losses(spec, record, tuple(spec.profile_schedule), spec.report)
    return record


def _header(spec: LossSpec) -> Header:
    from stopwav.losses.registry import check_name

    for name in spec.losses:
        check_name(name)  # a name that no loss has is an error before anything is measured
    return make_header("loss", spec, corpus=corpus_of(spec))


def _run(spec: LossSpec, record: Record) -> None:
    """Measure what is not in the record yet: every check, then round by round each loss in its turn."""
    for done, name in enumerate(spec.losses):
        spec.report("checking", done, len(spec.losses))
        _admit(spec, record, name)
    present = [name for name in spec.losses if ("absent", name) not in record]
    fed = fed_of(record.header)
    done, total = 0, spec.rounds * len(present) * sum(len(one.batches) for one in fed)
    for index in range(spec.rounds):
        for one in fed:
            for position in alternating_order(len(present), index):
                _take_turn(spec, record, present[position], one, index)
                done += len(one.batches)
                spec.report("measuring", done, total)
    if spec.largest_batch:
        from stopwav.studies.loss.largest_batch import find_largest

        for done, name in enumerate(present):
            spec.report("largest batch", done, len(present))
            find_largest(spec, record, name)


def _admit(spec: LossSpec, record: Record, name: str) -> None:
    """Record why a loss cannot take part, or how it compares with the oracle."""
    if ("absent", name) in record or ("check", name) in record:
        return
    code, why = _absence(spec, name)
    if why:
        record.append(Piece(key=["absent", name], status="skipped", message=why, data={"code": code}))
        return
    with FreshProcess(LossCheck, place_of(spec, name, spec.vocab[0]), spec.seed) as process:
        outcome = process.start(spec.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=spec.time_limit_s)
    record.append(
        Piece(
            key=["check", name],
            status=outcome.status,
            message=outcome.message,
            last_words=outcome.last_words,
            data=_finite(outcome.value) if outcome.ok else {},
        )
    )


def _absence(spec: LossSpec, name: str) -> tuple[str, str]:
    """Why a loss cannot take part, as the code of a caution and its message; an empty message where it can."""
    from stopwav.losses.registry import BUILT_IN, check_name, split_name

    listed = next((one for one in BUILT_IN if one.name == split_name(name)[0]), None)
    kind = spec.device.partition(":")[0]
    if listed is not None and kind not in listed.needs.devices:
        return "loss-device", f"runs on {' and '.join(listed.needs.devices)} only, and this is {spec.device}"
    return "loss-missing", check_name(name)


def _finite(checked: dict[str, Any]) -> dict[str, Any]:
    """What a check found, as JSON can hold it: an infinite deviation is written as the largest number there is."""
    largest = 1e308
    return {**checked, "deviations": {key: min(one, largest) for key, one in checked["deviations"].items()}}


def _take_turn(spec: LossSpec, record: Record, name: str, fed: Fed, index: int) -> None:
    turn = Turn(index, place_of(spec, name, fed.setting.vocab), fed.setting, plan_of(spec), record)
    try:
        for number, batch in enumerate(fed.batches):
            turn.take(number, batch, batch_seed(spec, number))
    finally:
        turn.close()
