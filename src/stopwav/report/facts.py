"""What was measured, on what machine, when, and with which versions: the head of a section."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stopwav.record import Record
from stopwav.report.numbers import format_bytes
from stopwav.report.plain import plain
from stopwav.report.provenance import input_kind


def facts(record: Record) -> list[tuple[str, str]]:
    """Pairs of a label and what is known, for people; what is not known has no line."""
    header = record.header
    versions = {"stopwav": header.stopwav, **header.machine.get("packages", {})}
    normaliser = " ".join(str(header.normaliser[key]) for key in ("name", "version") if key in header.normaliser)
    rows = [
        ("Measured", _corpus(record)),
        ("How", _how(header.spec)),
        ("When", _when(header.started) + ("" if record.complete else " (not complete)")),
        ("Machine", _machine(header.machine)),
        ("System", _listed(header.machine, ("system", "python", "virtual_machine", "container"))),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("Text compared", f"after normaliser {normaliser}" if normaliser else ""),
        ("Run file", record.path.name),
    ]
    return [(label, plain(text, 600)) for label, text in rows if text]


def _corpus(record: Record) -> str:
    corpus = record.header.corpus
    if not corpus:
        return ""
    digest = f" (digest {corpus['digest']})" if corpus.get("digest") else ""
    if "utterances" not in corpus:
        return f"{input_kind(record.header)} {plain(str(corpus.get('name', '')), 80)}{digest}"
    return f"{len(corpus.get('utterances', []))} utterances of corpus {plain(str(corpus.get('name', '')), 80)}{digest}"


def _how(spec: Mapping[str, Any]) -> str:
    parts = []
    if "rounds" in spec:
        parts.append("1 round" if spec["rounds"] == 1 else f"{spec['rounds']} rounds, each a fresh process")
    if "pace" in spec:
        parts.append(f"{spec['pace']} pace")
    if spec.get("chunk_ms"):
        parts.append(f"chunks of {spec['chunk_ms']:g} ms")
    if "seed" in spec:
        parts.append(f"seed {spec['seed']}")
    return ", ".join(parts)


def _when(started: str) -> str:
    try:
        return f"{datetime.fromisoformat(started):%-d %B %Y, %H:%M} UTC"
    except ValueError:
        return started


def _machine(machine: Mapping[str, Any]) -> str:
    parts = [str(machine["cpu"])] if machine.get("cpu") else []
    if machine.get("usable_cores"):
        parts.append(f"{machine['usable_cores']:g} usable cores")
    memory = machine.get("memory_limit_bytes") or machine.get("memory_bytes")
    if memory:
        parts.append(f"{format_bytes(float(memory))} of memory")
    gpus = [str(gpu.get("name", gpu)) if isinstance(gpu, Mapping) else str(gpu) for gpu in machine.get("gpus") or ()]
    return ", ".join([*parts, *(gpus or (["no GPU"] if "gpus" in machine else []))])


def _listed(machine: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return ", ".join(str(machine[key]) for key in keys if machine.get(key))
