"""Checkpoints of other toolkits by rules, ESPnet's included."""

import json
from pathlib import Path

import espnet_layout
import pytest
import torch

from stopwav.errors import StopwavError
from stopwav.models.checkpoint import read_rules, rename
from stopwav.models.conformer import ConformerShape
from stopwav.models.hybrid import Hybrid
from stopwav.models.lstm import LstmShape

FILE = Path("model.pth")


def on_meta(shapes: espnet_layout.Shapes) -> dict[str, torch.Tensor]:
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("layout", "shape"), [(espnet_layout.conformer, ConformerShape()), (espnet_layout.lstm, LstmShape())]
)
def test_espnets_tensors_are_ours_by_name_and_shape(layout, shape) -> None:
    renamed = rename(on_meta(layout()), read_rules("espnet"), FILE)
    assert [tuple(renamed.pop(f"statistics.{name}").shape) for name in ("mean", "deviation")] == [(80,), (80,)]
    with torch.device("meta"):
        wanted = Hybrid(shape).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in renamed.items()} == {
        name: tuple(tensor.shape) for name, tensor in wanted.items()
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        # Those whose shape would not tell them from a neighbour.
        ("encoder.encoders.7.feed_forward_macaron.w_1.weight", "encoder.blocks.7.first_half.widen.weight"),
        ("encoder.encoders.11.feed_forward.w_2.bias", "encoder.blocks.11.second_half.narrow.bias"),
        ("encoder.encoders.0.norm_ff_macaron.weight", "encoder.blocks.0.first_half_norm.weight"),
        ("encoder.encoders.0.norm_ff.weight", "encoder.blocks.0.second_half_norm.weight"),
        ("encoder.encoders.0.norm_mha.bias", "encoder.blocks.0.attention_norm.bias"),
        ("encoder.encoders.0.norm_final.bias", "encoder.blocks.0.norm.bias"),
        ("encoder.encoders.0.conv_module.norm.weight", "encoder.blocks.0.convolution.norm.weight"),
        ("encoder.encoders.3.self_attn.pos_bias_u", "encoder.blocks.3.attention.content_bias"),
        ("encoder.encoders.3.self_attn.pos_bias_v", "encoder.blocks.3.attention.position_bias"),
        ("encoder.encoders.3.self_attn.linear_k.weight", "encoder.blocks.3.attention.key.weight"),
        ("decoder.decoders.5.self_attn.linear_v.bias", "decoder.blocks.5.text.value.bias"),
        ("decoder.decoders.5.src_attn.linear_q.bias", "decoder.blocks.5.audio.query.bias"),
        ("decoder.decoders.5.norm2.weight", "decoder.blocks.5.audio_norm.weight"),
        ("decoder.decoders.5.norm3.weight", "decoder.blocks.5.feed_forward_norm.weight"),
        ("encoder.enc.0.birnn2.weight_hh_l0_reverse", "encoder.layers.2.lstm.weight_hh_l0_reverse"),
        ("decoder.att_list.0.mlp_enc.weight", "decoder.attention.frame.weight"),
        ("decoder.att_list.0.mlp_dec.weight", "decoder.attention.state.weight"),
    ],
)
def test_parts_of_the_same_shape_are_not_mixed_up(theirs: str, ours: str) -> None:
    assert list(rename({theirs: torch.zeros(1)}, read_rules("espnet"), FILE)) == [ours]


def test_our_own_names_pass_through_espnets_rules_unchanged() -> None:
    for shape in (ConformerShape(blocks=1, decoder_blocks=1), LstmShape()):
        with torch.device("meta"):
            names = Hybrid(shape).state_dict()
        assert list(rename(names, read_rules("espnet"), FILE)) == list(names)


def test_rules_of_a_file_are_applied_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"rules": [["^old\\.", "a."], ["^a\\.(\\w+)$", "b.\\1"], ["^unused", None]]}))
    tensors = {"old.x": torch.zeros(1), "unused.y": torch.ones(1), "c": torch.ones(2)}
    assert rename(tensors, read_rules(str(path)), FILE) == {"b.x": tensors["old.x"], "c": tensors["c"]}


def test_two_tensors_of_one_new_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"rules": [["\\d", ""]]}))
    with pytest.raises(StopwavError, match=r"model\.pth: a1 and a2 would both become a; check the rules"):
        rename({"a1": torch.zeros(1), "a2": torch.zeros(1)}, read_rules(str(path)), FILE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected JSON"),
        ("[]", "expected JSON"),
        ('{"rules": 3}', "expected JSON"),
        ('{"rules": [["a"]]}', "expected JSON"),
        ('{"rules": [["a", 3]]}', "'a' → 3: expected a pattern, and a text or null"),
        ('{"rules": [["(", "a"]]}', "is not a valid regular expression"),
        ('{"rules": [["a", "\\\\1"]]}', "is not a valid regular expression"),
    ],
)
def test_invalid_rules_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "names.json"
    path.write_text(content)
    with pytest.raises(StopwavError, match=message) as raised:
        read_rules(str(path))
    assert str(raised.value).startswith(f"names={path}: ")


def test_an_unknown_layout_lists_the_included_ones() -> None:
    with pytest.raises(StopwavError, match=r"names=wenet: No such file or directory; .* one of espnet"):
        read_rules("wenet")
