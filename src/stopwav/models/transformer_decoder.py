"""The Transformer decoder, one token at a time for all hypotheses of a batch at once.

Nothing is computed twice and no key or value is moved. Those of the audio are stored once per utterance, not once per
hypothesis: the hypotheses are the queries. Those of the texts stay where they were written; a table of bits says which
of them are the past of a hypothesis, so that only this table is reordered with the beam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.conformer import EPSILON, ConformerShape, sinusoids

# The tokens that there is room for at first; it doubles when it is full.
FIRST_ROOM = 16


@dataclass
class TransformerState:
    """The state of the decoder for some utterances, `(utterances, …)` each."""

    beam: int
    audio: list[tuple[Tensor, Tensor]]  # keys and values of each block, (…, heads, time, width of a head)
    padding: Tensor  # 0 for frames, -inf for padding, (…, 1, 1, time)
    texts: list[tuple[Tensor, Tensor]]  # keys and values of each block, (…, heads, room · beam, width of a head)
    past: Tensor  # whether a position belongs to the hypothesis's own text, (…, beam, room · beam)
    step: int = 0

    def reorder(self, parents: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance: `(utterances, beam)`."""
        self.past = self.past.take_along_dim(parents[:, :, None], dim=1)

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        self.audio = [(keys[utterances], values[utterances]) for keys, values in self.audio]
        self.texts = [(keys[utterances], values[utterances]) for keys, values in self.texts]
        self.padding, self.past = self.padding[utterances], self.past[utterances]

    def begin_step(self) -> slice:
        """Return the positions of the new step, after marking each hypothesis's own as its past."""
        if self.past.shape[2] == self.step * self.beam:
            self.texts = [(_doubled(keys), _doubled(values)) for keys, values in self.texts]
            self.past = torch.cat([self.past, torch.zeros_like(self.past)], dim=2)
        positions = slice(self.step * self.beam, (self.step + 1) * self.beam)
        self.past[:, :, positions] = torch.eye(self.beam, dtype=torch.bool, device=self.past.device)
        self.step += 1
        return positions


class Attention(nn.Module):
    """Multi-head attention over given keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of `x`, by heads."""
        return self._split(self.key(x)), self._split(self.value(x))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return the attended values."""
        attended = functional.scaled_dot_product_attention(self._split(self.query(x)), keys, values, attn_mask=mask)
        return self.out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class DecoderBlock(nn.Module):
    """Attention over the text, attention over the audio, and a feed-forward, each with a norm before it."""

    def __init__(self, shape: ConformerShape) -> None:
        super().__init__()
        width = shape.width
        self.text = Attention(width, shape.heads)
        self.audio = Attention(width, shape.heads)
        self.widen = nn.Linear(width, shape.feed_forward)
        self.narrow = nn.Linear(shape.feed_forward, width)
        self.text_norm = nn.LayerNorm(width, EPSILON)
        self.audio_norm = nn.LayerNorm(width, EPSILON)
        self.feed_forward_norm = nn.LayerNorm(width, EPSILON)

    def forward(self, x: Tensor, number: int, state: TransformerState, positions: slice) -> Tensor:
        """Return the block's output for the newest tokens, `(utterances, beam, width)`."""
        normed, end = self.text_norm(x), positions.stop
        keys, values = state.texts[number]
        keys[:, :, positions], values[:, :, positions] = self.text.keys_and_values(normed)
        x = x + self.text(normed, keys[:, :, :end], values[:, :, :end], state.past[:, None, :, :end])
        x = x + self.audio(self.audio_norm(x), *state.audio[number], state.padding)
        return x + self.narrow(self.widen(self.feed_forward_norm(x)).relu())


class TransformerDecoder(nn.Module):
    """Texts so far and encodings to the log-probabilities of the next token."""

    def __init__(self, shape: ConformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.tokens, shape.width)
        self.blocks = nn.ModuleList(DecoderBlock(shape) for _ in range(shape.decoder_blocks))
        self.norm = nn.LayerNorm(shape.width, EPSILON)
        self.output = nn.Linear(shape.width, shape.tokens)

    def start(self, encodings: Tensor, lengths: Tensor, beam: int) -> TransformerState:
        """Return the state before the first token."""
        shape, (utterances, time, width) = self.shape, encodings.shape
        frames = torch.arange(time, device=encodings.device) < lengths[:, None]
        padding = encodings.new_zeros(frames.shape).masked_fill(~frames, -math.inf)
        blocks = [block for block in self.blocks if isinstance(block, DecoderBlock)]
        room = (utterances, shape.heads, FIRST_ROOM * beam, width // shape.heads)
        return TransformerState(
            beam=beam,
            audio=[block.audio.keys_and_values(encodings) for block in blocks],
            padding=padding[:, None, None],
            texts=[(encodings.new_zeros(room), encodings.new_zeros(room)) for _ in blocks],
            past=torch.zeros(utterances, beam, FIRST_ROOM * beam, dtype=torch.bool, device=encodings.device),
        )

    def forward(self, tokens: Tensor, state: TransformerState) -> Tensor:
        """Score what may follow these tokens, `(utterances, beam)` to `(…, tokens)`, and update the state."""
        position = torch.full((1,), state.step, device=tokens.device)  # filled on the device: no wait
        positions = state.begin_step()
        x = self.embedding(tokens) * math.sqrt(self.shape.width)
        x = x + sinusoids(position, self.shape.width).to(x.dtype)
        for number, block in enumerate(self.blocks):
            x = block(x, number, state, positions)
        logits = self.output(self.norm(x))
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def _doubled(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, torch.zeros_like(tensor)], dim=2)
