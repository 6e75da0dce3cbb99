"""The loss on arc scores and its alignments, against sums over paths one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import path_score, paths

from stopwav.errors import StopwavError
from stopwav.losses import align, transducer_lattice_loss

TOPOLOGIES = ("standard", "one-symbol-per-frame")
by_topology = pytest.mark.parametrize("topology", TOPOLOGIES)


def scores(seed: int, batch: int, frames: int, labels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random arc scores, which are not normalised."""
    random = torch.Generator().manual_seed(seed)
    blank = torch.randn(batch, frames, labels + 1, generator=random, dtype=torch.float64)
    return blank, torch.randn(batch, frames, labels, generator=random, dtype=torch.float64)


@by_topology
@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
)
def test_loss_posteriors_and_best_path_are_those_of_all_paths(
    topology: str, lengths: list[tuple[int, int]], seed: int
) -> None:
    frames, labels = [list(column) for column in zip(*lengths, strict=True)]
    blank, label = scores(seed, len(lengths), max(frames), max(labels))
    losses = transducer_lattice_loss(blank, label, frames, labels, topology, "none")
    alignment = align(blank, label, frames, labels, topology)
    for n, (frame_count, label_count) in enumerate(lengths):
        all_paths = list(paths(frame_count, label_count, topology))
        if not all_paths:
            assert losses[n] == float("inf")
            assert (alignment.token_frames[n] == -1).all()
            assert not alignment.label_posteriors[n].any()
            continue
        path_scores = torch.stack([path_score(arcs, blank[n], label[n]) for arcs in all_paths])
        torch.testing.assert_close(losses[n], -path_scores.logsumexp(0))
        torch.testing.assert_close(alignment.scores[n], path_scores.logsumexp(0))
        torch.testing.assert_close(alignment.best_scores[n], path_scores.max())
        best = [t for t, _, emits in all_paths[int(path_scores.argmax())] if emits]
        assert alignment.token_frames[n].tolist() == best + [-1] * (max(labels) - label_count)
        weights = path_scores.softmax(0)
        posteriors = torch.zeros_like(blank[n]), torch.zeros_like(label[n])
        for arcs, weight in zip(all_paths, weights, strict=True):
            for t, u, emits in arcs:
                posteriors[emits][t, u] += weight
        torch.testing.assert_close(alignment.blank_posteriors[n], posteriors[0])
        torch.testing.assert_close(alignment.label_posteriors[n], posteriors[1])


@by_topology
def test_gradcheck(topology: str) -> None:
    blank, label = scores(1, 3, 4, 2)
    inputs = blank.requires_grad_(), label.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *x: transducer_lattice_loss(*x, [4, 3, 2], [2, 0, 2], topology, "none"), inputs
    )


def test_more_labels_than_frames_have_no_path_of_one_symbol_per_frame() -> None:
    blank, label = scores(0, 2, 3, 4)
    blank.requires_grad_()
    losses = transducer_lattice_loss(blank, label, [3, 3], [4, 2], "one-symbol-per-frame", "none")
    assert losses[0] == float("inf")
    assert losses[1].isfinite()
    losses.sum().backward()
    assert blank.grad is not None
    assert not blank.grad[0].any()
    assert blank.grad[1].any()


def test_fastemit_weighs_the_gradient_of_labels() -> None:
    blank, label = (tensor.requires_grad_() for tensor in scores(2, 1, 4, 3))
    before = torch.autograd.grad(transducer_lattice_loss(blank, label, [4], [3]), (blank, label))
    after = torch.autograd.grad(transducer_lattice_loss(blank, label, [4], [3], fastemit_lambda=0.25), (blank, label))
    torch.testing.assert_close(after[0], before[0])
    torch.testing.assert_close(after[1], 1.25 * before[1])


def test_every_frame_has_one_blank_and_every_label_one_frame() -> None:
    blank, label = scores(3, 2, 40, 12)
    alignment = align(blank, label, [40, 25], [12, 5])
    torch.testing.assert_close(alignment.blank_posteriors[0].sum(1), torch.ones(40, dtype=torch.float64))
    torch.testing.assert_close(alignment.label_posteriors[1, :, :5].sum(0), torch.ones(5, dtype=torch.float64))
    assert not alignment.blank_posteriors[1, 25:].any()


def test_a_certain_alignment_and_its_times() -> None:
    # Labels in frames 1, 1 and 4, and blanks everywhere else.
    blank, label = torch.full((1, 6, 4), -1.0), torch.full((1, 6, 3), -50.0)
    for u, t in enumerate((1, 1, 4)):
        label[0, t, u] = 0.0
    alignment = align(blank, label, [6], [3])
    assert alignment.token_frames.tolist() == [[1, 1, 4]]
    assert alignment.token_times_s(0.04) == [[0.04, 0.04, 0.16]]
    torch.testing.assert_close(alignment.expected_frames, torch.tensor([[1.0, 1.0, 4.0]], dtype=torch.float64))


@by_topology
@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_agree_with_the_recursion(topology: str, dtype: torch.dtype) -> None:
    pytest.importorskip("triton")
    from stopwav.losses.lattice_kernels import lattice_posteriors
    from stopwav.losses.lengths import checked_lengths
    from stopwav.losses.recursion import posteriors

    blank, label = (tensor.to(dtype) for tensor in scores(5, 4, 9, 4))
    label = torch.nn.functional.pad(label, (0, 1))
    lengths = checked_lengths([9, 1, 5, 2], [4, 1, 0, 3], 4, 9, 4, blank.device)
    truth, result = (function(blank, label, lengths, topology) for function in (posteriors, lattice_posteriors))
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(result.total, truth.total, **tolerance)
    torch.testing.assert_close(result.blank, truth.blank.to(dtype), **tolerance)
    torch.testing.assert_close(result.label, truth.label.to(dtype), **tolerance)


@by_topology
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_gpu_and_cpu_agree(topology: str) -> None:
    blank, label = scores(5, 4, 200, 60)
    lengths = [200, 1, 90, 70], [60, 1, 0, 60]
    host, device = (align(blank.to(name), label.to(name), *lengths, topology) for name in ("cpu", "cuda"))
    for name in ("scores", "best_scores", "token_frames", "expected_frames", "blank_posteriors", "label_posteriors"):
        torch.testing.assert_close(getattr(device, name).cpu(), getattr(host, name), rtol=1e-9, atol=1e-9)


def test_half_precision_scores_are_summed_in_float64() -> None:
    blank, label = scores(4, 1, 300, 60)
    blank, label = (tensor.to(torch.bfloat16) for tensor in (blank, label))
    truth = transducer_lattice_loss(blank.double(), label.double(), [300], [60])
    loss = transducer_lattice_loss(blank, label, [300], [60])
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), truth, rtol=1e-7, atol=0)


def test_invalid_arguments_are_refused() -> None:
    blank, label = scores(0, 1, 3, 2)
    with pytest.raises(StopwavError, match=r"shapes \(1, 3, 3\) and \(1, 3, 3\); give \(N, T, U \+ 1\)"):
        transducer_lattice_loss(blank, blank, [3], [2])
    with pytest.raises(StopwavError, match="topology 'ctc'; give one of standard, one-symbol-per-frame"):
        transducer_lattice_loss(blank, label, [3], [2], "ctc")  # type: ignore[arg-type]
