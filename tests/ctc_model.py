"""A CTC model that is built, not trained: what its frames say follows from words whose times are known.

A small wav2vec 2.0 with random weights hears the audio; its last layer is the one that, by least squares, makes each
frame spell what is spoken in it. So it knows this audio alone, and of it everything: what an aligner finds with it
shows whether the aligner does its part, and nothing of how good models are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers

from stopwav.speech.audio import Audio
from stopwav.speech.utterance import Word

STEP_S = 0.02
# More than there are frames, so that each of them can spell what it should.
WIDTH = 512
# How sure a frame is of its letter: the log of the odds against each other one.
SURE = 10.0


def build_ctc_model(folder: Path, audio: Audio, words: Sequence[Word], letters: str = "") -> Path:
    """Write a model that spells these words at these times, and its processor, into a folder; return the folder.

    It knows the letters of the words, or just those that are given.
    """
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    known = letters or "".join(sorted({letter for word in words for letter in word.text}))
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<unk>", "|", *known])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(
        str(folder / "vocab.json"), pad_token="<pad>", unk_token="<unk>", bos_token=None, eos_token=None
    )
    features = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    processor = transformers.Wav2Vec2Processor(feature_extractor=features, tokenizer=tokenizer)
    config = transformers.Wav2Vec2Config(
        vocab_size=len(vocabulary), hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=8, intermediate_size=64,
        conv_dim=(64,) * 7, num_conv_pos_embedding_groups=16, pad_token_id=0, feat_extract_norm="layer",
        do_stable_layer_norm=True,
    )  # fmt: skip
    model = transformers.Wav2Vec2ForCTC(config).eval()
    inputs = processor(audio.samples, sampling_rate=audio.sample_rate_hz, return_tensors="pt")
    with torch.inference_mode():
        heard = model.wav2vec2(**inputs).last_hidden_state[0].double().numpy()
    wanted = np.zeros((len(heard), len(vocabulary)))
    wanted[np.arange(len(heard)), _symbols(len(heard), words, vocabulary)] = SURE
    weights, *_ = np.linalg.lstsq(np.hstack([heard, np.ones((len(heard), 1))]), wanted, rcond=1e-10)
    model.lm_head.weight.data = torch.from_numpy(weights[:-1].T).float()
    model.lm_head.bias.data = torch.from_numpy(weights[-1]).float()
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _symbols(frames: int, words: Sequence[Word], vocabulary: dict[str, int]) -> list[int]:
    """What each frame spells: the letters of a word share its time; between words is their mark, else a blank."""
    symbols = [0] * frames
    for number, word in enumerate(words):
        known = [letter for letter in word.text if letter in vocabulary]
        borders_s = np.linspace(word.start_s, word.end_s, len(known) + 1)
        for letter, start_s, end_s in zip(known, borders_s, borders_s[1:], strict=False):
            first, after = round(start_s / STEP_S), min(frames, round(end_s / STEP_S))
            symbols[first:after] = [vocabulary[letter]] * (after - first)
            if first and symbols[first - 1] == symbols[first]:  # a letter that comes twice needs a blank between
                symbols[first] = 0
        if number + 1 < len(words):
            middle = round((word.end_s + words[number + 1].start_s) / 2 / STEP_S)
            symbols[middle] = vocabulary["|"]
    return symbols
