"""`stopwav step`: where a training step goes, module by module, forward and backward, in time and in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, model_validator

from stopwav.errors import StopwavError
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.measure.training_step import TrainingJob
from stopwav.record import Header, Piece, Record
from stopwav.studies.resume import check_pieces, open_record
from stopwav.studies.spec import DEFAULT_FOLDER, Progress, checked, header_of
from stopwav.studies.step.step_runner import make_runner

# Frames before subsampling that a batch of the published experiment holds at the most.
MAX_FRAMES = 30_000
# Optimisers of the reference; a job of your own brings its own.
Optimizer = Literal["adamw", "adam", "sgd"]
Dtype = Literal["float32", "bfloat16", "float16"]


class Taker(Protocol):
    """Something that a runner's methods can be asked of."""

    def ask(self, method: str, *arguments: object) -> Outcome: ...


class StepSpec(BaseModel, extra="forbid"):
    """What is asked for; two runs with equal specs measure the same thing."""

    # `conformer-transducer[,key=value…]`, FILE.py:FUNCTION, or the class of a model that Python code handed over.
    model: str
    shapes: str = "librispeech"
    # Input frames that a batch holds at the most, or else how many utterances it has.
    max_frames: int | None = Field(default=None, gt=0)
    batch_size: int | None = Field(default=None, gt=0)
    sort: bool = False
    # Each on a batch of its own, spread over the whole range of lengths.
    steps: int = Field(default=10, gt=0)
    depth: int = Field(default=3, ge=0)
    modules: list[str] = []
    optimizer: Optimizer = "adamw"
    dtype: Dtype = "float32"
    autocast: bool = False
    compile: bool = False
    device: str = "cpu"
    rounds: int = Field(default=3, gt=0)
    # Seconds that loading, or any one step, may take before the process is killed.
    time_limit_s: float = Field(default=600.0, gt=0)
    memory_limit_gb: float | None = Field(default=None, gt=0)
    profile: bool = False
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_batching(self) -> StepSpec:
        if self.max_frames is not None and self.batch_size is not None:
            raise ValueError("--max-frames and --batch-size: give one of them, not both")
        if self.max_frames is None and self.batch_size is None:
            self.max_frames, self.sort = MAX_FRAMES, True
        if self.autocast and self.dtype == "float32":
            raise ValueError("--autocast computes in bfloat16 or float16: give one of them as --dtype")
        return self


