"""The pieces of a comparison, read back: everything that a run holds of each engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.counter_check import CounterResolution
from stopwav.measure.energy_series import WindowEnergy
from stopwav.measure.meter_log import MeterLog
from stopwav.measure.rounds import Measurement, Round
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.budget import SPENT
from stopwav.studies.compare.samples import Sample, samples_of
from stopwav.studies.error_rates import is_by_character
from stopwav.studies.stored_rounds import RoundPlace, round_from_piece

METERS: list[str | int] = ["meters"]
# The first item of the keys under which readings of a meter log are stored; older runs have one piece, without number.
METER_LOG = "meter-log"
# The part that an external meter measures.
EXTERNAL = "external meter"


@dataclass(frozen=True)
class EnergyRun:
    """The windows of one length in one process."""

    round: int
    source: str
    # How often its slowest counter advances.
    tick_s: float
    whole: tuple[str, ...]
    idle: WindowEnergy
    windows: tuple[WindowEnergy, ...]
    # Those without a counter, whose joules are the integral of sampled power.
    sampled_parts: tuple[str, ...] = ()
    # Of a run on a cluster, the machine.
    machine: str = ""


@dataclass(frozen=True)
class EngineData:
    """Everything that a run holds of one engine; `info` is its description, empty where it never loaded."""

    name: str
    info: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] | None = None
    # By frames.
    operations: dict[int, Piece] = field(default_factory=dict)
    lengths: dict[int, Measurement] = field(default_factory=dict)
    emitted_tokens: dict[int, int] = field(default_factory=dict)
    energy: dict[int, list[EnergyRun]] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    # Pieces of any kind that failed.
    failed: tuple[Piece, ...] = ()
    loads: tuple[Piece, ...] = ()

    @property
    def untrained(self) -> bool:
        """Whether its weights are random, so that no metric of its texts has a value."""
        return bool(self.info.get("untrained", False))

    @property
    def by_character(self) -> bool:
        """Whether texts are compared by their characters, because their language is written without spaces."""
        return is_by_character(sample.utterance for sample in self.samples)


def length_place(name: str, frames: int) -> RoundPlace:
    """Return where the rounds of a length are stored."""
    return RoundPlace("length", (name, frames))


def load_failure(pieces: Iterable[Piece], name: str) -> Piece | None:
    """Return the piece of an engine that did not load to be described, after which nothing more is tried; or None."""
    return next((piece for piece in pieces if piece.key == ["model", name] and "loaded" in piece.data), None)


def read_engines(record: Record, names: Sequence[str], log: MeterLog | None = None) -> list[EngineData]:
    """Return everything that the run holds of each engine, with the joules of an external meter that has a log."""
    return [_read_engine(record, name, log) for name in names]


def meter_log_of(record: Record) -> MeterLog | None:
    """Return the readings of an external meter that the run holds; None where it holds none."""
    stored = [piece.data for piece in meter_log_pieces(record) if piece.data["times_s"]]
    if not stored:
        return None
    times_s = tuple(time_s for data in stored for time_s in data["times_s"])
    return MeterLog(times_s, tuple(watts for data in stored for watts in data["watts"]), stored[-1].get("source", ""))


def meter_log_pieces(record: Record) -> list[Piece]:
    """Return the pieces that hold readings of an external meter, in the order of the readings."""
    return [piece for piece in record.pieces if piece.key[0] == METER_LOG]


def meters_of(record: Record) -> Mapping[str, Any] | None:
    """Return which meters the machine has, where that was looked up."""
    return next((piece.data for piece in record.pieces if piece.key == METERS), None)


def resolutions_of(record: Record) -> dict[str, CounterResolution]:
    """Return the counter resolution of each metered part, where it was measured."""
    stored = (meters_of(record) or {}).get("grains", {})
    return {part: CounterResolution(**fields) for part, fields in stored.items()}


def windows_span(record: Record) -> tuple[float, float] | None:
    """Return from when to when energy was measured, in seconds since 1970."""
    runs = [_energy_run(piece) for piece in record.pieces if piece.key[0] == "energy" and piece.status == "ok"]
    windows = [window for run in runs for window in (run.idle, *run.windows)]
    if not windows:
        return None
    return min(window.begin_s for window in windows), max(window.end_s for window in windows)


def _read_engine(record: Record, name: str, log: MeterLog | None) -> EngineData:
    own = [piece for piece in record.pieces if _engine_of(piece) == name]
    good = [piece for piece in own if piece.status == "ok"]
    rounds: dict[int, list[Round]] = {}
    for piece in own:
        if piece.key[0] == "length":
            rounds.setdefault(int(piece.key[3]), []).append(round_from_piece(piece))
    energy: dict[int, list[EnergyRun]] = {}
    for piece in good:
        if piece.key[0] == "energy":
            energy.setdefault(int(piece.key[3]), []).append(_with_log(_energy_run(piece), log))
    model = next((piece.data for piece in good if piece.key[0] == "model"), {})
    counted = [piece for piece in good if piece.key[0] == "length" and piece.data.get("emitted_tokens") is not None]
    return EngineData(
        name=name,
        info=model.get("engine") or next((piece.data["engine"] for piece in good if "engine" in piece.data), {}),
        parameters=model.get("parameters"),
        operations={int(piece.key[2]): piece for piece in own if piece.key[0] == "operations"},
        lengths={frames: Measurement(name, {}, tuple(rounds[frames])) for frames in sorted(rounds)},
        emitted_tokens={int(piece.key[3]): int(piece.data["emitted_tokens"]) for piece in counted},
        energy=energy,
        samples=samples_of(record, good),
        failed=tuple(piece for piece in own if piece.status != "ok"),
        loads=tuple(piece for piece in good if piece.key[0] == "load"),
    )


def _engine_of(piece: Piece) -> str:
    """The engine that a piece is about; the pieces of the run as a whole have none."""
    if piece.key == METERS or piece.key[0] in (METER_LOG, SPENT):
        return ""
    return str(piece.key[1] if piece.key[0] in ("model", "operations") else piece.key[2])


def _energy_run(piece: Piece) -> EnergyRun:
    data = piece.data
    return EnergyRun(
        round=int(piece.key[1]),
        source=data["source"],
        tick_s=data["tick_s"],
        whole=tuple(data["whole"]),
        idle=WindowEnergy(**data["idle"]),
        windows=tuple(WindowEnergy(**window) for window in data["windows"]),
        sampled_parts=tuple(data.get("sampled_parts", ())),
        machine=piece.machine,
    )


def _with_log(run: EnergyRun, log: MeterLog | None) -> EnergyRun:
    """The windows, each with the joules of the external meter, or with the reason why its log has none for it."""
    if log is None:
        return run
    windows = tuple(_window_with_log(window, log) for window in run.windows)
    return replace(run, idle=_window_with_log(run.idle, log), windows=windows)


def _window_with_log(window: WindowEnergy, log: MeterLog) -> WindowEnergy:
    try:
        joules = log.joules(window.begin_s, window.end_s)
    except StopwavError as error:
        return replace(window, missing={**window.missing, EXTERNAL: str(error)})
    return replace(window, joules={**window.joules, EXTERNAL: joules})
