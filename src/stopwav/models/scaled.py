"""Layers whose weights have a learned logarithmic scale, and a norm without a gain, as in reworked Conformers.

A scale lets a layer's output grow or shrink by one number instead of half a million; it is why the parameter counts of
these models end in odd digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.conformer import relative_shift, sinusoids, subsampled


class ScaledLinear(nn.Linear):
    """A linear layer whose weight and bias are each multiplied by e to a scale."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(())) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        return functional.linear(x, self.scaled_weight(), self.scaled_bias())

    def scaled_weight(self) -> Tensor:
        """Return the weight that is applied."""
        return self.weight * self.weight_scale.exp()

    def scaled_bias(self) -> Tensor | None:
        """Return the bias that is applied."""
        return None if self.bias_scale is None else self.bias * self.bias_scale.exp()


class ScaledConv1d(nn.Conv1d):
    """A convolution over time whose weight and bias are each multiplied by e to a scale."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, padding: int = 0, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__(inputs, outputs, kernel, padding=padding, groups=groups, bias=bias)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(())) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        bias = None if self.bias is None or self.bias_scale is None else self.bias * self.bias_scale.exp()
        return self._conv_forward(x, self.weight * self.weight_scale.exp(), bias)


class ScaledConv2d(nn.Conv2d):
    """A convolution over time and bands whose weight and bias are each multiplied by e to a scale."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding)
        self.weight_scale = nn.Parameter(torch.zeros(()))
        self.bias_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        assert self.bias is not None
        return self._conv_forward(x, self.weight * self.weight_scale.exp(), self.bias * self.bias_scale.exp())


class ScaledEmbedding(nn.Embedding):
    """An embedding that is multiplied by e to a scale."""

    def __init__(self, symbols: int, width: int) -> None:
        super().__init__(symbols, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, symbols: Tensor) -> Tensor:
        """Return the vectors of the symbols."""
        return super().forward(symbols) * self.scale.exp()


class BasicNorm(nn.Module):
    """Each frame divided by its root mean square, with a floor that may be learned; no gain, no mean subtracted."""

    # At the start of training this much of a frame's power is not normalised away.
    FLOOR = 0.25

    def __init__(self, learned: bool = True) -> None:
        super().__init__()
        start = torch.tensor(self.FLOOR).log()
        self.log_floor: Tensor
        if learned:
            self.log_floor = nn.Parameter(start)
        else:
            self.register_buffer("log_floor", start, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised frames."""
        return x * (x.square().mean(dim=-1, keepdim=True) + self.log_floor.exp()).rsqrt()


class DoubleSwish(nn.Module):
    """x · sigmoid(x - 1): about a swish of a swish."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation."""
        return x * torch.sigmoid(x - 1)


@dataclass(frozen=True)
class EncoderShape:
    """The sizes of the encoder; the defaults are the reference's."""

    bands: int = 80
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    kernel: int = 31
    layers: int = 12
    # Channels of the three convolutions of the front end.
    channels: tuple[int, int, int] = (8, 32, 128)
    dropout: float = 0.1


class ScaledFrontEnd(nn.Module):
    """`(batch, time, bands)` to about a quarter of the frames: three convolutions and a projection."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        first, second, third = shape.channels
        self.first = ScaledConv2d(1, first, 3, padding=1)
        self.second = ScaledConv2d(first, second, 3, stride=2)
        self.third = ScaledConv2d(second, third, 3, stride=2)
        self.out = ScaledLinear(third * subsampled(shape.bands), shape.width)
        self.activation = DoubleSwish()
        self.norm = BasicNorm(learned=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return the frames."""
        x = features[:, None]
        for convolution in (self.first, self.second, self.third):
            x = self.activation(convolution(x))
        return self.norm(self.out(x.transpose(1, 2).flatten(2)))


class SelfAttention(nn.Module):
    """Multi-head self-attention that scores a frame by its content and by its distance."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = ScaledLinear(width, 3 * width)
        self.out = ScaledLinear(width, width)
        self.position = ScaledLinear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.content_scale = nn.Parameter(torch.zeros(()))
        self.position_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor) -> Tensor:
        """Return the attended values; `mask` is 0 for frames and -inf for padding, `(batch, 1, 1, time)`."""
        query, key, value = (self._split(part) for part in self.inputs(x).chunk(3, dim=-1))
        distance = self._split(self.position(distances)[None])
        position_bias = self.position_bias[:, None] * self.position_scale.exp()
        by_distance = (query + position_bias) @ distance.transpose(2, 3)
        bias = relative_shift(by_distance) / math.sqrt(query.shape[-1]) + mask
        query = query + self.content_bias[:, None] * self.content_scale.exp()
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype))
        return self.out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class ScaledConvolution(nn.Module):
    """A gate, a depthwise convolution over time, an activation and a projection."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.gate = ScaledConv1d(width, 2 * width, 1)
        self.depthwise = ScaledConv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.activation = DoubleSwish()
        self.project = ScaledConv1d(width, width, 1)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """Return the output; `padding` is true for padded frames, `(batch, time)`."""
        x = functional.glu(self.gate(x.transpose(1, 2)), dim=1)
        # The content of the padding would reach the last frames of the utterance.
        x = self.depthwise(x.masked_fill(padding[:, None], 0.0))
        return self.project(self.activation(x)).transpose(1, 2)


def feed_forward(shape: EncoderShape) -> nn.Sequential:
    """Return two linear layers with an activation and dropout between them."""
    widen, narrow = ScaledLinear(shape.width, shape.feed_forward), ScaledLinear(shape.feed_forward, shape.width)
    return nn.Sequential(widen, DoubleSwish(), nn.Dropout(shape.dropout), narrow)


class ScaledLayer(nn.Module):
    """Feed-forward, attention, convolution, feed-forward, each added to its input, and one norm at the end."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.feed_forward_macaron = feed_forward(shape)
        self.self_attn = SelfAttention(shape.width, shape.heads)
        self.conv = ScaledConvolution(shape.width, shape.kernel)
        self.feed_forward = feed_forward(shape)
        self.norm = BasicNorm()
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor, distances: Tensor, mask: Tensor, padding: Tensor) -> Tensor:
        """Return the layer's output."""
        x = x + self.dropout(self.feed_forward_macaron(x))
        x = x + self.dropout(self.self_attn(x, distances, mask))
        x = x + self.dropout(self.conv(x, padding))
        x = x + self.dropout(self.feed_forward(x))
        return self.norm(x)


class ScaledConformer(nn.Module):
    """Feature frames to encodings."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.bands = shape.bands
        self.embed = ScaledFrontEnd(shape)
        self.layers = nn.ModuleList(ScaledLayer(shape) for _ in range(shape.layers))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encodings of a batch, and the number of frames of each utterance."""
        x = self.embed(features)
        lengths = subsampled(lengths)
        time, width = x.shape[1:]
        padding = torch.arange(time, device=x.device) >= lengths[:, None]
        mask = torch.zeros_like(padding, dtype=x.dtype).masked_fill(padding, -math.inf)[:, None, None]
        distances = self.dropout(sinusoids(torch.arange(time - 1, -time, -1, device=x.device), width).to(x.dtype))
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, distances, mask, padding)
        return x, lengths


