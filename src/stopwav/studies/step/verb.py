"""`stopwav step`."""

from __future__ import annotations

from typing import Annotated

import typer

from stopwav.cli import options
from stopwav.errors import StopwavError
from stopwav.report.detail import Detail


def step(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="`conformer-transducer[,key=value…]`, or FILE.py:FUNCTION, which returns a model, its batches, its "
            "loss and its optimiser.",
        ),
    ],
    shapes: Annotated[
        str, typer.Option(help="`librispeech`, or a .csv (columns T,U), .npz or .pt file of shapes.")
    ] = "librispeech",
    max_frames: Annotated[
        int | None, typer.Option(help="Input frames of a batch at the most; 30000, sorted, without --batch-size.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Utterances of a batch, instead of --max-frames.")] = None,
    sort: Annotated[bool, typer.Option("--sort", help="Sort by length before batches are made.")] = False,
    steps: Annotated[
        int, typer.Option(help="Steps, each on a batch of its own, over the whole range of lengths.")
    ] = 10,
    depth: Annotated[int, typer.Option(help="How deep modules are watched; the number of a layer does not count.")] = 3,
    modules: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Watch these modules too, however deep; repeatable.")
    ] = None,
    unfold: options.Unfold = False,
    labels: options.Labels = None,
    optimizer: Annotated[str, typer.Option(help="adamw, adam or sgd; a job of your own brings its own.")] = "adamw",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    autocast: Annotated[bool, typer.Option("--autocast", help="Compute in --dtype by autocast.")] = False,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the model; then only the whole has a row.")
    ] = False,
    device: options.Device = "cpu",
    rounds: options.Rounds = 3,
    quick: options.Quick = False,
    time_limit: Annotated[float, typer.Option(help="Seconds that loading, or one step, may take.")] = 600.0,
    memory_limit: options.MemoryLimit = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Take one more step under torch.profiler: operators, kernels, a trace.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of weights, features and batches.")] = 0,
    save: options.Save = options.FOLDER,
    resume: options.Resume = False,
    every_metric: options.EveryMetric = False,
    no_html: options.NoHtml = False,
    json: options.Json = False,
) -> None:
    """Where does my training step go: forward, backward and memory of each module."""
    from stopwav.cli.output import print_results, progress_bar
    from stopwav.studies.step.run import step as run

    if unfold and labels is not None:
        raise StopwavError("--unfold and --labels: a label belongs to all of its layers; give one of them")
    with progress_bar(resumable=True) as progress:
        record = run(
            model,
            optimizer=optimizer,
            shapes=shapes,
            max_frames=max_frames,
            batch_size=batch_size,
            sort=sort,
            steps=steps,
            depth=depth,
            modules=modules or [],
            dtype=dtype,
            autocast=autocast,
            compile=compile,
            device=device,
            rounds=1 if quick else rounds,
            time_limit_s=time_limit,
            memory_limit_gb=memory_limit,
            profile=profile,
            seed=seed,
            save=save,
            resume=resume,
            progress=progress,
        )
    detail = Detail(every_metric, unfold=unfold, labels=labels)
    print_results(record, as_json=json, detail=detail, page=not no_html)
