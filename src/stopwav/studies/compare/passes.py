"""The passes of a comparison that take no time of an input: what each engine is, and energy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stopwav.errors import StopwavError
from stopwav.measure.counter_check import counter_resolutions
from stopwav.measure.energy import IDLE_S
from stopwav.measure.meter_log import read_meter_log
from stopwav.measure.meters import NoMeter, find_meters
from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.record import Piece, Record
from stopwav.studies.compare.engine_runner import EngineRunner
from stopwav.studies.compare.pieces import METER_LOG, METERS, windows_span
from stopwav.studies.compare.side import device_of
from stopwav.studies.worker import LOAD_LIMIT_S, EngineProcess

if TYPE_CHECKING:
    from stopwav.studies.compare.run import CompareSpec


def take_model(spec: CompareSpec, record: Record, name: str, engine: str) -> None:
    """Record what the engine is, its parameters, and its operations at each length; what fails is recorded too."""
    asked: list[tuple[list[str | int], str, tuple[int, ...]]] = [(["model", name], "describe", (spec.depth,))]
    for frames in spec.frames:
        asked.append((["operations", name, frames], "operations", (frames, spec.depth, spec.seed)))
    process: FreshProcess | None = None
    try:
        for key, method, arguments in asked:
            if tuple(key) in record:
                continue
            outcome = Outcome("ok")
            # It may have died of a length; the next one has a new process.
            if process is None or not process.alive:
                if process is not None:
                    process.close()
                process = FreshProcess(EngineRunner, engine, device_of(engine))
                outcome = process.start(LOAD_LIMIT_S)
            if not outcome.ok:
                message = f"the engine did not load: {outcome.message}"
                data = {"loaded": False}
                record.append(
                    Piece(key=key, status=outcome.status, message=message, last_words=outcome.last_words, data=data)
                )
                return
            _append(record, key, process.call(method, *arguments, time_limit_s=spec.time_limit_s))
    finally:
        if process is not None:
            process.close()


def take_meters(spec: CompareSpec, record: Record) -> bool:
    """Whether energy can be measured; what meters there are is recorded, and why others are missing."""
    meters = find_meters()
    joined = meters.joined()
    if tuple(METERS) not in record:
        missing = [f"{meter.source}: {meter.reason}" for meter in meters.missing]
        source = None if isinstance(joined, NoMeter) else joined.source
        grains = {part: asdict(grain) for part, grain in counter_resolutions(meters).items()}
        record.append(Piece(key=METERS, status="ok", data={"source": source, "missing": missing, "grains": grains}))
    return spec.meter_csv is not None or not isinstance(joined, NoMeter)


@dataclass
class EnergyPass:
    """The energy of an engine in one round: one process for all lengths, and a new one for the next where it died."""

    name: str
    engine: str
    round: int
    # Seconds for which the work repeats at each length.
    time_s: float
    external: bool
    plan: Plan
    record: Record
    _process: EngineProcess = field(init=False)

    def __post_init__(self) -> None:
        arguments = (self.engine, device_of(self.engine))
        self._process = EngineProcess(self.name, self.round, self.record, EngineRunner, arguments)

    def take(self, frames: int) -> None:
        """Record the windows of one length, unless they are there."""
        key: list[str | int] = ["energy", self.round, self.name, frames]
        if tuple(key) in self.record:
            return
        # Idle window, warm-up, then the windows, which wait for the counter in between; each may end late by a call.
        limit_s = IDLE_S + MAX_WARMUP_S + 2 * self.time_s + 2 * self.plan.time_limit_s
        outcome = self._process.call(
            "energy", frames, self.plan.seed, self.plan, self.time_s, self.external, time_limit_s=limit_s
        )
        _append(self.record, key, outcome)
        if not outcome.ok:
            # A device that failed once may fail at everything from then on: the next length has a new process.
            self.close()

    def close(self) -> None:
        """End the process."""
        self._process.close()


def keep_meter_log(spec: CompareSpec, record: Record) -> None:
    """Copy what an external meter logged during the windows into the record, so that the run stands alone.

    A log that is not there yet, or is faulty, is left for whoever computes the results to say.
    """
    span = windows_span(record)
    if spec.meter_csv is None or span is None or tuple(METER_LOG) in record:
        return
    try:
        log = read_meter_log(Path(spec.meter_csv)).around(*span)
    except StopwavError:
        return
    if log.times_s and log.times_s[-1] >= span[1]:
        data = {"times_s": list(log.times_s), "watts": list(log.watts)}
        record.append(Piece(key=METER_LOG, status="ok", data=data))


def _append(record: Record, key: list[str | int], outcome: Outcome) -> None:
    data = outcome.value if outcome.ok else {}
    record.append(
        Piece(key=key, status=outcome.status, message=outcome.message, last_words=outcome.last_words, data=data)
    )
