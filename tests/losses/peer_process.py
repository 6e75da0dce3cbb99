"""A loss in a process of its own: what a package of others does when it is imported stays there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stopwav.measure.process import FreshProcess

# Importing a toolkit, and compiling kernels at the first call, takes a minute on a slow machine.
LIMIT_S = 300.0


class Peer:
    """Inside the process: the loss, imported once. Its methods return plain values."""

    def __init__(self, name: str) -> None:
        import torch

        from stopwav.losses.registry import find_loss
        from stopwav.models.checkpoint import disable_amx_in_vm

        disable_amx_in_vm()
        torch.set_num_threads(1)
        self._loss = find_loss(name)

    def total_and_gradients(
        self, frames: tuple[int, ...], tokens: tuple[int, ...], options: dict[str, Any]
    ) -> tuple[float, list[Any]]:
        """Return the sum of the losses of a batch, and the gradients of what goes into the joiner."""
        from stopwav.losses.joiner_batch import make_joiner_batch

        options = {"vocab": 11, "dim": 8, "integers": self._loss.needs.integers, **options}
        batch = make_joiner_batch(frames, tokens, **options)
        total = (self._loss.unpruned or self._loss.losses)(batch).sum()
        total.backward()
        return float(total.detach()), [leaf.grad.double().cpu().numpy() for leaf in batch.leaves.values()]

    def losses(self, frames: tuple[int, ...], tokens: tuple[int, ...], pruned: bool) -> float:
        """Return the sum of the losses of a batch of 17 symbols, or of their pruned part."""
        from stopwav.losses.joiner_batch import make_joiner_batch

        batch = make_joiner_batch(frames, tokens, vocab=17, dim=16)
        function: Any = self._loss.pruned if pruned else self._loss.losses
        return float(function(batch).detach().sum())


@contextmanager
def peer(name: str) -> Iterator[FreshProcess]:
    """A process with a loss in it."""
    with FreshProcess(Peer, name) as process:
        started = process.start(LIMIT_S)
        assert started.ok, started.message
        yield process


def ask(process: FreshProcess, method: str, *arguments: object) -> Any:
    """Return what a method of the loss in a process returns."""
    outcome = process.call(method, *arguments, time_limit_s=LIMIT_S)
    assert outcome.ok, outcome.message
    return outcome.value
