"""The loss in plain PyTorch: exact for logits of every shape, type and magnitude."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import brute_force, texts

from stopwav.errors import StopwavError
from stopwav.losses import oracle_loss, plain_loss

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
# The rounding of a gradient in each type, where scores add up to a hundred thousand.
ROUNDING = {"float64": 1e-9, "float32": 1e-6, "bfloat16": 8e-3}


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3),
    symbols=st.integers(2, 4),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
    data=st.data(),
)
def test_it_sums_over_all_paths(
    lengths: list[tuple[int, int]], symbols: int, seed: int, scale: float, data: st.DataObject
) -> None:
    blank = data.draw(st.integers(0, symbols - 1))
    frames, labels = [list(column) for column in zip(*lengths, strict=True)]
    random = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(
        len(lengths), max(frames), max(labels) + 1, symbols, generator=random, dtype=torch.float64
    )
    targets = texts(random, len(lengths), max(labels), symbols, blank)
    losses = plain_loss(logits, targets, frames, labels, blank)
    for n, (frame_count, label_count) in enumerate(lengths):
        cells = logits[n, :frame_count, : label_count + 1]
        truth = brute_force(cells, targets[n], frame_count, label_count, blank)
        torch.testing.assert_close(losses[n], truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("blank", [0, 2, 5])
def test_value_and_gradient_are_the_oracles(kind: str, scale: float, blank: int) -> None:
    torch.manual_seed(blank)
    # One frame, no labels, very different lengths: all in one batch.
    frames, labels = [23, 1, 1, 9, 2], [9, 9, 0, 0, 7]
    signs = torch.randn(5, 23, 10, 6).sign() if scale > 1 else torch.randn(5, 23, 10, 6)
    logits = (scale * signs).to(DTYPES[kind]).requires_grad_()
    targets = torch.randint(5, (5, 9))
    targets += targets >= blank
    weights = torch.rand(5, dtype=torch.float64) + 0.5
    truth = oracle_loss(logits, targets, frames, labels, blank)
    (true_gradient,) = torch.autograd.grad((truth * weights).sum(), logits)
    losses = plain_loss(logits, targets, frames, labels, blank)
    (gradient,) = torch.autograd.grad((losses * weights).sum(), logits)
    tolerance = 1e-12 if kind == "float64" else 1e-7
    torch.testing.assert_close(losses.double(), truth, rtol=tolerance, atol=tolerance)
    assert gradient.dtype == logits.dtype
    torch.testing.assert_close(gradient.double(), true_gradient.double(), rtol=ROUNDING[kind], atol=ROUNDING[kind])


def test_gradcheck() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 4, 3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 2], [4, 3], [1, 1]])
    assert torch.autograd.gradcheck(lambda x: plain_loss(x, targets, [4, 1, 3], [2, 2, 0], 0), (logits,))


def test_fastemit_is_the_oracles() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 5, 4, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 2, 3], [5, 1, 0]])
    grads = []
    for loss in (plain_loss, oracle_loss):
        value = loss(logits, targets, [5, 3], [3, 2], 4, fastemit_lambda=0.3)
        grads.append(torch.autograd.grad(value.sum(), logits)[0])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-12, atol=1e-12)


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 3, 5)
    logits[1, 2:], logits[1, :, 2:] = float("nan"), float("inf")
    logits.requires_grad_()
    losses = plain_loss(logits, torch.tensor([[1, 2], [3, -1]]), [4, 2], [2, 1])
    losses.sum().backward()
    assert losses.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[1, 2:].any()


def test_a_nan_inside_shows() -> None:
    logits = torch.randn(2, 4, 3, 5)
    logits[0, 1, 1, 3] = float("nan")
    losses = plain_loss(logits, torch.tensor([[1, 2], [3, 4]]), [4, 4], [2, 2])
    assert losses.isnan().tolist() == [True, False]


def test_a_symbol_that_is_impossible_leaves_the_other_paths() -> None:
    logits = torch.zeros(1, 3, 2, 3)
    # No label in the first frame: two of the three paths are left.
    logits[0, 0, 0, 1] = float("-inf")
    loss = plain_loss(logits, torch.tensor([[1]]), [3], [1])
    blank_first = torch.tensor(1 / 2 * (1 / 3) ** 3 * 2)
    torch.testing.assert_close(loss[0], -blank_first.log())


def test_reductions() -> None:
    logits = torch.randn(3, 4, 2, 5)
    each = plain_loss(logits, torch.ones(3, 1, dtype=torch.int64), [4, 3, 2], [1, 0, 1])
    for reduction, value in (("sum", each.sum()), ("mean", each.mean())):
        assert plain_loss(logits, torch.ones(3, 1, dtype=torch.int64), [4, 3, 2], [1, 0, 1], 0, reduction) == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": torch.zeros(2, 4, 3)}, r"\(2, 4, 3\) and \(2, 2\); give \(N, T, U \+ 1, V\)"),
        ({"targets": torch.ones(2, 3, dtype=torch.int64)}, r"give \(N, T, U \+ 1, V\) and \(N, U\)"),
        ({"targets": torch.ones(2, 2)}, "torch.float32; give integers"),
        ({"targets": torch.tensor([[1, 2], [0, 1]])}, "utterance 1 has the label 0.*not the blank 0"),
        ({"targets": torch.tensor([[1, 7], [1, 1]])}, "utterance 0 has the label 7; give one from 0 to 4"),
        ({"frame_lengths": [4, 0]}, "utterance 1 has 0 frames; the batch has room for 1 to 4"),
        ({"frame_lengths": [5, 4]}, "utterance 0 has 5 frames"),
        ({"target_lengths": [2, 3]}, "utterance 1 has 3 labels; the batch has room for 0 to 2"),
        ({"frame_lengths": [4]}, "give 2 integers"),
        ({"blank": 5}, "blank 5 is not one of the 5 symbols"),
        ({"reduction": "average"}, "reduction 'average'; give one of none, sum, mean"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(change: dict, message: str) -> None:
    arguments = {
        "logits": torch.zeros(2, 4, 3, 5),
        "targets": torch.ones(2, 2, dtype=torch.int64),
        "frame_lengths": [4, 4],
        "target_lengths": [2, 2],
    }
    with pytest.raises(StopwavError, match=message) as caught:
        plain_loss(**{**arguments, **change})
    assert "\n" not in str(caught.value)
