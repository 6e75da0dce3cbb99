"""Where a run comes from: what was measured, how, when, on what machine and with which versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stopwav.record import Header, Record
from stopwav.report.text import DASH, counted, format_bytes, plain


def measured_line(header: Header, rounds: str = "") -> str:
    """The study, when it was started, with which version, on what, and in which rounds."""
    corpus = header.corpus
    parts = [f"{header.study} of {header.started}", f"stopwav {header.stopwav}"]
    if corpus:
        # A grid is fed with one audio, and training with shapes, not with utterances.
        count = f"{counted(len(corpus['utterances']), 'utterance')}, " if "utterances" in corpus else ""
        what = "corpus" if count else input_kind(header)
        parts.append(f"{what} {corpus.get('name', DASH)} ({count}digest {corpus.get('digest', DASH)})")
    if (pace := header.spec.get("pace")) is not None:
        parts.append(f"pace {pace}")
    if rounds:
        parts.append(rounds)
    return plain(" · ".join(parts))


def input_kind(header: Header) -> str:
    """Return the kind of input of a run without utterances, as the words before the name of its corpus."""
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
    """Return the fingerprint of the machine's hardware; runs are comparable only where it is the same."""
    return str(header.machine.get("fingerprint") or "unknown")


def normaliser_text(header: Header) -> str:
    """Return the name and version of the normaliser by which the texts of a run are compared; "" without any."""
    fields = header.normaliser
    by_character = ", by character" if fields.get("by_character") else ""
    return " ".join(str(fields[key]) for key in ("name", "version") if key in fields) + by_character


def facts(record: Record, rounds: str = "") -> list[tuple[str, str]]:
    """Pairs of a label and what is known, for people; what is not known has no line."""
    header = record.header
    versions = {"stopwav": header.stopwav, **header.machine.get("packages", {})}
    normaliser, aligner = normaliser_text(header), str(header.corpus.get("aligner", ""))
    rows = [
        ("Measured", _corpus(record)),
        ("How", _how(header.spec, rounds)),
        ("When", _when(header.started) + ("" if record.complete else " (not complete)")),
        ("Machine", _machine(header.machine)),
        ("System", _listed(header.machine, ("system", "python", "virtual_machine", "container"))),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("Text compared", f"after normaliser {normaliser}" if normaliser else ""),
        ("Word times", f"found by {aligner}" if aligner else ""),
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
    count = counted(len(corpus["utterances"]), "utterance")
    languages = f" in {', '.join(map(str, corpus['languages']))}" if corpus.get("languages") else ""
    return f"{count} of corpus {plain(str(corpus.get('name', '')), 80)}{languages}{digest}"


def _how(spec: Mapping[str, Any], rounds: str) -> str:
    parts = []
    if rounds:
        parts.append(rounds if rounds == "1 round" else f"{rounds}, each in fresh processes")
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
