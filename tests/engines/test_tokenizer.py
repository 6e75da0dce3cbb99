"""Token numbers to text, with and without a tokenizer."""

from pathlib import Path
from typing import Any

import pytest

from stopwav.engines.tokenizer import TokenList, WordPieces
from stopwav.errors import StopwavError

SENTENCES = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"]
PIECES = 40


@pytest.fixture(scope="module")
def sentencepiece() -> Any:
    return pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def tokenizer(sentencepiece: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of a few pieces."""
    prefix = tmp_path_factory.mktemp("pieces") / "tiny"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_prefix=str(prefix), vocab_size=PIECES, minloglevel=2
    )
    return prefix.with_suffix(".model")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_pieces_become_the_text_they_came_from(sentencepiece: Any, tokenizer: Path, sentence: str) -> None:
    symbols = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).encode(sentence)
    assert WordPieces(str(tokenizer), PIECES).text(symbols) == sentence


def test_without_a_model_a_symbol_is_its_number() -> None:
    assert WordPieces(None, 4096).text([17, 4]) == "piece17 piece4"
    assert WordPieces(None, 4096).text([]) == ""


def test_a_model_of_another_size_is_refused(tokenizer: Path) -> None:
    with pytest.raises(StopwavError, match=f"it has {PIECES} pieces, and the model 4096 symbols"):
        WordPieces(str(tokenizer), 4096)


def test_a_file_that_is_not_a_model_is_refused(sentencepiece: Any, tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match="no such file"):
        WordPieces(str(tmp_path / "nothing.model"), 4096)
    with pytest.raises(StopwavError, match="no such file"):
        WordPieces(str(tmp_path), 4096)
    for content in (b"", b"hello"):
        path = tmp_path / "broken.model"
        path.write_bytes(content)
        with pytest.raises(StopwavError, match="not a SentencePiece model"):
            WordPieces(str(path), 4096)


def write_tokens(folder: Path, *lines: str) -> str:
    path = folder / "tokens.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_without_a_list_a_token_is_its_number() -> None:
    assert TokenList(None, 5).text([3, 1]) == "token3 token1"


def test_characters(tmp_path: Path) -> None:
    tokens = TokenList(write_tokens(tmp_path, "<blank>", "<space>", "A", "B", "<sos/eos>"), 5)
    assert tokens.text([2, 3, 1, 3, 4]) == "AB B"
    assert tokens.text([]) == ""


def test_word_pieces_with_their_numbers(tmp_path: Path) -> None:
    tokens = TokenList(write_tokens(tmp_path, "<blank> 0", "<unk> 1", "▁the 2", "▁ca 3", "t 4", "<sos/eos> 5"), 6)
    assert tokens.text([2, 3, 4, 1]) == "the cat"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<blank>", "a"], "it has 2 tokens, and the model 3"),
        (["<blank> 0", "a 2", "b 1"], "token 1: 'a 2' is neither a token nor a token and its number 1"),
        (["<blank>", "a b c", "d"], "token 1: 'a b c'"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        TokenList(write_tokens(tmp_path, *lines), 3)


def test_a_file_that_is_not_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.bin").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(StopwavError, match="neither a list of tokens"):
        TokenList(str(tmp_path / "tokens.bin"), 3)
    with pytest.raises(StopwavError, match=r"tokenizer=7: no such file"):
        TokenList(7, 3)  # type: ignore[arg-type]


def test_a_sentencepiece_model_is_numbered_as_espnet_does(sentencepiece: Any, tokenizer: Path, tmp_path: Path) -> None:
    # Blank and unknown come first, so that the piece after <unk>, <s> and </s> is number 2.
    numbers = [
        number - 1 for number in sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).encode("lazy dog")
    ]
    assert TokenList(str(tokenizer), PIECES).text(numbers) == "lazy dog"
    (tmp_path / "broken.model").write_text("no")
    with pytest.raises(StopwavError, match="not a SentencePiece model"):
        TokenList(str(tmp_path / "broken.model"), PIECES)
