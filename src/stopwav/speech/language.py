"""Languages by their code, as corpora, engines and users name them."""

from __future__ import annotations

import re

from stopwav.errors import StopwavError

ENGLISH = "en"

# Languages that are usually written without a space between two words, so that what stands between two spaces is no
# word: Tibetan, Dzongkha, Gan, Hakka, Japanese, Khmer, Lao, Burmese, Min Nan, Thai, Wu, Cantonese and Chinese.
WITHOUT_SPACES = frozenset({"bo", "dz", "gan", "hak", "ja", "km", "lo", "my", "nan", "th", "wuu", "yue", "zh"})

# Names and codes of three letters that corpora and engines use for languages with a code of two.
_NAMES = {
    "ar": "ara arabic", "bn": "ben bengali", "bo": "bod tib tibetan", "ca": "cat catalan", "cs": "ces cze czech",
    "cy": "cym wel welsh", "da": "dan danish", "de": "deu ger german deutsch", "dz": "dzo dzongkha",
    "el": "ell gre greek", "en": "eng english", "es": "spa spanish", "eu": "eus baq basque",
    "fa": "fas per persian farsi", "fi": "fin finnish", "fr": "fra fre french", "ga": "gle irish",
    "he": "heb hebrew iw", "hi": "hin hindi", "hu": "hun hungarian", "id": "ind indonesian", "it": "ita italian",
    "ja": "jpn japanese", "km": "khm khmer", "ko": "kor korean", "lo": "lao", "my": "mya bur burmese",
    "nl": "nld dut dutch", "no": "nor norwegian nb nn", "pl": "pol polish", "pt": "por portuguese",
    "ro": "ron rum romanian", "ru": "rus russian", "sk": "slk slo slovak", "sv": "swe swedish", "sw": "swa swahili",
    "ta": "tam tamil", "te": "tel telugu", "th": "tha thai", "tr": "tur turkish", "uk": "ukr ukrainian",
    "ur": "urd urdu", "vi": "vie vietnamese", "yue": "cantonese", "zh": "zho chi cmn chinese mandarin",
}  # fmt: skip
_CODES = {name: code for code, names in _NAMES.items() for name in names.split()}
_CODE = re.compile(r"[a-z]{2,3}")
# What stands for "not known" or "several" in BCP 47 and in the settings of servers.
_UNKNOWN = frozenset({"", "und", "mul", "zxx", "auto", "multi", "multilingual", "unknown", "none"})


def language_code(name: str) -> str:
    """Return the code of a language: `de` for `de-DE`, `deu` and `German`; "" for unknown and for what is no code."""
    first = re.split(r"[-_.@ ]", name.strip().lower(), maxsplit=1)[0]
    if first in _UNKNOWN:
        return ""
    code = _CODES.get(first, first)
    return code if _CODE.fullmatch(code) else ""


def checked_language(name: str) -> str:
    """Return the code of a language that a user names; an error where it is none."""
    code = language_code(name)
    if not code:
        raise StopwavError(f"{name[:40]!r} is not the code of a language; give one such as en, de or zh")
    return code


def is_english(code: str) -> bool:
    """Whether a text is treated as English: where the language is not known, it is."""
    return code in ("", ENGLISH)
