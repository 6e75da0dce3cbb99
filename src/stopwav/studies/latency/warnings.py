"""What casts doubt on the numbers of a latency run: streams that were lost, and what was warned of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from stopwav.errors import Caution
from stopwav.record import Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.speech.text import normalise
from stopwav.studies.corpus_header import header_warnings


def failures(failed: Sequence[Piece]) -> list[Caution]:
    """One caution per reason, naming the utterances it took."""
    found = []
    ordered = sorted(failed, key=lambda piece: piece.message)
    for message, group in groupby(ordered, key=lambda piece: piece.message):
        pieces = list(group)
        ids = list(dict.fromkeys(str(piece.key[3]) for piece in pieces))
        which = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        found.append(Caution(f"stream-{pieces[0].status}", f"{which}: {message}"))
    return found


def cautions(record: Record, pieces: Sequence[Piece], utterances: Iterable[Utterance]) -> list[Caution]:
    """The doubts about an engine's numbers: of its own, of the machine, of the corpus, and of the run as a whole."""
    found = [Caution("corpus", f"{p['where']}: {p['message']}") for p in record.header.corpus["problems"]]
    for piece in pieces:
        if piece.key[0] == "load":
            found += [Caution(code, message) for code, message in piece.data["cautions"]]
            found += [Caution("engine", note) for note in piece.data["engine"]["notes"]]
    found += header_warnings(record.header)
    untimed = {one.id for one in utterances if not one.words and normalise(one.text)}
    if untimed:
        found.append(Caution("no-word-times", f"{len(untimed)} utterances have no word times, so no word latency"))
    if not record.complete:
        found.append(Caution("incomplete", "the run is not complete; the same command with --resume goes on"))
    return list(dict.fromkeys(found))
