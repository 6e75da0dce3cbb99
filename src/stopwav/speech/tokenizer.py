"""How many tokens a text has: by a SentencePiece model, by characters, or by words."""

from __future__ import annotations

import os
from collections.abc import Callable

from stopwav.errors import StopwavError

CountTokens = Callable[[str], int]


def token_counter(tokenizer: str) -> CountTokens:
    """The function that counts a text's tokens: `chars` counts spaces too, anything else is a SentencePiece model."""
    if tokenizer == "chars":
        return lambda text: len(" ".join(text.split()))
    if tokenizer == "words":
        return lambda text: len(text.split())
    if not os.path.isfile(tokenizer):
        raise StopwavError(f"tokenizer {tokenizer!r}: no such file; give chars, words, or a SentencePiece model")
    return _sentencepiece(tokenizer)


def _sentencepiece(path: str) -> CountTokens:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise StopwavError(
            f"tokenizer {path!r}: a SentencePiece model needs sentencepiece: pip install sentencepiece"
        ) from error
    try:
        model = SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise StopwavError(f"tokenizer {path!r}: not a SentencePiece model ({reason}); give a .model file") from error
    return lambda text: len(model.encode(text))
