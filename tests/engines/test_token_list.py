"""Token numbers to text."""

from pathlib import Path

import pytest

from stopwav.engines.token_list import TokenList
from stopwav.errors import StopwavError


def written(folder: Path, *lines: str) -> str:
    path = folder / "tokens.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_without_a_list_a_token_is_its_number() -> None:
    assert TokenList(None, 5).text([3, 1]) == "token3 token1"


def test_characters(tmp_path: Path) -> None:
    tokens = TokenList(written(tmp_path, "<blank>", "<space>", "A", "B", "<sos/eos>"), 5)
    assert tokens.text([2, 3, 1, 3, 4]) == "AB B"
    assert tokens.text([]) == ""


def test_word_pieces_with_their_numbers(tmp_path: Path) -> None:
    tokens = TokenList(written(tmp_path, "<blank> 0", "<unk> 1", "▁the 2", "▁ca 3", "t 4", "<sos/eos> 5"), 6)
    assert tokens.text([2, 3, 4, 1]) == "the cat"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["<blank>", "a"], "it has 2 tokens, and the model 3"),
        (["<blank> 0", "a 2", "b 1"], "token 1: 'a 2' is not a token, or a token and its number 1"),
        (["<blank>", "a b c", "d"], "token 1: 'a b c'"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(StopwavError, match=said):
        TokenList(written(tmp_path, *lines), 3)


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens.bin").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(StopwavError, match="neither a list of tokens"):
        TokenList(str(tmp_path / "tokens.bin"), 3)
    with pytest.raises(StopwavError, match=r"tokenizer=7: no such file"):
        TokenList(7, 3)  # type: ignore[arg-type]


def test_a_sentencepiece_model_is_numbered_as_espnet_does(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the quick brown fox jumps over the lazy dog"]),
        model_prefix=str(tmp_path / "tiny"),
        vocab_size=30,
        minloglevel=2,
    )
    path = str(tmp_path / "tiny.model")
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    tokens = TokenList(path, 30)
    # Blank and unknown come first, so that the piece behind <unk>, <s> and </s> is number 2.
    numbers = [number - 1 for number in model.encode("the lazy dog")]
    assert tokens.text(numbers) == "the lazy dog"
    (tmp_path / "broken.model").write_text("no")
    with pytest.raises(StopwavError, match="not a SentencePiece model"):
        TokenList(str(tmp_path / "broken.model"), 30)
