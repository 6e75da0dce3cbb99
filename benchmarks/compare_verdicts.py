"""Whether `stopwav compare` finds a slower copy of Moonshine, and finds nothing between Moonshine and itself.

    python benchmarks/compare_verdicts.py --budget 5min --runs 10

Each run is a comparison of its own, over the lengths and inputs of the default command. The slower copy is busy for a
tenth of what each call took. Printed are the verdict on latency over all inputs, its ratio with the interval, the
rounds and seconds of the run, the standard deviation of the paired log ratio of a round, and the ratios at the lengths.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import stopwav
from stopwav.stats.change import Change
from stopwav.studies.budget import parse_time
from stopwav.studies.compare.run_data import read_run
from stopwav.studies.compare.samples import Sample

SLOWER = f"{Path(__file__).parent / 'slower_moonshine.py'}:SlowerMoonshine"


def main() -> None:
    """Run the comparisons and print a row for each, then how many had each verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=parse_time, default=300.0, metavar="TIME")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--delay", type=float, default=0.1, help="of the slower copy, as a share of a call")
    parser.add_argument("--only", choices=("slower", "same"))
    options = parser.parse_args()
    pairs = {"slower": ["moonshine", f"{SLOWER},delay={options.delay:g}"], "same": ["moonshine", "moonshine"]}
    print("| engines | run | verdict | ratio | rounds | s | sd of a round | at the lengths |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, engines in pairs.items():
        if options.only in (None, kind):
            verdicts = [_run(kind, number, engines, options.budget) for number in range(1, options.runs + 1)]
            counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
            print(f"\n{kind}: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}\n", flush=True)


def _run(kind: str, number: int, engines: Sequence[str], budget_s: float) -> str:
    """Print the row of one comparison, and return its verdict on latency."""
    with tempfile.TemporaryDirectory() as folder:
        begin_s = time.monotonic()
        record = stopwav.compare(engines, budget_s=budget_s, seed=number, save=Path(folder))
        seconds = time.monotonic() - begin_s
        card, data = stopwav.card(record), read_run(record)
        (latency,) = (pair.change for pair in card.verdicts if pair.change.metric == "latency_mean")
        means = [_round_means(engine.samples) for engine in data.engines]
    logs = [math.log(means[1][index] / means[0][index]) for index in means[0].keys() & means[1].keys()]
    spread = f"{100 * statistics.stdev(logs):.1f} %" if len(logs) > 1 else "–"
    lengths = ", ".join(f"{pair.frames} {_text(pair.change)}" for pair in card.by_length)
    cells = (kind, number, latency.verdict, _text(latency), latency.n, f"{seconds:.0f}", spread, lengths)
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return latency.verdict


def _round_means(samples: Sequence[Sample]) -> dict[int, float]:
    """The mean seconds of an input in each round."""
    by_round: dict[int, list[float]] = {}
    for sample in samples:
        by_round.setdefault(sample.round, []).append(sample.seconds)
    return {index: statistics.fmean(seconds) for index, seconds in by_round.items()}


def _text(change: Change) -> str:
    if change.value is None:
        return "–"
    interval = "" if change.low is None or change.high is None else f" [{change.low:.3f}–{change.high:.3f}]"
    return f"{change.value:.3f}{interval}"


if __name__ == "__main__":
    main()
