"""What stands in the way of comparing two runs, and what differs between them though they may be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.report.provenance import normaliser_text
from stopwav.studies.comparable import Comparable
from stopwav.studies.corpus_header import DIGEST_OF, first_names
from stopwav.studies.diff.models import ModelPair

# The items of run a by name: what each is called in run b, and the model that it is of.
Items = Mapping[str, tuple[str, ModelPair | None]]

# What an utterance is, besides its audio.
_OF_UTTERANCE = ("text", "start_s", "end_s", "words")


def check_comparable(
    a: Record, b: Record, comparable: Comparable, items: Items, force: bool, *, one_model: bool = True
) -> tuple[str, ...]:
    """Return the obstacles to comparing the runs, where `force` overrides them; without it they are an error.

    With `one_model`, another model under no name of its own is one of them.
    """
    against = obstacles(a, b, comparable, items, one_model=one_model)
    if against and not force:
        raise StopwavError(
            f"{b.path} cannot be compared with {a.path}: {'; '.join(against)}; "
            "measure both the same way, or add --force to compare them all the same"
        )
    return tuple(against)


def obstacles(a: Record, b: Record, comparable: Comparable, items: Items, *, one_model: bool) -> list[str]:
    """Return why b cannot be compared with a: another machine, corpus, normaliser or setting of the run or an item."""
    first, second = a.header, b.header
    rows: list[tuple[str, object, object]] = [
        ("machine", _machine(first.machine), _machine(second.machine)),
        ("corpus", *_corpora(first, second)),
        ("normaliser", normaliser_text(first), normaliser_text(second)),
    ]
    rows += shared_settings(_alignment(first), _alignment(second), "")
    rows += shared_settings(comparable.settings(a), comparable.settings(b), "")
    pairs = {pair.a: pair for _, pair in items.values() if pair is not None}
    rows += [("model", pair.setting_a, pair.setting_b) for pair in pairs.values() if one_model and not pair.a]
    for name, (name_b, pair) in items.items():
        # An engine that never came up has no settings; that it is missing is said elsewhere.
        shared = _item_settings(a, b, comparable, name, name_b, f" of {name}")
        rows += [row for setting, row in shared.items() if not is_of_model(comparable, setting, pair)]
    against = [f"other {what} ({before} against {after})" for what, before, after in rows if before != after]
    if changed := changed_utterances(first, second):
        against.append(f"other text or word times of {first_names(changed)}")
    return list(map(visible, against))


def _item_settings(
    a: Record, b: Record, comparable: Comparable, name_a: str, name_b: str, of: str
) -> dict[str, tuple[str, object, object]]:
    """The settings of an item that both runs know, by their names."""
    first, second = comparable.item_settings(a, name_a), comparable.item_settings(b, name_b)
    return {setting: (f"{setting}{of}", first[setting], second[setting]) for setting in first if setting in second}


def is_of_model(comparable: Comparable, setting: str, pair: ModelPair | None) -> bool:
    """Whether a setting of an item may differ because its model does."""
    return pair is not None and pair.differ and setting in comparable.model_settings


def model_differences(
    a: Record, b: Record, comparable: Comparable, items: Items
) -> dict[str, dict[str, tuple[object, object]]]:
    """Return, by item, the settings that differ because its model does, each with its two values."""
    found = {}
    for name, (name_b, pair) in items.items():
        shared = _item_settings(a, b, comparable, name, name_b, "")
        found[name] = {
            setting: (before, after)
            for setting, (_, before, after) in shared.items()
            if before != after and is_of_model(comparable, setting, pair)
        }
    return found


def changed_utterances(a: Header, b: Header) -> list[str]:
    """Return the utterances that both runs list, but not with the same text, place in the audio and word times."""
    listed_a, listed_b = _listed(a), _listed(b)
    return [
        name
        for name in listed_a
        if name in listed_b and any(listed_a[name][key] != listed_b[name][key] for key in _OF_UTTERANCE)
    ]


def _listed(header: Header) -> dict[str, Mapping[str, Any]]:
    return {utterance["id"]: utterance for utterance in header.corpus.get("utterances", ())}


def _corpora(a: Header, b: Header) -> tuple[str, str]:
    """The two corpora by name and digest, as one text each; the same one where nothing says that they differ.

    Older runs have a digest of the utterances that were drawn, in their order: those are compared by what they list.
    """
    first, second = _named(a.corpus, "digest"), _named(b.corpus, "digest")
    is_older = any(_listed(header) and DIGEST_OF not in header.corpus for header in (a, b))
    if is_older and _listed(a).keys() & _listed(b).keys() and not changed_utterances(a, b):
        return first, first
    return first, second


def shared_settings(a: Mapping[str, object], b: Mapping[str, object], of: str) -> list[tuple[str, object, object]]:
    """Return the settings that both know, each with its two values."""
    return [(f"{setting}{of}", a[setting], b[setting]) for setting in a if setting in b]


def differences(a: Record, b: Record) -> list[str]:
    """Return what differs between the runs though they may be compared, and the warnings each was measured under."""
    remarks = [f"{what}: {before or 'none'} in a, {after or 'none'} in b" for what, before, after in _software(a, b)]
    for which, record in (("a", a), ("b", b)):
        if not record.complete:
            remarks.append(f"{which} is not complete: only what it holds is compared; --resume continues it")
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


def _alignment(header: Header) -> dict[str, object]:
    """What found the word times, where the run says so."""
    return {"aligner": header.corpus["aligner"]} if "aligner" in header.corpus else {}


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('cpu', 'unknown')}, fingerprint {machine.get('fingerprint', 'unknown')}"


def _named(fields: Mapping[str, Any], detail: str) -> str:
    return f"{fields.get('name', 'unknown')}, {detail} {fields.get(detail, 'unknown')}"
