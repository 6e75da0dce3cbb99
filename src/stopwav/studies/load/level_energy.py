"""The energy of the steady part of a level, by the meters of this machine, where it has any."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from stopwav.measure.energy import measure_window
from stopwav.measure.meter import Meter, Meters, NoMeter
from stopwav.measure.meters import find_meters

# The thread looks up so often whether the window is long enough.
NAP_S = 0.25
# A meter that cannot be read any more is not waited for.
JOIN_LIMIT_S = 5.0


@dataclass(frozen=True)
class LevelEnergy:
    """Joules of each part that has a meter, of the whole machine: gross, idling included."""

    source: str
    window_s: float
    joules: Mapping[str, float]
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {"source": self.source, "window_s": self.window_s, "joules": dict(self.joules), "note": self.note}


class EnergyWatch:
    """Measures the energy from `begin_s` of the level on, for `window_s`, while its block lasts."""

    def __init__(self, origin_ns: int, begin_s: float, window_s: float, meters: Meters | None = None) -> None:
        self._meters = find_meters() if meters is None else meters
        self._origin_ns, self._begin_s, self._window_s = origin_ns, begin_s, window_s
        self._result: LevelEnergy | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> EnergyWatch:
        if isinstance(self._meters.joined(), Meter):
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_LIMIT_S)

    @property
    def result(self) -> LevelEnergy:
        """The energy, or in its note why there is none."""
        meter = self._meters.joined()
        if isinstance(meter, NoMeter):
            return LevelEnergy("", 0.0, {}, f"no meter: {meter.reason}")
        return self._result or LevelEnergy(meter.source, 0.0, {}, "the level ended before the window of the meter did")

    def _measure(self) -> None:
        meter = self._meters.joined()
        assert isinstance(meter, Meter)
        if self._ended.wait(max(0.0, self._begin_s - (time.perf_counter_ns() - self._origin_ns) / 1e9)):
            return
        window = measure_window(lambda: time.sleep(NAP_S), meter, self._window_s, time)
        joules, notes = {}, []
        for part in meter.parts:
            value, reason = window.joules(part)
            if value is None:
                notes.append(f"{part}: {reason}")
            else:
                joules[part] = value
        absent = [part for part in self._meters.whole if part not in joules]
        if absent:
            notes.append("no total without " + ", ".join(absent))
        else:
            joules["total"] = math.fsum(joules[part] for part in self._meters.whole)
        self._result = LevelEnergy(meter.source, window.seconds, joules, "; ".join(notes))
