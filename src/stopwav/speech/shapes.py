"""Shapes: how many frames and how many tokens each utterance of a corpus has, which is all a loss's cost depends on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError

LIBRISPEECH = "librispeech"
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Shapes:
    """Frames T after subsampling and tokens U of each utterance, where they come from, and that source's digest."""

    name: str
    frames: Counts
    tokens: Counts
    digest: str
    # How the source was made into frames and tokens.
    note: str = ""

    def __post_init__(self) -> None:
        if not len(self.frames) or len(self.frames) != len(self.tokens):
            raise StopwavError(f"shapes {self.name}: {len(self.frames)} T and {len(self.tokens)} U; give pairs of both")
        if self.frames.min() < 1 or self.tokens.min() < 0:
            raise StopwavError(
                f"shapes {self.name}: an utterance has {self.frames.min()} frames or {self.tokens.min()} tokens; "
                "each needs 1 frame and 0 tokens at least"
            )

    def __len__(self) -> int:
        return len(self.frames)


def load_shapes(
    source: str | Path = LIBRISPEECH, *, tokenizer: str | None = None, subsampling: int = 4, seed: int = 0
) -> Shapes:
    """The shapes that `source` names: `librispeech`, a file of shapes, or a corpus, whose texts need a tokenizer."""
    if str(source) == LIBRISPEECH:
        from stopwav.speech.librispeech_shapes import draw_librispeech

        return draw_librispeech(seed)
    path = Path(source)
    if path.suffix in _READERS and os.path.isfile(path):
        return _read(path)
    if tokenizer is None:
        raise StopwavError(
            f"shapes {source}: neither `librispeech` nor a .csv, .npz or .pt file of shapes; for a corpus, say how its "
            "texts become tokens with --tokenizer chars, words, or a SentencePiece model"
        )
    from stopwav.speech.shape_sources import corpus_shapes

    return corpus_shapes(path, tokenizer, subsampling)


def save_shapes(shapes: Shapes, path: Path) -> None:
    """Write the shapes: as NPZ where the name ends so, else as CSV with the source in a comment on top."""
    about = {"name": shapes.name, "digest": shapes.digest, "note": shapes.note}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            texts: dict[str, Any] = {key: np.array(value) for key, value in about.items()}
            np.savez_compressed(path, T=shapes.frames, U=shapes.tokens, **texts)
            return
        head = "".join(f"# {key}: {' '.join(value.split())}\n" for key, value in about.items())
        rows = "".join(f"{t},{u}\n" for t, u in zip(shapes.frames, shapes.tokens, strict=True))
        path.write_text(f"{head}T,U\n{rows}", encoding="utf-8")
    except OSError as error:
        raise StopwavError(f"{path}: cannot be written ({error.strerror}); name another file with -o") from error


def file_digest(path: Path) -> str:
    """16 hex digits of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _read(path: Path) -> Shapes:
    try:
        pairs, about = _READERS[path.suffix](path)
    except StopwavError:
        raise
    except Exception as error:  # NumPy and PyTorch have many ways to say that a file is not what it should be
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise StopwavError(f"{path}: not a file of shapes ({reason}); write one with `stopwav shapes`") from error
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise StopwavError(f"{path}: holds {pairs.dtype} of shape {pairs.shape}, not whole numbers T, U in two columns")
    whole = pairs.astype(np.int64)
    return Shapes(
        name=about.get("name") or path.name,
        frames=whole[:, 0],
        tokens=whole[:, 1],
        digest=about.get("digest") or file_digest(path),
        note=about.get("note", ""),
    )


def _read_csv(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line[1:].partition(":") for line in lines if line.startswith("#")]
    head, *rows = [line for line in lines if line and not line.startswith("#")]
    if [name.strip() for name in head.split(",")] != ["T", "U"]:
        raise StopwavError(f"{path}: its columns are {head[:60]!r}; they have to be T,U")
    pairs = np.array([[int(part) for part in row.split(",")] for row in rows], np.int64)
    return pairs, {key.strip(): value.strip() for key, _, value in comments}


def _read_npz(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    with np.load(path, allow_pickle=False) as arrays:
        pairs = np.stack([arrays["T"], arrays["U"]], axis=1)
        return pairs, {key: str(arrays[key]) for key in ("name", "digest", "note") if key in arrays}


def _read_pt(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    """The older two-column tensor; `weights_only` keeps a file from running code."""
    try:
        import torch
    except ImportError as error:
        raise StopwavError(f"{path}: reading it needs PyTorch: pip install 'stopwav[torch]'") from error
    tensor = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise StopwavError(f"{path}: holds a {type(tensor).__name__}, not a tensor with the columns T and U")
    return tensor.numpy(), {}


_READERS = {".csv": _read_csv, ".npz": _read_npz, ".pt": _read_pt}
