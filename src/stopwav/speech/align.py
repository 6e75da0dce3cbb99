"""Word times by forced alignment, for corpora that come without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from stopwav.errors import Caution, StopwavError
from stopwav.speech.alignment_cache import AlignedWords, AlignmentCache, alignment_key
from stopwav.speech.audio import Audio, load_utterance
from stopwav.speech.cache_folder import cache_folder
from stopwav.speech.language import is_english
from stopwav.speech.normaliser import spoken_words
from stopwav.speech.pocketsphinx_aligner import SAMPLE_RATE_HZ, PocketsphinxAligner
from stopwav.speech.utterance import Corpus, Problem, Utterance


class Aligner(Protocol):
    """What finds the time of each word of a known text in its audio, at 16 kHz."""

    # What it had to guess of words that it does not know, with `{words}` where they are to be named.
    guess: str

    @property
    def name(self) -> str:
        """The name and version, as a run states them."""
        ...

    @property
    def identity(self) -> Sequence[str | int]:
        """What its times depend on: those of another identity are not taken from the cache."""
        ...

    def aligns(self, language: str) -> bool:
        """Whether it may be used for a language for which nobody named it."""
        ...

    def align(self, audio: Audio, words: Sequence[str]) -> AlignedWords:
        """Return the time of each of the words; raise StopwavError where they cannot be those of the audio."""
        ...


def align_corpus(
    corpus: Corpus, progress: Callable[[int, int], None] | None = None, aligner: Aligner | None = None
) -> Corpus:
    """Return the corpus with word times for every utterance that had none; one that cannot be aligned gets a problem.

    An utterance without a transcript stays as it is, and so does one in a language that the default aligner,
    pocketsphinx, does not know. Word times are kept in the user's cache folder as they are found, and taken from there,
    so that an alignment that was interrupted continues. `progress` is called after each utterance with the number done
    and the total.
    """
    chosen = aligner or PocketsphinxAligner()
    untimed = [(utterance, utterance.text) for utterance in corpus.utterances if utterance.text and not utterance.words]
    missing = [pair for pair in untimed if aligner is not None or chosen.aligns(pair[0].language)]
    aligned: dict[str, Utterance] = {}
    problems, warnings = list(corpus.problems), [*corpus.cautions, *_other_languages(untimed, len(missing))]
    with AlignmentCache(cache_folder()) as cache:
        for done, (utterance, text) in enumerate(missing, start=1):
            try:
                alignment = _align_utterance(utterance, text, chosen, cache)
            except StopwavError as error:
                problems.append(Problem(utterance.id, str(error)))
            except MemoryError:
                message = "not enough memory to align it; cut it into segments, or give its word times (--words)"
                problems.append(Problem(utterance.id, message))
            else:
                aligned[utterance.id] = replace(utterance, words=alignment.words)
                if alignment.guessed:
                    warnings.append(_guess_warning(utterance.id, alignment.guessed, chosen.guess))
            if progress is not None:
                progress(done, len(missing))
    utterances = tuple(aligned.get(utterance.id, utterance) for utterance in corpus.utterances)
    name = chosen.name if aligned else corpus.aligner
    # Once: the utterances of a budget are aligned in several batches.
    cautions = tuple(dict.fromkeys(warnings))
    return replace(corpus, utterances=utterances, problems=tuple(problems), cautions=cautions, aligner=name)


def _align_utterance(utterance: Utterance, text: str, aligner: Aligner, cache: AlignmentCache) -> AlignedWords:
    """Return the alignment from the cache, or else find and store it."""
    audio = load_utterance(utterance, SAMPLE_RATE_HZ)
    words = spoken_words(text, utterance.language)
    if not words:
        return AlignedWords(())
    key = alignment_key(audio.pcm16(), words, aligner.identity)
    stored = cache.get(key, words)
    if stored is not None:
        return stored
    alignment = aligner.align(audio, words)
    cache.put(key, alignment)
    return alignment


def _other_languages(untimed: Sequence[tuple[Utterance, str]], aligned: int) -> list[Caution]:
    """A warning where utterances stay without word times because nothing is known to align their language."""
    if aligned == len(untimed):
        return []
    languages = sorted({utterance.language for utterance, _ in untimed if not is_english(utterance.language)})
    message = (
        f"pocketsphinx aligns English, and the corpus is in {', '.join(languages)}: without word times there is no "
        "word latency; name a CTC model of the language with --aligner transformers:FOLDER-OR-HUB, or give the times "
        "in a CTM file (--words)"
    )
    return [Caution("no-aligner", message)]


def _guess_warning(utterance_id: str, guessed: tuple[str, ...], guess: str) -> Caution:
    message = (
        f"{utterance_id}: {guess.format(words=', '.join(guessed))}, so the word times near it may be wrong; give exact "
        "ones in a CTM file (--words)"
    )
    return Caution("guessed-pronunciation", message)
