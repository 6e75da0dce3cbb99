"""`stopwav grid`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stopwav.cli import options
from stopwav.report.detail import Detail


def grid(
    context: typer.Context,
    engine: Annotated[
        str,
        typer.Argument(
            metavar="ENGINE",
            help="Engine, as NAME[:SOURCE][,key=value…]; see `stopwav engines`. Or SpeechBrain's profile.yaml.",
        ),
    ],
    durations: Annotated[str, typer.Option(help="Seconds of audio, the rows of the grid.")] = "1,2,5,8,32",
    batch_sizes: Annotated[str, typer.Option(help="Utterances at once, the columns of the grid.")] = "1,4,8",
    audio: Annotated[
        str, typer.Option(help="`bundled` speech, `noise`, or a file; cut or repeated to the length.")
    ] = "bundled",
    device: Annotated[
        str | None, typer.Option(help="Such as cuda; given to the engine as its option `device`, and timed by it.")
    ] = None,
    triangle: Annotated[
        bool, typer.Option("--triangle", help="Skip the heavy corner, as SpeechBrain's triangle_only does.")
    ] = False,
    frontier: Annotated[
        bool, typer.Option("--frontier", help="Find the largest batch that fits for each duration, by bisection.")
    ] = False,
    rounds: options.Rounds = 3,
    quick: options.Quick = False,
    time_limit: Annotated[float, typer.Option(help="Seconds that one round of a cell may take.")] = 300.0,
    memory_limit: options.MemoryLimit = None,
    predict: Annotated[
        float | None, typer.Option(help="Seconds of audio for which the fitted law is asked; labelled a prediction.")
    ] = None,
    traces: Annotated[
        bool,
        typer.Option("--traces", help="Profile each cell once more after the sweep, for Perfetto or TensorBoard."),
    ] = False,
    scientific: options.Scientific = False,
    seed: Annotated[int, typer.Option(help="Seed of the order of cells and of the noise.")] = 0,
    save: options.Save = options.FOLDER,
    resume: options.Resume = False,
    every_metric: options.EveryMetric = False,
    no_html: options.NoHtml = False,
    json: options.Json = False,
) -> None:
    """Is it real-time, and does it fit: real-time factor and peak memory over duration × batch size."""
    import sys

    from stopwav.cli.forecast_line import with_forecast
    from stopwav.cli.output import print_results, progress_bar
    from stopwav.studies.grid.run import grid as run

    arguments = {
        "engine": engine,
        "durations": options.read_numbers("--durations", durations, float, "1,2,5"),
        "batch_sizes": options.read_numbers("--batch-sizes", batch_sizes, int, "1,4,8"),
        "audio": audio,
        "triangle": triangle,
        "traces": traces,
        **_recipe(engine, context),
    }
    with progress_bar(resumable=True) as progress:
        record = with_forecast(run)(
            **arguments,
            device=device,
            frontier=frontier,
            rounds=1 if quick else rounds,
            time_limit_s=time_limit,
            memory_limit_gb=memory_limit,
            predict_s=predict,
            seed=seed,
            save=save,
            resume=resume,
            progress=progress,
        )
    if arguments["traces"]:
        from stopwav.studies.grid.traces import traces_folder

        print(f"stopwav: traces in {traces_folder(record)}", file=sys.stderr)
    print_results(record, as_json=json, detail=Detail(every_metric, scientific), page=not no_html)


def _recipe(engine: str, context: typer.Context) -> dict[str, Any]:
    """What SpeechBrain's recipe file asks for, where one stands in the engine's place; a flag that was given wins."""
    from stopwav.studies.plan.speechbrain_recipe import is_recipe, read_recipe

    if not is_recipe(engine):
        return {}
    flags = [name for name in context.params if name != "engine"]
    given = [name for name in flags if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    return read_recipe(engine, given)
