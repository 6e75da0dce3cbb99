"""The settings that say where the shapes of batches come from, for every study that takes shapes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stopwav.speech.shapes import FrameKind
from stopwav.studies.spec import Option

ShapeSource = Annotated[
    str, Option("`librispeech`, a .csv (columns T,U), .npz or .pt file of shapes, or a corpus with --tokenizer.")
]
Tokenizer = Annotated[str | None, Option("For a corpus as --shapes: `chars`, `words`, or a SentencePiece model.")]
Frames = Annotated[
    FrameKind | None,
    Option(
        "What T of a file as --shapes counts, input (10 ms) or encoder frames; default: what the file says, else "
        "guessed from its longest utterance.",
        metavar="input|encoder",
    ),
]
Subsampling = Annotated[int, Field(gt=0), Option("How many 10 ms input frames an encoder frame stands for.")]
# How large batches are: so that a run fits processor, memory and budget, or as in the published experiment.
Size = Literal["fit", "published"]
SizeChoice = Annotated[
    Size | None,
    Option(
        "Size of batches: `fit`, chosen for this machine and --budget, or `published`. Default: fit; published with "
        "--thorough, --rounds, or where a size is given.",
        metavar="fit|published",
        stored=False,
    ),
]
