"""The Emformer RNN-T refuses invalid options before anything is loaded."""

import json
from pathlib import Path

import pytest
import torch

from stopwav.engines.registry import make
from stopwav.errors import StopwavError


def refused(spec: str) -> str:
    with pytest.raises(StopwavError) as raised:
        make(f"emformer-rnnt{spec}")
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (",beam=0", "beam=0: must be a whole number, at least 1"),
        (",beam=-3", "beam=-3"),
        (",beam=2.5", "beam=2.5"),
        (",beam=many", "beam=many"),
        (",beam=true", "beam=True"),
        (",search=widest", "search=widest: must be one of beam, greedy"),
        (",segment=0", "segment=0"),
        (",segment=6", "segment=6: must be a multiple of 4 up to 120, in frames of 10 ms"),
        (",segment=124", "segment=124"),
        (",right_context=2", "right_context=2"),
        (",right_context=-4", "right_context=-4"),
        (",device=tpu", "device=tpu: must be one of cpu, cuda"),
        (",device=3", "device=3: must be one of cpu, cuda"),
        (",features=tpu", "features=tpu: must be one of cpu, cuda"),
        (",dtype=float64", "dtype=float64: must be one of float32, float16, bfloat16, int8"),
        (",graphs=true", "graphs=true needs device=cuda"),
        (",speed=fast", "it takes tokenizer, stats, beam"),
        (":model.pt", "needs the tokenizer and the statistics"),
        (":model.pt,tokenizer=spm.model", "needs the tokenizer and the statistics"),
        (",tokenizer=nowhere.model", "tokenizer=nowhere.model: no such file"),
        (",stats=nowhere.json", "stats=nowhere.json: No such file"),
        (",tokenizer=3", "tokenizer=3"),
        (",stats=3", "stats=3"),
    ],
)
def test_an_invalid_option_is_named(spec: str, message: str) -> None:
    assert message in refused(spec)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("option", ["device", "features"])
def test_a_missing_gpu_is_an_error(option: str) -> None:
    message = refused(f",{option}=cuda")
    assert f"{option}=cuda" in message
    assert "finds no NVIDIA GPU here" in message


def test_a_tokenizer_of_another_size_is_refused(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the quick brown fox jumps over the lazy dog"]),
        model_prefix=str(tmp_path / "tiny"),
        vocab_size=30,
        minloglevel=2,
    )
    message = refused(f",tokenizer={tmp_path / 'tiny.model'}")
    assert "it has 30 pieces, and the model 4096 symbols and the blank" in message


@pytest.mark.usefixtures("small_emformer")
def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({f"w{index}": torch.zeros(1) for index in range(4)}, tmp_path / "other.pt")
    (tmp_path / "stats.json").write_text(json.dumps({"mean": [0] * 80, "invstddev": [1] * 80}))
    monkeypatch.chdir(tmp_path)
    # The checkpoint is read after the tokenizer, and there is none here that fits.
    monkeypatch.setattr("stopwav.engines.emformer_rnnt.WordPieces", lambda path, size: None)
    message = refused(":other.pt,tokenizer=spm.model,stats=stats.json")
    assert "of the model's 64 tensors and the file's 4, 64 missing" in message
    assert "4 unexpected (w0; w1; w2 …)" in message
