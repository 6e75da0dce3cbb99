"""`stopwav step`: where a training step goes, module by module, forward and backward, in time and in memory."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.launcher import ask_machine
from stopwav.record import Header, Record
from stopwav.studies.budget import is_finished, open_budget
from stopwav.studies.digests import content_digests, outline_digests
from stopwav.studies.launch.run import run_where_asked
from stopwav.studies.machine_speed import probe_machine
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import check_pieces, open_record
from stopwav.studies.spec import checked, make_header, signature_of
from stopwav.studies.step.job import batches_of, is_reference, own_file, reference_sizes, shapes_of
from stopwav.studies.step.rounds import check_own_job, device_of, measure_round, run_own_job
from stopwav.studies.step.size import StepSize, check_memory, fit_size, predicted, size_text, with_size
from stopwav.studies.step.spec import STEPS, StepSpec
from stopwav.studies.step.spending import open_worker, spend_budget
from stopwav.studies.step.stored_pieces import missing_keys


def step(
    model: Any,
    make_batch: Callable[[int], Any] | None = None,
    loss_fn: Callable[[Any, Any], Any] | None = None,
    optimizer: Any = "adamw",
    **settings: Any,
) -> Record:
    """Return the run of a step study.

    With a name for a model, `conformer-transducer[,key=value…]` or FILE.py:FUNCTION, each of `rounds` rounds runs in a
    fresh process. With a model of your own, `make_batch(step)` returns (inputs, targets) or a `TrainingBatch`,
    `loss_fn(output, targets)` a loss, and `optimizer` is yours; the steps then run here, in one round, and train it.
    """
    if isinstance(model, str):
        return run_where_asked(checked(StepSpec, model=model, optimizer=optimizer, **settings), _step_of_name)
    own = {**settings, "rounds": 1, "device": settings.get("device") or device_of(model)}
    spec = checked(StepSpec, model=type(model).__name__, **own)
    return run_own_job(spec, check_own_job(spec, model, make_batch, loss_fn, optimizer))


def _signature() -> inspect.Signature:
    """The parameters of `step` itself, then the settings that it takes by name."""
    given = inspect.signature(step).parameters
    own = [parameter for parameter in given.values() if parameter.kind is not parameter.VAR_KEYWORD]
    settings = signature_of(StepSpec, ()).parameters.values()
    return inspect.Signature(
        [*own, *(setting for setting in settings if setting.name not in given)], return_annotation="Record"
    )


step.__signature__ = _signature()  # type: ignore[attr-defined]


def _step_of_name(spec: StepSpec) -> Record:
    begun_s = time.monotonic()
    with open_record("step", spec, partial(_header, spec)) as record:
        check_pieces(record)
        if not is_finished(record, spec):
            if text := size_text(record.header.corpus):
                spec.say(text)
            sized = with_size(spec, record.header.corpus)
            if spec.is_budgeted:
                spend_budget(sized, record, open_budget(spec, record, begun_s))
            else:
                _follow_plan(sized, record)
            finish_run(record, missing_keys(record))
    return record


def _follow_plan(spec: StepSpec, record: Record) -> None:
    """Measure the rounds of a fixed plan, whatever they take."""
    for index in range(spec.rounds or 1):
        spec.report("loading the model", 0, 1)
        with open_worker(spec, spec.time_limit_s) as worker:
            measure_round(spec, record, index, worker)


def _header(spec: StepSpec) -> Header:
    """The header of a new run; what is wrong with the settings is raised before anything is measured."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise StopwavError("step needs PyTorch, which is not installed: pip install 'stopwav[torch]'")
    if not is_reference(spec.model):
        path, _ = own_file(spec.model)
        corpus = {"size": StepSize(None, None, STEPS).to_json()} if spec.is_fitted else {}
        return make_header("step", spec, corpus=corpus, digests=content_digests([path]))
    from stopwav.speech.shapes import shapes_to_json

    sizes, machine = reference_sizes(spec), ask_machine(probe_machine, spec.device, spec.memory_limit_gb)
    if spec.is_fitted:
        size = fit_size(spec, sizes, machine)
    else:
        seconds, peak_bytes = predicted(spec, batches_of(spec), sizes, machine)
        size = StepSize(spec.max_frames, spec.batch_size, spec.steps or STEPS, "", seconds, peak_bytes)
    caution = check_memory(spec, size.peak_bytes or 0.0, machine)
    digests = outline_digests([spec.shapes, spec.tokenizer])
    corpus = {**shapes_to_json(shapes_of(spec)), "size": size.to_json()}
    header = make_header("step", spec, corpus=corpus, digests=digests)
    if caution is not None:
        spec.say(caution.message)
        header.warnings.append({"code": caution.code, "message": caution.message})
    return header
