"""The settings that `stopwav latency --explain` measures beside the engine as it is."""

from __future__ import annotations

from pydantic import BaseModel

from stopwav.errors import StopwavError


class TriedKnob(BaseModel, extra="forbid"):
    """A setting that an engine offers to try: the engine with it, or why it is not tried."""

    setting: str
    engine: str | None = None
    unavailable: str = ""


def tried_knobs(engines: list[str]) -> list[TriedKnob]:
    """The settings that an engine offers, each with the engine that has it, or with why it is not tried here."""
    from stopwav.engines.registry import list_knobs, prepare, with_knob

    if len(engines) != 1:
        raise StopwavError(f"--explain takes one engine, got {len(engines)}: {', '.join(engines)}")
    (engine,) = engines
    prepare(engine)
    knobs: list[TriedKnob] = []
    for knob in list_knobs(engine):
        other = with_knob(engine, knob)
        if not knob.unavailable:
            prepare(other)
        tried = None if knob.unavailable else other
        if other != engine and all(tried is None or tried != one.engine for one in knobs):
            knobs.append(TriedKnob(setting=knob.text, engine=tried, unavailable=knob.unavailable))
    if not knobs:
        raise StopwavError(f"engine {engine!r} offers no other settings to try; measure it without --explain")
    return knobs


def with_settings(engines: list[str], knobs: list[TriedKnob] | None) -> list[str]:
    """The engines, and behind them each setting that is tried: what the run streams."""
    return [*engines, *(knob.engine for knob in knobs or () if knob.engine is not None)]
