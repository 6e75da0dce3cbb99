"""The hybrid families' joint search: its cost per emitted token over utterance length, and a batch against a loop.

    python benchmarks/joint_search.py [--device cpu|cuda] [--seconds 5,10,20,40] [--batch 16] [--beam 10]
                                      [--ctc-weight 0.3] [--repeats 5] [--threads N] [--families conformer-hybrid,…]

Prints two Markdown tables. Weights and encodings are random; texts have as many tokens as speech, and no search ends
early, so times are those of a trained decoder. Only the search is timed, not the encoder; lengths take turns within
each repeat, so that a drift of the machine affects all of them, and the median of the repeats is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from stopwav.engines.hybrid_recogniser import FAMILIES, Family
from stopwav.measure.machine import describe
from stopwav.models.checkpoint import disable_amx_in_vm
from stopwav.models.hybrid import Decoding, Hybrid, decode

# Both families make one encoder frame of four feature frames of 10 ms.
FRAMES_PER_S = 25
# The length of the utterances of the second table.
BATCH_SECONDS = 10


class Search:
    """The joint search of one family."""

    def __init__(self, family: Family, arguments: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self._device = torch.device(arguments.device)
        self._network = Hybrid(family.shape).eval().requires_grad_(False).to(self._device)
        self._decoding = Decoding(
            arguments.ctc_weight, arguments.beam, family.tokens_per_frame, family.tokens_per_frame
        )
        self._width = family.shape.width

    def encodings(self, utterances: int, seconds: float) -> Tensor:
        """Random encodings of utterances of one length."""
        return torch.randn(utterances, int(FRAMES_PER_S * seconds), self._width, device=self._device)

    def __call__(self, encodings: Tensor) -> list[list[int]]:
        """The texts."""
        lengths = torch.full((len(encodings),), encodings.shape[1], device=self._device)
        return decode(self._network, encodings, lengths, self._decoding)

    def seconds(self, call: Callable[[], object]) -> float:
        """How long a call takes, the device's work included."""
        self._synchronize()
        start = time.perf_counter()
        call()
        self._synchronize()
        return time.perf_counter() - start

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def over_length(family: Family, search: Search, lengths: list[float], repeats: int) -> None:
    """Print the cost of one utterance over its length."""
    inputs = {seconds: search.encodings(1, seconds) for seconds in lengths}
    tokens = {seconds: len(search(encodings)[0]) for seconds, encodings in inputs.items()}  # and a warm-up
    times_s: dict[float, list[float]] = {seconds: [] for seconds in lengths}
    for _ in range(repeats):
        for seconds, encodings in inputs.items():
            times_s[seconds].append(search.seconds(lambda encodings=encodings: search(encodings)))  # type: ignore[misc]
    first_s = None
    for seconds in lengths:
        total_s = statistics.median(times_s[seconds])
        per_token_s = total_s / tokens[seconds]
        first_s = first_s or per_token_s
        cells = f"{seconds:g} | {tokens[seconds]} | {1e3 * total_s:.1f} | {1e3 * per_token_s:.2f}"
        print(f"| {family.engine} | {cells} | {per_token_s / first_s:.2f}× | {seconds / lengths[0]:g}× |", flush=True)


def batch_against_loop(family: Family, search: Search, utterances: int, repeats: int) -> None:
    """Print the time of a batch at once, and of its utterances one after another."""
    encodings = search.encodings(utterances, BATCH_SECONDS)
    together = search(encodings)
    same = sum(search(encoding[None])[0] == text for encoding, text in zip(encodings, together, strict=True))
    at_once, looped = [], []
    for _ in range(repeats):
        at_once.append(search.seconds(lambda: search(encodings)))
        looped.append(search.seconds(lambda: [search(encoding[None]) for encoding in encodings]))
    batch_s, loop_s = statistics.median(at_once), statistics.median(looped)
    cells = f"{utterances} | {1e3 * loop_s:.0f} | {1e3 * batch_s:.0f} | {loop_s / batch_s:.1f}× | {same}"
    print(f"| {family.engine} | {cells} |", flush=True)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", default="5,10,20,40")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--ctc-weight", type=float, default=0.3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--families", default=",".join(family.engine for family in FAMILIES))
    return parser.parse_args()


@torch.inference_mode()
def main() -> None:
    """Measure and print."""
    arguments = options()
    if arguments.device == "cpu":
        disable_amx_in_vm()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    machine = describe()
    where = machine.gpus[0].name if arguments.device == "cuda" and machine.gpus else machine.cpu
    print(f"Beam {arguments.beam}, CTC weight {arguments.ctc_weight:g}, {where}, torch {torch.__version__}\n")
    families = [family for family in FAMILIES if family.engine in arguments.families.split(",")]
    searches = {family: Search(family, arguments) for family in families}
    lengths = [float(seconds) for seconds in arguments.seconds.split(",")]
    print("| joint search, one utterance | audio s | tokens | ms | ms per token | relative to the first | audio |")
    print("|---|---|---|---|---|---|---|")
    for family, search in searches.items():
        over_length(family, search, lengths, arguments.repeats)
    print(f"\n| utterances of {BATCH_SECONDS} s | number | one by one, ms | at once, ms | gain | same texts |")
    print("|---|---|---|---|---|---|")
    for family, search in searches.items():
        batch_against_loop(family, search, arguments.batch, arguments.repeats)


if __name__ == "__main__":
    main()
