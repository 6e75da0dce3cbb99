"""The corpus in the header of a run: its utterances as JSON and back, and the warnings about it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stopwav.errors import Caution
from stopwav.record import Header
from stopwav.speech.corpus import Corpus, Utterance, Word


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
        "utterances": [_utterance_to_json(utterance) for utterance in utterances],
    }


def _utterance_to_json(utterance: Utterance) -> dict[str, Any]:
    """The utterance as the header of a run holds it."""
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
        path=Path(fields["path"]),
        text=fields["text"],
        start_s=fields["start_s"],
        end_s=fields["end_s"],
        words=tuple(Word(*word) for word in fields["words"]),
    )


def header_warnings(header: Header) -> list[Caution]:
    """Return the warnings about the machine and the corpus at the start of the run."""
    warnings = [*header.warnings, *header.corpus["cautions"]]
    return [Caution(warning["code"], warning["message"]) for warning in warnings]


def duration_s(utterance: Utterance) -> float:
    """Return how long the utterance lasts; 0 where the file cannot be read, which the engine's process will report."""
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError):
        return 0.0
