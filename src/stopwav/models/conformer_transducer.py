"""The Conformer transducer whose training step is measured: encoder, predictor, joiner, simple projections."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.scaled import ScaledConv1d, ScaledEmbedding, ScaledLinear
from stopwav.models.scaled_conformer import EncoderShape, ScaledConformer

# The names under which older recipes label the parts of this model in a profiler's table, by module.
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
    # How many tokens back the predictor looks.
    context: int = 2


@dataclass(frozen=True)
class Encoded:
    """What the losses are computed from, `(batch, time, …)` and `(batch, labels + 1, …)`, and the encoder's lengths.

    The simple ones are scores of symbols, and are there where they were asked for.
    """

    encodings: Tensor
    lengths: Tensor
    predictions: Tensor
    simple_encodings: Tensor | None
    simple_predictions: Tensor | None


class StatelessPredictor(nn.Module):
    """The text so far by its last tokens alone: an embedding and a convolution of each channel over them."""

    def __init__(self, symbols: int, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.embedding = ScaledEmbedding(symbols, width)
        self.convolution = ScaledConv1d(width, width, context, groups=width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """The predictions before each token and after the last, `(batch, labels + 1, width)`; 0 stands for no token."""
        before = functional.pad(tokens, (self.context, 0))
        x = self.embedding(before).transpose(1, 2)
        return self.convolution(x).transpose(1, 2).relu()


class Joiner(nn.Module):
    """Encodings and predictions, each projected, to logits."""

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.encoder_proj = ScaledLinear(width, width)
        self.predictor_proj = ScaledLinear(width, width)
        self.output = ScaledLinear(width, symbols)

    def forward(self, encodings: Tensor, predictions: Tensor) -> Tensor:
        """The logits of encodings and predictions that are projected already, of shapes that can be added."""
        return self.output((encodings + predictions).tanh())


class ConformerTransducer(nn.Module):
    """Features and tokens to what a transducer loss is computed from."""

    labels = LABELS

    def __init__(self, shape: TransducerShape | None = None) -> None:
        super().__init__()
        shape = shape or TransducerShape()
        width = shape.encoder.width
        self.encoder = ScaledConformer(shape.encoder)
        self.predictor = StatelessPredictor(shape.symbols, width, shape.context)
        self.joiner = Joiner(width, shape.symbols)
        self.simple_encoder_proj = ScaledLinear(width, shape.symbols)
        self.simple_predictor_proj = ScaledLinear(width, shape.symbols)

    def forward(self, features: Tensor, feature_lengths: Tensor, tokens: Tensor, simple: bool = True) -> Encoded:
        """The encoded batch; the joiner itself belongs to the loss, which knows where it is needed."""
        encodings, lengths = self.encoder(features, feature_lengths)
        predictions = self.predictor(tokens)
        return Encoded(
            encodings,
            lengths,
            predictions,
            self.simple_encoder_proj(encodings) if simple else None,
            self.simple_predictor_proj(predictions) if simple else None,
        )
