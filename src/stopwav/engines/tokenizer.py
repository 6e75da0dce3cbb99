"""Token numbers to text, by a list of tokens or a SentencePiece model; without one a token is shown as its number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError

# The space between words: ESPnet's among characters, and SentencePiece's among pieces.
SPACES = ("<space>", "▁")
# ESPnet puts these around the pieces of a SentencePiece model.
BLANK, UNKNOWN, END = "<blank>", "<unk>", "<sos/eos>"
NO_TEXT = {BLANK, UNKNOWN, END}


class WordPieces:
    """The pieces of a SentencePiece model, by the model's own numbers."""

    def __init__(self, path: str | None, size: int) -> None:
        self._model = None if path is None else _sentencepiece(_existing_file(path))
        if self._model is not None and len(self._model) != size:
            raise StopwavError(
                f"tokenizer={path}: it has {len(self._model)} pieces, and the model {size} symbols and the blank; "
                "use the tokenizer that the checkpoint was trained with"
            )

    def text(self, symbols: Sequence[int]) -> str:
        """Return the text of symbols."""
        if self._model is None:
            return " ".join(f"piece{symbol}" for symbol in symbols)
        return str(self._model.decode(list(symbols)))

    def extended(self, text: str, symbols: Sequence[int], known: int) -> str:
        """Return the text of symbols, of which the first `known` are the given text; numbers need not be read again."""
        if self._model is not None:
            return self.text(symbols)
        more = self.text(symbols[known:])
        return f"{text} {more}" if text and more else text or more


class TokenList:
    """The tokens of an ESPnet model: a text file with one token per line, or a SentencePiece model."""

    def __init__(self, path: str | None, size: int) -> None:
        self._tokens: list[str] | None = None
        if path is None:
            return
        path = _existing_file(path)
        self._tokens = _espnet_pieces(path) if path.endswith(".model") else _lines(path)
        if len(self._tokens) != size:
            raise StopwavError(
                f"tokenizer={path}: it has {len(self._tokens)} tokens, and the model {size}; "
                "use the tokens that the checkpoint was trained with"
            )

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        if self._tokens is None:
            return " ".join(f"token{token}" for token in tokens)
        text = "".join(self._tokens[token] for token in tokens if self._tokens[token] not in NO_TEXT)
        for space in SPACES:
            text = text.replace(space, " ")
        return " ".join(text.split())


def _existing_file(path: object) -> str:
    path = str(path)  # an option that looks like a number is parsed as one
    if not Path(path).is_file():
        raise StopwavError(f"tokenizer={path}: no such file; give the tokenizer of the checkpoint")
    return path


def _lines(path: str) -> list[str]:
    """Read one token per line; a number after a token must be its position."""
    try:
        rows = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise StopwavError(
            f"tokenizer={path}: neither a list of tokens in UTF-8 nor a SentencePiece *.model"
        ) from error
    for position, row in enumerate(rows):
        if len(row) > 2 or (len(row) == 2 and row[1] != str(position)):
            raise StopwavError(
                f"tokenizer={path}, token {position}: {' '.join(row)!r} is neither a token nor a token and its "
                f"number {position}"
            )
    return [row[0] for row in rows]


def _espnet_pieces(path: str) -> list[str]:
    """Return a SentencePiece model's pieces as ESPnet numbers them: without the control pieces, between its own."""
    model = _sentencepiece(path)
    spoken = [number for number in range(len(model)) if not (model.is_unknown(number) or model.is_control(number))]
    return [BLANK, UNKNOWN, *(model.id_to_piece(number) for number in spoken), END]


def _sentencepiece(path: str) -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise StopwavError("tokenizer=….model needs sentencepiece: pip install 'stopwav[torch]'") from error
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (RuntimeError, OSError) as error:
        raise StopwavError(f"tokenizer={path}: not a SentencePiece model ({error})") from error
