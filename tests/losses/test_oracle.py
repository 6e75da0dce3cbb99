"""The oracle against numbers computed by hand and sums over paths one by one."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import brute_force, texts

from stopwav.losses import oracle_loss


def uniform(frames: int, labels: int, symbols: int) -> torch.Tensor:
    return torch.zeros(1, frames, labels + 1, symbols)


def test_one_frame_without_labels_is_one_blank() -> None:
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3])).view(1, 1, 1, 3)
    for blank, p in enumerate((0.2, 0.5, 0.3)):
        loss = oracle_loss(logits, torch.zeros(1, 0, dtype=torch.int64), [1], [0], blank)
        assert math.isclose(loss.item(), -math.log(p), rel_tol=1e-6)


def test_uniform_scores_count_the_paths() -> None:
    # 3 frames and 2 labels: the last arc is a blank, the labels are any 2 of the 4 arcs before it: 6 paths of 5 arcs.
    loss = oracle_loss(uniform(3, 2, 5), torch.tensor([[1, 4]]), [3], [2])
    assert math.isclose(loss.item(), -math.log(6 / 5**5), rel_tol=1e-12)


def test_two_frames_and_a_label_by_hand() -> None:
    # Probabilities of (blank, label) in cells (0, 0), (1, 0), (0, 1), (1, 1).
    p = torch.tensor([[[0.6, 0.4], [0.3, 0.7]], [[0.5, 0.5], [0.9, 0.1]]], dtype=torch.float64)
    loss = oracle_loss(p.log()[None], torch.tensor([[1]]), [2], [1])
    # Label in the first frame: 0.4 · 0.3 · 0.9; in the second: 0.6 · 0.5 · 0.9.
    assert math.isclose(loss.item(), -math.log(0.4 * 0.3 * 0.9 + 0.6 * 0.5 * 0.9), rel_tol=1e-12)


def test_padding_changes_nothing() -> None:
    logits = torch.randn(1, 3, 3, 4)
    padded = torch.full((1, 6, 5, 4), float("nan"))
    padded[:, :3, :3] = logits
    alone = oracle_loss(logits, torch.tensor([[1, 2]]), [3], [2])
    with_padding = oracle_loss(padded, torch.tensor([[1, 2, 9, 9]]), [3], [2])
    assert torch.equal(alone, with_padding)


def test_fastemit_changes_the_gradient_of_labels_alone() -> None:
    logits = torch.randn(1, 3, 2, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[2]])
    plain = oracle_loss(logits, targets, [3], [1])
    with_fastemit = oracle_loss(logits, targets, [3], [1], fastemit_lambda=0.5)
    assert torch.equal(plain, with_fastemit)
    (before,) = torch.autograd.grad(plain.sum(), logits)
    (after,) = torch.autograd.grad(with_fastemit.sum(), logits)
    # No label follows the only one.
    torch.testing.assert_close(before[:, :, 1], after[:, :, 1])
    assert (after[0, :, 0, 2] < before[0, :, 0, 2]).all()


@settings(max_examples=40, deadline=None)
@given(
    frames=st.integers(1, 4),
    labels=st.integers(0, 4),
    symbols=st.integers(2, 4),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    data=st.data(),
)
def test_the_oracle_sums_over_all_paths(
    frames: int, labels: int, symbols: int, seed: int, scale: float, data: st.DataObject
) -> None:
    blank = data.draw(st.integers(0, symbols - 1))
    random = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(1, frames, labels + 1, symbols, generator=random, dtype=torch.float64)
    targets = texts(random, 1, labels, symbols, blank)[0]
    loss = oracle_loss(logits, targets[None], [frames], [labels], blank)
    torch.testing.assert_close(loss[0], brute_force(logits[0], targets, frames, labels, blank), rtol=1e-10, atol=1e-10)
