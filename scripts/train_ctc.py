"""Train a small CTC model on speech of flite, to align with: what an aligner can do depends on its model.

    python scripts/train_ctc.py FOLDER [--loss frames]

It hears passages of the documentation in the voices of the bundled corpus, whose sentences it never sees. With
`--loss ctc` it learns from the texts alone, as published models do; with `--loss frames` also when each word is spoken,
its letters sharing the time. Needs the Debian package `libflite1` and the extra `transformers`; takes minutes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import soxr
import torch
import transformers
from make_corpus import Flite, speak
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from stopwav.speech.utterance import Word

DOCS = Path(__file__).resolve().parent.parent / "docs"
VOICES = ("slt", "rms", "awb")
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
# The marks of a blank and of the end of a word come first.
VOCABULARY = {token: number for number, token in enumerate(["<pad>", "<unk>", "|", *LETTERS])}
BLANK, WORD_END = VOCABULARY["<pad>"], VOCABULARY["|"]
RATE_HZ, STEP_S = 16_000, 0.02
# Words of a passage: those of the bundled sentences are 2 to 27 long.
PASSAGE = (2, 12)
BATCH = 16
# High, as it falls to nothing within a few hundred steps.
PEAK_RATE = 2e-3


@dataclass(frozen=True)
class Example:
    """A spoken passage: features by frame, its labels, and the label of each frame."""

    features: Tensor
    labels: Tensor
    frame_labels: Tensor


def passages(count: int, seed: int) -> Iterator[list[str]]:
    """Yield runs of words from the prose of the documentation."""
    random = np.random.default_rng(seed)
    prose = (re.sub(r"```.*?```", " ", path.read_text(), flags=re.DOTALL) for path in sorted(DOCS.rglob("*.md")))
    words = re.findall(r"(?<![\w`'./-])[a-z]+(?![\w`'/-])", " ".join(prose).lower())
    for start in random.integers(0, len(words) - PASSAGE[1], count):
        yield words[start : start + random.integers(*PASSAGE)]


def examples(count: int, extractor: transformers.SeamlessM4TFeatureExtractor, seed: int = 0) -> Iterator[Example]:
    """Yield passages spoken by each voice in turn; those that flite divides into other words are left out."""
    flite = Flite()
    voices = [flite.voice(name) for name in VOICES]
    for number, passage in enumerate(passages(count, seed)):
        try:
            samples, rate_hz, words = speak(flite, voices[number % len(voices)], " ".join(passage))
        except ValueError:
            continue
        if [word.text for word in words] == passage:
            yield _example(samples / 2**15, rate_hz, words, extractor)


def _example(
    samples: NDArray[np.float64],
    rate_hz: int,
    words: Sequence[Word],
    extractor: transformers.SeamlessM4TFeatureExtractor,
) -> Example:
    audio = soxr.resample(samples, rate_hz, RATE_HZ).astype(np.float32)
    features = extractor(audio, sampling_rate=RATE_HZ, return_tensors="pt").input_features[0]
    text = "|".join(word.text for word in words)
    labels = torch.tensor([VOCABULARY[letter] for letter in text])
    return Example(features, labels, _frame_labels(len(features), words))


def _frame_labels(frames: int, words: Sequence[Word]) -> Tensor:
    """The letter that is spoken in the middle of each frame, or the blank in a pause; words end between two words."""
    labels = torch.full((frames,), BLANK)
    middles_s = (torch.arange(frames) + 0.5) * STEP_S
    for word in words:
        inside = (middles_s >= word.start_s) & (middles_s < word.end_s)
        share = (middles_s[inside] - word.start_s) / (word.end_s - word.start_s)
        own = torch.tensor([VOCABULARY[letter] for letter in word.text])
        labels[inside] = own[(share * len(own)).long().clamp(max=len(own) - 1)]
    for word, following in pairwise(words):
        labels[min(frames - 1, int((word.end_s + following.start_s) / 2 / STEP_S))] = WORD_END
    return labels


def untrained(folder: Path) -> tuple[transformers.Wav2Vec2BertForCTC, transformers.SeamlessM4TFeatureExtractor]:
    """Return a conformer of 780,000 weights; its processor is in the folder."""
    (folder / "vocab.json").write_text(json.dumps(VOCABULARY))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(
        str(folder / "vocab.json"), pad_token="<pad>", unk_token="<unk>", bos_token=None, eos_token=None
    )
    extractor = transformers.SeamlessM4TFeatureExtractor()
    transformers.Wav2Vec2BertProcessor(feature_extractor=extractor, tokenizer=tokenizer).save_pretrained(folder)
    config = transformers.Wav2Vec2BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        conv_depthwise_kernel_size=15, position_embeddings_type=None, layerdrop=0.0, apply_spec_augment=False,
        pad_token_id=BLANK, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return transformers.Wav2Vec2BertForCTC(config), extractor


def train(model: transformers.Wav2Vec2BertForCTC, spoken: Sequence[Example], epochs: int, by_frame: bool) -> None:
    """Train the model, with lengths that are alike in a batch, and print the loss of each epoch."""
    order = sorted(range(len(spoken)), key=lambda number: len(spoken[number].features))
    batches = [[spoken[number] for number in order[start : start + BATCH]] for start in range(0, len(order), BATCH)]
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=1e-3)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=epochs * len(batches))
    model.train()
    for epoch in range(epochs):
        losses = []
        for index in torch.randperm(len(batches)).tolist():
            loss = _loss(model, batches[index], by_frame)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            rates.step()
            losses.append(float(loss.detach()))
        print(f"epoch {epoch + 1} of {epochs}: {np.mean(losses):.3f} nats", flush=True)


def _loss(model: transformers.Wav2Vec2BertForCTC, batch: Sequence[Example], by_frame: bool) -> Tensor:
    features = pad_sequence([example.features for example in batch], batch_first=True)
    frames = torch.tensor([len(example.features) for example in batch])
    mask = torch.arange(features.shape[1]) < frames[:, None]
    log_probs = functional.log_softmax(model(features, attention_mask=mask.long()).logits, dim=-1)
    if by_frame:
        wanted = torch.cat([example.frame_labels for example in batch])
        return functional.nll_loss(log_probs[mask], wanted)
    labels = torch.cat([example.labels for example in batch])
    lengths = torch.tensor([len(example.labels) for example in batch])
    return functional.ctc_loss(log_probs.transpose(0, 1), labels, frames, lengths, blank=BLANK, zero_infinity=True)


def main() -> None:
    """Write the model to the folder of the command line."""
    parser = argparse.ArgumentParser(description="Train a small CTC model on speech of flite.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--loss", choices=("ctc", "frames"), default="ctc")
    parser.add_argument("--passages", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    options.folder.mkdir(parents=True, exist_ok=True)
    model, extractor = untrained(options.folder)
    spoken = list(examples(options.passages, extractor))
    hours = sum(len(example.features) for example in spoken) * STEP_S / 3600
    print(f"{len(spoken)} passages, {hours:.2f} h")
    train(model, spoken, options.epochs, options.loss == "frames")
    model.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
