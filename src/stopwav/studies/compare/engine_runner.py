"""One engine of a comparison, inside its own fresh process: its description, and the cost of its inputs."""

from __future__ import annotations

import gc
from dataclasses import asdict, dataclass, field
from typing import Any

from stopwav.engines.protocol import Engine
from stopwav.engines.registry import make
from stopwav.errors import Caution, StopwavError
from stopwav.measure.clock import Timing, clock_for
from stopwav.measure.energy_series import WindowEnergy, idle_window, with_external, work_windows
from stopwav.measure.float32_products import engine_precision
from stopwav.measure.machine import throttle_count
from stopwav.measure.meter import NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.plan import Plan
from stopwav.measure.rounds import Round
from stopwav.measure.sampler import (
    MIN_VALUE_S,
    MIN_WARMUP_CALLS,
    ONE_CALL,
    Samples,
    choose_loops,
    sample,
    time_calls,
    warm_up,
)
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.corpus import Utterance
from stopwav.studies.audio_input import BUNDLED, make_audio
from stopwav.studies.compare.network_size import count_multiply_adds, count_parameters
from stopwav.studies.fresh_batches import FreshBatches

# A frame is the 10 ms that features advance by, in every recogniser of this field.
FRAME_S = 0.01
NOT_TORCH = "not a torch model"


def device_of(engine: str) -> str:
    """Return the device that an engine's options name: its clock is the one to time it by."""
    from stopwav.engines.registry import parse_spec

    return str(parse_spec(engine).options.get("device") or "cpu")


class _Call:
    """One input through an engine, a copy of it in each call, and the facts to store afterwards."""

    def __init__(self, engine: Engine, audio: Audio) -> None:
        self._engine, self._batches = engine, FreshBatches(audio)

    @property
    def facts(self) -> dict[str, Any]:
        """The description of the engine, and how many tokens it emitted for this input."""
        return {"engine": self._engine.info.to_json(), "emitted_tokens": _emitted(self._engine)}

    def prepare_calls(self, count: int) -> int:
        """Make the inputs of the next calls, and return of how many."""
        return self._batches.prepare(count)

    def __call__(self) -> str:
        """Return the text of the input."""
        return _text(self._engine, self._batches.take())


@dataclass
class _Visit:
    """What a process has taken at one length so far."""

    call: _Call
    throttled_before: int | None
    first: Timing | None = None
    loops: int = 1
    timings: list[Timing] = field(default_factory=list)
    samples: Samples | None = None


def _samples_of(visit: _Visit) -> Samples:
    """The times of a visit; the first call is its value where there was no time for another."""
    assert visit.first is not None
    timings, loops = visit.timings or [visit.first], visit.loops if visit.timings else 1
    message = "a call takes longer than its share of the budget: the value is the first call at this length"
    return Samples(
        first_s=visit.first.wall_s,
        warmup_s=(),
        loops=loops,
        values_s=tuple(timing.wall_s / loops for timing in timings),
        device_values_s=tuple(timing.device_s / loops for timing in timings if timing.device_s is not None),
        stages_s=tuple({path: total / loops for path, total in timing.stages.items()} for timing in timings),
        cautions=() if visit.timings else (Caution(ONE_CALL, message),),
    )


