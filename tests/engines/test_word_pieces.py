"""Symbols to text, with and without a SentencePiece model."""

from pathlib import Path

import pytest

from stopwav.engines.word_pieces import WordPieces
from stopwav.errors import StopwavError

sentencepiece = pytest.importorskip("sentencepiece")
SENTENCES = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"]
PIECES = 40


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few pieces."""
    prefix = tmp_path_factory.mktemp("pieces") / "tiny"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_prefix=str(prefix), vocab_size=PIECES, minloglevel=2
    )
    return prefix.with_suffix(".model")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_pieces_become_the_text_they_came_from(tokenizer: Path, sentence: str) -> None:
    symbols = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).encode(sentence)
    assert WordPieces(str(tokenizer), PIECES).text(symbols) == sentence


def test_without_a_model_a_symbol_is_its_number() -> None:
    assert WordPieces(None, 4096).text([17, 4]) == "piece17 piece4"
    assert WordPieces(None, 4096).text([]) == ""


def test_a_model_of_another_size_is_refused(tokenizer: Path) -> None:
    with pytest.raises(StopwavError, match=f"it has {PIECES} pieces, and the model 4096 symbols"):
        WordPieces(str(tokenizer), 4096)


def test_what_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match="no such file"):
        WordPieces(str(tmp_path / "nothing.model"), 4096)
    with pytest.raises(StopwavError, match="no such file"):
        WordPieces(str(tmp_path), 4096)
    for content in (b"", b"hello"):
        path = tmp_path / "broken.model"
        path.write_bytes(content)
        with pytest.raises(StopwavError, match="not a SentencePiece model"):
            WordPieces(str(path), 4096)
