"""English text as a list of normalised words. Every WER depends on it, so it is versioned."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

NORMALISER = "stopwav-english"
NORMALISER_VERSION = 1  # raised whenever any text comes out differently: WERs of two versions are not comparable

# fmt: off
_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)
# fmt: on
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", "thousand", "million", "billion", "trillion")
_MAX_MARKS = 30  # per letter: no script needs more, and normalising a run of n marks takes n² steps
_MAX_DIGITS = 15  # 999 trillion; nobody reads a longer number as a number
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CURRENCIES = {  # sign: unit, units, hundredth, hundredths
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
}

# Signs that NFKC would turn into something that is not read aloud so ("10²" into 102, "Acme™" into "AcmeTM").
_BEFORE_NFKC = {
    "´": "'",
    "`": "'",
    "™": " ",
    "℠": " ",
    "½": " one half ",
    "¼": " one quarter ",
    "¾": " three quarters ",
}
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘‛ʼʻ′＇", "'"))

# A tag has no space inside its brackets, so "a < b and c > d" is not one.
_TAG = re.compile(r"<(?!\s)[^<>]*(?<!\s)>|\[(?!\s)[^\[\]]*(?<!\s)\]")
_NUMBER = r"(?:[1-9]\d{0,2}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)*+|(?<![^\s$€£¥])\.\d+"
_MONEY = re.compile(
    rf"(?P<sign>[$€£¥])\s?(?P<number>{_NUMBER})(?P<scale>\s+(?:hundred|thousand|million|billion|trillion)\b)?"
    rf"|(?<![\d.,])(?P<number2>{_NUMBER})(?P<sign2>[$€£¥])(?!\s?\d)"
)
_PLAIN = re.compile(rf"(?<!\d)(?P<number>{_NUMBER})(?P<suffix>(?:st|nd|rd|th|s)(?![^\W\d_]))?")
# Run on text that holds nothing but letters, marks, apostrophes and spaces: a word starts with a letter, and an
# apostrophe stays where it stands between letters.
_WORD = re.compile(r"[^\W\d_][^' ]*(?:'[^\W\d_][^' ]*)*")
# Most texts are letters and marks of ASCII alone. They hold nothing that is spelled out or left out, so that lower case
# and this table do all that the steps below do, ten times as fast.
_SPELLED = re.compile(r"[0-9<>\[\]$%&]")
_LETTERS = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalpha() and chr(code) not in "'`"})
_LETTERS[ord("`")] = "'"


def is_plain(text: str) -> bool:
    """Whether a text is of ASCII and holds nothing that is spelled out or left out: its words end at each space."""
    return text.isascii() and not _SPELLED.search(text)


def normalise(text: str) -> list[str]:
    """Return the words of `text` in the spelling in which references and hypotheses are compared; never raises."""
    if is_plain(text):
        letters = text.lower().translate(_LETTERS)
        return _WORD.findall(letters) if "'" in letters else letters.split()
    text = _fold(text)
    text = _TAG.sub(" ", text)
    text = _MONEY.sub(_spell_money, text)
    text = _PLAIN.sub(_spell_number, text)
    text = text.replace("%", " percent ").replace("&", " and ")
    return _WORD.findall("".join(map(_word_character, text)))


def _fold(text: str) -> str:
    """Return `text` in NFKC and lower case, with ASCII apostrophes and digits, without invisible characters."""
    if text.isascii():
        return text.lower().replace("`", "'")
    # Remove invisible characters first: between a letter and its accent they would prevent composition.
    text = unicodedata.normalize("NFKC", "".join(_few_marks("".join(map(_visible_character, text)))))
    # Lower case can decompose ("İ"), hence NFKC again; NFKC can add marks, hence the limit again.
    text = unicodedata.normalize("NFKC", text.lower()).translate(_APOSTROPHES)
    return "".join(map(_ascii_digit, _few_marks(text)))


def _few_marks(text: Iterable[str]) -> Iterator[str]:
    """Yield the characters of `text` without the combining marks beyond the limit per letter."""
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MAX_MARKS:
            yield char


@cache
def _visible_character(char: str) -> str:
    """Return the replacement of `char` before NFKC."""
    if char in _BEFORE_NFKC:
        return _BEFORE_NFKC[char]
    category = unicodedata.category(char)
    if category == "Cf":  # direction marks, joiners, soft hyphens: not part of the spelling
        return ""
    if category == "Cs":  # a lone surrogate is a broken character
        return " "
    if category == "No":  # a raised or circled digit is a number of its own
        return f" {char} "
    return char


@cache
def _ascii_digit(char: str) -> str:
    """Return `char`, or its ASCII form where it is a decimal digit of another script."""
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)


@cache
def _word_character(char: str) -> str:
    """Return `char` where it can be part of a word, else a space."""
    return char if char == "'" or unicodedata.category(char)[0] in "LM" else " "


def _spell_money(match: re.Match[str]) -> str:
    """Return the words of an amount: three dollars and fifty cents, two point five million dollars."""
    number = match["number"] or match["number2"]
    unit, units, cent, cents = _CURRENCIES[match["sign"] or match["sign2"]]
    if match["scale"]:
        return f" {_decimal(number)} {match['scale'].strip()} {units} "
    whole, _, fraction = number.replace(",", "").partition(".")
    if len(fraction) != 2 or not fraction.isdigit() or not cents:
        return f" {_decimal(number)} {unit if number == '1' else units} "
    parts = []
    if whole.strip("0") or fraction == "00":
        parts.append(f"{_integer(whole or '0')} {unit if whole == '1' else units}")
    if fraction != "00":
        parts.append(f"{_integer(str(int(fraction)))} {cent if fraction == '01' else cents}")
    return f" {' and '.join(parts)} "


def _spell_number(match: re.Match[str]) -> str:
    """Return the words of a number, its ordinal (`21st`) or its plural (`90s`)."""
    words = _decimal(match["number"])
    suffix = match["suffix"]
    if suffix and "." in match["number"]:  # "1.5s" is a unit
        words = f"{words} {suffix}"
    elif suffix:
        head, _, last = words.rpartition(" ")
        words = f"{head} {_plural(last) if suffix == 's' else _ordinal(last)}"
    # "2024's" keeps its apostrophe, which needs the letter right before it.
    return f" {words}" if match.string[match.end() : match.end() + 1] == "'" else f" {words} "


def _decimal(number: str) -> str:
    """Return the words of digits with optional commas and decimal points; after a point, digit by digit."""
    whole, *fractions = number.replace(",", "").split(".")
    spoken = [_integer(whole)] if whole else []
    for fraction in fractions:
        spoken += ["point", _digit_by_digit(fraction)]
    return " ".join(spoken)


def _integer(digits: str) -> str:
    """Return an integer as a cardinal without "and"; digit by digit with leading zeros or beyond trillions."""
    if len(digits) > _MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return _digit_by_digit(digits)
    number = int(digits)
    if number == 0:
        return "zero"
    spoken: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            spoken.insert(0, f"{_below_thousand(group)} {scale}".rstrip())
    return " ".join(spoken)


def _below_thousand(number: int) -> str:
    """Return the words of 1 to 999."""
    hundreds, rest = divmod(number, 100)
    spoken = [_ONES[hundreds], "hundred"] if hundreds else []
    if rest >= len(_ONES):
        spoken.append(_TENS[rest // 10])
        rest %= 10
    if rest:
        spoken.append(_ONES[rest])
    return " ".join(spoken)


def _digit_by_digit(digits: str) -> str:
    """Return the words of each digit in turn."""
    return " ".join(_ONES[int(digit)] for digit in digits)


def _ordinal(word: str) -> str:
    """Return the ordinal of the last word of a cardinal."""
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"


def _plural(word: str) -> str:
    """Return the plural of the last word of a cardinal."""
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"