class EngineRunner:
    """One engine in its process. Each method returns plain values, ready for the run file."""

    def __init__(self, engine: str, device: str) -> None:
        self._clock = clock_for(device)
        loaded = self._clock.time(lambda: _offline(engine))
        self._engine: Engine = loaded.result
        self._load_s = loaded.wall_s
        self._precision = engine_precision(engine, self._engine.info.precision)
        self._precision.hold("after the engine was loaded")
        self._idle: WindowEnergy | None = None

    def describe(self, depth: int) -> dict[str, Any]:
        """Return the description of the engine, and its parameters where it has a torch network."""
        network = getattr(self._engine, "network", None)
        parameters = None if network is None else count_parameters(network, depth)
        return {"engine": self._engine.info.to_json(), "parameters": parameters}

    def operations(self, frames: int, depth: int, seed: int) -> dict[str, Any]:
        """Return the multiply-adds of one input, or why they were not counted."""
        network = getattr(self._engine, "network", None)
        if network is None:
            return {"multiply_adds": None, "reason": NOT_TORCH}
        return count_multiply_adds(network, _Call(self._engine, _speech(self._engine, frames, seed)), depth)

    def warm_up(self, utterance: Utterance, plan: Plan, min_calls: int = MIN_WARMUP_CALLS) -> dict[str, Any]:
        """Return the description of the engine, and the times of loading, the first call and each warm-up call."""
        call = _Call(self._engine, self._load(utterance))
        first_s = time_calls(call, 1, self._clock).wall_s
        warmup_s, cautions = warm_up(call, self._clock, plan, min_calls)
        # What is imported at the first call may change the precision; what changes it again later is an error.
        self._precision.hold("after the warm-up")
        return {
            "engine": self._engine.info.to_json(),
            "load_s": self._load_s,
            "first_s": first_s,
            "warmup_s": list(warmup_s),
            "cautions": [*self._precision.said(), *([caution.code, caution.message] for caution in cautions)],
        }

    def measure_length(self, frames: int, seed: int, plan: Plan) -> Round:
        """Return the whole sample of one length that a plan asks for: first call, warm-up, values."""
        self._begin(frames, seed)
        self._visit.samples = sample(self._visit.call, self._clock, plan)
        return self.close_length()

    def open_length(self, frames: int, seed: int) -> float:
        """Begin a visit of one length, and return the seconds of its first call."""
        self._begin(frames, seed)
        self._visit.first = time_calls(self._visit.call, 1, self._clock)
        # A longer call is a value by itself.
        if self._visit.first.wall_s < MIN_VALUE_S:
            self._visit.loops = choose_loops(self._visit.call, self._clock)
        return self._visit.first.wall_s

    def take_values(self, count: int) -> None:
        """Take so many values of the length that is visited."""
        visit = self._visit
        for _ in range(count):
            timing = time_calls(visit.call, visit.loops, self._clock)
            visit.timings.append(Timing(timing.wall_s, timing.device_s, timing.spans, None))

    def close_length(self) -> Round:
        """End the visit of a length, and return what it took."""
        visit, after = self._visit, throttle_count()
        self._precision.check()
        return Round(
            index=0,
            status="ok",
            load_s=self._load_s,
            samples=visit.samples or _samples_of(visit),
            throttled=visit.throttled_before is not None and after is not None and after > visit.throttled_before,
            facts=visit.call.facts,
        )

    def transcribe(self, utterance: Utterance) -> dict[str, Any]:
        """Return the text of one utterance, and how long it took."""
        audio = self._load(utterance)
        duration_s = audio.duration_s
        # Garbage of the harness is collected before the call, not inside it.
        gc.collect()
        timing = self._clock.time(lambda: _text(self._engine, [audio]))
        self._precision.check()
        return {
            "seconds": timing.wall_s,
            "device_s": timing.device_s,
            "audio_s": duration_s,
            "text": timing.result,
            "emitted_tokens": _emitted(self._engine),
        }

    def energy(
        self, frames: int, seed: int, plan: Plan, time_s: float, external: bool, log_interval_s: float = 0.0
    ) -> dict[str, Any]:
        """Return the windows of one input that repeats, and the idle window before them; raise without a meter.

        With an `external` meter they are long enough for its log, which has a reading every `log_interval_s` seconds.
        """
        meters = find_meters()
        meter = meters.joined()
        if external:
            meter = with_external(meter, log_interval_s)
        if isinstance(meter, NoMeter):
            raise StopwavError(f"no meter: {meter.reason}")
        call = _Call(self._engine, _speech(self._engine, frames, seed))
        if self._idle is None:
            # Once: a GPU keeps its clocks up after work, so that a later length would have a higher idle power.
            self._idle = idle_window(meter)
        _, cautions = warm_up(call, self._clock, plan)
        windows = work_windows(call, meter, time_s=time_s)
        self._precision.check()
        return {
            **call.facts,
            "source": meter.source,
            "tick_s": meter.tick_s,
            "whole": list(meters.whole),
            "sampled_parts": [part for part in meter.parts if meter.has_only_power(part)],
            "idle": asdict(self._idle),
            "windows": [asdict(window) for window in windows],
            "cautions": [[caution.code, caution.message] for caution in cautions],
        }

    def _begin(self, frames: int, seed: int) -> None:
        self._visit = _Visit(_Call(self._engine, _speech(self._engine, frames, seed)), throttle_count())

    def _load(self, utterance: Utterance) -> Audio:
        return load_utterance(utterance, self._engine.info.sample_rate_hz)


def _offline(name: str) -> Engine:
    engine = make(name)
    if not isinstance(engine, Engine):
        raise StopwavError(f"engine {name!r} takes no whole utterances (it has no transcribe()); compare needs that")
    return engine


def _speech(engine: Engine, frames: int, seed: int) -> Audio:
    return make_audio(BUNDLED, frames * FRAME_S, engine.info.sample_rate_hz, seed)


def _text(engine: Engine, batch: list[Audio]) -> str:
    texts = engine.transcribe(batch)
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise StopwavError(f"the engine returned {repr(texts)[:60]} where a list of one text is expected")
    return str.__str__(texts[0])  # also of a type of another's, which could not be read outside this process


def _emitted(engine: Engine) -> int | None:
    """The number of tokens of the last text; None where the engine does not report it."""
    emitted = getattr(engine, "emitted_tokens", None)
    return None if emitted is None or len(emitted) == 0 else int(emitted[0])
