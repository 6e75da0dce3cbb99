"""The utterances that sessions speak: of a large or long corpus as many as levels can repeat, drawn by seed."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path

from stopwav.engines.ctc_aligner import make_aligner
from stopwav.errors import StopwavError
from stopwav.speech.align import align_corpus
from stopwav.speech.audio_file import duration_s
from stopwav.speech.corpus import load_corpus
from stopwav.speech.utterance import Corpus
from stopwav.studies.load.spec import LoadSpec

# Every session of a level is one of these, and each comes again and again: more would not make a level more like the
# corpus, whose lengths and words forty show well enough.
MOST_UTTERANCES = 40
# Under a budget, an utterance may last as long as a tenth of it: a level lasts at least as long as its longest one, and
# a search has about ten.
LONGEST_SHARE = 0.1


def choose_utterances(spec: LoadSpec) -> tuple[Corpus, str]:
    """Return the utterances of a run with the times of their words, and the digest of the corpus they are from."""
    words = None if spec.words is None else Path(spec.words)
    corpus = load_corpus(spec.corpus, words, spec.language, spec.report)
    drawn = list(corpus.utterances)
    random.Random(spec.seed).shuffle(drawn)
    longest_s = LONGEST_SHARE * spec.total_s
    chosen = [utterance for utterance in drawn if 0 < duration_s(utterance) <= longest_s]
    if not chosen:
        shortest_s = min(map(duration_s, drawn))
        raise StopwavError(
            f"--corpus {spec.corpus}: its shortest utterance lasts {shortest_s:.0f} s, and a level as long at least; "
            f"give a --budget of {shortest_s / LONGEST_SHARE / 60:.0f}min, or cut the audio into utterances"
        )
    kept = chosen[: min(spec.limit or MOST_UTTERANCES, MOST_UTTERANCES)]
    progress, aligner = partial(spec.report, "aligning words"), make_aligner(spec.aligner)
    aligned = align_corpus(replace(corpus, utterances=tuple(kept)), progress, aligner)
    if len(kept) < len(drawn):
        spec.say(f"{len(kept)} of {len(drawn)} utterances, each spoken again and again; all levels have the same")
    return aligned, corpus.digest
