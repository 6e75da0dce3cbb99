"""Recognisers of Hugging Face transformers with random weights, small enough to save and run in a test."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopwav.speech.audio import Audio

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


def noise(seconds: float, seed: int = 0) -> Audio:
    """Noise whose loudness changes, so that a random model has something to say."""
    random = np.random.default_rng(seed)
    count = round(16_000 * seconds)
    loudness = np.repeat(random.uniform(0.01, 0.5, count // 800 + 1), 800)[:count]
    return Audio((random.normal(0, 0.3, count) * loudness).clip(-1, 1).astype(np.float32), 16_000)


BATCH = [noise(1.0, 1), noise(0.55, 2), noise(1.47, 3)]


def save_ctc(folder: Path, kind: str = "Wav2Vec2", norm: str = "layer") -> Path:
    """A CTC model over letters; one with layer norms is trained with a mask, one with a group norm without."""
    folder.mkdir(parents=True)
    vocabulary = {token: at for at, token in enumerate(["<pad>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), bos_token=None, eos_token=None)
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=norm == "layer")
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        conv_dim=(32,) * 7, feat_extract_norm=norm, do_stable_layer_norm=norm == "layer",
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    getattr(transformers, f"{kind}ForCTC")(config).save_pretrained(folder)
    return folder


def save_moonshine(folder: Path) -> Path:
    from tokenizers import Tokenizer, decoders, models

    letters = {token: at for at, token in enumerate(["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz"])}
    inner = Tokenizer(models.BPE(vocab=letters, merges=[], unk_token="<unk>"))
    inner.decoder = decoders.Fuse()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **marks)
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    sides = {
        f"{side}_num_{name}": 2 for side in ("encoder", "decoder") for name in ("hidden_layers", "attention_heads")
    }
    torch.manual_seed(0)
    model = transformers.MoonshineForConditionalGeneration(
        transformers.MoonshineConfig(
            vocab_size=len(letters), hidden_size=32, intermediate_size=32, pad_token_id=2, initializer_range=0.5,
            **sides, encoder_num_key_value_heads=2, decoder_num_key_value_heads=2,
        )
    )  # fmt: skip
    model.generation_config.suppress_tokens = [0, 1, 2]
    model.save_pretrained(folder)
    return folder


def by_pipeline(folder: Path, batch: list[Audio], **generation: Any) -> list[str]:
    """The texts by the toolkit's own pipeline, one after the other."""
    pipeline = transformers.pipeline("automatic-speech-recognition", model=str(folder), dtype="float32", device="cpu")
    options = {"generate_kwargs": generation} if generation else {}
    inputs = [{"raw": audio.samples.copy(), "sampling_rate": 16_000} for audio in batch]
    return [pipeline(utterance, **options)["text"].strip() for utterance in inputs]
