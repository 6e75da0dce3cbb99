"""Word times for the words that are compared: a normaliser may write "twenty one" as 21, and "don't" as two words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from stopwav.speech.normaliser import Normaliser
from stopwav.speech.utterance import Word

# Spoken words that become other words together and are looked at for a place to divide them: a sum of money, a date.
_LONGEST_GROUP = 40
_Times = tuple[float, float]


def timed_words(spoken: Sequence[Word], text: str, normaliser: Normaliser) -> tuple[Word, ...]:
    """Return the words of a text after normalisation, with the times of the spoken words that they were made from.

    No time is divided: one word made of several lasts as long as all of them, and several made of one share its time,
    as none of them can be recognised surely before all of it is spoken. A word that the normaliser drops has none.
    """
    words = normaliser.words(text)
    if not spoken or [word.text for word in spoken] == words:
        return tuple(spoken)
    timed: list[Word] = []
    for first, last, own in _groups(spoken, words, normaliser):
        start_s, end_s = _times(spoken, first, last)
        if len(own) == last - first:
            pairs = zip(own, spoken[first:last], strict=True)
            timed += [Word(text, word.start_s, word.end_s) for text, word in pairs]
        else:
            timed += [Word(text, start_s, end_s) for text in own]
    return tuple(timed)


def _times(spoken: Sequence[Word], first: int, last: int) -> _Times:
    """From the start of the first to the end of the last; of no word, the time between its neighbours."""
    if first < last:
        return spoken[first].start_s, max(word.end_s for word in spoken[first:last])
    at_s = spoken[first - 1].end_s if first else spoken[0].start_s
    return at_s, at_s


def _groups(spoken: Sequence[Word], words: list[str], normaliser: Normaliser) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the spoken words, from one to another, with what became of them: as few together as the rules allow."""
    from rapidfuzz.distance import Levenshtein  # as where errors are counted

    numbers: dict[str, int] = {}
    before = [numbers.setdefault(word.text, len(numbers)) for word in spoken]
    after = [numbers.setdefault(word, len(numbers)) for word in words]
    edits = Levenshtein.opcodes(before, after)
    for is_equal, run in groupby(edits, key=lambda edit: edit.tag == "equal"):
        own = list(run)
        first, last = own[0].src_start, own[-1].src_end
        made = words[own[0].dest_start : own[-1].dest_end]
        if is_equal or not made:
            yield first, last, made
        else:
            yield from _divided(spoken, first, last, made, normaliser)


def _divided(
    spoken: Sequence[Word], first: int, last: int, words: list[str], normaliser: Normaliser
) -> Iterator[tuple[int, int, list[str]]]:
    """Divide spoken words wherever both halves alone become what they are together."""
    texts = [word.text for word in spoken[first:last]]
    start, made = 0, 0
    if len(texts) <= _LONGEST_GROUP and normaliser.words(" ".join(texts)) == words:
        for place in range(1, len(texts)):
            left = normaliser.words(" ".join(texts[:place]))
            if left + normaliser.words(" ".join(texts[place:])) == words:
                yield first + start, first + place, words[made : len(left)]
                start, made = place, len(left)
    yield first + start, last, words[made:]
