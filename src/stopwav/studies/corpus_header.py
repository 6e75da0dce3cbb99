"""The corpus in the header of a run: its utterances as JSON and back, and the warnings about it and its utterances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from stopwav.errors import Caution
from stopwav.json_rows import JsonRows, json_rows
from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, UTTERANCES, Header
from stopwav.speech.corpus import Corpus, Utterance, Word
from stopwav.studies.stored_fields import Bytes, Seconds, StoredFields, StoredList, WrongValue, brief, header_fields


class StoredUtterance(StoredFields):
    """An utterance in the header of a run, with the times of its words."""

    id: str
    path: str
    start_s: Seconds
    end_s: Seconds | None
    text: str | None
    words: StoredList[Annotated[StoredList[str | Seconds], Field(min_length=3, max_length=3)]]


class StoredProblem(StoredFields):
    """A part of the corpus that could not be used."""

    where: str
    message: str


class StoredWarning(StoredFields):
    """A warning about the corpus or the machine."""

    code: str
    message: str


class StoredCorpus(StoredFields):
    """The corpus in the header of a run, as far as all studies have it."""

    name: str = ""
    digest: str = ""
    problems: StoredList[StoredProblem] = Field(default=[])
    cautions: StoredList[StoredWarning] = Field(default=[])


class StoredMachine(StoredFields):
    """The machine in the header of a run, as far as reports and comparisons read it."""

    cpu: str | None = None
    fingerprint: str | None = None
    usable_cores: Seconds | None = None
    logical_cores: Seconds | None = None
    memory_bytes: Bytes | None = None
    memory_limit_bytes: Bytes | None = None
    gpus: StoredList[dict[str, Any]] | None = None
    packages: dict[str, str | None] = Field(default={})
    threads: dict[str, str] | None = None


def check_header(header: Header) -> None:
    """Raise for a corpus or a machine in the header of a run that stopwav does not write so."""
    for warning in header.warnings:
        header_fields(StoredWarning, warning, "warnings")
    header_fields(StoredMachine, header.machine, "machine")
    header_fields(StoredCorpus, header.corpus, "corpus")
    utterances = header.corpus.get("utterances", [])
    if not isinstance(utterances, (list, JsonRows)):
        raise WrongValue(f"corpus of the header: utterances is {brief(utterances)}: expected a list")
    seen: set[str] = set()
    for number, fields in enumerate(utterances):
        where = f"corpus of the header: utterances.{number}"
        utterance = header_fields(StoredUtterance, fields, "corpus", f"utterances.{number}.")
        if utterance.id in seen:
            raise WrongValue(f"{where}.id is {utterance.id!r:.60}, which stands there twice")
        seen.add(utterance.id)
        if utterance.end_s is not None and utterance.end_s < utterance.start_s:
            raise WrongValue(f"{where}.end_s is {utterance.end_s:g}, before it starts")
        for word in utterance.words:
            text, start_s, end_s = word
            if not isinstance(text, str) or isinstance(start_s, str) or isinstance(end_s, str) or end_s < start_s:
                raise WrongValue(f"{where}.words has {word!r:.60}: expected a text, its start and its end")


def engine_names(engines: list[str]) -> list[str]:
    """Return a name for each engine, numbered where the same one is named twice (to be compared with itself)."""
    names: list[str] = []
    for engine in engines:
        seen = engines[: len(names)].count(engine)
        names.append(engine if seen == 0 else f"{engine}#{seen + 1}")
    return names


def corpus_to_json(corpus: Corpus, utterances: Iterable[Utterance]) -> dict[str, Any]:
    """Return the corpus as a header holds it: the digest is of all its utterances, and those of the run are listed."""
    return {
        "name": corpus.name,
        "digest": corpus.digest,
        "problems": [{"where": problem.where, "message": problem.message} for problem in corpus.problems],
        "cautions": [{"code": caution.code, "message": caution.message} for caution in corpus.cautions],
        UTTERANCES: json_rows(map(utterance_to_json, utterances)),
    }


def utterance_to_json(utterance: Utterance) -> dict[str, Any]:
    """Return the utterance as the header of a run holds it."""
    return {
        "id": utterance.id,
        "path": str(utterance.path),
        "start_s": utterance.start_s,
        "end_s": utterance.end_s,
        "text": utterance.text,
        "words": [[word.text, word.start_s, word.end_s] for word in utterance.words],
    }


def utterance_from_json(fields: dict[str, Any]) -> Utterance:
    """Return the utterance that the header of a run holds."""
    return Utterance(
        id=fields["id"],
        # In full: the process of an engine may be in another folder by the time it reads the file.
        path=Path(fields["path"]).absolute(),
        text=fields["text"],
        start_s=fields["start_s"],
        end_s=fields["end_s"],
        words=tuple(Word(*word) for word in fields["words"]),
    )


def header_warnings(header: Header) -> list[Caution]:
    """Return the warnings about the machine and the corpus at the start of the run."""
    warnings = [*header.warnings, *header.corpus.get("cautions", ())]
    return [*(Caution(warning["code"], warning["message"]) for warning in warnings), *_no_transcript_warning(header)]


def _no_transcript_warning(header: Header) -> Iterator[Caution]:
    """One warning for all utterances that have no transcript."""
    utterances = header.corpus.get("utterances", ())
    count, total = sum(utterance["text"] is None for utterance in utterances), len(utterances)
    if count:
        without = f"{count} of {total} utterance{'' if total == 1 else 's'} without a transcript"
        rest = (
            "there is no WER, CER or word latency" if count == total else "WER, CER and word latency are of the others"
        )
        yield Caution(NO_TRANSCRIPT, f"{without}: {rest}; all else is of all utterances")


def failed_utterances(kind: str, failed: Iterable[tuple[str, Piece]]) -> list[Caution]:
    """Return one warning per reason for which utterances failed, from their ids and pieces."""
    warnings = []
    for message, group in groupby(sorted(failed, key=_message), key=_message):
        pairs = list(group)
        ids = list(dict.fromkeys(utterance for utterance, _ in pairs))
        warnings.append(Caution(f"{kind}-{pairs[0][1].status}", f"{first_names(ids)}: {message}"))
    return warnings


def _message(pair: tuple[str, Piece]) -> str:
    return pair[1].message


def first_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first few of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration_s(utterance: Utterance) -> float:
    """Return how long the utterance lasts; 0 where the file cannot be read, which the engine's process will report."""
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError):
        return 0.0
