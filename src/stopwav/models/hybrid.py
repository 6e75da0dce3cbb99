"""The hybrid networks: an encoder, a CTC layer and an attention decoder; encoding and decoding of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stopwav.models.conformer import ConformerEncoder, ConformerShape
from stopwav.models.ctc import CtcPrefixScorer, frame_log_probs, greedy_labels, prefix_search
from stopwav.models.joint_search import AttentionScorer, JointScorer, LengthLimits, joint_search
from stopwav.models.lstm import BlstmEncoder, LocationDecoder, LstmShape
from stopwav.models.transformer_decoder import TransformerDecoder


class Hybrid(nn.Module):
    """Encoder, CTC layer and attention decoder. Token 0 is CTC's blank; the last token begins and ends texts."""

    def __init__(self, shape: ConformerShape | LstmShape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder: nn.Module
        self.decoder: nn.Module
        if isinstance(shape, ConformerShape):
            self.encoder, self.decoder = ConformerEncoder(shape), TransformerDecoder(shape)
        else:
            self.encoder, self.decoder = BlstmEncoder(shape), LocationDecoder(shape)
        self.ctc = nn.Linear(shape.width, shape.tokens)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encodings of a batch, and the number of frames of each utterance."""
        return self.encoder(features, lengths)


@dataclass(frozen=True)
class Decoding:
    """The options of decoding: the weight of CTC, the width of the beam, and the tokens per encoder frame."""

    ctc_weight: float
    beam: int
    min_len_ratio: float
    max_len_ratio: float

    def limits(self, frames: int) -> LengthLimits:
        """Return how many tokens the text of so many frames may have."""
        max_tokens = max(1, int(self.max_len_ratio * frames))
        return LengthLimits(min(max_tokens, int(self.min_len_ratio * frames)), max_tokens)


def encode(model: Hybrid, features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the encodings of a batch whose features are on the model's device, and the frames of each utterance."""
    lengths = torch.tensor([len(utterance) for utterance in features], device=features[0].device)
    padded = nn.utils.rnn.pad_sequence(list(features), batch_first=True)
    return model(padded.to(model.ctc.weight.dtype), lengths)


def decode(model: Hybrid, encodings: Tensor, lengths: Tensor, decoding: Decoding) -> list[list[int]]:
    """Return the tokens of each utterance."""
    if decoding.ctc_weight == 1 and decoding.beam == 1:
        return greedy_labels(model.ctc(encodings), lengths)
    log_probs = frame_log_probs(model.ctc(encodings), lengths) if decoding.ctc_weight > 0 else None
    if decoding.ctc_weight == 1:
        assert log_probs is not None
        return [tokens for tokens, _ in prefix_search(log_probs, decoding.beam)]
    attention = AttentionScorer(model.decoder, encodings, lengths, decoding.beam)
    ctc = CtcPrefixScorer(log_probs, lengths, decoding.beam) if log_probs is not None else None
    limits = [decoding.limits(frames) for frames in lengths.tolist()]
    scorer = JointScorer(attention, ctc, decoding.ctc_weight)
    texts = joint_search(scorer, limits, decoding.beam, model.shape.tokens - 1, encodings.device)
    return [text.tokens for text in texts]
