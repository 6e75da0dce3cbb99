"""Every loss that is installed computes what the oracle does, fed as its adapter says; the others say what to do."""

from pathlib import Path

import pytest

from stopwav import StopwavError
from stopwav.losses.contender import Contender, Needs
from stopwav.losses.registry import BUILT_IN, MissingLoss, check_name, find_loss, installed_losses

torch = pytest.importorskip("torch")

from stopwav.losses.joiner_batch import make_joiner_batch, packed_logits, padded_logits  # noqa: E402
from stopwav.losses.oracle import oracle_loss  # noqa: E402

SHAPES = [((9, 6, 4), (5, 3, 2)), ((25, 2), (8, 1)), ((1, 7), (1, 3))]


def oracle(frames: tuple[int, ...], tokens: tuple[int, ...], blank: int) -> tuple[float, list[object]]:
    inputs = make_joiner_batch(frames, tokens, vocab=11, dim=8, blank=blank, precision="float64")
    lengths = (inputs.targets, inputs.frame_lengths, inputs.target_lengths)
    total = oracle_loss(padded_logits(inputs), *lengths, blank).sum()
    total.backward()
    return float(total.detach()), [leaf.grad for leaf in inputs.leaves.values()]


@pytest.mark.parametrize("name", ["torch", *(name for name in installed_losses("cpu") if name != "torch")])
@pytest.mark.parametrize("blank", [0, 4, 10])
@pytest.mark.parametrize(("frames", "tokens"), SHAPES)
def test_value_and_gradients_are_the_oracles(
    name: str, blank: int, frames: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    contender = find_loss(name)
    inputs = make_joiner_batch(frames, tokens, vocab=11, dim=8, blank=blank, integers=contender.needs.integers)
    total = (contender.unpruned or contender.losses)(inputs).sum()
    total.backward()
    expected, gradients = oracle(frames, tokens, blank)
    assert float(total.detach()) == pytest.approx(expected, rel=1e-5)
    for leaf, gradient in zip(inputs.leaves.values(), gradients, strict=True):
        torch.testing.assert_close(leaf.grad.double(), gradient, rtol=1e-4, atol=1e-5)


def test_logits_of_a_type_that_a_loss_does_not_take_are_cast() -> None:
    """In float64 here: not every processor that says it can has bfloat16."""
    seen = []

    def loss(logits: object, *_: object) -> object:
        seen.append(logits.dtype)  # type: ignore[attr-defined]
        return logits

    inputs = make_joiner_batch((3,), (1,), vocab=5, dim=3, precision="float64")
    for dtypes in (("float32",), ("float32", "float64")):
        Contender("own", "", Needs(dtypes=dtypes), loss).losses(inputs)
    assert seen == [torch.float32, torch.float64]


def test_a_batch_with_more_logits_than_a_loss_can_count_is_refused_before_they_are_made() -> None:
    inputs = make_joiner_batch((3, 2), (1, 1), vocab=5, dim=3)
    Contender("own", "", Needs(most_logits=60), lambda logits, *_: logits).losses(inputs)
    with pytest.raises(StopwavError, match=r"own counts at most 59 logits, .* 60 would come out wrong"):
        Contender("own", "", Needs(most_logits=59), lambda *_: pytest.fail("called")).losses(inputs)


def test_torchaudios_offsets_of_32_bits_are_respected() -> None:
    """A batch as large would take 9 GB if it were made."""
    [needs] = [listed.needs for listed in BUILT_IN if listed.name == "torchaudio"]
    inputs = make_joiner_batch((400,) * 112, (100,) * 112, vocab=500, dim=1)
    with pytest.raises(StopwavError, match=r"2,147,483,648 logits, and a batch with 2,262,400,000"):
        Contender("torchaudio", "", needs, lambda *_: pytest.fail("called")).losses(inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("name", installed_losses("cuda"))
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_value_on_cuda(name: str, precision: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    contender = find_loss(name)
    place = {"precision": precision, "device": "cuda", "integers": contender.needs.integers}
    inputs = make_joiner_batch((9, 6), (5, 3), vocab=11, dim=8, **place)
    total = (contender.unpruned or contender.losses)(inputs).sum()
    total.backward()
    assert float(total.detach()) == pytest.approx(
        oracle((9, 6), (5, 3), 0)[0], rel=1e-4 if precision == "float32" else 0.02
    )


def test_packed_logits_are_the_real_cells_of_the_padded_ones() -> None:
    inputs = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3)
    padded, packed = padded_logits(inputs), packed_logits(inputs)
    assert packed.shape == (4 * 2 + 2 * 4, 5)
    torch.testing.assert_close(packed[:8], padded[0, :4, :2].flatten(0, 1))
    torch.testing.assert_close(packed[8:], padded[1, :2, :4].flatten(0, 1))


def test_inputs_are_the_same_whatever_integers_and_precision() -> None:
    first = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, seed=7)
    second = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, seed=7, integers="int32", precision="float64")
    assert torch.equal(first.encoder.double(), second.encoder)
    assert torch.equal(first.targets, second.targets.long())
    assert second.targets.dtype == torch.int32
    for blank in range(5):
        targets = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, blank=blank).targets
        assert not (targets == blank).any()