# The names of the parts of this model in the profiler tables of older recipes, by module.
LABELS = {
    "encoder": "rnnt_encoder",
    "encoder.embed": "rnnt_encoder_embed",
    "encoder.layers.*": "rnnt_encoder_layer",
    "encoder.layers.*.feed_forward_macaron": "rnnt_encoder_layer_feed_forward_macaron",
    "encoder.layers.*.self_attn": "rnnt_encoder_layer_self_attn",
    "encoder.layers.*.conv": "rnnt_encoder_layer_conv",
    "encoder.layers.*.feed_forward": "rnnt_encoder_layer_feed_forward",
    "predictor": "rnnt_decoder",
}


@dataclass(frozen=True)
class TransducerShape:
    """The sizes of the model; the defaults are the reference's, of 78,648,040 parameters."""

    encoder: EncoderShape = field(default_factory=EncoderShape)
    symbols: int = 500
    # How many tokens the predictor looks back.
    context: int = 2


@dataclass(frozen=True)
class Encoded:
    """The inputs of the losses, `(batch, time, …)` and `(batch, labels + 1, …)`, and the encoder's lengths.

    The simple ones are scores of symbols, `None` where they are not needed.
    """

    encodings: Tensor
    lengths: Tensor
    predictions: Tensor
    simple_encodings: Tensor | None
    simple_predictions: Tensor | None


class StatelessPredictor(nn.Module):
    """A predictor that sees only the last tokens: an embedding and a depthwise convolution over them."""

    def __init__(self, symbols: int, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.embedding = ScaledEmbedding(symbols, width)
        self.convolution = ScaledConv1d(width, width, context, groups=width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the predictions before each token and after the last, `(batch, labels + 1, width)`; 0 is no token."""
        before = functional.pad(tokens, (self.context, 0))
        x = self.embedding(before).transpose(1, 2)
        return self.convolution(x).transpose(1, 2).relu()


class TrainingJoiner(nn.Module):
    """Encodings and predictions, each projected, to logits."""

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.encoder_proj = ScaledLinear(width, width)
        self.predictor_proj = ScaledLinear(width, width)
        self.output = ScaledLinear(width, symbols)

    def forward(self, encodings: Tensor, predictions: Tensor) -> Tensor:
        """Return the logits of encodings and predictions that are already projected; shapes broadcast."""
        return self.output((encodings + predictions).tanh())


class ConformerTransducer(nn.Module):
    """Features and tokens to the inputs of a transducer loss."""

    labels = LABELS

    def __init__(self, shape: TransducerShape | None = None) -> None:
        super().__init__()
        shape = shape or TransducerShape()
        width = shape.encoder.width
        self.encoder = ScaledConformer(shape.encoder)
        self.predictor = StatelessPredictor(shape.symbols, width, shape.context)
        self.joiner = TrainingJoiner(width, shape.symbols)
        self.simple_encoder_proj = ScaledLinear(width, shape.symbols)
        self.simple_predictor_proj = ScaledLinear(width, shape.symbols)

    def forward(self, features: Tensor, feature_lengths: Tensor, tokens: Tensor, simple: bool = True) -> Encoded:
        """Return the encoded batch; the loss calls the joiner where it needs it."""
        encodings, lengths = self.encoder(features, feature_lengths)
        predictions = self.predictor(tokens)
        return Encoded(
            encodings,
            lengths,
            predictions,
            self.simple_encoder_proj(encodings) if simple else None,
            self.simple_predictor_proj(predictions) if simple else None,
        )
