"""Doubts about numbers: each told once, numbered, and marked beside every number it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stopwav.record import Result
from stopwav.report.plain import plain

# What a doubt about the reference's word times touches.
_WORD_TIMES = ("word_latency", "committed", "stabilisation", "waterfall", "share", "first_word", "final_latency")
# What does not depend on how fast the machine was.
_TIMELESS = ("wer", "upwr", "normalised_erasure", "words_recognised", "peak_", "algorithmic")
_AUDIO_TIME = {"waterfall_buffering", "waterfall_lookahead", "waterfall_emission", "al", "laal", "dal"}
_WORD_TIME_CODES = {"guessed-pronunciation", "no-word-times", "guessed-word-times"}
# About the run as a whole or its streams: every number of the engine may be another without it.
_EVERYTHING = ("stream-", "corpus", "engine", "incomplete", "rounds-failed")


@dataclass(frozen=True)
class Footnote:
    """One caution of a run: its number on the page, its code and message, and the engines it touches."""

    number: int
    code: str
    message: str
    engines: tuple[str, ...]
    everyone: bool

    def touches(self, engine: str, metric: str) -> bool:
        """Whether it casts doubt on this metric of this engine."""
        if engine not in self.engines:
            return False
        if self.code in _WORD_TIME_CODES:
            # Counted from the start or the end of the stream, not from a word.
            return metric.startswith(_WORD_TIMES) and "_from_" not in metric
        if self.code.startswith(_EVERYTHING):
            return True
        return not metric.startswith(_TIMELESS) and metric not in _AUDIO_TIME

    @property
    def text(self) -> str:
        """The message, safe to show, with the engines where it does not touch all."""
        whom = "" if self.everyone else f"{', '.join(plain(name, 40) for name in self.engines)}: "
        return f"{whom}{plain(self.message)}"


def footnotes(results: Sequence[Result]) -> list[Footnote]:
    """The cautions of all results, each once, numbered from 1."""
    touched: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for caution in result.warnings:
            touched.setdefault((caution.code, caution.message), []).append(result.name)
    return [
        Footnote(number, code, message, tuple(names), len(names) == len(results))
        for number, ((code, message), names) in enumerate(touched.items(), start=1)
    ]
