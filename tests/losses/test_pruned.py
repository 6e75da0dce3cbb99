"""The simple and the pruned loss against their definitions, path by path."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.losses.oracle import oracle_loss
from stopwav.losses.pruned import kept_positions, kept_predictions, prune_starts, pruned_loss, simple_loss


def draw(seed: int, frames: list[int], labels: list[int], symbols: int = 5) -> tuple[torch.Tensor, ...]:
    """Encoder scores, predictor scores and targets of a batch."""
    random = torch.Generator().manual_seed(seed)
    encodings = torch.randn(len(frames), max(frames), symbols, generator=random, dtype=torch.float64)
    predictions = torch.randn(len(frames), max(labels) + 1, symbols, generator=random, dtype=torch.float64)
    targets = torch.randint(1, symbols, (len(frames), max(labels)), generator=random)
    return encodings, predictions, targets


def summed_paths(blank: torch.Tensor, label: torch.Tensor, frames: int, labels: int, kept: object = None) -> float:
    """log of the summed probability of all paths, one by one; with `kept`, of those that visit only kept cells."""
    total = []
    for emits in itertools.combinations(range(frames - 1 + labels), labels):
        t = u = 0
        score, inside = 0.0, True
        for step in range(frames - 1 + labels):
            inside &= kept is None or (t, u) in kept  # type: ignore[operator]
            if step in emits:
                score, u = score + float(label[t, u]), u + 1
            else:
                score, t = score + float(blank[t, u]), t + 1
        inside &= kept is None or (t, u) in kept  # type: ignore[operator]
        if inside:
            total.append(score + float(blank[t, u]))
    return math.log(sum(map(math.exp, total))) if total else -math.inf


shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3)


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(0, 1000), st.sampled_from([(0.0, 0.0), (0.25, 0.0), (0.25, 0.125), (0.0, 0.5)]))
def test_the_simple_loss_is_the_sum_over_all_paths_of_its_definition(
    pairs: list[tuple[int, int]], seed: int, scales: tuple[float, float]
) -> None:
    frames, labels = [t for t, _ in pairs], [u for _, u in pairs]
    encodings, predictions, targets = draw(seed, frames, labels)
    simple = simple_loss(encodings, predictions, targets, frames, labels, 0, *scales)
    real = torch.cat([predictions[n, : u + 1].softmax(dim=1) for n, u in enumerate(labels)])
    unigram = real.mean(dim=0).log()
    for n, (t, u) in enumerate(pairs):
        joint = (encodings[n, :, None] + predictions[n, None]).log_softmax(dim=2)
        scores = (1 - sum(scales)) * joint
        scores = scores + scales[0] * predictions[n, None].log_softmax(dim=2)
        scores = scores + scales[1] * (encodings[n, :, None] + unigram).log_softmax(dim=2)
        label = torch.stack(
            [scores[:, k, symbol] for k, symbol in enumerate(targets[n].tolist())] or [scores[:, 0, 0]], 1
        )
        expected = summed_paths(scores[:, :, 0], label, t, u)
        assert float(simple.losses[n]) == pytest.approx(-expected, rel=1e-9, abs=1e-9)


def test_the_posteriors_count_every_frame_once_and_every_label_once() -> None:
    encodings, predictions, targets = draw(1, [6, 4], [3, 2])
    simple = simple_loss(encodings, predictions, targets, [6, 4], [3, 2])
    for n, (frames, labels) in enumerate([(6, 3), (4, 2)]):
        assert simple.blank_posteriors[n, :frames].sum(dim=1).tolist() == pytest.approx([1] * frames)
        assert simple.label_posteriors[n, :, :labels].sum(dim=0).tolist() == pytest.approx([1] * labels)
    assert not simple.blank_posteriors[1, 4:].any()
    assert not simple.blank_posteriors.requires_grad


def test_the_gradient_of_the_simple_loss() -> None:
    encodings, predictions, targets = draw(2, [4, 3], [2, 1])

    def losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return simple_loss(x, y, targets, [4, 3], [2, 1], 0, 0.25, 0.1).losses

    assert torch.autograd.gradcheck(losses, (encodings.requires_grad_(), predictions.requires_grad_()))


def test_the_simple_loss_works_without_gradients() -> None:
    encodings, predictions, targets = draw(3, [4], [2])
    with torch.no_grad():
        without = simple_loss(encodings, predictions, targets, [4], [2])
    with_gradient = simple_loss(encodings.requires_grad_(), predictions, targets, [4], [2])
    assert not without.losses.requires_grad
    assert torch.equal(without.losses, with_gradient.losses)
    assert torch.equal(without.blank_posteriors, with_gradient.blank_posteriors)
    assert torch.equal(without.label_posteriors, with_gradient.label_posteriors)


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(0, 1000), st.integers(2, 5))
def test_ranges_let_a_path_through_if_one_fits(pairs: list[tuple[int, int]], seed: int, width: int) -> None:
    frames, labels = [t for t, _ in pairs], [u for _, u in pairs]
    random = torch.Generator().manual_seed(seed)
    blank, label = (torch.rand(len(pairs), max(frames), max(labels) + extra, generator=random) for extra in (1, 0))
    width = min(width, max(labels) + 1)
    starts = prune_starts(blank, label, frames, labels, width)
    for n, (t, u) in enumerate(pairs):
        row = starts[n, :t].tolist()
        assert row[0] == 0
        assert all(0 <= after - before <= width - 1 for before, after in itertools.pairwise(row))
        assert max(row) + width <= max(labels) + 1
        if u <= t * (width - 1):
            assert row[-1] <= u < row[-1] + width


def test_a_range_follows_where_the_paths_go() -> None:
    # Five frames, six labels; the path emits two labels in each of the frames 1, 2 and 3.
    blank, label = torch.zeros(1, 5, 7), torch.zeros(1, 5, 6)
    for t, u in [(0, 0), (1, 2), (2, 4), (3, 6), (4, 6)]:
        blank[0, t, u] = 1
    for t, u in [(1, 0), (1, 1), (2, 2), (2, 3), (3, 4), (3, 5)]:
        label[0, t, u] = 1
    assert prune_starts(blank, label, [5], [6], 3).tolist() == [[0, 0, 2, 4, 4]]


def pruned(
    encodings: torch.Tensor, predictions: torch.Tensor, targets: torch.Tensor, lengths: tuple[list[int], list[int]],
    width: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The pruned loss of a batch whose joiner is a sum, and the positions that were kept."""
    simple = simple_loss(encodings, predictions, targets, *lengths)
    starts = prune_starts(simple.blank_posteriors, simple.label_posteriors, *lengths, width)
    positions = kept_positions(starts, min(width, predictions.shape[1]))
    logits = encodings[:, :, None] + kept_predictions(predictions, positions)
    return pruned_loss(logits, positions, targets, *lengths, reduction="none"), positions


