"""The hybrid recognisers: an encoder, a CTC layer and an attention decoder over it, and how a batch is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from stopwav.models.blstm import BlstmEncoder
from stopwav.models.conformer import ConformerEncoder
from stopwav.models.ctc_prefix import CtcPrefixes, frame_log_probs
from stopwav.models.ctc_search import greedy_labels, prefix_search
from stopwav.models.hybrid_shapes import ConformerShape, LstmShape
from stopwav.models.joint_score import AttentionTexts, JointScore
from stopwav.models.joint_search import Limits, joint_search
from stopwav.models.location_decoder import LocationDecoder
from stopwav.models.transformer_decoder import TransformerDecoder


class Hybrid(nn.Module):
    """Encoder, CTC layer and attention decoder. Token 0 is CTC's blank, the last one begins and ends texts."""

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
        """The encodings of a batch, and how many frames each utterance has."""
        return self.encoder(features, lengths)


@dataclass(frozen=True)
class Decoding:
    """How texts are searched for: the weight of CTC, the width of the beam, and tokens per encoder frame."""

    ctc_weight: float
    beam: int
    min_len_ratio: float
    max_len_ratio: float

    def limits(self, frames: int) -> Limits:
        """How many tokens a text of so many frames may have."""
        most = max(1, int(self.max_len_ratio * frames))
        return Limits(fewest=min(most, int(self.min_len_ratio * frames)), most=most)


def decode(model: Hybrid, encodings: Tensor, lengths: Tensor, how: Decoding) -> list[list[int]]:
    """The tokens of each utterance."""
    if how.ctc_weight == 1 and how.beam == 1:
        return greedy_labels(model.ctc(encodings), lengths)
    log_probs = frame_log_probs(model.ctc(encodings), lengths) if how.ctc_weight > 0 else None
    if how.ctc_weight == 1:
        assert log_probs is not None
        return [tokens for tokens, _ in prefix_search(log_probs, how.beam)]
    attention = AttentionTexts(model.decoder, encodings, lengths, how.beam)
    ctc = CtcPrefixes(log_probs, lengths, how.beam) if log_probs is not None else None
    limits = [how.limits(frames) for frames in lengths.tolist()]
    score = JointScore(attention, ctc, how.ctc_weight)
    found = joint_search(score, limits, how.beam, model.shape.tokens - 1, encodings.device)
    return [text.tokens for text in found]


def encode(model: Hybrid, features: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The encodings of utterances whose features are on the model's device, and how many frames each has."""
    lengths = torch.tensor([len(one) for one in features], device=features[0].device)
    padded = nn.utils.rnn.pad_sequence(list(features), batch_first=True)
    return model(padded.to(model.ctc.weight.dtype), lengths)
