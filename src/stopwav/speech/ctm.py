"""Word times in CTM, the NIST format: lines of `id channel start duration word [confidence]`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.language import WITHOUT_SPACES
from stopwav.speech.normaliser import spoken_words
from stopwav.speech.utterance import LONGEST_S, Corpus, Problem, Utterance, Word, read_file

# A word may end this much after its utterance does: segment ends and word times are rounded independently.
OVERSHOOT_S = 0.05


def read(path: Path) -> dict[str, tuple[Word, ...]]:
    """Return the words of each id, in the order of the file; whether the times make sense is not checked here."""
    words: dict[str, list[Word]] = {}
    channels: dict[str, str] = {}
    try:
        text = read_file(path).decode("utf-8-sig").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise StopwavError(f"cannot read {path} as a CTM file ({error}); give UTF-8 text, one word per line") from None
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";;"):
            continue
        where = f"{path}:{number}"
        if len(fields) not in (5, 6):
            raise StopwavError(
                f"{where}: {len(fields)} fields, not 5 or 6; a line is `id channel start duration word [confidence]`"
            )
        name, channel = fields[0], fields[1]
        if channels.setdefault(name, channel) != channel:
            raise StopwavError(f"{where}: {name} has channels {channels[name]} and {channel}; keep only one channel")
        start_s, duration_s = _seconds(where, fields[2]), _seconds(where, fields[3])
        # The sum is rounded to the digits of the format, so that reading and writing are inverse.
        words.setdefault(name, []).append(Word(fields[4], start_s, round(start_s + duration_s, 6)))
    return {name: tuple(entries) for name, entries in words.items()}


def write(path: Path, words: Mapping[str, Sequence[Word]]) -> None:
    """Write the words sorted by id, times to a tenth of a millisecond; the same words give the same bytes."""
    lines = []
    for name in sorted(words):
        for word in words[name]:
            for field in (name, word.text):
                if len(field.split()) != 1 or field != field.strip() or field.startswith(";;"):
                    raise StopwavError(
                        f"{field!r} cannot be written to a CTM file; use a name without spaces or a leading ;;"
                    )
            start_s = round(word.start_s, 4)
            lines.append(f"{name} 1 {start_s:.4f} {round(word.end_s, 4) - start_s:.4f} {word.text}\n")
    try:
        content = "".join(lines).encode()  # first, so that a failure leaves an older file intact
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except UnicodeEncodeError as error:
        raise StopwavError(f"{path} cannot be written: {error}; correct the ids and words") from None
    except OSError as error:
        raise StopwavError(f"{path} cannot be written ({error.strerror}); name another place") from None


def attach(corpus: Corpus, times: Mapping[str, Sequence[Word]], source: str) -> Corpus:
    """Return the corpus with word times wherever the words match the transcript; problems name the file `source`.

    An utterance whose times do not match stays, without word times. One that `times` does not mention is unchanged. One
    without a transcript gets it from its words.
    """
    problems = list(corpus.problems)
    utterances = []
    for utterance in corpus.utterances:
        if utterance.id in times:
            words = _match(utterance, times[utterance.id])
            if isinstance(words, str):
                message = f"{source}: {words}; the utterance is used without word times: correct or align it"
                problems.append(Problem(utterance.id, message))
                words = ()
            text = " ".join(word.text for word in words) or None if utterance.text is None else utterance.text
            utterance = replace(utterance, words=words, text=text)
        utterances.append(utterance)
    unknown = sorted(set(times) - {utterance.id for utterance in corpus.utterances})
    if unknown:
        count = f"{len(unknown)} id{'' if len(unknown) == 1 else 's'} without a usable utterance"
        problems.append(Problem(source, f"{count}, the first {unknown[0]!r}; ids must match those of the corpus"))
    return replace(corpus, utterances=tuple(utterances), problems=tuple(problems))


def _match(utterance: Utterance, words: Sequence[Word]) -> tuple[Word, ...] | str:
    """Return the words in normalised spelling, one for each word of the transcript; or why they do not match it."""
    spelled = []
    for word in words:
        spelling = spoken_words(word.text, utterance.language)
        if len(spelling) > 1 and utterance.language not in WITHOUT_SPACES:
            return f"{word.text!r} at {word.start_s:.3f} s counts as {len(spelling)} words; give each its own time"
        # Noise marks such as <sil> or [laugh] have no words; the characters of a word share its time.
        spelled += [replace(word, text=text) for text in spelling]
    expected = [word.text for word in spelled] if utterance.text is None else _spoken(utterance)
    pairs = zip_longest(expected, (word.text for word in spelled), fillvalue="nothing more")
    for number, (spoken, timed) in enumerate(pairs, start=1):
        if spoken != timed:
            return f"word {number} is {timed!r} where the transcript has {spoken!r}"
    return _impossible_times(utterance, spelled) or tuple(spelled)


def _spoken(utterance: Utterance) -> list[str]:
    return spoken_words(utterance.text or "", utterance.language)


def _impossible_times(utterance: Utterance, words: Sequence[Word]) -> str:
    """Return what is impossible about the word times, or ""."""
    for word in words:
        if not 0.0 <= word.start_s <= word.end_s:
            return f"{word.text!r} lasts from {word.start_s:.3f} s to {word.end_s:.3f} s"
    for before, word in pairwise(words):
        if word.start_s < before.start_s or word.end_s < before.end_s:
            return f"times go back at {word.text!r} ({word.start_s:.3f} s), which follows {before.text!r}"
    if not words:
        return ""
    last = words[-1]
    if utterance.end_s is not None:
        too_late = last.end_s > utterance.end_s - utterance.start_s + OVERSHOOT_S
        return f"{last.text!r} ends at {last.end_s:.3f} s, after the utterance does" if too_late else ""
    # The length of an MP3 is an estimate: a word that begins after the end is no rounding of any kind.
    from stopwav.speech.audio_file import file_duration_s  # brings libsndfile

    file_s = file_duration_s(utterance)
    too_late = file_s is not None and last.start_s >= file_s - utterance.start_s
    return f"{last.text!r} starts at {last.start_s:.3f} s, after the audio ends" if too_late else ""


def _seconds(where: str, field: str) -> float:
    try:
        seconds = float(field)
    except ValueError:
        seconds = math.nan
    if not abs(seconds) <= LONGEST_S:  # nor is NaN
        raise StopwavError(
            f"{where}: {field[:40]!r} is not a time of an utterance in seconds, {LONGEST_S:g} at most; correct the line"
        )
    return seconds
