"""The errors of an aligner's word times: a Markdown table over the bundled corpus.

python benchmarks/aligner.py [ALIGNER]

The aligner is pocketsphinx, or transformers:FOLDER with a CTC model, such as scripts/train_ctc.py makes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np

from stopwav.engines.ctc_aligner import POCKETSPHINX, make_aligner
from stopwav.speech.align import align_corpus
from stopwav.speech.corpus import Utterance, bundled_corpus


@dataclass(frozen=True)
class Row:
    """The errors in milliseconds of word starts or word ends in one voice."""

    voice: str
    boundary: str
    errors_ms: tuple[float, ...]

    def markdown(self) -> str:
        """The row as Markdown; percentiles are nearest-rank, the bias is the median with its sign."""
        signed = np.array(self.errors_ms)
        sizes = np.abs(signed)
        p50, p90, p95 = (np.percentile(sizes, share, method="inverted_cdf") for share in (50, 90, 95))
        figures = f"{p50:.0f} | {p90:.0f} | {p95:.0f} | {sizes.max():.0f} | {round(float(np.median(signed))):+d}"
        return f"| {self.voice} | {self.boundary} | {len(signed)} | {figures} |"


def rows(true: tuple[Utterance, ...], aligned: tuple[Utterance, ...]) -> list[Row]:
    """The rows of word starts and word ends, per voice and over all voices."""
    table = []
    for voice in (*sorted({utterance.speaker for utterance in true}), "all"):
        pairs = [
            (word, guess)
            for truth, result in zip(true, aligned, strict=True)
            if voice in (truth.speaker, "all")
            for word, guess in zip(truth.words, result.words, strict=True)
        ]
        table.append(Row(voice, "start", tuple((guess.start_s - word.start_s) * 1000 for word, guess in pairs)))
        table.append(Row(voice, "end", tuple((guess.end_s - word.end_s) * 1000 for word, guess in pairs)))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("aligner", nargs="?", default=POCKETSPHINX)
    aligner = make_aligner(parser.parse_args().aligner)
    corpus = bundled_corpus()
    without_times = replace(corpus, utterances=tuple(replace(utterance, words=()) for utterance in corpus.utterances))
    aligned = align_corpus(without_times, aligner=aligner)
    for problem in aligned.problems:
        print(f"{problem.where}: {problem.message}\n")
    print("| voice | word | words | median, ms | P90, ms | P95, ms | max, ms | bias, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows(corpus.utterances, aligned.utterances):
        print(row.markdown())


if __name__ == "__main__":
    main()
