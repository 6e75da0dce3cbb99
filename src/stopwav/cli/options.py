"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Corpus = Annotated[
    str,
    typer.Option(
        help="`bundled`, a folder of audio with transcripts, a LibriSpeech tree, a NeMo manifest, a Kaldi folder."
    ),
]
Words = Annotated[Path | None, typer.Option(help="CTM file with the time of every word; default: found by alignment.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no page beside the run file.")]
Scientific = Annotated[
    bool, typer.Option("--scientific", help="Show a grid as real-time factors in the notation 4.08E-02.")
]
Unfold = Annotated[bool, typer.Option("--unfold", help="Show the repeated layers of a step one by one.")]
Labels = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="Print only the rows of a step whose label matches, such as rnnt."),
]
