"""The word error rates of two recognisers under each normaliser, and the same by jiwer: a Markdown table.

python benchmarks/normalisers.py ../shared/data/librispeech

What stopwav prints is held against jiwer over the texts of the same run, after the package's own normaliser.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

import stopwav
from stopwav.record import Record
from stopwav.speech.normaliser import make_normaliser, normaliser_names
from stopwav.speech.text import normalise

ENGINES = ("pocketsphinx", "moonshine")
# Each as others call it. That of ours and none are not in any package.
OUTSIDE: dict[str, Callable[[str], str]] = {
    "whisper-english": EnglishTextNormalizer(),
    "whisper-basic": BasicTextNormalizer(),
    "stopwav-english": lambda text: " ".join(normalise(text)),
    "none": str,
}


@dataclass(frozen=True)
class Row:
    """The error rates of an engine under a normaliser, by stopwav and by jiwer."""

    engine: str
    normaliser: str
    wer: float
    cer: float
    jiwer_wer: float
    jiwer_cer: float

    def markdown(self) -> str:
        """Return the row as Markdown, in percent."""
        rates = (self.wer, self.jiwer_wer, self.cer, self.jiwer_cer)
        return f"| {self.engine} | `{self.normaliser}` | {' | '.join(f'{100 * rate:.2f}' for rate in rates)} |"


def measure(corpus: Path, engines: Sequence[str], save: Path) -> Path:
    """Stream the corpus once through each engine, and return the run."""
    return stopwav.latency(list(engines), corpus=str(corpus), rounds=1, save=save).path


def rows(run: Path) -> list[Row]:
    """Return the error rates of a run under each normaliser."""
    table = []
    for name in normaliser_names():
        record = Record.read(run)
        record.header.normaliser = make_normaliser(name).to_json()
        transcripts = {fields["id"]: fields["text"] for fields in record.header.corpus["utterances"]}
        for result in stopwav.results(record):
            texts = {
                str(piece.key[3]): _final(piece.data["trace"])
                for piece in record.pieces
                if piece.key[0] == "stream" and piece.key[2] == result.name
            }
            own = OUTSIDE[name]
            # Words are counted, and characters with one space between two words: jiwer counts any space.
            pairs = [(" ".join(own(transcripts[key]).split()), " ".join(own(texts[key]).split())) for key in texts]
            reference, hypothesis = ([pair[side] for pair in pairs] for side in (0, 1))
            wer, cer = (float(result.metrics[rate].value or 0.0) for rate in ("wer", "cer"))
            others = jiwer.wer(reference, hypothesis), jiwer.cer(reference, hypothesis)
            table.append(Row(result.name, name, wer, cer, *others))
    return table


def _final(trace: dict[str, object]) -> str:
    from stopwav.speech.events import last_text
    from stopwav.speech.stored_trace import trace_lists

    return last_text(trace_lists(trace).texts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    with tempfile.TemporaryDirectory() as folder:
        run = measure(parser.parse_args().corpus, ENGINES, Path(folder))
        print("| engine | normaliser | WER, % | by jiwer | CER, % | by jiwer |")
        print("|---|---|---|---|---|---|")
        for row in sorted(rows(run), key=lambda row: row.engine):
            print(row.markdown())


if __name__ == "__main__":
    main()
