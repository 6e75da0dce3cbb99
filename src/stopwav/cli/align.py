"""`stopwav align`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.speech.utterance import Problem

# A problem holds a path, which the system lets be 4096 characters long, and says what to do after it.
LONGEST_LINE = 5000


def align(
    corpus: Annotated[
        str,
        typer.Argument(metavar="CORPUS", help="The corpus to align: anything that `stopwav latency --corpus` takes."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The CTM file to write.")] = Path("words.ctm"),
    aligner: Annotated[
        str | None,
        typer.Option(
            metavar="ALIGNER",
            help="pocketsphinx (English), or transformers:FOLDER-OR-HUB, a CTC model of any language.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the corpus, such as en or de; default: what the corpus says.")
    ] = None,
    json: Json = False,
) -> None:
    """Find when each word of a corpus is spoken (forced alignment) and write it as CTM."""
    import json as encoder
    import sys
    from dataclasses import replace

    from stopwav.cli.output import check_target, progress_bar
    from stopwav.engines.ctc_aligner import make_aligner
    from stopwav.report.text import counted, plain
    from stopwav.speech import ctm
    from stopwav.speech.align import align_corpus
    from stopwav.speech.corpus import load_corpus

    check_target(output)
    chosen = make_aligner(aligner)
    loaded = load_corpus(corpus, language=language)
    without = sum(utterance.text is None for utterance in loaded.utterances)
    if without == len(loaded.utterances):
        for problem in loaded.problems:
            print(_problem_line(problem), file=sys.stderr)
        raise StopwavError(
            f"{plain(corpus)}: nothing to align: none of {counted(without, 'utterance')} has a transcript; add x.txt "
            "next to x.wav, or a transcripts.txt of `id text` lines"
        )
    bare = replace(loaded, utterances=tuple(replace(utterance, words=()) for utterance in loaded.utterances))
    with progress_bar() as progress:
        aligned = align_corpus(bare, lambda done, total: progress("aligning words", done, total), chosen)
    timed = {utterance.id: utterance.words for utterance in aligned.utterances if utterance.words}
    ctm.write(output, timed)
    if without:
        total = counted(len(loaded.utterances), "utterance")
        print(f"stopwav: {without} of {total} without a transcript, not aligned", file=sys.stderr)
    for problem in aligned.problems:
        print(_problem_line(problem), file=sys.stderr)
    if aligned.cautions:
        guessed = counted(len(aligned.cautions), "warning")
        print(f"stopwav: {guessed}; {plain(aligned.cautions[0].message, LONGEST_LINE)}", file=sys.stderr)
    count = sum(len(words) for words in timed.values())
    if json:
        problems = [{"where": problem.where, "message": problem.message} for problem in aligned.problems]
        warnings = [{"code": caution.code, "message": caution.message} for caution in aligned.cautions]
        counts = {"utterances": len(timed), "words": count, "without_transcript": without}
        print(encoder.dumps({"output": str(output), **counts, "problems": problems, "warnings": warnings}))
    else:
        print(f"{plain(str(output))}: {counted(count, 'word')} of {counted(len(timed), 'utterance')}")
    if aligned.problems:
        raise typer.Exit(1 if timed else 2)


def _problem_line(problem: Problem) -> str:
    from stopwav.report.text import plain

    return f"stopwav: {plain(problem.where)}: {plain(problem.message, LONGEST_LINE)}"
