"""The tensors of ESPnet's two networks by name and shape, as their checkpoints have them."""

Shapes = dict[str, tuple[int, ...]]


def linear(name: str, inputs: int, outputs: int, bias: bool = True) -> Shapes:
    """A linear layer."""
    return {f"{name}.weight": (outputs, inputs), **({f"{name}.bias": (outputs,)} if bias else {})}


def norm(name: str, width: int) -> Shapes:
    """A layer norm."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def convolution(name: str, *shape: int, bias: bool = True) -> Shapes:
    """A convolution."""
    return {f"{name}.weight": shape, **({f"{name}.bias": (shape[0],)} if bias else {})}


def attention(name: str, width: int) -> Shapes:
    """The four projections of an attention layer."""
    tensors: Shapes = {}
    for part in ("q", "k", "v", "out"):
        tensors |= linear(f"{name}.linear_{part}", width, width)
    return tensors


def feed_forward(name: str, width: int, inner: int) -> Shapes:
    """Two linear layers."""
    return linear(f"{name}.w_1", width, inner) | linear(f"{name}.w_2", inner, width)


def front() -> Shapes:
    """What lies before the encoder: mel bands, and statistics of the training corpus."""
    return {"frontend.logmel.melmat": (257, 80), "normalize.mean": (80,), "normalize.std": (80,)}


def conformer() -> Shapes:
    """A Conformer encoder with a Transformer decoder, 116 M parameters."""
    tensors = front()
    tensors |= convolution("encoder.embed.conv.0", 512, 1, 3, 3) | convolution("encoder.embed.conv.2", 512, 512, 3, 3)
    tensors |= linear("encoder.embed.out.0", 512 * 19, 512)
    for number in range(12):
        block = f"encoder.encoders.{number}"
        tensors |= {f"{block}.self_attn.pos_bias_{letter}": (8, 64) for letter in "uv"}
        tensors |= attention(f"{block}.self_attn", 512) | linear(f"{block}.self_attn.linear_pos", 512, 512, bias=False)
        tensors |= feed_forward(f"{block}.feed_forward", 512, 2048)
        tensors |= feed_forward(f"{block}.feed_forward_macaron", 512, 2048)
        tensors |= convolution(f"{block}.conv_module.pointwise_conv1", 1024, 512, 1)
        tensors |= convolution(f"{block}.conv_module.depthwise_conv", 512, 1, 31)
        tensors |= norm(f"{block}.conv_module.norm", 512)
        tensors |= {f"{block}.conv_module.norm.running_{what}": (512,) for what in ("mean", "var")}
        tensors |= {f"{block}.conv_module.norm.num_batches_tracked": ()}
        tensors |= convolution(f"{block}.conv_module.pointwise_conv2", 512, 512, 1)
        for part in ("norm_ff", "norm_mha", "norm_ff_macaron", "norm_conv", "norm_final"):
            tensors |= norm(f"{block}.{part}", 512)
    tensors |= norm("encoder.after_norm", 512)
    tensors |= {"decoder.embed.0.weight": (5000, 512)} | norm("decoder.after_norm", 512)
    tensors |= linear("decoder.output_layer", 512, 5000)
    for number in range(6):
        block = f"decoder.decoders.{number}"
        tensors |= attention(f"{block}.self_attn", 512) | attention(f"{block}.src_attn", 512)
        tensors |= feed_forward(f"{block}.feed_forward", 512, 2048)
        for part in ("norm1", "norm2", "norm3"):
            tensors |= norm(f"{block}.{part}", 512)
    return tensors | linear("ctc.ctc_lo", 512, 5000)


def lstm() -> Shapes:
    """An RNN encoder with projections and an RNN decoder with location-aware attention, 8 M parameters."""
    tensors = front()
    for number in range(4):
        for direction in ("", "_reverse"):
            lstm_layer = f"encoder.enc.0.birnn{number}"
            tensors[f"{lstm_layer}.weight_ih_l0{direction}"] = (1280, 80 if number == 0 else 320)
            tensors[f"{lstm_layer}.weight_hh_l0{direction}"] = (1280, 320)
            tensors[f"{lstm_layer}.bias_ih_l0{direction}"] = (1280,)
            tensors[f"{lstm_layer}.bias_hh_l0{direction}"] = (1280,)
        tensors |= linear(f"encoder.enc.0.bt{number}", 640, 320)
    tensors |= {"decoder.embed.weight": (27, 320)} | linear("decoder.output", 320, 27)
    tensors |= {"decoder.decoder.0.weight_ih": (1280, 640), "decoder.decoder.0.weight_hh": (1280, 320)}
    tensors |= {"decoder.decoder.0.bias_ih": (1280,), "decoder.decoder.0.bias_hh": (1280,)}
    place = "decoder.att_list.0"
    tensors |= linear(f"{place}.mlp_enc", 320, 320) | linear(f"{place}.mlp_dec", 320, 320, bias=False)
    tensors |= linear(f"{place}.mlp_att", 10, 320, bias=False) | linear(f"{place}.gvec", 320, 1)
    tensors |= convolution(f"{place}.loc_conv", 10, 1, 1, 201, bias=False)
    return tensors | linear("ctc.ctc_lo", 320, 27)
