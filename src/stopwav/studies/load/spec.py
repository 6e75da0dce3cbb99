"""The settings of `stopwav load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from stopwav.errors import StopwavError
from stopwav.servers.registry import is_server
from stopwav.studies.budget import BudgetedSpec, parse_time
from stopwav.studies.corpus_settings import AlignerSetting, LanguageSetting, NormaliserSetting
from stopwav.studies.engine_names import EngineList, engine_names, engine_settings
from stopwav.studies.load.objective import DEFAULT, Objective, parse_objective
from stopwav.studies.load.schedule import Arrivals
from stopwav.studies.load.search import MOST_STREAMS
from stopwav.studies.spec import Option

# Real: through a server, by the clock. Virtual: one worker in this machine's process, whose waiting is computed.
LoadPace = Literal["real", "virtual"]


class LoadSpec(BudgetedSpec):
    """The settings of a load run."""

    targets: Annotated[
        EngineList,
        Option(
            "Servers, as [LABEL=]NAME:ADDRESS[,key=value…], or engines, each of which is put behind `stopwav serve`; "
            "see `stopwav engines`.",
            positional=True,
            metavar="TARGET",
        ),
    ] = Field(min_length=1)
    slo: Annotated[
        str,
        Option(
            "The objective: captions, dictation, voice-agent, or conditions such as "
            '"word_latency_p95<1.0, final_latency_p95<0.8, failed<1%".',
            metavar="OBJECTIVE",
        ),
    ] = DEFAULT
    streams: Annotated[
        list[PositiveInt] | None, Option("Measure just these numbers of streams; default: search the capacity.")
    ] = None
    most: Annotated[int, Option("The most streams that a search tries.")] = Field(
        default=MOST_STREAMS, gt=0, le=100_000
    )
    arrivals: Annotated[
        Arrivals,
        Option(
            "With `streams`, so many at any time, one session after the other; with `constant` and `poisson`, sessions "
            "begin at a rate at which so many are open on average."
        ),
    ] = "streams"
    pace: Annotated[
        LoadPace, Option("real: by the clock; virtual: an engine in a process, one worker, with waiting computed.")
    ] = "real"
    workers: Annotated[int, Option("Worker processes of each engine that is put behind `stopwav serve`.")] = Field(
        default=1, gt=0, le=256
    )
    processes: Annotated[int, Option("Client processes; one carries about a thousand streams.")] = Field(
        default=1, gt=0, le=64
    )
    generators: Annotated[
        int,
        Option("With --on, so many machines send the streams, --processes on each, from a common start.", stored=False),
    ] = Field(default=1, gt=0, le=256)
    max_batch: Annotated[
        int | None, Option("Streams that an engine may advance in one step, where it can; default: that of `serve`.")
    ] = Field(default=None, gt=0)
    max_wait_ms: Annotated[
        float | None, Option("How long such a step may wait for more streams to be due; default: that of `serve`.")
    ] = Field(default=None, ge=0)
    pid: Annotated[
        int | None,
        # Not stored: a server that was started again between a run and its resumption is another process.
        Option("Process of a server on this machine, whose processor time and memory are watched.", stored=False),
    ] = Field(default=None, gt=0)
    soak_s: Annotated[
        float | None,
        Option(
            "Hold one level for so long, such as 10m, for the slopes of memory and latency.", metavar="TIME", text=True
        ),
    ] = Field(default=None, gt=0)
    faults: Annotated[
        bool,
        Option("Also measure each level with sessions that disconnect, stall, send garbage or read slowly."),
    ] = False
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
    chunk_ms: Annotated[float | None, Option("Milliseconds of audio per message; default: 100, or the engine's.")] = (
        Field(default=None, gt=0)
    )
    limit: Annotated[int | None, Option("Use only this many utterances, drawn by --seed.")] = Field(default=None, gt=0)
    seed: Annotated[int, Option("Seed of the draw, of the beginnings of sessions and of the intervals.")] = Field(
        default=0, ge=0
    )

    @property
    def names(self) -> list[str]:
        """The names of the targets in results: their labels or, without one, their settings."""
        return engine_names(self.targets)

    def setting_of(self, name: str) -> str:
        """Return the setting of the target that results call so, without its label."""
        return engine_settings({"targets": self.targets})[name]

    @property
    def objective(self) -> Objective:
        """The objective."""
        return parse_objective(self.slo)

    @property
    def machines(self) -> int:
        """On a cluster, how many machines take part."""
        return self.generators

    @property
    def is_search(self) -> bool:
        """Whether the capacity is searched, and no levels are given."""
        return self.streams is None

    @field_validator("corpus", "words", mode="before")
    @classmethod
    def _as_text(cls, path: Any) -> Any:
        return str(path) if isinstance(path, Path) else path

    @field_validator("soak_s", mode="before")
    @classmethod
    def _soak(cls, value: Any) -> Any:
        return parse_time(value) if isinstance(value, str) else value

    @field_validator("streams")
    @classmethod
    def _rising(cls, values: list[int] | None) -> list[int] | None:
        return None if not values else sorted(set(values))

    @field_validator("slo")
    @classmethod
    def _objective(cls, text: str) -> str:
        try:
            parse_objective(text)
        except StopwavError as error:
            raise ValueError(str(error)) from None
        return text

    @model_validator(mode="after")
    def _go_together(self) -> LoadSpec:
        servers = [target for target in self.targets if is_server(target)]
        if self.pace == "virtual" and servers:
            raise ValueError(f"--pace virtual is for engines in a process, and {servers[0]} is a server")
        if self.pace == "virtual" and (self.faults or self.soak_s):
            raise ValueError("--pace virtual has no network and no memory over time: leave out --faults and --soak")
        if self.pid is not None and len(servers) != 1:
            raise ValueError("--pid goes with one server: name one, and no second")
        if (self.soak_s or self.faults) and (self.streams is None or (self.soak_s and len(self.streams) != 1)):
            option = "--soak" if self.soak_s else "--faults"
            raise ValueError(f"{option} holds a level: give it with --streams, such as --streams 4")
        engines = [target for target in self.targets if target not in servers]
        if self.on is not None and self.pace == "real" and engines:
            raise ValueError(
                f"--on {self.on}: machines of a cluster cannot reach a server that is started here; start `stopwav "
                f"serve {engines[0]} --host 0.0.0.0` and name its address, such as vosk-server:ws://HOST:2700"
            )
        if self.generators > 1 and self.pace == "virtual":
            raise ValueError(f"--generators {self.generators}: --pace virtual has no generators; leave it out")
        if len(set(self.targets)) < len(self.targets):
            raise ValueError("a target is named twice; leave one out, or give each a label such as fast=…")
        return self
