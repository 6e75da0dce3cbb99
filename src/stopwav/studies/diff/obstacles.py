"""Whether two runs can be compared: what forbids it, and what a reader has to know all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stopwav.record import Record
from stopwav.studies.comparable import Comparable


def obstacles(a: Record, b: Record, comparable: Comparable, names: Sequence[str]) -> list[str]:
    """Return why b cannot be compared with a: another machine, corpus, normaliser or setting of the run or an item."""
    first, second = a.header, b.header
    rows: list[tuple[str, object, object]] = [
        ("machine", _machine(first.machine), _machine(second.machine)),
        ("corpus", _named(first.corpus, "digest"), _named(second.corpus, "digest")),
        ("normaliser", _named(first.normaliser, "version"), _named(second.normaliser, "version")),
    ]
    rows += _shared(comparable.settings(a), comparable.settings(b), "")
    for name in names:
        # An engine that never came up has no settings; that it is missing is said elsewhere.
        rows += _shared(comparable.item_settings(a, name), comparable.item_settings(b, name), f" of {name}")
    return [visible(f"other {what} ({before} against {after})") for what, before, after in rows if before != after]


def _shared(a: Mapping[str, object], b: Mapping[str, object], of: str) -> list[tuple[str, object, object]]:
    return [(f"{setting}{of}", a[setting], b[setting]) for setting in a if setting in b]


def differences(a: Record, b: Record) -> list[str]:
    """Return what differs between the runs though they may be compared, and the warnings each was measured under."""
    remarks = [f"{what}: {before or 'none'} in a, {after or 'none'} in b" for what, before, after in _software(a, b)]
    for which, record in (("a", a), ("b", b)):
        codes = dict.fromkeys(warning["code"] for warning in record.header.warnings)
        if codes:
            remarks.append(f"{which} was measured under warnings: {', '.join(codes)}")
    return remarks


def visible(text: str) -> str:
    """Return the text with what cannot be seen as escapes: names come from files, and an error is one line."""
    return repr(text)[1:-1]


def _software(a: Record, b: Record) -> Iterator[tuple[str, object, object]]:
    """Software that is not the same in both runs."""
    if a.header.stopwav != b.header.stopwav:
        yield "stopwav", a.header.stopwav, b.header.stopwav
    first, second = a.header.machine, b.header.machine
    for field in ("system", "python"):
        if first.get(field) != second.get(field):
            yield field, first.get(field), second.get(field)
    for field in ("packages", "threads"):
        before, after = first.get(field) or {}, second.get(field) or {}
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield key, before.get(key), after.get(key)


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('cpu', 'unknown')}, fingerprint {machine.get('fingerprint', 'unknown')}"


def _named(fields: Mapping[str, Any], detail: str) -> str:
    return f"{fields.get('name', 'unknown')}, {detail} {fields.get(detail, 'unknown')}"
