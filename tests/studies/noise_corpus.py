"""Tiny corpora made of noise, with transcripts and the times of their words."""

from pathlib import Path

import numpy as np
import soundfile


def write_corpus(folder: Path, count: int = 3, seconds: float = 0.5, words: str = "red fox") -> Path:
    """Make a folder of short noise files, each with the same words, evenly spread."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(0)
    tokens = words.split()
    with (folder / "transcripts.txt").open("w") as texts, (folder / "words.ctm").open("w") as times:
        for index in range(count):
            name = f"u{index:03d}"
            samples = noise.uniform(-0.1, 0.1, round(16_000 * seconds)).astype(np.float32)
            soundfile.write(folder / f"{name}.wav", samples, 16_000)
            texts.write(f"{name} {words}\n")
            for position, token in enumerate(tokens):
                length = seconds / len(tokens)
                times.write(f"{name} 1 {position * length:.3f} {length:.3f} {token}\n")
    return folder
