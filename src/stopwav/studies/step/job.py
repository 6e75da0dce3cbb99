"""What a step study trains: the reference, or what a file of the user's own makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError
from stopwav.measure.training_step import TrainingJob
from stopwav.studies.step.run import reference as step_reference

if TYPE_CHECKING:
    from stopwav.speech.batches import Batch
    from stopwav.studies.step.run import StepSpec

OPTIMIZERS = ("adamw", "adam", "sgd")
# Small enough that no model of random weights on random features runs away in a few dozen steps.
LEARNING_RATE = 1e-5


def make_job(spec: StepSpec) -> TrainingJob:
    """The job that a spec names, on its device and in its number format."""
    try:
        import torch
    except ImportError as error:
        raise StopwavError("step needs PyTorch, which is not installed: pip install 'stopwav[torch]'") from error
    from stopwav.models.weights import disable_amx_in_vm

    disable_amx_in_vm()
    device = checked_device(spec.device)
    torch.manual_seed(spec.seed)
    if is_reference(spec.model):
        return _reference(spec, device)
    made = _own(spec.model)
    made.model.to(device)
    return TrainingJob(_ready(made.model, spec), made.make_batch, made.loss_fn, made.optimizer, device, _autocast(spec))


def is_reference(model: str) -> bool:
    """Whether the name is that of the reference, with or without options."""
    return model.partition(",")[0] == step_reference.NAME


def reference_sizes(spec: StepSpec) -> step_reference.Sizes:
    """The sizes of the reference that a spec asks for."""
    from stopwav.engines.registry import parse_spec

    return step_reference.sizes_of(parse_spec(spec.model).options)


def own_file(model: str) -> tuple[Path, str]:
    """The file and the function of a job of the user's own, written as FILE.py:FUNCTION."""
    path, colon, function = model.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise StopwavError(f"step {model!r}: give {step_reference.NAME}[,key=value…] or FILE.py:FUNCTION")
    if not Path(path).is_file():
        raise StopwavError(f"step {model!r}: there is no file {path}")
    return Path(path), function


def batches_of(spec: StepSpec) -> list[Batch]:
    """The batches of a run of the reference, in input frames, evenly over the whole range of lengths."""
    from stopwav.speech.batches import PAIRS, make_batches, spread
    from stopwav.speech.shapes import Shapes, load_shapes

    shapes = load_shapes(spec.shapes, seed=spec.seed)
    frames = step_reference.SUBSAMPLING * shapes.frames + 3
    counted = Shapes(shapes.name, frames, shapes.tokens, shapes.digest, shapes.note)
    if spec.max_frames is not None and spec.max_frames < frames.max():
        raise StopwavError(
            f"--max-frames {spec.max_frames}: the longest utterance of {shapes.name} has {frames.max()} frames; "
            "give at least as many"
        )
    made = make_batches(
        counted,
        batch_size=spec.batch_size or 1,
        max_frames=spec.max_frames,
        sort=PAIRS if spec.sort else None,
        seed=spec.seed,
    )
    return spread(made, spec.steps)


def checked_device(device: str) -> str:
    """The device, where PyTorch has it here."""
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


def _reference(spec: StepSpec, device: str) -> TrainingJob:
    sizes = reference_sizes(spec)
    model = step_reference.make_model(sizes)
    criterion = step_reference.Criterion(model, sizes.loss)
    ready = _ready(model.to(device), spec)
    dtype = next(model.parameters()).dtype
    feeder = step_reference.Feeder(batches_of(spec), device, dtype, sizes, model.encoder.bands, spec.seed)
    return TrainingJob(ready, feeder, criterion, _optimizer(model, spec.optimizer), device, _autocast(spec))


def _own(name: str) -> TrainingJob:
    """The job that a function in a file makes."""
    import importlib.util

    path, function = own_file(name)
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    if not hasattr(module, function):
        raise StopwavError(f"step {name!r}: {path} has no {function}")
    made = getattr(module, function)()
    if isinstance(made, TrainingJob):
        return made
    if isinstance(made, tuple) and len(made) == 4:
        return TrainingJob(*made)
    raise StopwavError(f"step {name!r}: {function}() has to return (model, make_batch, loss_fn, optimizer)")


def _ready(model: Any, spec: StepSpec) -> Any:
    import torch

    model.train()
    if spec.dtype != "float32" and not spec.autocast:
        model.to(getattr(torch, spec.dtype))
    return torch.compile(model) if spec.compile else model


def _autocast(spec: StepSpec) -> str | None:
    return spec.dtype if spec.autocast else None


def _optimizer(model: Any, name: str) -> Any:
    import torch

    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds[name](model.parameters(), lr=LEARNING_RATE)
