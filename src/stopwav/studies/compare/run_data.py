"""The content of a comparison's run, read back: what results, verdicts and the next round are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from stopwav.record import Record
from stopwav.stats import Rule, implausible_cells
from stopwav.studies.budget import SPENT, verdict_rule
from stopwav.studies.compare.energy import Energy, energy_of
from stopwav.studies.compare.external_meter import external_log
from stopwav.studies.compare.pieces import EngineData, read_engines
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.engine_names import engine_names


@dataclass(frozen=True)
class RunData:
    """The settings of a run, its engines, and its energy where that was measured."""

    spec: CompareSpec
    engines: list[EngineData]
    energy: Energy | None
    # How verdicts on latency and energy are made.
    rule: Rule = "fixed"
    # Seconds that a round took and that the run has spent, where it has a budget.
    round_s: float | None = None
    spent_s: float = 0.0

    @property
    def rounds(self) -> int:
        """The number of rounds that are there, of the engine that has most."""
        return max((len(rounds_of(engine)) for engine in self.engines), default=0)


def rounds_of(engine: EngineData) -> set[int]:
    """Return the rounds in which an engine was measured."""
    lengths = (round_.index for measured in engine.lengths.values() for round_ in measured.good)
    return {sample.round for sample in engine.samples} | set(lengths)


def read_run(record: Record) -> RunData:
    """Return what a run holds."""
    spec = CompareSpec(**record.header.spec)
    log, fault = external_log(record)
    engines = read_engines(record, engine_names(spec.engines), log)
    spent = [float(piece.data["seconds"]) for piece in record.pieces if piece.key[0] == SPENT]
    return RunData(
        spec,
        engines,
        energy_of(record, engines, log, fault),
        verdict_rule(record),
        # The first is that of the description, the second that of the first sweep, which has a time of its own.
        median(spent[2:] or spent[1:]) if len(spent) > 1 else None,
        sum(spent),
    )


def implausible_lengths(engine: EngineData) -> list[int]:
    """Return the lengths whose latency does not fit to that at the others, in frames."""
    times = {frames: measured.time.value for frames, measured in engine.lengths.items()}
    return [
        int(frames) for frames, _ in implausible_cells({(frames, 1): time for frames, time in times.items() if time})
    ]
