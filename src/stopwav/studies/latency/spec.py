"""The settings of `stopwav latency`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, field_validator, model_validator

from stopwav.measure.clock import Pace
from stopwav.servers.registry import is_server
from stopwav.studies.budget import BudgetedSpec
from stopwav.studies.corpus_settings import AlignerSetting, LanguageSetting, NormaliserSetting
from stopwav.studies.engine_names import EngineList
from stopwav.studies.spec import Option, SharingMachines


class TriedKnob(BaseModel, extra="forbid"):
    """A setting that an engine offers to try: the engine with it, or why it is not tried."""

    setting: str
    engine: str | None = None
    unavailable: str = ""


class LatencySpec(BudgetedSpec):
    """The settings of a latency run."""

    engines: Annotated[
        EngineList,
        Option(
            "Engines, as [LABEL=]NAME[:SOURCE][,key=value…]; see `stopwav engines`.", positional=True, metavar="ENGINE"
        ),
    ] = Field(min_length=1)
    corpus: Annotated[
        str,
        Option(
            "`bundled`, a folder of audio (with transcripts or without), an audio file, a LibriSpeech tree, a NeMo "
            "manifest, a Kaldi folder."
        ),
    ] = "bundled"
    words: Annotated[str | None, Option("CTM file with the time of every word; default: found by alignment.")] = None
    aligner: AlignerSetting = None
    language: LanguageSetting = None
    normaliser: NormaliserSetting = None
    chunk_ms: Annotated[float | None, Option("Milliseconds of audio per push; default: what the engine asks for.")] = (
        Field(default=None, gt=0)
    )
    pace: Annotated[
        Pace,
        Option(
            "virtual: as fast as possible, with waiting reconstructed; real: by the clock, as servers always are; "
            "idle: by the clock, and the core may sleep in between."
        ),
    ] = "virtual"
    streams: Annotated[int, Option("Utterances at a time through a server; engines in a process take one.")] = Field(
        default=1, gt=0
    )
    limit: Annotated[int | None, Option("Use only this many utterances, drawn by --seed.")] = Field(default=None, gt=0)
    # Where the engine is fed by the clock, the length of the audio is added.
    time_limit_s: Annotated[float, Option("Seconds that an engine may take for one utterance.")] = Field(
        default=60.0, gt=0
    )
    seed: Annotated[int, Option("Seed of the order, the draw and the intervals.")] = Field(default=0, ge=0)
    machines: SharingMachines = 1
    explain: Annotated[
        bool,
        Option("Find out what would help: measure the engine, and each setting that it offers to try.", stored=False),
    ] = False
    # With `explain`, the settings that the first engine offers; the other engines are those with one of them each.
    knobs: list[TriedKnob] | None = None

    @model_validator(mode="after")
    def _servers(self) -> LatencySpec:
        """Servers are fed by the clock, and so is whatever is compared with them."""
        remote = [engine for engine in self.engines if is_server(engine)]
        if remote and self.pace == "virtual":
            self.pace = "real"
        if self.streams > 1 and len(remote) < len(self.engines):
            local = next(engine for engine in self.engines if engine not in remote)
            raise ValueError(f"--streams {self.streams} is for servers, and {local} runs in a process: leave it out")
        return self

    @field_validator("corpus", "words", mode="before")
    @classmethod
    def _as_text(cls, path: Any) -> Any:
        return str(path) if isinstance(path, Path) else path
