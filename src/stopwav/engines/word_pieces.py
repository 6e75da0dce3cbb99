"""Symbols to text, by a SentencePiece model; without one a symbol is shown as its number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwav.errors import StopwavError


class WordPieces:
    """The text of a list of symbols."""

    def __init__(self, path: str | None, size: int) -> None:
        self._model = None
        if path is None:
            return
        try:
            import sentencepiece
        except ImportError as error:
            raise StopwavError("tokenizer=… needs sentencepiece: pip install 'stopwav[torch]'") from error
        path = str(path)  # an option that reads as a number is one
        if not Path(path).is_file():
            raise StopwavError(f"tokenizer={path}: no such file; name the SentencePiece model of the checkpoint")
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_file=path)
        except (RuntimeError, OSError) as error:
            raise StopwavError(f"tokenizer={path}: not a SentencePiece model ({error})") from error
        if len(self._model) != size:
            raise StopwavError(
                f"tokenizer={path}: it has {len(self._model)} pieces, and the model {size} symbols beside the blank; "
                "name the tokenizer that the checkpoint was trained with"
            )

    def text(self, symbols: Sequence[int]) -> str:
        """The text."""
        if self._model is None:
            return " ".join(f"piece{symbol}" for symbol in symbols)
        return str(self._model.decode(list(symbols)))
