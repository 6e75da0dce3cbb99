"""`stopwav latency`."""

from __future__ import annotations

from typing import Annotated

import typer

from stopwav.cli import options
from stopwav.report.detail import Detail


def latency(
    engines: options.Engines,
    corpus: options.Corpus = "bundled",
    words: options.Words = None,
    chunk_ms: Annotated[float | None, typer.Option(help="Audio per push; default: what the engine asks for.")] = None,
    pace: Annotated[
        str,
        typer.Option(
            help="virtual: as fast as it goes, waiting reconstructed; real: by the clock; "
            "idle: by the clock, the core asleep in between."
        ),
    ] = "virtual",
    limit: Annotated[int | None, typer.Option(help="Stream only this many utterances, drawn by seed.")] = None,
    rounds: options.Rounds = 3,
    quick: options.Quick = False,
    time_limit: Annotated[float, typer.Option(help="Seconds an engine may take for one utterance.")] = 60.0,
    seed: options.Seed = 0,
    save: options.Save = options.FOLDER,
    resume: options.Resume = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Measure what would help: the engine, and each setting it offers to try.")
    ] = False,
    every_metric: options.EveryMetric = False,
    no_html: options.NoHtml = False,
    json: options.Json = False,
) -> None:
    """How long does a listener wait for each word of a streaming recogniser, and why?"""
    from stopwav.cli.output import print_results, progress_bar
    from stopwav.studies.latency.run import latency as measure

    with progress_bar(resumable=True) as progress:
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
    print_results(record, as_json=json, detail=Detail(every_metric), page=not no_html)
