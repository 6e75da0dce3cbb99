"""The settings of `stopwav grid`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from stopwav.errors import StopwavError, suggestion
from stopwav.measure.plan import REPORT, Plan
from stopwav.profiling.schedule import DETAILS, TraceOptions
from stopwav.studies.audio_input import BUNDLED
from stopwav.studies.budget import BudgetedSpec
from stopwav.studies.engine_names import EngineList, engine_names
from stopwav.studies.spec import Option, PythonOnly

# Those of the tables that the field knows.
DURATIONS_S = [1.0, 2.0, 5.0, 8.0, 32.0]
BATCH_SIZES = [1, 4, 8]


class GridSpec(BudgetedSpec):
    """The settings of a grid run."""

    engines: Annotated[
        EngineList,
        Option(
            "Engines, as [LABEL=]NAME[:SOURCE][,key=value…]; see `stopwav engines`. Or SpeechBrain's profile.yaml.",
            positional=True,
            metavar="ENGINE",
        ),
    ] = Field(min_length=1)
    # Both are kept in rising order, each once.
    durations: Annotated[list[PositiveFloat], Option("Seconds of audio, the rows of the grid.")] = Field(
        default=DURATIONS_S, min_length=1
    )
    batch_sizes: Annotated[list[PositiveInt], Option("Utterances at once, the columns of the grid.")] = Field(
        default=BATCH_SIZES, min_length=1
    )
    audio: Annotated[
        str,
        Option(
            "`bundled` speech, `noise`, an audio file, or a folder of them in a row; cut or repeated to the length."
        ),
    ] = BUNDLED
    device: Annotated[
        str | None, Option("Device, such as cuda: the engine's option `device`, which also decides the clock.")
    ] = None
    triangle: Annotated[bool, Option("Skip the heavy corner, as SpeechBrain's triangle_only does.")] = False
    frontier: Annotated[bool, Option("Find the largest batch that fits for each duration, by bisection.")] = False
    time_limit_s: Annotated[float, Option("Seconds that one round of a cell may take.")] = Field(default=300.0, gt=0)
    memory_limit_gb: Annotated[
        float | None, Option("GB of host memory that a process may use before it counts as out of memory.")
    ] = Field(default=None, gt=0)
    predict_s: Annotated[
        float | None, Option("Extrapolate the fit to this length in seconds; labelled a prediction.")
    ] = Field(default=None, gt=0)
    traces: Annotated[
        bool, Option("Profile each cell once more after the sweep, for Perfetto or TensorBoard.", stored=False)
    ] = False
    # The four that follow say how to trace, and ask for it.
    trace_details: Annotated[
        list[str],
        Option(
            "What traces hold besides: shapes, stacks (also for FlameGraph), flops, modules; several with commas.",
            metavar="DETAIL",
            stored=False,
        ),
    ] = Field(default_factory=list)
    trace_calls: Annotated[int, Option("Calls of each cell that its trace holds.", stored=False)] = Field(
        default=1, gt=0
    )
    trace_gzip: Annotated[bool, Option("Compress the traces: .json.gz.", stored=False)] = False
    trace_worker: Annotated[
        str | None, Option("Worker that the traces are named by, in place of HOST_PID.", stored=False)
    ] = None
    seed: Annotated[int, Option("Seed of the order of cells and of the noise.")] = Field(default=0, ge=0)
    # How a round is measured, where it is not as the default plan says.
    plan: Annotated[Plan | None, PythonOnly()] = None

    @field_validator("durations", "batch_sizes")
    @classmethod
    def _rising(cls, values: list[Any]) -> list[Any]:
        return sorted(set(values))

    @field_validator("trace_details", mode="before")
    @classmethod
    def _details(cls, values: Any) -> Any:
        """The details, each once, in the order in which DETAILS has them."""
        if not isinstance(values, list | tuple):
            return values
        names = [name.strip() for value in values for name in str(value).split(",")]
        for name in names:
            if name not in DETAILS:
                raise ValueError(f"unknown detail {name!r}; {suggestion(name, DETAILS)}")
        return [name for name in DETAILS if name in names]

    @model_validator(mode="before")
    @classmethod
    def _one_engine(cls, settings: Any) -> Any:
        """Runs of older versions have one engine, under a key of its own."""
        if isinstance(settings, dict) and "engine" in settings and "engines" not in settings:
            others = {name: value for name, value in settings.items() if name != "engine"}
            return {**others, "engines": [settings["engine"]]}
        return settings

    @property
    def lanes(self) -> list[str]:
        """The engines as cells name them: "" for the only one of a run, whose cells need no name."""
        return engine_names(self.engines) if len(self.engines) > 1 else [""]

    def engine(self, lane: str) -> str:
        """Return the engine of a lane, as it was written."""
        return dict(zip(self.lanes, self.engines, strict=True))[lane]

    def name(self, lane: str) -> str:
        """Return what results call the engine of a lane."""
        return lane or engine_names(self.engines)[0]

    @field_validator("trace_worker")
    @classmethod
    def _worker(cls, name: str | None) -> str | None:
        TraceOptions(worker_name=name)  # raises for what is no file name
        return name

    @model_validator(mode="after")
    def _traced(self) -> GridSpec:
        if self.trace_details or self.trace_calls > 1 or self.trace_gzip or self.trace_worker:
            self.traces = True
        return self

    @field_validator("audio", mode="before")
    @classmethod
    def _as_text(cls, path: Any) -> str:
        return str(path)


def plan_of(spec: GridSpec) -> Plan:
    """Return how the rounds of a run are measured."""
    limit_bytes = None if spec.memory_limit_gb is None else round(spec.memory_limit_gb * 1e9)
    return replace(
        spec.plan or REPORT,
        rounds=spec.rounds or 1,  # of a budget, any number: each is asked for by itself
        time_limit_s=spec.time_limit_s,
        memory_limit_bytes=limit_bytes,
        seed=spec.seed,
    )


def engine_of(spec: GridSpec, lane: str) -> str:
    """Return the engine of a lane, with its device in it where one is asked for."""
    from stopwav.engines.registry import parse_spec
    from stopwav.studies.engine_check import check_engine

    engine = spec.engine(lane)
    own = parse_spec(engine).options.get("device")
    if spec.device is None or own == spec.device:
        return engine
    if own is not None:
        raise StopwavError(f"--device {spec.device}: engine {engine!r} names another one; give one of them")
    # An engine without that option is where it was asked to be.
    if spec.device == "cpu" and not check_engine(engine, spec.time_limit_s).takes("device"):
        return engine
    return f"{engine},device={spec.device}"


def device_of(spec: GridSpec, lane: str) -> str:
    """Return the device whose clock times the engine of a lane."""
    from stopwav.engines.registry import parse_spec

    return str(spec.device or parse_spec(spec.engine(lane)).options.get("device") or "cpu")
