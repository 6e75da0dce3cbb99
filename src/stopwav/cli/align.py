"""`stopwav align`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError


def align(
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="The corpus to align: anything that `stopwav latency --corpus` takes."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CTM file to write.")] = Path("words.ctm"),
    json: Json = False,
) -> None:
    """Find when each word of a corpus is spoken (pocketsphinx's forced alignment) and write it as CTM."""
    import json as encoder
    import sys
    from dataclasses import replace

    from stopwav.cli.output import progress_bar
    from stopwav.report.text import counted
    from stopwav.speech import ctm
    from stopwav.speech.align import align_corpus
    from stopwav.speech.corpus import load_corpus

    loaded = load_corpus(corpus)
    without = sum(utterance.text is None for utterance in loaded.utterances)
    if without == len(loaded.utterances):
        raise StopwavError(
            f"{corpus}: nothing to align: none of {counted(without, 'utterance')} has a transcript; add x.txt next to "
            "x.wav, or a transcripts.txt of `id text` lines"
        )
    bare = replace(loaded, utterances=tuple(replace(utterance, words=()) for utterance in loaded.utterances))
    with progress_bar() as progress:
        aligned = align_corpus(bare, progress=lambda done, total: progress("aligning words", done, total))
    timed = {utterance.id: utterance.words for utterance in aligned.utterances if utterance.words}
    ctm.write(output, timed)
    if without:
        total = counted(len(loaded.utterances), "utterance")
        print(f"stopwav: {without} of {total} without a transcript, not aligned", file=sys.stderr)
    for problem in aligned.problems:
        print(f"stopwav: {problem.where}: {problem.message}", file=sys.stderr)
    count = sum(len(words) for words in timed.values())
    if json:
        problems = [{"where": problem.where, "message": problem.message} for problem in aligned.problems]
        counts = {"utterances": len(timed), "words": count, "without_transcript": without}
        print(encoder.dumps({"output": str(output), **counts, "problems": problems}))
    else:
        print(f"{output}: {counted(count, 'word')} of {counted(len(timed), 'utterance')}")
    if aligned.problems:
        raise typer.Exit(1 if timed else 2)
