"""`stopwav loss`: speed, memory and correctness of transducer losses, on the shapes of a real corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from stopwav.engines.toolkit import check_torch_device
from stopwav.errors import StopwavError
from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Piece, Record
from stopwav.studies.loss_check import LossCheck
from stopwav.studies.loss_setting import Fed, corpus_of, fed_of
from stopwav.studies.loss_step import StepPlace
from stopwav.studies.loss_turn import Turn
from stopwav.studies.resumption import check_pieces, open_record
from stopwav.studies.spec import DEFAULT_FOLDER, Progress, checked, header_of

# The published experiment: batches of 30, 500 symbols, outputs of 512.
BATCH_SIZE, VOCAB, DIM = 30, 500, 512
# A batch takes few values, as there are many batches: what differs between them is more than what differs within one.
BATCHES = 10
LOSS_PLAN = Plan(min_values=5, max_values=30, warmup_s=0.2, min_values_s=0.2, max_values_s=5.0)
# The schedule that older tables of losses were taken under: wait, warm-up, active, repeat.
PROFILE_SCHEDULE = [10, 10, 20, 2]

Precision = Literal["float32", "tf32", "bfloat16", "float16", "float64"]


class LossSpec(BaseModel, extra="forbid"):
    """What is asked for; two runs with equal specs measure the same thing."""

    losses: list[str] = []
    shapes: str = "librispeech"
    # How the texts of a corpus become tokens, and by how much the encoder shortens its input.
    tokenizer: str | None = None
    subsampling: int = Field(default=4, gt=0)
    # One, or several that are compared; kept in rising order, each once.
    batch_size: list[int] | None = Field(default=None, min_length=1)
    # Frames of a batch before padding, in place of its size; without either it has the published size.
    max_frames: int | None = Field(default=None, gt=0)
    sort: Literal["pairs", "columns-independently", False] = False
    buckets: int | None = Field(default=None, gt=0)
    batches: int = Field(default=BATCHES, gt=0)
    vocab: list[int] = Field(default=[VOCAB], min_length=1)
    dim: int = Field(default=DIM, gt=0)
    blank: int = Field(default=0, ge=0)
    dtype: Precision = "float32"
    device: str = "cpu"
    largest_batch: bool = False
    rounds: int = Field(default=3, gt=0)
    # Seconds that one batch of a loss may take in one round before its process is killed.
    time_limit_s: float = Field(default=300.0, gt=0)
    # Billions of bytes of host memory that the process of a loss may take.
    memory_limit_gb: float | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    # How a round is taken, where it is not as the default plan says.
    plan: dict[str, Any] | None = None

    @field_validator("batch_size", "vocab", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, int) else value

    @field_validator("batch_size", "vocab")
    @classmethod
    def _rising(cls, values: list[int] | None, field: ValidationInfo) -> list[int] | None:
        if values is None:
            return None
        # A vocabulary is a blank and one more symbol at the least.
        least = 2 if field.field_name == "vocab" else 1
        if min(values) < least:
            raise ValueError(f"each must be {least} or more")
        return sorted(set(values))

    @field_validator("sort", mode="before")
    @classmethod
    def _flag(cls, value: Any) -> Any:
        # In a file it may stand as the flag does.
        return "pairs" if value is True else value

    @model_validator(mode="after")
    def _one_batching(self) -> LossSpec:
        if self.max_frames is not None and self.batch_size is not None:
            raise ValueError("--max-frames and --batch-size: give one of them, not both")
        if self.max_frames is None and self.batch_size is None:
            self.batch_size = [BATCH_SIZE]
        return self


def loss(
    losses: Sequence[str] = (),
    *,
    shapes: Path | str = "librispeech",
    tokenizer: str | None = None,
    subsampling: int = 4,
    batch_size: int | Sequence[int] | None = None,
    max_frames: int | None = None,
    sort: str | bool = False,
    buckets: int | None = None,
    batches: int = BATCHES,
    vocab: int | Sequence[int] = VOCAB,
    dim: int = DIM,
    blank: int = 0,
    dtype: str = "float32",
    device: str = "cpu",
    largest_batch: bool = False,
    rounds: int = 3,
    time_limit_s: float = 300.0,
    memory_limit_gb: float | None = None,
    seed: int = 0,
    plan: Plan | None = None,
    profile: bool = False,
    profile_schedule: Sequence[int] = PROFILE_SCHEDULE,
    save: Path | str = DEFAULT_FOLDER,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """The record of a loss run: every loss checked against the oracle, then timed on the same batches in turn.

    Without names, all that are installed and run on the device take part, but for the oracle. Of several batch sizes
    and vocabularies each pair is measured; without `batch_size` or `max_frames` a batch has 30 utterances. `sort` is
    `pairs`, or `columns-independently` for an old mistake. `plan` says how a batch is measured in a round. With
    `profile`, each loss that went well is profiled once more afterwards, in a pass that feeds no number; its traces are
    written beside the run file.
    """
    from stopwav.losses.registry import installed_losses

    spec = checked(
        LossSpec,
        losses=list(dict.fromkeys(losses)) or installed_losses(device),
        shapes=str(shapes),
        tokenizer=tokenizer,
        subsampling=subsampling,
        batch_size=batch_size,
        max_frames=max_frames,
        sort=sort,
        buckets=buckets,
        batches=batches,
        vocab=vocab,
        dim=dim,
        blank=blank,
        dtype=dtype,
        device=device,
        largest_batch=largest_batch,
        rounds=rounds,
        time_limit_s=time_limit_s,
        memory_limit_gb=memory_limit_gb,
        seed=seed,
        plan=None if plan is None else asdict(plan),
    )
    _check_together(spec)
    report = progress or (lambda task, done, total: None)
    with open_record("loss", spec, Path(save), resume, partial(_header, spec), append=profile) as record:
        check_pieces(record)
        if not record.complete:
            _run(spec, record, report)
            record.finish()
        if profile:
            from stopwav.studies.loss_traces import trace_losses

            trace_losses(spec, record, tuple(profile_schedule), report)
    return record


def plan_of(spec: LossSpec) -> Plan:
    """How the rounds of a run are taken."""
    base = LOSS_PLAN if spec.plan is None else Plan(**spec.plan)
    return replace(base, rounds=spec.rounds, time_limit_s=spec.time_limit_s, seed=spec.seed)


def place_of(spec: LossSpec, loss: str, vocab: int) -> StepPlace:
    """In what a loss is measured."""
    limit_bytes = None if spec.memory_limit_gb is None else round(spec.memory_limit_gb * 1e9)
    return StepPlace(loss, vocab, spec.dim, spec.blank, spec.dtype, spec.device, limit_bytes)


def batch_seed(spec: LossSpec, number: int) -> int:
    """The seed of a batch's inputs: the same for every loss and round."""
    return 1000 * spec.seed + number


