"""The shapes of LibriSpeech train-clean-100 with speed perturbation: a joint histogram, drawn from by seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stopwav.speech.shapes import LIBRISPEECH, Shapes, file_digest

TABLE = Path(__file__).parent / "data" / "librispeech_shapes.npz"
# The shortest and the longest utterance of the corpus: the outermost bins reach beyond them.
FRAMES = (31, 680)
TOKENS = (2, 151)


def draw_librispeech(seed: int = 0) -> Shapes:
    """As many utterances as the corpus has, drawn from the histogram; uniform inside a bin, which is all it tells."""
    with np.load(TABLE, allow_pickle=False) as table:
        counts = table["count"].astype(np.int64)
        corners = np.stack([table["frames_bin"], table["tokens_bin"]], axis=1).astype(np.int64)
        widths = table["widths"].astype(np.int64)
    random = np.random.default_rng(seed)
    bins = random.choice(len(counts), size=int(counts.sum()), p=counts / counts.sum())
    pairs = corners[bins] * widths + random.integers(0, widths, size=(len(bins), 2))
    return Shapes(
        name=LIBRISPEECH,
        frames=np.clip(pairs[:, 0], *FRAMES),
        tokens=np.clip(pairs[:, 1], *TOKENS),
        digest=file_digest(TABLE),
        note=f"drawn from the histogram of train-clean-100, BPE 500, subsampling 4, seed {seed}",
    )
