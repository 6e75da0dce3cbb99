"""The settings of `stopwav step`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from stopwav.speech.shapes import SUBSAMPLING
from stopwav.studies.budget import BudgetedSpec
from stopwav.studies.shape_settings import Frames, ShapeSource, SizeChoice, Subsampling, Tokenizer
from stopwav.studies.spec import Option
from stopwav.studies.traces import ScheduleText

# The most frames before subsampling that a batch of the published experiment holds.
MAX_FRAMES = 30_000
# Steps of a round, each on a batch of its own.
STEPS = 10
# One step is enough to see what is large; the first under the profiler is slow.
PROFILE_SCHEDULE = "wait=0,warmup=1,active=1,repeat=1"
# Optimisers of the reference; a job of your own brings its own.
Optimizer = Literal["adamw", "adam", "sgd"]
Dtype = Literal["float32", "tf32", "bfloat16", "float16"]


class StepSpec(BudgetedSpec):
    """The settings of a step run."""

    # In the run of a model that Python code handed over: its class.
    model: Annotated[
        str,
        Option(
            "`conformer-transducer[,key=value…]`, or FILE.py:FUNCTION, which returns a model, its batches, its loss "
            "and its optimiser.",
            positional=True,
            metavar="MODEL",
        ),
    ]
    shapes: ShapeSource = "librispeech"
    tokenizer: Tokenizer = None
    frames: Frames = None
    subsampling: Subsampling = SUBSAMPLING
    size: SizeChoice = None
    max_frames: Annotated[
        int | None,
        Option("Input frames of a batch at most; published: 30000 and sorted, unless --batch-size is given."),
    ] = Field(default=None, gt=0)
    batch_size: Annotated[int | None, Option("Utterances per batch, instead of --max-frames.")] = Field(
        default=None, gt=0
    )
    sort: Annotated[bool, Option("Sort by length before batches are made.")] = False
    steps: Annotated[
        int | None, Option("Steps to measure, each on its own batch, over the whole range of lengths; published 10.")
    ] = Field(default=None, gt=0)
    depth: Annotated[int, Option("How deep modules are profiled; the number of a layer does not count.")] = Field(
        default=3, ge=0
    )
    modules: Annotated[list[str], Option("Profile these modules too, however deep; repeatable.", metavar="PATTERN")] = (
        Field(default_factory=list)
    )
    optimizer: Annotated[Optimizer, Option("adamw, adam or sgd; FILE.py:FUNCTION returns its own.")] = "adamw"
    dtype: Annotated[Dtype, Option("float32, tf32, bfloat16 or float16.")] = "float32"
    autocast: Annotated[bool, Option("Compute in --dtype by autocast.")] = False
    compile: Annotated[bool, Option("Compile the model; then only the whole model has a row.")] = False
    device: Annotated[str, Option("cpu, cuda or cuda:N.")] = "cpu"
    time_limit_s: Annotated[float, Option("Seconds that loading or one step may take.")] = Field(default=600.0, gt=0)
    memory_limit_gb: Annotated[
        float | None, Option("GB of host memory that a process may use before it counts as out of memory.")
    ] = Field(default=None, gt=0)
    profile: Annotated[bool, Option("Run more steps under torch.profiler: operators, kernels, a trace.")] = False
    profile_schedule: Annotated[
        ScheduleText,
        Option("Steps to wait, warm up and record under --profile, and repetitions; implies --profile.", stored=False),
    ] = PROFILE_SCHEDULE
    seed: Annotated[int, Option("Seed of weights, features and batches.")] = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_batching(self) -> StepSpec:
        if self.max_frames is not None and self.batch_size is not None:
            raise ValueError("--max-frames and --batch-size: give one of them, not both")
        given = next((name for name in ("max_frames", "batch_size", "steps") if getattr(self, name) is not None), None)
        if self.size == "fit" and given is not None:
            flag = given.replace("_", "-")
            raise ValueError(f"--size fit chooses the size of batches, and --{flag} gives it: leave out one of them")
        self.size = self.size or ("published" if given is not None or not self.is_budgeted else "fit")
        if self.max_frames is None and self.batch_size is None:
            self.max_frames, self.sort = None if self.is_fitted else MAX_FRAMES, True
        self.steps = self.steps or (None if self.is_fitted else STEPS)
        if self.autocast and self.dtype in ("float32", "tf32"):
            raise ValueError("--autocast computes in bfloat16 or float16: give one of them as --dtype")
        if self.dtype == "tf32" and self.device == "cpu":
            raise ValueError("--dtype tf32: only CUDA devices have it; give float32, or --device cuda")
        if self.profile_schedule != PROFILE_SCHEDULE:
            self.profile = True
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether the size of batches is chosen for the machine: the header of the run then says which it is."""
        return self.size == "fit"