@settings(deadline=None, max_examples=40)
@given(shapes, st.integers(0, 1000), st.integers(2, 4))
def test_the_pruned_loss_is_the_sum_over_the_paths_that_are_left(
    pairs: list[tuple[int, int]], seed: int, width: int
) -> None:
    frames, labels = [t for t, _ in pairs], [u for _, u in pairs]
    encodings, predictions, targets = draw(seed, frames, labels)
    losses, positions = pruned(encodings, predictions, targets, (frames, labels), width)
    for n, (t, u) in enumerate(pairs):
        kept = {(time, position) for time in range(t) for position in positions[n, time].tolist()}
        scores = (encodings[n, :, None] + predictions[n, None]).log_softmax(dim=2)
        label = torch.stack(
            [scores[:, k, symbol] for k, symbol in enumerate(targets[n].tolist())] or [scores[:, 0, 0]], 1
        )
        expected = -summed_paths(scores[:, :, 0], label, t, u, kept)
        assert float(losses[n]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(shapes, st.integers(0, 1000))
def test_at_full_width_the_pruned_loss_is_the_exact_one_gradient_included(
    pairs: list[tuple[int, int]], seed: int
) -> None:
    frames, labels = [t for t, _ in pairs], [u for _, u in pairs]
    encodings, predictions, targets = draw(seed, frames, labels)
    encodings.requires_grad_()
    losses, _ = pruned(encodings, predictions, targets, (frames, labels), max(labels) + 1)
    exact = oracle_loss(encodings[:, :, None] + predictions[:, None], targets, frames, labels)
    torch.testing.assert_close(losses, exact, rtol=1e-9, atol=1e-9)
    (gradient,) = torch.autograd.grad(losses.sum(), encodings, retain_graph=True)
    (exact_gradient,) = torch.autograd.grad(exact.sum(), encodings)
    torch.testing.assert_close(gradient, exact_gradient, rtol=1e-8, atol=1e-9)


def test_more_labels_than_the_ranges_can_hold_leave_no_path() -> None:
    encodings, predictions, targets = draw(4, [2], [4])
    losses, _ = pruned(encodings.requires_grad_(), predictions, targets, ([2], [4]), 2)
    assert losses.isinf().all()
    (gradient,) = torch.autograd.grad(losses.sum(), encodings)
    assert gradient.isfinite().all()


def test_wrong_shapes_and_scales_are_named() -> None:
    encodings, predictions, targets = draw(5, [3], [2])
    with pytest.raises(StopwavError, match=r"\(1, 3, 5\), \(1, 2, 5\)"):
        simple_loss(encodings, predictions[:, :2], targets, [3], [2])
    with pytest.raises(StopwavError, match="sum of at most 1"):
        simple_loss(encodings, predictions, targets, [3], [2], 0, 0.7, 0.7)
    with pytest.raises(StopwavError, match="at least 2"):
        prune_starts(torch.rand(1, 3, 3), torch.rand(1, 3, 2), [3], [2], 1)
    with pytest.raises(StopwavError, match="logits and positions"):
        pruned_loss(encodings[:, :, None], torch.zeros(1, 3, 2, dtype=torch.int64), targets, [3], [2])


# For the encoder's part, fast_rnnt includes padding in its mean over all positions; ours does not.
@pytest.mark.parametrize(
    ("scales", "frames", "labels"),
    [
        ((0.0, 0.0), [30, 22, 17], [9, 7, 4]),
        ((0.25, 0.0), [30, 22, 17], [9, 7, 4]),
        ((0.2, 0.3), [30, 30, 30], [9, 9, 9]),
    ],
)
def test_fast_rnnt_agrees(scales: tuple[float, float], frames: list[int], labels: list[int]) -> None:
    fast_rnnt = pytest.importorskip("fast_rnnt", exc_type=ImportError)
    encodings, predictions, targets = draw(6, frames, labels, symbols=20)
    boundary = torch.tensor([[0, 0, u, t] for t, u in zip(frames, labels, strict=True)])
    theirs, (label_grad, blank_grad) = fast_rnnt.rnnt_loss_smoothed(
        predictions, encodings, targets, 0, *scales, boundary=boundary, reduction="none", return_grad=True
    )
    ours = simple_loss(encodings, predictions, targets, frames, labels, 0, *scales)
    torch.testing.assert_close(ours.losses, theirs, rtol=1e-9, atol=1e-9)
    ranges = fast_rnnt.get_rnnt_prune_ranges(label_grad, blank_grad, boundary, 4)
    positions = kept_positions(prune_starts(ours.blank_posteriors, ours.label_posteriors, frames, labels, 4), 4)
    assert torch.equal(positions, ranges)
    logits = encodings[:, :, None] + kept_predictions(predictions, positions)
    reference = fast_rnnt.rnnt_loss_pruned(logits, targets, ranges, 0, boundary=boundary, reduction="none")
    losses = pruned_loss(logits, positions, targets, frames, labels, reduction="none")
    torch.testing.assert_close(losses, reference, rtol=1e-9, atol=1e-9)
