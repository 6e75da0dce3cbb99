"""What may make the Emformer RNN-T quicker: precision, search, context, device and compilation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from stopwav.engines.protocol import Knob
from stopwav.models.emformer import EmformerShape

# Half of the beam that the published analysis used, and the narrowest one.
NARROWER_BEAMS = (5, 1)
COMPILERS = ("c++", "g++", "clang++")


def emformer_knobs(options: Mapping[str, Any]) -> list[Knob]:
    """The settings to try instead of the given ones, those that this machine does not have with the reason."""
    return [*_precision(options), *_search(options), *_context(options), *_device(options), *_compilation(options)]


def _precision(options: Mapping[str, Any]) -> Iterator[Knob]:
    lower = ("bfloat16", "int8") if options["device"] == "cpu" else ("float16", "bfloat16")
    lacks_int8 = "" if torch.backends.quantized.engine != "none" else "this build of PyTorch has no int8 products"
    for dtype in lower:
        if dtype != options["dtype"]:
            yield Knob({"dtype": dtype}, lacks_int8 if dtype == "int8" else "")


def _search(options: Mapping[str, Any]) -> Iterator[Knob]:
    if options["search"] != "beam":
        return
    for beam in NARROWER_BEAMS:
        if beam < options["beam"]:
            yield Knob({"beam": beam})
    yield Knob({"search": "greedy"})


def _context(options: Mapping[str, Any]) -> Iterator[Knob]:
    """Less audio to wait for; the weights were not trained for it, so the word error rate has to be looked at."""
    stride = EmformerShape().stride
    half = options["segment"] // 2 // stride * stride
    if half >= stride:
        yield Knob({"segment": half})
    if options["right_context"] > 0:
        yield Knob({"right_context": 0})


def _device(options: Mapping[str, Any]) -> Iterator[Knob]:
    reason = "" if torch.cuda.is_available() else f"PyTorch {torch.__version__} sees no NVIDIA GPU here"
    if options["dtype"] == "int8":
        reason = reason or "dtype=int8 is for the CPU only"
    if options["device"] == "cpu":
        yield Knob({"device": "cuda"}, reason)
        yield Knob({"device": "cuda", "features": "cuda"}, reason)
    elif options["features"] == "cpu":
        yield Knob({"features": "cuda"}, reason)
    if options["device"] == "cuda" and options["graphs"] is False:
        yield Knob({"graphs": True}, reason)


def _compilation(options: Mapping[str, Any]) -> Iterator[Knob]:
    if options["compile"]:
        return
    found = options["device"] != "cpu" or any(shutil.which(name) for name in COMPILERS)
    yield Knob({"compile": True}, "" if found else f"no C++ compiler here ({', '.join(COMPILERS)})")
