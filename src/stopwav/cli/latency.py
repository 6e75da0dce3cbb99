"""`stopwav latency`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.options import Corpus, Json, NoHtml, Words


def latency(
    engines: Annotated[
        list[str],
        typer.Argument(metavar="ENGINE…", help="Engines, as NAME[:SOURCE][,key=value…]; see `stopwav engines`."),
    ],
    corpus: Corpus = "bundled",
    words: Words = None,
    chunk_ms: Annotated[float | None, typer.Option(help="Audio per push; default: what the engine asks for.")] = None,
    pace: Annotated[
        str,
        typer.Option(
            help="virtual: as fast as it goes, waiting reconstructed; real: by the clock; "
            "idle: by the clock, the core asleep in between."
        ),
    ] = "virtual",
    limit: Annotated[int | None, typer.Option(help="Stream only this many utterances, drawn by seed.")] = None,
    rounds: Annotated[int, typer.Option(help="Fresh processes per engine.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One round: the same as --rounds 1.")] = False,
    time_limit: Annotated[float, typer.Option(help="Seconds an engine may take for one utterance.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Seed of the order, the draw and the intervals.")] = 0,
    save: Annotated[Path, typer.Option(help="Folder for the run file.")] = Path("stopwav-runs"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest unfinished run of this command.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Measure what would help: the engine, and each setting it offers to try.")
    ] = False,
    every_metric: Annotated[bool, typer.Option("--all", help="Print every metric with its interval.")] = False,
    no_html: NoHtml = False,
    json: Json = False,
) -> None:
    """How long does a listener wait for each word of a streaming recogniser, and why?"""
    import sys

    from stopwav.cli.output import print_results, progress_bar
    from stopwav.studies.latency import latency as measure

    with progress_bar("interrupted; what was measured is kept: add --resume to go on") as progress:
        record = measure(
            engines,
            corpus=corpus,
            words=None if words is None else str(words),
            chunk_ms=chunk_ms,
            pace=pace,  # type: ignore[arg-type]  # whatever is typed; the spec checks it
            limit=limit,
            rounds=1 if quick else rounds,
            time_limit_s=time_limit,
            seed=seed,
            explain=explain,
            save=save,
            resume=resume,
            progress=progress,
        )
    if resume and record.found:
        print(f"stopwav: {record.found} pieces were there already, in {record.path}", file=sys.stderr)
    print_results(record, as_json=json, every_metric=every_metric, page=not no_html)