def test_the_range_of_the_pruned_loss_is_an_option() -> None:
    if "k2-pruned" not in installed_losses("cpu"):
        pytest.skip("neither k2 nor fast_rnnt is installed")
    inputs = make_joiner_batch((40, 30), (20, 12), vocab=17, dim=16)
    exact, narrow, wide = (
        float(find_loss(name).pruned(inputs).detach().sum())
        if name != "k2"
        else float(find_loss(name).losses(inputs).detach().sum())
        for name in ("k2", "k2-pruned,range=3", "k2-pruned,range=10")
    )
    # What is left out of a sum of probabilities makes the loss larger, and less so the wider the range.
    assert narrow > wide > exact
    with pytest.raises(StopwavError, match="whole number from 2"):
        find_loss("k2-pruned,range=1")


@pytest.mark.parametrize("listed", [one for one in BUILT_IN if one.version is None], ids=lambda one: one.name)
def test_a_loss_that_is_missing_says_how_to_get_it(listed: object) -> None:
    with pytest.raises(MissingLoss) as error:
        find_loss(listed.name)  # type: ignore[attr-defined]
    assert listed.install in str(error.value)  # type: ignore[attr-defined]
    assert listed.install in check_name(listed.name)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torcha", "did you mean 'torch"),
        ("gone.py:f", "no file 'gone.py'"),
        ("torch,range=3", "takes no options"),
        ("torch,nonsense", "is not key=value"),
    ],
)
def test_a_name_that_is_none_is_an_error(name: str, told: str) -> None:
    with pytest.raises(StopwavError, match=told):
        find_loss(name)


OWN = """
def packed(logits, targets, frame_lengths, target_lengths, blank):
    assert logits.dim() == 2 and targets.dtype.is_signed and str(targets.dtype) == "torch.int32"
    assert abs(logits[0].detach().exp().sum().item() - 1) < 1e-5
    return -logits[:, blank]
"""


def test_a_loss_of_ones_own_is_fed_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    contender = find_loss(f"{tmp_path}/mine.py:packed,logits=packed,log_softmax=outside,integers=int32")
    inputs = make_joiner_batch((4, 2), (1, 3), vocab=5, dim=3, integers=contender.needs.integers)
    assert contender.losses(inputs).shape == (16,)
    with pytest.raises(StopwavError, match="give one of padded, packed"):
        find_loss(f"{tmp_path}/mine.py:packed,logits=round")
    with pytest.raises(StopwavError, match="no function"):
        find_loss(f"{tmp_path}/mine.py:other")
