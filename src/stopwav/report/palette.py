"""The colours of charts and pages: each a name, for light and for dark ground.

Charts name colours as CSS variables, so that one drawing follows the page from light to dark and onto paper; where
there is no page (SVG and PNG files) the names are replaced by the light colours.
"""

from __future__ import annotations

import re
from typing import Any

# Name: (on light ground, on dark ground). Text colours have a contrast of at least 4.5 : 1 on `paper` and on `card`.
COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#f7f7f5", "#121518"),
    "card": ("#ffffff", "#1a1e22"),
    "ink": ("#1b2026", "#e9ecef"),
    "muted": ("#58616b", "#a7b0b9"),
    "line": ("#dcdfe2", "#343b42"),
    "accent": ("#0b5c97", "#7fc1f5"),
    "wash": ("#eaf2f9", "#1d2c39"),
    "caution": ("#7a4a00", "#f2c46d"),
    "caution-wash": ("#fdf3df", "#33290f"),
    # Engines, after Okabe and Ito: told apart with any kind of colour vision, and by dash and shape besides.
    "engine-0": ("#0b6bb0", "#6cb8f0"),
    "engine-1": ("#c2500a", "#f5975a"),
    "engine-2": ("#0b7f5f", "#4cc9a4"),
    "engine-3": ("#a4417f", "#e59ac6"),
    "engine-4": ("#836500", "#e3c14b"),
    "engine-5": ("#5a4bb0", "#b1a6f5"),
    "engine-6": ("#5c6670", "#b6bec6"),
    "engine-7": ("#7a3b1d", "#d3a68c"),
    # Why a word takes so long: waiting for audio is blue, queueing yellow, computing orange.
    "part-buffering": ("#0b4f86", "#3580c2"),
    "part-lookahead": ("#3f86bd", "#74b3e3"),
    "part-emission": ("#93c1e4", "#b9dbf5"),
    "part-queue": ("#dfae22", "#f2cb52"),
    "part-features": ("#75290d", "#a84a1e"),
    "part-copy": ("#a2451a", "#cb6631"),
    "part-inference": ("#cf6a31", "#ea8c53"),
    "part-post": ("#e5a077", "#f5b991"),
    "part-other": ("#f1cdb6", "#fbdfcd"),
}

ENGINE_COLOURS = 8
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond")

_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")


def ink(name: str) -> str:
    """The colour of that name as CSS writes it."""
    if name not in COLOURS:
        raise ValueError(f"{name!r} is no colour of the palette")
    return f"var(--{name})"


def engine_ink(index: int) -> str:
    """The colour of the engine at that place of the run, the same in every chart."""
    return ink(f"engine-{index % ENGINE_COLOURS}")


def css_variables() -> str:
    """The palette as CSS: one declaration a colour, for both grounds."""
    return "\n".join(f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in COLOURS.items())


def on_light(spec: Any) -> Any:
    """The specification with every named colour replaced by the one for light ground."""
    if isinstance(spec, str):
        return _VARIABLE.sub(lambda found: COLOURS[found[1]][0], spec)
    if isinstance(spec, dict):
        return {key: on_light(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_light(value) for value in spec]
    return spec
