"""`stopwav loss`: speed, memory and correctness of transducer losses, on the shapes of a real corpus."""

from __future__ import annotations

import time
from functools import partial

from stopwav.measure.launcher import ask_machine
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.studies.budget import is_finished, open_budget
from stopwav.studies.digests import content_digests, outline_digests
from stopwav.studies.loss.batch_sets import batch_sets, corpus_of, load_spec_shapes, make_sets
from stopwav.studies.loss.check import check_loss
from stopwav.studies.loss.largest_batch import find_largest
from stopwav.studies.loss.rounds import measure_round
from stopwav.studies.loss.size import fit_size, given_size, memory_caution, size_text
from stopwav.studies.loss.spec import LossSpec, check_settings
from stopwav.studies.loss.spending import spend_budget
from stopwav.studies.loss.stored_pieces import missing_keys
from stopwav.studies.loss.traces import trace_losses
from stopwav.studies.machine_speed import probe_machine
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import check_pieces, open_record
from stopwav.studies.spec import make_header, study_function


@study_function(LossSpec, "losses")
def loss(spec: LossSpec) -> Record:
    """Return the run of a loss study: every loss checked against the oracle, then timed on the same batches in turn.

    Without names, all losses that are installed and run on the device are measured, except the oracle. Of several batch
    sizes and vocabularies each pair is measured; without a size batches are as large as fits machine and budget. `sort`
    is an older name of two of the orders: `pairs` of `sorted`. `plan` says how a batch is measured in a round.
    With `profile`, each loss that completed is profiled once more afterwards, in a pass that no number comes from; its
    traces are written beside the run file.
    """
    from stopwav.losses.registry import installed_losses

    begun_s = time.monotonic()
    spec = spec.model_copy(update={"losses": spec.losses or installed_losses(spec.device)})
    check_settings(spec)
    with open_record("loss", spec, partial(_header, spec), append=spec.profile) as record:
        check_pieces(record)
        if not is_finished(record, spec):
            if text := size_text(record.header.corpus):
                spec.say(text)
            if spec.is_budgeted:
                spend_budget(spec, record, open_budget(spec, record, begun_s))
            else:
                _follow_plan(spec, record)
            finish_run(record, missing_keys(record))
        if spec.profile:
            trace_losses(spec, record)
    return record


def _header(spec: LossSpec) -> Header:
    from stopwav.losses.registry import check_name, own_file

    for name in spec.losses:
        check_name(name)  # a name that no loss has is an error before anything is measured
    files = [own_file(name) for name in spec.losses]
    digests = {**content_digests(filter(None, files)), **outline_digests([spec.shapes, spec.tokenizer])}
    shapes, machine = load_spec_shapes(spec), ask_machine(probe_machine, spec.device, spec.memory_limit_gb)
    if spec.is_fitted:
        sized, size = fit_size(spec, shapes, machine)
    else:
        sized = spec
        size = given_size(spec, [batch_set.batches for batch_set in make_sets(spec, shapes)], machine)
    header = make_header("loss", spec, corpus={**corpus_of(sized, shapes), "size": size.to_json()}, digests=digests)
    if (caution := memory_caution(spec, size, machine)) is not None:
        spec.say(caution.message)
        header.warnings.append({"code": caution.code, "message": caution.message})
    return header


def _follow_plan(spec: LossSpec, record: Record) -> None:
    """Measure the rounds of a fixed plan, whatever they take."""
    _check_losses(spec, record)
    present = [name for name in spec.losses if ("absent", name) not in record]
    _measure_rounds(spec, record, present)
    _find_largest_batches(spec, record, present)


def _check_losses(spec: LossSpec, record: Record) -> None:
    for done, name in enumerate(spec.losses):
        spec.report("checking", done, len(spec.losses))
        if ("absent", name) not in record and ("check", name) not in record:
            record.append(check_loss(spec, name))


def _measure_rounds(spec: LossSpec, record: Record, losses: list[str]) -> None:
    sets, rounds = batch_sets(record.header), spec.rounds or 1
    done, total = 0, rounds * len(losses) * sum(len(batch_set.batches) for batch_set in sets)
    for index in range(rounds):
        for batch_set in sets:
            for position in alternating_order(len(losses), index):
                measure_round(spec, record, losses[position], batch_set, index)
                done += len(batch_set.batches)
                spec.report("measuring", done, total)
                spec.show(record, f"round {index + 1} of {rounds}")


def _find_largest_batches(spec: LossSpec, record: Record, losses: list[str]) -> None:
    for done, name in enumerate(losses if spec.largest_batch else []):
        spec.report("largest batch", done, len(losses))
        find_largest(spec, record, name)
