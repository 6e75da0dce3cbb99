"""Whether two runs can be compared: what forbids it, and what a reader has to know though it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stopwav.record import Record
from stopwav.studies.corpus_header import engine_names


def engines_of(record: Record) -> list[str]:
    """The names of the engines of a latency run."""
    return engine_names(record.header.spec["engines"])


def obstacles(a: Record, b: Record, names: Sequence[str]) -> list[str]:
    """Why b cannot be held against a: another machine, corpus, normaliser or pace, or another setting of an engine."""
    one, other = a.header, b.header
    rows: list[tuple[str, object, object]] = [
        ("machine", _machine(one.machine), _machine(other.machine)),
        ("corpus", _named(one.corpus, "digest"), _named(other.corpus, "digest")),
        ("normaliser", _named(one.normaliser, "version"), _named(other.normaliser, "version")),
        ("pace", one.spec.get("pace"), other.spec.get("pace")),
    ]
    for name in names:
        settings_a, settings_b = _settings(a, name), _settings(b, name)
        # An engine that never came up has no settings; that it is missing is said elsewhere.
        rows += [
            (f"{setting} of {name}", settings_a[setting], settings_b[setting])
            for setting in settings_a
            if setting in settings_b
        ]
    return [visible(f"other {what} ({before} against {after})") for what, before, after in rows if before != after]


def remarks(a: Record, b: Record) -> list[str]:
    """What differs between the runs though they may be compared, and what each run was warned of."""
    found = [f"{what}: {before or 'none'} in a, {after or 'none'} in b" for what, before, after in _software(a, b)]
    for side, record in (("a", a), ("b", b)):
        codes = dict.fromkeys(warning["code"] for warning in record.header.warnings)
        if codes:
            found.append(f"{side} was measured under warnings: {', '.join(codes)}")
    return found


def visible(text: str) -> str:
    """The text with what cannot be seen as escapes: names come from files, and an error is one line."""
    return repr(text)[1:-1]


def _software(a: Record, b: Record) -> Iterator[tuple[str, object, object]]:
    """Software that is not the same in both runs."""
    if a.header.stopwav != b.header.stopwav:
        yield "stopwav", a.header.stopwav, b.header.stopwav
    one, other = a.header.machine, b.header.machine
    for field in ("system", "python"):
        if one.get(field) != other.get(field):
            yield field, one.get(field), other.get(field)
    for field in ("packages", "threads"):
        before, after = one.get(field) or {}, other.get(field) or {}
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield key, before.get(key), after.get(key)


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('cpu', 'unknown')}, fingerprint {machine.get('fingerprint', 'unknown')}"


def _named(fields: Mapping[str, Any], detail: str) -> str:
    return f"{fields.get('name', 'unknown')}, {detail} {fields.get(detail, 'unknown')}"


def _settings(record: Record, name: str) -> dict[str, object]:
    """Precision, device and chunk size that an engine ran with, as far as the run tells."""
    found: dict[str, object] = {}
    for piece in record.pieces:
        if piece.key[2] != name:
            continue
        if piece.key[0] == "load" and "engine" in piece.data:
            engine = piece.data["engine"]
            found.setdefault("precision", engine.get("precision"))
            found.setdefault("device", engine.get("device"))
        if piece.key[0] == "stream" and "trace" in piece.data:
            found.setdefault("chunk size", f"{1e3 * piece.data['trace']['chunk_s']:g} ms")
    return found
