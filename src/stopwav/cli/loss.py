"""`stopwav loss`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli import options
from stopwav.report.detail import Detail

if TYPE_CHECKING:
    from stopwav.record import Record

# The word that may follow --sort: a flag takes none, so it arrives among the names, where no loss is called so.
_COLUMNS = "columns-independently"


def loss(
    losses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME…]",
            help="Losses, as NAME[,key=value…] or your own as my_loss.py:my_loss; without any, all that are installed.",
        ),
    ] = None,
    shapes: Annotated[
        str, typer.Option(help="`librispeech`, a file that `stopwav shapes` wrote, or a corpus with --tokenizer.")
    ] = "librispeech",
    tokenizer: Annotated[
        str | None, typer.Option(help="For a corpus as --shapes: `chars`, `words`, or a SentencePiece model.")
    ] = None,
    subsampling: Annotated[int, typer.Option(help="For a corpus as --shapes: how much shorter the encoder is.")] = 4,
    batch_size: Annotated[
        str | None, typer.Option(help="Utterances a batch, by default 30; several with commas are compared.")
    ] = None,
    max_frames: Annotated[
        int | None, typer.Option(help="Frames of a batch before padding, in place of --batch-size.")
    ] = None,
    sort: Annotated[
        bool,
        typer.Option(
            "--sort",
            help=f"Batch utterances of like length. With `{_COLUMNS}` behind it, T and U are sorted each for itself, "
            "as in older tables: a mistake.",
        ),
    ] = False,
    buckets: Annotated[int | None, typer.Option(help="Batch within so many equally filled ranges of length.")] = None,
    batches: Annotated[int, typer.Option(help="Batches that are measured, over the whole range of lengths.")] = 10,
    vocab: Annotated[str, typer.Option(help="Symbols, blank included; several with commas are compared.")] = "500",
    dim: Annotated[int, typer.Option(help="Size of the outputs of encoder and predictor.")] = 512,
    blank: Annotated[int, typer.Option(help="Which symbol is blank.")] = 0,
    dtype: Annotated[
        str, typer.Option(help="float32, tf32, float64, or bfloat16 or float16 for the joiner under autocast.")
    ] = "float32",
    device: options.Device = "cpu",
    largest_batch: Annotated[
        bool, typer.Option("--largest-batch", help="Find the largest batch that fits, by bisection.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Profile each loss once more afterwards, for Perfetto; feeds no number.")
    ] = False,
    profile_schedule: Annotated[
        str, typer.Option(help="Steps to wait, warm up and record under --profile, and how often.")
    ] = "10,10,20,2",
    rounds: options.Rounds = 3,
    quick: options.Quick = False,
    time_limit: Annotated[float, typer.Option(help="Seconds that one batch of a loss may take in a round.")] = 300.0,
    memory_limit: options.MemoryLimit = None,
    seed: Annotated[int, typer.Option(help="Seed of shapes, batches and inputs.")] = 0,
    save: options.Save = options.FOLDER,
    resume: options.Resume = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the losses: what is installed, and how to get the rest.")
    ] = False,
    every_metric: options.EveryMetric = False,
    no_html: options.NoHtml = False,
    json: options.Json = False,
) -> None:
    """Which transducer loss to train with: speed, memory and correctness of each, on realistic shapes."""
    if listed:
        _print_list(as_json=json)
        return
    from stopwav.cli.output import print_results, progress_bar
    from stopwav.studies.loss import loss as run

    columns = sort and _COLUMNS in (losses or [])
    with progress_bar(resumable=True) as progress:
        record = run(
            [name for name in losses or [] if not (columns and name == _COLUMNS)],
            shapes=shapes,
            tokenizer=tokenizer,
            subsampling=subsampling,
            batch_size=None if batch_size is None else options.read_numbers("--batch-size", batch_size, int, "10,30"),
            max_frames=max_frames,
            sort=_COLUMNS if columns else sort,
            buckets=buckets,
            batches=batches,
            vocab=options.read_numbers("--vocab", vocab, int, "500,1000"),
            dim=dim,
            blank=blank,
            dtype=dtype,
            device=device,
            largest_batch=largest_batch,
            rounds=1 if quick else rounds,
            time_limit_s=time_limit,
            memory_limit_gb=memory_limit,
            seed=seed,
            profile=profile,
            profile_schedule=options.read_numbers("--profile-schedule", profile_schedule, int, "10,10,20,2"),
            save=save,
            resume=resume,
            progress=progress,
        )
    if profile:
        _print_operators(record)
    print_results(record, as_json=json, detail=Detail(every_metric), page=not no_html)


def _print_list(*, as_json: bool) -> None:
    from stopwav.losses.registry import BUILT_IN

    rows = [
        {
            "name": one.name,
            "installed": one.version is not None,
            "version": one.version,
            "install": one.install,
            "needs": one.needs.description(),
            "devices": list(one.needs.devices),
            "summary": one.summary,
        }
        for one in BUILT_IN
    ]
    if as_json:
        import json

        print(json.dumps({"losses": rows}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("loss", "state", "what it is, and what it needs"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        state = f"installed, {row['version']}" if row["installed"] else f"missing: {row['install']}"
        table.add_row(str(row["name"]), state, f"{row['summary']}; {row['needs']}")
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print("your own: my_loss.py:my_loss (docs/guides/choosing-a-transducer-loss.md)", highlight=False)


def _print_operators(record: Record) -> None:
    """Print where the traces lie, and the operators that took most of each loss's traced steps."""
    import sys

    from stopwav.profiling.analysis import analyse
    from stopwav.studies.loss_traces import traces_folder

    folder = traces_folder(record)
    print(f"stopwav: traces in {folder} (open them at ui.perfetto.dev or chrome://tracing)", file=sys.stderr)
    for piece in record.pieces:
        if piece.key[0] == "trace" and piece.status == "ok":
            print(f"\n{piece.key[1]}, {piece.key[2]}", file=sys.stderr)
            analyse(record.path.parent / Path(piece.data["files"][0]).parent)
