"""Token numbers to text, by a toolkit's list of tokens or a SentencePiece model; without one a token is its number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwav.errors import StopwavError

# How ESPnet writes a blank between words among characters, and SentencePiece among pieces.
SPACES = ("<space>", "▁")
# ESPnet puts these around a SentencePiece model's own pieces.
BLANK, UNKNOWN, END = "<blank>", "<unk>", "<sos/eos>"
NO_TEXT = {BLANK, UNKNOWN, END}


class TokenList:
    """The text of a list of tokens."""

    def __init__(self, path: str | None, size: int) -> None:
        self._tokens: list[str] | None = None
        if path is None:
            return
        path = str(path)  # an option that reads as a number is one
        if not Path(path).is_file():
            raise StopwavError(
                f"tokenizer={path}: no such file; name the checkpoint's token list or SentencePiece model"
            )
        self._tokens = _pieces(path) if path.endswith(".model") else _lines(path)
        if len(self._tokens) != size:
            raise StopwavError(
                f"tokenizer={path}: it has {len(self._tokens)} tokens, and the model {size}; "
                "name the one that the checkpoint was trained with"
            )

    def text(self, tokens: Sequence[int]) -> str:
        """The text."""
        if self._tokens is None:
            return " ".join(f"token{token}" for token in tokens)
        text = "".join(self._tokens[token] for token in tokens if self._tokens[token] not in NO_TEXT)
        for space in SPACES:
            text = text.replace(space, " ")
        return " ".join(text.split())


def _lines(path: str) -> list[str]:
    """The tokens of a text file, one on each line; a number behind a token is its place, and has to be."""
    try:
        rows = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise StopwavError(
            f"tokenizer={path}: neither a list of tokens in UTF-8 nor a SentencePiece *.model"
        ) from error
    for place, row in enumerate(rows):
        if len(row) > 2 or (len(row) == 2 and row[1] != str(place)):
            raise StopwavError(
                f"tokenizer={path}, token {place}: {' '.join(row)!r} is not a token, or a token and its number {place}"
            )
    return [row[0] for row in rows]


def _pieces(path: str) -> list[str]:
    """A SentencePiece model's pieces as ESPnet numbers them: its three control pieces make way for the model's own."""
    try:
        import sentencepiece
    except ImportError as error:
        raise StopwavError("tokenizer=….model needs sentencepiece: pip install 'stopwav[torch]'") from error
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=path)
    except (RuntimeError, OSError) as error:
        raise StopwavError(f"tokenizer={path}: not a SentencePiece model ({error})") from error
    own = [model.id_to_piece(number) for number in range(len(model))]
    spoken = [piece for number, piece in enumerate(own) if not (model.is_unknown(number) or model.is_control(number))]
    return [BLANK, UNKNOWN, *spoken, END]
