"""The Conformer transducer whose training step is measured: encoder, predictor, joiner, and simple projections."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn
from torch.nn import functional

from stopwav.models.scaled import EncoderShape, ScaledConformer, ScaledConv1d, ScaledEmbedding, ScaledLinear

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
