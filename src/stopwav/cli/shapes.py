"""`stopwav shapes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stopwav.cli.options import Json


def shapes(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A NeMo manifest, Lhotse cuts, a Kaldi data folder, a LibriSpeech tree or other corpus; a file of "
            "shapes (.csv, .npz, or an older shape_info.pt); or `librispeech`.",
        ),
    ],
    tokenizer: Annotated[
        str | None, typer.Option(help="How texts become tokens: `chars`, `words`, or a SentencePiece model.")
    ] = None,
    frames: Annotated[
        str | None,
        typer.Option(
            metavar="input|encoder",
            help="What T of a file counts; default: what the file says, else guessed from its longest utterance.",
        ),
    ] = None,
    subsampling: Annotated[int, typer.Option(help="How many 10 ms frames the encoder makes into one.")] = 4,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write: .csv or .npz.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw from `librispeech`.")] = 0,
    json: Json = False,
) -> None:
    """Count the frames and tokens of the utterances of a corpus, for --shapes of `stopwav loss` and `stopwav step`."""
    import sys

    from stopwav.cli.output import check_target
    from stopwav.report.text import plain
    from stopwav.speech.batches import make_batches, padding_efficiency
    from stopwav.speech.shapes import frame_kind, load_shapes, save_shapes

    check_target(output)
    loaded = load_shapes(source, tokenizer=tokenizer, frames=frame_kind(frames), subsampling=subsampling, seed=seed)
    if loaded.guess:
        print(f"stopwav: {plain(loaded.name)}: {plain(loaded.guess)}", file=sys.stderr)
    if output is not None:
        save_shapes(loaded, output)
        print(f"shapes: {plain(str(output))}", file=sys.stderr)
    rows = {"T": _summary(loaded.frames), "U": _summary(loaded.tokens)}
    efficiency = padding_efficiency(make_batches(loaded, batch_size=min(30, len(loaded)), seed=seed))
    if json:
        import json as encoder

        about = {"name": loaded.name, "digest": loaded.digest, "note": loaded.note, "utterances": len(loaded)}
        held = {"frames": loaded.frame_kind, "frames_guess": loaded.guess, "subsampling": loaded.subsampling}
        print(encoder.dumps({**about, **held, **rows, "padding_efficiency": efficiency}))
        return
    count = f"{len(loaded):,} utterance{'' if len(loaded) == 1 else 's'}"
    note = plain(loaded.note or "as the file has them")
    print(f"{count} of {plain(loaded.name)} (digest {plain(loaded.digest)}; {note})")
    for name, row in rows.items():
        print(f"  {name}  " + "  ".join(f"{key} {value:.4g}" for key, value in row.items()))
    print(f"  padding efficiency in batches of {min(30, len(loaded))}, unsorted: {efficiency:.3f}")


def _summary(values: Any) -> dict[str, float]:
    import numpy as np

    quantiles = {"min": 0.0, "p5": 0.05, "median": 0.5, "p95": 0.95, "max": 1.0}
    return {"mean": float(values.mean()), **{key: float(np.quantile(values, q)) for key, q in quantiles.items()}}
