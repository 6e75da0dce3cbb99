"""A pronunciation for a word no dictionary has: crude, and good enough to find out when the word is spoken."""

from __future__ import annotations

import unicodedata

# Letters, the longest match first, as phones of the CMU set. Silent letters map to nothing.
_SOUNDS = {
    "tion": "SH AH N", "sion": "ZH AH N", "ough": "AO", "augh": "AO", "eigh": "EY", "igh": "AY", "tch": "CH",
    "sch": "SH", "dge": "JH", "ear": "IH R", "air": "EH R", "our": "AW R", "oor": "AO R", "qu": "K W", "ch": "CH",
    "sh": "SH", "th": "TH", "ph": "F", "gh": "G", "ck": "K", "ng": "NG", "wh": "W", "kn": "N", "wr": "R", "ce": "S",
    "ci": "S IH", "cy": "S IY", "ge": "JH", "ee": "IY", "ea": "IY", "ai": "EY", "ay": "EY", "oa": "OW", "oe": "OW",
    "ow": "OW", "oo": "UW", "ou": "AW", "oi": "OY", "oy": "OY", "au": "AO", "aw": "AO", "ew": "Y UW", "ue": "UW",
    "ie": "IY", "ei": "EY", "er": "ER", "ir": "ER", "ur": "ER", "ar": "AA R", "or": "AO R", "a": "AE", "b": "B",
    "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH", "k": "K", "l": "L", "m": "M",
    "n": "N", "o": "AA", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T", "u": "AH", "v": "V", "w": "W", "x": "K S",
    "y": "IY", "z": "Z", "æ": "AE", "ø": "ER", "ß": "S", "þ": "TH", "ð": "DH", "ł": "L", "đ": "D", "ı": "IH",
}  # fmt: skip
_LONG_VOWELS = {"a": "EY", "e": "IY", "i": "AY", "o": "OW", "u": "UW"}
_VOWELS = "aeiouy"
_UNKNOWN = "AH"  # a letter of another script: some vowel, so that the word takes time at all


def guess(word: str) -> str:
    """Phones of the CMU set, separated by spaces; at least one for any word."""
    plain = unicodedata.normalize("NFKD", word.lower())  # é as e and an accent, which is no letter
    letters = "".join(letter for letter in plain if letter.isalpha())
    phones: list[str] = []
    place = 0
    while place < len(letters):
        if _is_silent_e(letters, place):
            break
        size = next(
            (size for size in (4, 3, 2) if letters[place : place + size] in _SOUNDS and place + size <= len(letters)), 1
        )
        piece = letters[place : place + size]
        if size == 1 and _is_long(letters, place):
            phones.append(_LONG_VOWELS[piece])
        elif not (
            size == 1 and letters[place - 1 : place] == piece and piece not in _VOWELS
        ):  # a doubled letter sounds once
            phones.append(_SOUNDS.get(piece, _UNKNOWN))
        place += size
    return " ".join(phones) or _UNKNOWN


def _is_silent_e(letters: str, place: int) -> bool:
    """Whether this is the last letter of `cake`, though not of `the`."""
    return letters[place:] == "e" and any(letter in _VOWELS for letter in letters[:place])


def _is_long(letters: str, place: int) -> bool:
    """Whether this is the `a` of `cake`: a vowel, a consonant, and a silent e."""
    rest = letters[place + 1 :]
    return letters[place] in _LONG_VOWELS and len(rest) == 2 and rest[0] not in _VOWELS and rest[1] == "e"
