"""`stopwav corpus`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json

if TYPE_CHECKING:
    from stopwav.report.document import Document
    from stopwav.speech.utterance import Problem
    from stopwav.studies.corpus_description import CorpusDescription

# Names and problems that are listed; --json has all.
MOST_NAMES = 5
MOST_PROBLEMS = 20


def corpus(
    source: Annotated[
        str, typer.Argument(metavar="CORPUS", help="Anything that `stopwav latency --corpus` takes; `bundled` is ours.")
    ],
    words: Annotated[Path | None, typer.Option(help="Word times as a CTM file; others would be aligned.")] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for headers and samples, read in random order.")
    ] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that order.")] = 0,
    json: Json = False,
) -> None:
    """Say what is in a corpus before anything is measured: lengths, speakers, clipping, silence, transcripts."""
    from stopwav.cli.output import print_json, progress_bar, show_document
    from stopwav.studies.corpus_description import corpus as describe

    with progress_bar() as progress:
        description = describe(source, words=words, time_limit_s=time_limit, seed=seed, progress=progress)
    if json:
        print_json(description.to_json())
    else:
        show_document(_document(description))


def _document(description: CorpusDescription) -> Document:
    from stopwav.report.document import Block, Cell, Column, Document, Lines, Row, Table

    rows = tuple(Row((Cell(name), Cell(text))) for name, text in _rows(description))
    columns = (Column("corpus", align="left"), Column(description.name, align="left", fold=True, longest=500))
    blocks: list[Block] = [Table(columns, rows)]
    for title, problems in (
        ("Transcripts that cannot be aligned", description.unalignable),
        ("Left out or not readable", description.problems),
    ):
        if problems:
            blocks.append(Lines(title, tuple(_problem_lines(problems))))
    return Document(title=f"Corpus {description.name}", blocks=tuple(blocks))


def _rows(description: CorpusDescription) -> Iterator[tuple[str, str]]:
    """Yield what is known, a line each."""
    total = description.utterances
    yield "utterances", f"{total:,} (digest {description.digest})"
    known = description.lengths_known
    estimate = "" if known == total else f", estimated from the lengths of {known:,}"
    yield "audio", f"{_time(description.audio_s)}{estimate}"
    if description.length_s:
        yield "lengths", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in description.length_s.items())
    without = total - description.transcripts
    yield (
        "transcripts",
        f"{description.transcripts:,}, {description.words:,} words" + (f"; {without:,} without" if without else ""),
    )
    yield "speakers", _shares(description.speakers, total, names=False)
    yield "languages", _shares(description.languages, total)
    yield "sampling rates", _shares({f"{rate:,} Hz": n for rate, n in description.sample_rates_hz.items()}, total)
    yield "channels", _shares({str(count): n for count, n in description.channels.items()}, total)
    yield from _sound_rows(description)
    from stopwav.report.text import counted

    guessed = description.guessed_words
    if guessed:
        names = _some([f"{word} ({count})" for word, count in guessed.items()])
        share = sum(guessed.values()) / max(1, description.words)
        yield (
            "not in dictionary",
            f"{counted(len(guessed), 'word')}, {share:.1%} of all; the aligner guesses them: {names}",
        )


def _sound_rows(description: CorpusDescription) -> Iterator[tuple[str, str]]:
    """Yield what the samples say, of the utterances that were read."""
    read = description.samples_read
    of = f"of {read:,} read" if read < description.utterances else "of all"
    for title, ids in (("clipped", description.clipped), ("without sound", description.silent)):
        yield title, f"{len(ids):,} {of}" + (f": {_some(ids)}" if ids else "")
    if description.silence_share is not None:
        yield (
            "silence",
            f"{description.silence_share:.0%} of {_time(description.samples_read_s)} (40 dB below the loudest)",
        )


def _shares(counts: Mapping[str, int], total: int, names: bool = True) -> str:
    """Return how many utterances have each value, and how many have none or were not looked at."""
    known = {name: count for name, count in counts.items() if name}
    missing = total - sum(known.values())
    if not known:
        return "not known"
    texts = _some([f"{name} ({count:,})" for name, count in known.items()]) if names else f"{len(known):,}"
    return texts + (f"; not known of {missing:,} utterances" if missing else "")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    yield from (f"{problem.where}: {problem.message}" for problem in problems[:MOST_PROBLEMS])
    if len(problems) > MOST_PROBLEMS:
        yield f"and {len(problems) - MOST_PROBLEMS:,} more; --json has all"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
