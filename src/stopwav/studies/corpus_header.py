"""The corpus in the header of a run: its utterances as JSON and back, and the warnings about it and its utterances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from stopwav.errors import Caution
from stopwav.json_rows import JsonRows, json_rows
from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, UTTERANCES, Header
from stopwav.speech.language import ENGLISH, language_code
from stopwav.speech.normaliser import Normaliser, installed_version, stored_normaliser
from stopwav.speech.utterance import ByteRange, Corpus, Utterance, Word
from stopwav.speech.word_times import timed_words
from stopwav.studies.definition import OTHER_LANGUAGE
from stopwav.studies.stored_fields import (
    Bytes,
    Count,
    Seconds,
    StoredFields,
    StoredList,
    WrongValue,
    brief,
    header_fields,
)

# The key that says what the digest of a corpus is of: the whole corpus, whatever was drawn of it and in which order.
# Runs without it may have a digest of the utterances that were drawn, in their order.
DIGEST_OF = "digest_of"


class StoredUtterance(StoredFields):
    """An utterance in the header of a run, with the times of its words."""

    id: str
    path: str
    start_s: Seconds
    end_s: Seconds | None
    text: str | None
    words: StoredList[Annotated[StoredList[str | Seconds], Field(min_length=3, max_length=3)]]
    channel: Count | None = None
    byte_range: Annotated[StoredList[Count], Field(min_length=2, max_length=2)] | None = None


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
    languages: StoredList[str] = Field(default=[])
    aligner: str = ""
    problems: StoredList[StoredProblem] = Field(default=[])
    cautions: StoredList[StoredWarning] = Field(default=[])


class StoredNormaliser(StoredFields):
    """The normaliser in the header of a run; the other studies have none."""

    name: str = ""
    version: str | int = ""
    by_character: bool = False


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
    header_fields(StoredNormaliser, header.normaliser, "normaliser")
    header_fields(StoredCorpus, header.corpus, "corpus")
    utterances = header.corpus.get(UTTERANCES, [])
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


def corpus_to_json(corpus: Corpus, utterances: Iterable[Utterance], normaliser: Normaliser) -> dict[str, Any]:
    """Return the corpus as a header holds it: the digest is of all its utterances, and those of the run are listed.

    Their words are those that the run's normaliser makes of the text.
    """
    return {
        "name": corpus.name,
        "digest": corpus.digest,
        DIGEST_OF: "corpus",
        "languages": list(corpus.languages),
        **({"aligner": corpus.aligner} if corpus.aligner else {}),
        "problems": [{"where": problem.where, "message": problem.message} for problem in corpus.problems],
        "cautions": [{"code": caution.code, "message": caution.message} for caution in corpus.cautions],
        UTTERANCES: json_rows(utterance_to_json(_timed(utterance, normaliser)) for utterance in utterances),
    }


def _timed(utterance: Utterance, normaliser: Normaliser) -> Utterance:
    """The utterance with a time for each word that its normaliser makes of the text."""
    return replace(utterance, words=timed_words(utterance.words, utterance.text or "", normaliser))


def utterance_to_json(utterance: Utterance) -> dict[str, Any]:
    """Return the utterance as the header of a run holds it; few have a channel or are in an archive."""
    channel = {} if utterance.channel is None else {"channel": utterance.channel}
    part = utterance.byte_range
    byte_range = {} if part is None else {"byte_range": [part.start, part.size]}
    return {
        "id": utterance.id,
        "path": str(utterance.path),
        "start_s": utterance.start_s,
        "end_s": utterance.end_s,
        "text": utterance.text,
        "words": [[word.text, word.start_s, word.end_s] for word in utterance.words],
        **channel,
        **byte_range,
    }


def header_utterances(header: Header) -> list[Utterance]:
    """Return the utterances that the header of a run holds, to be compared after the normaliser of that run."""
    normaliser = stored_normaliser(header.normaliser)
    return [utterance_from_json(fields, normaliser) for fields in header.corpus[UTTERANCES]]


def utterance_from_json(fields: Mapping[str, Any], normaliser: Normaliser) -> Utterance:
    """Return an utterance of a header, to be compared after this normaliser."""
    return Utterance(
        id=fields["id"],
        # In full: the process of an engine may be in another folder by the time it reads the file.
        path=Path(fields["path"]).absolute(),
        text=fields["text"],
        start_s=fields["start_s"],
        end_s=fields["end_s"],
        words=tuple(Word(*word) for word in fields["words"]),
        normaliser=normaliser,
        channel=fields.get("channel"),
        byte_range=ByteRange(*fields["byte_range"]) if fields.get("byte_range") else None,
    )


def header_warnings(header: Header) -> list[Caution]:
    """Return the warnings about the machine, the corpus and the normaliser of the run."""
    warnings = [*header.warnings, *header.corpus.get("cautions", ())]
    return [
        *(Caution(warning["code"], warning["message"]) for warning in warnings),
        *_no_transcript_warning(header),
        *_normaliser_warning(header),
    ]


def _normaliser_warning(header: Header) -> Iterator[Caution]:
    """A warning where the words are counted here by another version of the normaliser than when the run was made."""
    stored = stored_normaliser(header.normaliser)
    here = installed_version(stored.name)
    if str(stored.version) != str(here):
        yield Caution(
            "normaliser-version",
            f"the run was made with version {stored.version} of normaliser {stored.name}, and its words are counted "
            f"here by version {here}: install that version for the error rates that it had",
        )


def language_warnings(header: Header, name: str, languages: Iterable[str]) -> Iterator[Caution]:
    """Yield a warning where an engine states its languages, and the corpus is in none of them or in others as well."""
    recognised = {code for code in map(language_code, languages) if code}
    stated = set(header.corpus.get("languages", ()))
    # A corpus that does not say its language is taken for English.
    spoken = stated or ({ENGLISH} if header.corpus.get("utterances") and "languages" in header.corpus else set())
    if not recognised or spoken <= recognised:
        return
    others = ", ".join(sorted(spoken - recognised))
    corpus = "the corpus is in" if stated else "the corpus, which does not say its language, is taken for"
    message = (
        f"{name} recognises {', '.join(sorted(recognised))}, and {corpus} {others}: its error rates and word latency "
        "say little; measure it on speech in its language, or correct that of the corpus with --language"
    )
    yield Caution(OTHER_LANGUAGE, message)


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
