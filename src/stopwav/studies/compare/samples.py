"""The inputs that engines transcribed, with their errors: read from a run once, however often they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.utterance import Utterance
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors
from stopwav.studies.corpus_header import header_utterances


@dataclass(frozen=True, slots=True)
class Sample:
    """One input that an engine transcribed: in which round, at which place of the inputs, what it took, and its errors.

    Errors are None where the utterance has no transcript.
    """

    round: int
    place: int
    utterance: Utterance
    seconds: float
    audio_s: float
    text: str
    errors: ErrorCount | None
    characters: CharacterErrorCount | None
    emitted_tokens: int | None
    # Of a run on a cluster, the machine.
    machine: str = ""


@dataclass(frozen=True)
class _ReadSamples:
    """The utterances of a run by id, and the samples that were read so far, by key."""

    utterances: dict[str, Utterance]
    samples: dict[tuple[str | int, ...], Sample]


_READ: WeakKeyDictionary[Record, _ReadSamples] = WeakKeyDictionary()


def inputs_of(record: Record) -> list[Utterance]:
    """Return the inputs of a run, in the order in which they are transcribed."""
    utterances = _read_samples(record).utterances
    return [utterances[name] for name in record.header.corpus["inputs"]]


def samples_of(record: Record, pieces: Sequence[Piece]) -> tuple[Sample, ...]:
    """Return the samples in these pieces that completed, in their order."""
    read = _read_samples(record)
    own = [piece for piece in pieces if piece.parts[0] == "sample"]
    with record.opened() as descriptor:
        for piece in own:
            if piece.parts not in read.samples:
                read.samples[piece.parts] = _sample(read, piece, descriptor)
    return tuple(read.samples[piece.parts] for piece in own)


def _read_samples(record: Record) -> _ReadSamples:
    read = _READ.get(record)
    if read is None:
        utterances = header_utterances(record.header)
        read = _READ[record] = _ReadSamples({utterance.id: utterance for utterance in utterances}, {})
    return read


def _sample(read: _ReadSamples, piece: Piece, descriptor: int | None) -> Sample:
    data = piece.read(descriptor)
    utterance, text = read.utterances[data["id"]], data["text"]
    errors, characters = None, None
    if utterance.text is not None:
        rules = utterance.normaliser
        words = rules.words(utterance.text), rules.words(text)
        errors, characters = count_word_errors(*words), count_character_errors(*words, rules.separator)
    return Sample(
        round=int(piece.parts[1]),
        place=int(piece.parts[3]),
        utterance=utterance,
        seconds=data["seconds"],
        audio_s=data["audio_s"],
        text=text,
        errors=errors,
        characters=characters,
        emitted_tokens=data["emitted_tokens"],
        machine=piece.machine,
    )
