"""`stopwav compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli import options
from stopwav.report.detail import Detail


def compare(
    engines: options.Engines,
    frames: Annotated[
        str, typer.Option(help="Lengths of input over which latency is measured, in frames of 10 ms.")
    ] = "100,200,400,800,1600",
    samples: Annotated[
        int, typer.Option(help="Inputs drawn from the corpus by seed, for latency and word errors; dealt over rounds.")
    ] = 100,
    corpus: options.Corpus = "bundled",
    energy: Annotated[
        bool, typer.Option("--energy", help="Measure joules and watts at each length, by whatever meter is found.")
    ] = False,
    energy_time: Annotated[
        float,
        typer.Option(help="Seconds for which the work repeats at each length, unless its joules are known to 5 %."),
    ] = 60.0,
    meter_csv: Annotated[
        Path | None,
        typer.Option(help="Log of an external power meter, timestamp and watts a line; may grow meanwhile."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Hypothesis to be judged, such as "a faster b"; repeatable.'),
    ] = None,
    rounds: options.Rounds = 10,
    quick: Annotated[bool, typer.Option("--quick", help="One round: the same as --rounds 1; no verdicts.")] = False,
    depth: Annotated[int, typer.Option(help="Levels of modules for parameters and operations.")] = 1,
    time_limit: Annotated[float, typer.Option(help="Seconds that loading, or one piece of work, may take.")] = 300.0,
    seed: options.Seed = 0,
    save: options.Save = options.FOLDER,
    resume: options.Resume = False,
    every_metric: options.EveryMetric = False,
    no_html: options.NoHtml = False,
    json: options.Json = False,
) -> None:
    """Which of these models should I ship: parameters, operations, latency, energy and word errors side by side."""
    from stopwav.cli.output import print_results, progress_bar
    from stopwav.cli.study_verb import with_forecast
    from stopwav.studies.compare.run import compare as measure

    with progress_bar(resumable=True) as progress:
        record = with_forecast(measure)(
            engines,
            frames=options.read_numbers("--frames", frames, int, "100,400"),
            samples=samples,
            corpus=corpus,
            energy=energy,
            energy_time_s=energy_time,
            meter_csv=meter_csv,
            expect=expect or [],
            rounds=1 if quick else rounds,
            depth=depth,
            time_limit_s=time_limit,
            seed=seed,
            save=save,
            resume=resume,
            progress=progress,
        )
    print_results(record, as_json=json, detail=Detail(every_metric), page=not no_html)
