"""The settings of `stopwav compare`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from stopwav.measure.plan import COMPARISON, Plan
from stopwav.speech.corpus import BUNDLED
from stopwav.studies.budget import BudgetedSpec
from stopwav.studies.corpus_settings import LanguageSetting, NormaliserSetting
from stopwav.studies.engine_names import EngineList
from stopwav.studies.spec import Option, PythonOnly, SharingMachines

# Seconds 1 to 16, doubling: the lengths over which published comparisons of recognisers plot their curves.
FRAMES = [100, 200, 400, 800, 1600]
# As many as older reports average over; enough for a P95.
SAMPLES = 100
# Of each process of a run with a budget, after its first call: the first call at each length is not a value either.
BUDGETED_WARMUP_S = 0.25
# The fewest rounds with a Student interval; each loads the engine again, once for all lengths.
ENERGY_ROUNDS = 3


class CompareSpec(BudgetedSpec):
    """The settings of a comparison."""

    engines: Annotated[
        EngineList,
        Option(
            "Engines, as [LABEL=]NAME[:SOURCE][,key=value…]; see `stopwav engines`.", positional=True, metavar="ENGINE"
        ),
    ] = Field(min_length=1)
    # Kept in rising order, each once.
    frames: Annotated[list[int], Option("Lengths of input over which latency is measured, in frames of 10 ms.")] = (
        Field(default=FRAMES, min_length=1)
    )
    samples: Annotated[
        int,
        Option("Inputs drawn from the corpus by --seed, for latency and word errors; each round takes the next ones."),
    ] = Field(default=SAMPLES, gt=0)
    corpus: Annotated[
        str,
        Option(
            "`bundled`, a folder of audio (with transcripts or without), an audio file, a LibriSpeech tree, a NeMo "
            "manifest, a Kaldi folder."
        ),
    ] = BUNDLED
    language: LanguageSetting = None
    normaliser: NormaliserSetting = None
    energy: Annotated[bool, Option("Measure joules and watts at each length, by whatever meter is found.")] = False
    energy_time_s: Annotated[
        float,
        Option("Seconds of repeated work at each length, or less once its joules are known to 5 %."),
    ] = Field(default=60.0, gt=0)
    meter_csv: Annotated[
        str | None,
        Option("Log of an external power meter, a line per reading: timestamp, watts. It may grow during the run."),
    ] = None
    expect: Annotated[
        list[str], Option('Hypothesis to be judged, such as "a faster b"; repeatable.', metavar="TEXT")
    ] = Field(default=[])
    depth: Annotated[int, Option("Levels of modules for parameters and operations.")] = Field(default=1, ge=0)
    time_limit_s: Annotated[float, Option("Seconds that loading or one call may take.")] = Field(default=300.0, gt=0)
    seed: Annotated[int, Option("Seed of the order, the draw and the intervals.")] = Field(default=0, ge=0)
    machines: SharingMachines = 1
    # How a round is measured, where it is not as the default plan says.
    plan: Annotated[Plan | None, PythonOnly()] = None

    @classmethod
    def thorough_rounds(cls) -> int:
        """The rounds of a comparison by a fixed plan."""
        return COMPARISON.rounds

    @field_validator("corpus", "meter_csv", mode="before")
    @classmethod
    def _as_text(cls, path: Any) -> Any:
        return None if path is None else str(path)

    @field_validator("frames")
    @classmethod
    def _rising(cls, values: list[int]) -> list[int]:
        if not min(values) > 0:
            raise ValueError("each must be above 0")
        return sorted(set(values))

    @model_validator(mode="after")
    def _metered(self) -> CompareSpec:
        # The log of a meter asks for energy.
        self.energy = self.energy or self.meter_csv is not None
        if self.on is not None and self.meter_csv is not None:
            message = f"--meter-csv is the log of a meter here, and --on {self.on} measures elsewhere: leave one out"
            raise ValueError(message)
        return self


def plan_of(spec: CompareSpec) -> Plan:
    """Return how a round is measured."""
    plan = replace(spec.plan or COMPARISON, time_limit_s=spec.time_limit_s, seed=spec.seed)
    if spec.rounds is None:
        return replace(plan, warmup_s=min(plan.warmup_s, BUDGETED_WARMUP_S))
    return replace(plan, rounds=spec.rounds)


def round_inputs(spec: CompareSpec, index: int) -> range:
    """Return which inputs belong to a round of a fixed plan: each engine transcribes each once, in one of the rounds.

    Of a run with a budget, the one that its first round cannot do without.
    """
    return range(1) if spec.rounds is None else range(index, spec.samples, spec.rounds)


def energy_rounds(spec: CompareSpec) -> int:
    """Return the number of rounds in which energy is measured, at the most where there is a budget."""
    return min(ENERGY_ROUNDS, spec.rounds or ENERGY_ROUNDS) if spec.energy else 0
