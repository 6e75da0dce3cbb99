"""Word times that come from outside: whether they fit an utterance, and what is wrong where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

from stopwav.speech.corpus import Corpus, Problem, Utterance, Word
from stopwav.speech.text import normalise

# A word may end this much after its utterance does: segment ends and word times are rounded apart from each other.
OVERSHOOT_S = 0.05


def attach(corpus: Corpus, times: Mapping[str, Sequence[Word]], source: str) -> Corpus:
    """The corpus with the word times whose words are those of the transcripts; `source` names the file in the problems.

    An utterance whose times do not fit stays, without word times. One that `times` does not mention stays as it is.
    """
    problems = list(corpus.problems)
    utterances = []
    for utterance in corpus.utterances:
        if utterance.id in times:
            fitted = fit(utterance, times[utterance.id])
            if isinstance(fitted, str):
                message = f"{source}: {fitted}; the utterance is used without word times: correct or align it"
                problems.append(Problem(utterance.id, message))
                fitted = ()
            utterance = replace(utterance, words=fitted)
        utterances.append(utterance)
    unknown = sorted(set(times) - {utterance.id for utterance in corpus.utterances})
    if unknown:
        count = f"{len(unknown)} id{' is' if len(unknown) == 1 else 's are'} of no utterance"
        problems.append(
            Problem(source, f"{count} that is used, the first {unknown[0]!r}; ids must match those of the corpus")
        )
    return replace(corpus, utterances=tuple(utterances), problems=tuple(problems))


def fit(utterance: Utterance, words: Sequence[Word]) -> tuple[Word, ...] | str:
    """The words in their normal spelling, one for each of the normalised transcript; or why they are not those."""
    fitted = []
    for word in words:
        spelling = normalise(word.text)
        if len(spelling) > 1:
            return f"{word.text!r} at {word.start_s:.3f} s counts as {len(spelling)} words; give each its own time"
        if spelling:  # noise marks such as <sil> or [laugh] have none
            fitted.append(replace(word, text=spelling[0]))
    expected = normalise(utterance.text)
    pairs = zip_longest(expected, (word.text for word in fitted), fillvalue="nothing more")
    for number, (said, timed) in enumerate(pairs, start=1):
        if said != timed:
            return f"word {number} is {timed!r} where the transcript has {said!r}"
    return _impossible(utterance, fitted) or tuple(fitted)


def _impossible(utterance: Utterance, words: Sequence[Word]) -> str:
    """What no real word times can be, in words; empty when all is well."""
    for word in words:
        if not 0.0 <= word.start_s <= word.end_s:
            return f"{word.text!r} is said to last from {word.start_s:.3f} s to {word.end_s:.3f} s"
    for before, word in pairwise(words):
        if word.start_s < before.start_s or word.end_s < before.end_s:
            return f"times go back at {word.text!r} ({word.start_s:.3f} s), which follows {before.text!r}"
    if utterance.end_s is not None and words and words[-1].end_s > utterance.end_s - utterance.start_s + OVERSHOOT_S:
        return f"{words[-1].text!r} ends at {words[-1].end_s:.3f} s, after the utterance does"
    return ""
