"""What an engine's class offers to try: its optional method `variants(options)`, and specs with a setting exchanged."""

from __future__ import annotations

import inspect
from typing import Any

from stopwav.engines.protocol import Knob
from stopwav.engines.registry import find_class, parse_spec
from stopwav.errors import StopwavError


def knobs_of(text: str) -> list[Knob]:
    """The settings that the class of an engine offers to try in place of those that its spec names."""
    spec = parse_spec(text)
    factory = find_class(spec)
    offer = getattr(factory, "variants", None)
    if offer is None:
        raise StopwavError(
            f"engine {text!r} offers no settings to try: it has no variants(); see docs/guides/your-own-engine.md"
        )
    signature = inspect.signature(factory)
    options: dict[str, Any] = {
        name: None if parameter.default is parameter.empty else parameter.default
        for name, parameter in signature.parameters.items()
    }
    try:
        offered = list(offer({**options, **spec.options}))
    except Exception as error:  # a third party's method may fail in any way
        raise StopwavError(f"engine {text!r}: its variants() failed: {error!r}") from error
    wrong = next((one for one in offered if not isinstance(one, Knob)), None)
    if wrong is not None:
        raise StopwavError(f"engine {text!r}: its variants() returned {wrong!r} where a Knob is expected")
    return offered


def varied(text: str, knob: Knob) -> str:
    """The spec with the knob's options in place of its own; options it has none of are added at its end."""
    head, *pairs = text.split(",")
    written = dict(pair.split("=", 1) for pair in pairs)
    written |= dict(pair.split("=", 1) for pair in knob.text.split(","))
    return ",".join([head, *(f"{key}={value}" for key, value in written.items())])
