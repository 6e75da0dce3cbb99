"""The settings of `stopwav step`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from stopwav.speech.shapes import SUBSAMPLING
from stopwav.studies.shape_settings import Frames, ShapeSource, Subsampling, Tokenizer
from stopwav.studies.spec import Option, StudySpec
from stopwav.studies.traces import ScheduleText

# The most frames before subsampling that a batch of the published experiment holds.
MAX_FRAMES = 30_000
# One step is enough to see what is large; the first under the profiler is slow.
PROFILE_SCHEDULE = "wait=0,warmup=1,active=1,repeat=1"
# Optimisers of the reference; a job of your own brings its own.
Optimizer = Literal["adamw", "adam", "sgd"]
Dtype = Literal["float32", "bfloat16", "float16"]


class StepSpec(StudySpec):
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
    max_frames: Annotated[
        int | None, Option("Input frames of a batch at most; default: 30000 and sorted, unless --batch-size is given.")
    ] = Field(default=None, gt=0)
    batch_size: Annotated[int | None, Option("Utterances per batch, instead of --max-frames.")] = Field(
        default=None, gt=0
    )
    sort: Annotated[bool, Option("Sort by length before batches are made.")] = False
    steps: Annotated[int, Option("Steps to measure, each on its own batch, over the whole range of lengths.")] = Field(
        default=10, gt=0
    )
    depth: Annotated[int, Option("How deep modules are profiled; the number of a layer does not count.")] = Field(
        default=3, ge=0
    )
    modules: Annotated[list[str], Option("Profile these modules too, however deep; repeatable.", metavar="PATTERN")] = (
        Field(default_factory=list)
    )
    optimizer: Annotated[Optimizer, Option("adamw, adam or sgd; FILE.py:FUNCTION returns its own.")] = "adamw"
    dtype: Annotated[Dtype, Option("float32, bfloat16 or float16.")] = "float32"
    autocast: Annotated[bool, Option("Compute in --dtype by autocast.")] = False
    compile: Annotated[bool, Option("Compile the model; then only the whole model has a row.")] = False
    device: Annotated[str, Option("cpu, cuda or cuda:N.")] = "cpu"
    rounds: Annotated[int, Option("Rounds, each in fresh processes.")] = Field(default=3, gt=0)
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
        if self.max_frames is None and self.batch_size is None:
            self.max_frames, self.sort = MAX_FRAMES, True
        if self.autocast and self.dtype == "float32":
            raise ValueError("--autocast computes in bfloat16 or float16: give one of them as --dtype")
        if self.profile_schedule != PROFILE_SCHEDULE:
            self.profile = True
        return self
