"""One engine of a comparison, inside its own fresh process: its description, and the cost of its inputs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stopwav.engines.protocol import Engine
from stopwav.engines.registry import make
from stopwav.errors import StopwavError
from stopwav.measure.clock import clock_for
from stopwav.measure.energy_series import WindowEnergy, idle_window, with_external, work_windows
from stopwav.measure.meter import NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.plan import Plan, Scalar
from stopwav.measure.sampler import time_calls, warm_up
from stopwav.speech.audio import Audio, load
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


@dataclass(frozen=True)
class LengthWorkload:
    """Transcribing frames of speech: the engine is loaded and the input made before anything is timed."""

    engine: str
    frames: int
    seed: int

    @property
    def name(self) -> str:
        """The engine and the length."""
        return f"{self.engine} {self.frames} frames"

    @property
    def params(self) -> Mapping[str, Scalar]:
        """The length."""
        return {"frames": self.frames}

    def setup(self) -> Callable[[], object]:
        """Return the call that transcribes the input."""
        engine = _offline(self.engine)
        return _Call(engine, _speech(engine, self.frames, self.seed))


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


class EngineRunner:
    """One engine in its process. Each method returns plain values, ready for the run file."""

    def __init__(self, engine: str, device: str) -> None:
        self._clock = clock_for(device)
        loaded = self._clock.time(lambda: _offline(engine))
        self._engine: Engine = loaded.result
        self._load_s = loaded.wall_s
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

    def warm_up(self, utterance: Utterance, plan: Plan) -> dict[str, Any]:
        """Return the description of the engine, and the times of loading, the first call and each warm-up call."""
        call = _Call(self._engine, self._load(utterance))
        first_s = time_calls(call, 1, self._clock).wall_s
        warmup_s, cautions = warm_up(call, self._clock, plan)
        return {
            "engine": self._engine.info.to_json(),
            "load_s": self._load_s,
            "first_s": first_s,
            "warmup_s": list(warmup_s),
            "cautions": [[caution.code, caution.message] for caution in cautions],
        }

    def transcribe(self, utterance: Utterance) -> dict[str, Any]:
        """Return the text of one utterance, and how long it took."""
        audio = self._load(utterance)
        duration_s = audio.duration_s
        # Garbage of the harness is collected before the call, not inside it.
        gc.collect()
        timing = self._clock.time(lambda: _text(self._engine, [audio]))
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

    def _load(self, utterance: Utterance) -> Audio:
        return load(utterance.path, self._engine.info.sample_rate_hz, utterance.start_s, utterance.end_s)


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