def _check_together(spec: LossSpec) -> None:
    """Raise where the parts of a spec do not go together."""
    if not spec.losses:
        raise StopwavError(
            "no loss is installed here: pip install 'stopwav[torch]'; `stopwav loss --list` has them all"
        )
    if spec.device != "cpu":
        check_torch_device("loss", spec.device)
    elif spec.dtype == "tf32":
        raise StopwavError("--dtype tf32: only CUDA devices have it; give float32, or --device cuda")
    if spec.blank >= min(spec.vocab):
        raise StopwavError(f"--blank {spec.blank}: has to be one of the {min(spec.vocab)} symbols of --vocab")


def _header(spec: LossSpec) -> Header:
    from stopwav.losses.registry import check_name

    for name in spec.losses:
        check_name(name)  # a name that no loss has is an error before anything is measured
    return header_of("loss", spec, corpus=corpus_of(spec))


def _run(spec: LossSpec, record: Record, report: Progress) -> None:
    """Measure what is not in the record yet: every check, then round by round each loss in its turn."""
    for done, name in enumerate(spec.losses):
        report("checking", done, len(spec.losses))
        _admit(spec, record, name)
    present = [name for name in spec.losses if ("absent", name) not in record]
    fed = fed_of(record.header)
    done, total = 0, spec.rounds * len(present) * sum(len(one.batches) for one in fed)
    for index in range(spec.rounds):
        for one in fed:
            for position in alternating_order(len(present), index):
                _take_turn(spec, record, present[position], one, index)
                done += len(one.batches)
                report("measuring", done, total)
    if spec.largest_batch:
        from stopwav.studies.loss_largest import find_largest

        for done, name in enumerate(present):
            report("largest batch", done, len(present))
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
