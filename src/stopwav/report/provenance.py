"""Where a run comes from, in a line each: what was measured, and on what machine."""

from __future__ import annotations

from stopwav.record import Header
from stopwav.report.numbers import DASH
from stopwav.report.plain import plain


def measured_line(header: Header) -> str:
    """The study, when it was started, with which version, and on what."""
    corpus = header.corpus
    parts = [f"{header.study} of {header.started}", f"stopwav {header.stopwav}"]
    if corpus:
        # A grid is fed with one audio, and training with shapes, not with utterances.
        count = f"{len(corpus['utterances'])} utterances, " if "utterances" in corpus else ""
        what = "corpus" if count else input_kind(header)
        parts.append(f"{what} {corpus.get('name', DASH)} ({count}digest {corpus.get('digest', DASH)})")
    for name, value in (("pace", header.spec.get("pace")), ("rounds", header.spec.get("rounds"))):
        if value is not None:
            parts.append(f"{name} {value}")
    return plain(" · ".join(parts))


def input_kind(header: Header) -> str:
    """What a run without utterances was fed with, as the words before the name of its corpus."""
    return "shapes of" if "shapes" in header.spec else "audio"


def machine_line(header: Header) -> str:
    """The machine: processor, cores, memory, accelerators, system, Python, and the fingerprint of the hardware."""
    machine = header.machine
    if not machine:
        return "unknown"
    parts = [str(machine.get("cpu") or "unknown processor")]
    if cores := machine.get("usable_cores") or machine.get("logical_cores"):
        parts.append(f"{cores:g} cores" if cores != 1 else "1 core")
    if size_bytes := machine.get("memory_bytes"):
        parts.append(f"{size_bytes / 2**30:.0f} GiB")
    parts += [str(gpu.get("name", "unknown GPU")) for gpu in machine.get("gpus") or ()]
    parts += [str(machine[name]) for name in ("system", "python") if machine.get(name)]
    return plain(" · ".join(parts)) + f" · fingerprint {plain(fingerprint(header))}"


def fingerprint(header: Header) -> str:
    """What tells the machine's hardware from others; runs are comparable only where it is the same."""
    return str(header.machine.get("fingerprint") or "unknown")
