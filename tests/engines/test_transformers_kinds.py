"""Each kind of model of Hugging Face transformers reads as in the toolkit's own pipeline."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_transformers import BATCH, by_pipeline, noise, save_ctc, torch, transformers

from stopwav.engines.registry import make

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", ["Wav2Vec2", "Hubert"])
def test_a_ctc_batch_reads_as_its_utterances_do_one_by_one(tmp_path: Path, kind: str) -> None:
    folder = save_ctc(tmp_path / kind, kind)
    engine = make(f"transformers:{folder}")
    texts = engine.transcribe(BATCH)
    assert texts == [engine.transcribe([audio])[0] for audio in BATCH]
    assert texts == by_pipeline(folder, BATCH)
    assert len(set(texts)) == len(BATCH)
    assert all(texts)


def test_a_model_without_a_mask_says_what_that_does_to_a_batch(tmp_path: Path) -> None:
    folder = save_ctc(tmp_path / "group", norm="group")
    engine = make(f"transformers:{folder}")
    assert engine.info.notes == (
        "trained without an attention mask: texts in a batch may differ from those of its utterances one by one",
    )
    longest = 2
    assert len(BATCH[longest].samples) == max(len(audio.samples) for audio in BATCH)
    # Nothing is padded there, so its text is the same.
    alone = engine.transcribe([BATCH[longest]])
    assert engine.transcribe(BATCH)[longest] == alone[0]
    assert alone == by_pipeline(folder, [BATCH[longest]])


def test_whisper_reads_as_in_the_toolkits_pipeline(whisper_folder: Path) -> None:
    engine = make(f"transformers:{whisper_folder},max_new_tokens=12")
    texts = engine.transcribe(BATCH)
    # Whisper pads everything to 30 s, so a batch changes nothing.
    assert texts == by_pipeline(whisper_folder, BATCH, max_new_tokens=12, num_beams=1)
    assert all(0 < len(text) <= 12 for text in texts)


def test_whisper_hears_more_than_its_thirty_seconds(whisper_folder: Path, tmp_path: Path) -> None:
    long = noise(34.0, 4)
    # As models are published: saved to write no times, which the toolkit needs to go on after a window.
    published = shutil.copytree(whisper_folder, tmp_path / "published")
    settings = json.loads((published / "generation_config.json").read_text())
    (published / "generation_config.json").write_text(json.dumps({**settings, "return_timestamps": False}))
    processor = transformers.AutoProcessor.from_pretrained(whisper_folder)
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(whisper_folder)
    how = {"truncation": False, "padding": "longest", "return_attention_mask": True, "return_tensors": "pt"}
    inputs = processor(long.samples, sampling_rate=16_000, **how)
    assert inputs["input_features"].shape[-1] == 3400
    tokens = model.generate(**inputs, max_new_tokens=8)
    whole = processor.batch_decode(tokens, skip_special_tokens=True)[0].strip()
    assert whole
    for folder in (whisper_folder, published):
        assert make(f"transformers:{folder},max_new_tokens=8").transcribe([long]) == [whole]


def test_moonshine_one_by_one(moonshine: Path) -> None:
    engine = make(f"transformers:{moonshine},max_new_tokens=9")
    texts = [engine.transcribe([audio])[0] for audio in BATCH]
    assert texts == by_pipeline(moonshine, BATCH, max_new_tokens=9, num_beams=1)
    assert {len(text) for text in texts} == {9}
    # Its encoder begins with a norm over the whole padded length, so that texts in a batch may differ.
    assert len(engine.transcribe(BATCH)) == 3
    assert engine.info.notes[0].startswith("normalised over the padding too")


def test_parakeet(tmp_path: Path) -> None:
    pytest.importorskip("librosa")
    if not hasattr(transformers, "ParakeetForCTC"):
        pytest.skip("this version of transformers has no Parakeet")
    from tokenizers import Tokenizer, models

    vocabulary = {token: at for at, token in enumerate([*"abcdefgh", "<unk>", "<pad>"])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>")
    transformers.ParakeetProcessor(transformers.ParakeetFeatureExtractor(), tokenizer).save_pretrained(tmp_path)
    torch.manual_seed(0)
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ParakeetCTCConfig(
        vocab_size=len(vocabulary), pad_token_id=vocabulary["<pad>"], encoder_config=encoder
    )
    transformers.ParakeetForCTC(config).save_pretrained(tmp_path)
    engine = make(f"transformers:{tmp_path}")
    texts = engine.transcribe(BATCH)
    assert any(texts)
    assert texts == [engine.transcribe([audio])[0] for audio in BATCH]


@pytest.mark.parametrize("kind", ["RNNT", "TDT"])
def test_a_parakeet_transducer(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("librosa")
    if not hasattr(transformers, f"ParakeetFor{kind}"):
        pytest.skip(f"this version of transformers has no Parakeet {kind}")
    from tokenizers import Tokenizer, models

    vocabulary = {token: at for at, token in enumerate([*"abcdefgh", "<unk>", "<pad>", "<blank>"])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    marks = {"unk_token": "<unk>", "pad_token": "<pad>", "additional_special_tokens": ["<blank>"]}
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=inner, **marks)
    processor = transformers.ParakeetProcessor(
        transformers.ParakeetFeatureExtractor(), tokenizer, decoder_type=kind.lower()
    )
    processor.save_pretrained(tmp_path)
    torch.manual_seed(0)
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = getattr(transformers, f"Parakeet{kind}Config")(
        vocab_size=len(vocabulary), pad_token_id=vocabulary["<pad>"], blank_token_id=vocabulary["<blank>"],
        encoder_config={**encoder, "initializer_range": 0.5}, decoder_hidden_size=16, num_decoder_layers=1,
    )  # fmt: skip
    model = getattr(transformers, f"ParakeetFor{kind}")(config)
    model.generation_config.decoder_start_token_id = vocabulary["<blank>"]
    with torch.no_grad():
        model.joint.head.bias[: len("abcdefgh")] += 2.0  # random weights would rather say nothing
    if kind == "TDT":  # behind the tokens stand the durations, which are no tokens
        model.generation_config.suppress_tokens = [len(vocabulary) + at for at in range(len(config.durations))]
    model.save_pretrained(tmp_path)
    engine = make(f"transformers:{tmp_path}")
    texts = [engine.transcribe([audio])[0] for audio in BATCH]
    assert any(texts)
    assert not any("<" in text for text in texts)
    if kind == "TDT":  # the pipeline does not load the other
        assert texts == by_pipeline(tmp_path, BATCH)
    # The toolkit searches on after the last frame of an utterance, so that texts in a batch may differ.
    assert len(engine.transcribe(BATCH)) == 3
    assert engine.info.notes[0].startswith("every utterance is searched until the whole batch is done")
    assert engine.info.data_dependent
    assert f"ParakeetFor{kind}" in engine.info.model
