"""The training job of a step run: the reference's, or one that a file of the user's own makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.training_step import TrainingJob
from stopwav.studies.step import reference
from stopwav.studies.step.spec import STEPS, StepSpec

if TYPE_CHECKING:
    from stopwav.speech.batches import Batch
    from stopwav.speech.shapes import Shapes

# Small enough that no model of random weights on random features runs away in a few dozen steps.
LEARNING_RATE = 1e-5


def make_job(spec: StepSpec) -> TrainingJob:
    """Return the job that a spec names, on its device and in its number format."""
    try:
        import torch
    except ImportError as error:
        raise StopwavError("step needs PyTorch, which is not installed: pip install 'stopwav[torch]'") from error
    from stopwav.models.checkpoint import disable_amx_in_vm

    disable_amx_in_vm()
    device = check_device(spec.device)
    torch.manual_seed(spec.seed)
    if is_reference(spec.model):
        return _reference_job(spec, device)
    job = _own_job(spec.model)
    job.model.to(device)
    model = _prepare(job.model, spec)
    return TrainingJob(model, job.make_batch, job.loss_fn, job.optimizer, device, _autocast(spec))


def is_reference(model: str) -> bool:
    """Return whether the name is that of the reference, with or without options."""
    return model.partition(",")[0] == reference.NAME


def reference_sizes(spec: StepSpec) -> reference.Sizes:
    """Return the sizes of the reference that a spec asks for."""
    from stopwav.engines.registry import parse_spec

    return reference.parse_sizes(parse_spec(spec.model).options)


def own_file(model: str) -> tuple[Path, str]:
    """Return the file and the function of a job of the user's own, written as FILE.py:FUNCTION."""
    path, colon, function = model.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise StopwavError(f"step {model!r}: give {reference.NAME}[,key=value…] or FILE.py:FUNCTION")
    if not Path(path).is_file():
        raise StopwavError(f"step {model!r}: there is no file {path}")
    return Path(path), function


def shapes_of(spec: StepSpec) -> Shapes:
    """Return the shapes that a run of the reference draws its batches from."""
    from stopwav.speech.shapes import load_shapes

    return load_shapes(
        spec.shapes, tokenizer=spec.tokenizer, frames=spec.frames, subsampling=spec.subsampling, seed=spec.seed
    )


def longest_of(spec: StepSpec) -> int:
    """Return the input frames of the longest utterance of a run of the reference."""
    from stopwav.speech.shapes import before_subsampling

    return int(before_subsampling(shapes_of(spec)).frames.max())


def batches_of(spec: StepSpec) -> list[Batch]:
    """Return the batches of a run of the reference, in input frames, spread over the whole range of lengths."""
    from stopwav.speech.batches import SHUFFLED, SORTED, make_batches, spread
    from stopwav.speech.shapes import before_subsampling

    shapes = before_subsampling(shapes_of(spec))
    if spec.max_frames is not None and spec.max_frames < shapes.frames.max():
        raise StopwavError(
            f"--max-frames {spec.max_frames}: the longest utterance of {shapes.name} has {shapes.frames.max()} frames; "
            "give at least as many"
        )
    batches = make_batches(
        shapes,
        batch_size=spec.batch_size or 1,
        max_frames=spec.max_frames,
        order=SORTED if spec.sort else SHUFFLED,
        seed=spec.seed,
    )
    return spread(batches, spec.steps or STEPS)


def check_device(device: str) -> str:
    """Return the device; raise where PyTorch does not have it here."""
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise StopwavError(f"--device {device!r}: give cpu, cuda or cuda:N") from None
    if kind not in ("cpu", "cuda"):
        raise StopwavError(f"--device {device!r}: steps are timed on cpu and cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise StopwavError(f"--device {device}: PyTorch sees no CUDA device here; see `stopwav doctor`")
    return device


def _reference_job(spec: StepSpec, device: str) -> TrainingJob:
    sizes = reference_sizes(spec)
    model = reference.make_model(sizes)
    criterion = reference.Criterion(model, sizes.loss)
    prepared = _prepare(model.to(device), spec)
    dtype = next(model.parameters()).dtype
    feeder = reference.Feeder(batches_of(spec), device, dtype, sizes, model.encoder.bands, spec.seed)
    return TrainingJob(prepared, feeder, criterion, _optimizer(model, spec.optimizer), device, _autocast(spec))


def _own_job(name: str) -> TrainingJob:
    """The job that a function in a file makes."""
    import importlib.util

    path, function = own_file(name)
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    if not hasattr(module, function):
        raise StopwavError(f"step {name!r}: {path} has no {function}")
    job = getattr(module, function)()
    if isinstance(job, TrainingJob):
        return job
    if isinstance(job, tuple) and len(job) == 4:
        return TrainingJob(*job)
    raise StopwavError(f"step {name!r}: {function}() has to return (model, make_batch, loss_fn, optimizer)")


def _prepare(model: Any, spec: StepSpec) -> Any:
    """The model in training mode, in the number format of the spec, and compiled where that is asked for."""
    import torch

    model.train()
    # TF32 is float32 whose products are rounded: PyTorch's setting, and not a type of weights.
    if spec.dtype not in ("float32", "tf32") and not spec.autocast:
        model.to(getattr(torch, spec.dtype))
    return torch.compile(model) if spec.compile else model


def _autocast(spec: StepSpec) -> str | None:
    return spec.dtype if spec.autocast else None


def _optimizer(model: Any, name: str) -> Any:
    import torch

    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[name](model.parameters(), lr=LEARNING_RATE)