def step(
    model: Any,
    make_batch: Callable[[int], Any] | None = None,
    loss_fn: Callable[[Any, Any], Any] | None = None,
    optimizer: Any = "adamw",
    *,
    shapes: str = "librispeech",
    max_frames: int | None = None,
    batch_size: int | None = None,
    sort: bool = False,
    steps: int = 10,
    depth: int = 3,
    modules: Sequence[str] = (),
    dtype: str = "float32",
    autocast: bool = False,
    compile: bool = False,
    device: str | None = None,
    rounds: int = 3,
    time_limit_s: float = 600.0,
    memory_limit_gb: float | None = None,
    profile: bool = False,
    seed: int = 0,
    save: Path | str = DEFAULT_FOLDER,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """The record of a step run.

    With a name for a model, `conformer-transducer[,key=value…]` or FILE.py:FUNCTION, each of `rounds` rounds runs in a
    fresh process. With a model of your own, `make_batch(step)` returns (inputs, targets) or a `TrainingBatch`,
    `loss_fn(output, targets)` a loss, and `optimizer` is yours; the steps then run here, in one round, and train it.
    """
    named = isinstance(model, str)
    spec = checked(
        StepSpec,
        model=model if named else type(model).__name__,
        shapes=str(shapes),
        max_frames=max_frames,
        batch_size=batch_size,
        sort=sort,
        steps=steps,
        depth=depth,
        modules=list(modules),
        optimizer=optimizer if isinstance(optimizer, str) else "adamw",
        dtype=dtype,
        autocast=autocast,
        compile=compile,
        device=device or ("cpu" if named else _device_of(model)),
        rounds=rounds if named else 1,
        time_limit_s=time_limit_s,
        memory_limit_gb=memory_limit_gb,
        profile=profile,
        seed=seed,
    )
    report = progress or (lambda task, done, total: None)
    if not named:
        from stopwav.studies.step.own_job import step_own

        return step_own(spec, _own_job(spec, model, make_batch, loss_fn, optimizer), Path(save), report)
    with open_record("step", spec, Path(save), resume, partial(_header, spec)) as record:
        check_pieces(record)
        if not record.complete:
            for index in range(spec.rounds):
                with FreshProcess(make_runner, spec) as process:
                    take_round(spec, record, index, _Fresh(process, spec.time_limit_s), report)
            record.finish()
    return record


def take_round(spec: StepSpec, record: Record, index: int, taker: Taker, report: Progress) -> None:
    """Take one round, as far as it is not in the record; each step is recorded at once, and one that fails ends it."""
    total = spec.rounds * spec.steps
    wanted = [number for number in range(spec.steps) if ("step", index, number) not in record]
    passes = ["memory", *(["profile"] if spec.profile else [])]
    if not wanted and (index or all((name, 0) in record for name in passes)):
        return
    ready = taker.ask("warm_up")
    if ("ready", index) not in record:
        record.append(_piece(("ready", index), ready))
    if not ready.ok:
        return
    for number in wanted:
        outcome = taker.ask("take", number)
        record.append(_piece(("step", index, number), outcome))
        report("measuring", index * spec.steps + number + 1, total)
        if not outcome.ok:
            return
    if index == 0:
        _take_passes(spec, record, taker)


def _take_passes(spec: StepSpec, record: Record, taker: Taker) -> None:
    """The passes that feed no time: memory and, where it is asked for, the profiler."""
    largest = taker.ask("largest")
    number = largest.value if largest.ok else 0
    if ("memory", 0) not in record:
        record.append(_piece(("memory", 0), taker.ask("memory", number)))
    if spec.profile and ("profile", 0) not in record:
        record.append(_piece(("profile", 0), taker.ask("profile", traces_folder(record), number)))


def traces_folder(record: Record) -> Path:
    """Where the trace of a run lies: beside its file."""
    return record.path.with_name(f"{record.path.stem}-traces")


class _Fresh:
    """A runner in a fresh process, started when it is first asked."""

    def __init__(self, process: FreshProcess, time_limit_s: float) -> None:
        self._process, self._time_limit_s = process, time_limit_s

    def ask(self, method: str, *arguments: object) -> Outcome:
        """How the method ended."""
        if not self._process.alive:
            outcome = self._process.start(self._time_limit_s)
            if not outcome.ok:
                return outcome
        return self._process.call(method, *arguments, time_limit_s=self._time_limit_s)


def _piece(key: tuple[str | int, ...], outcome: Outcome) -> Piece:
    data = outcome.value if outcome.ok else {}
    words = outcome.last_words
    return Piece(key=list(key), status=outcome.status, message=outcome.message, last_words=words, data=data)


def _header(spec: StepSpec) -> Header:
    from importlib.util import find_spec

    from stopwav.studies.step.job import batches_of, is_reference, own_file, reference_sizes

    if find_spec("torch") is None:
        raise StopwavError("step needs PyTorch, which is not installed: pip install 'stopwav[torch]'")
    corpus: dict[str, Any] = {}
    if is_reference(spec.model):
        from stopwav.speech.shapes import load_shapes

        # What is wrong with the sizes or the batching is said before anything is measured.
        reference_sizes(spec)
        batches_of(spec)
        corpus = {"name": spec.shapes, "digest": load_shapes(spec.shapes, seed=spec.seed).digest}
    else:
        own_file(spec.model)
    return header_of("step", spec, corpus=corpus)


def _own_job(spec: StepSpec, model: Any, make_batch: Any, loss_fn: Any, optimizer: Any) -> TrainingJob:
    """The user's own job, with what is missing of it named."""
    for name, given in (("make_batch", make_batch), ("loss_fn", loss_fn)):
        if not callable(given):
            raise StopwavError(
                f"step: {name}= is missing; with a model of your own give make_batch, loss_fn, optimizer"
            )
    if not hasattr(model, "named_modules"):
        raise StopwavError(f"step: the model is a {type(model).__name__}; give a torch.nn.Module or a name")
    if not hasattr(optimizer, "zero_grad"):
        raise StopwavError(f"step: optimizer={optimizer!r}; with a model of your own give a torch.optim optimiser")
    return TrainingJob(model, make_batch, loss_fn, optimizer, spec.device, spec.dtype if spec.autocast else None)


def _device_of(model: Any) -> str:
    first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    return "cpu" if first is None else str(first.device)
