"""Virtual time against real time: the same engine and audio, fed each way in turn. Prints a Markdown table.

    python benchmarks/pace.py [ENGINE] [LIMIT] [ROUNDS]

Paced by the clock a round takes as long as the audio lasts. The paces take turns round by round, so that a drift of the
machine touches all alike.
"""

from __future__ import annotations

import sys
import tempfile

import stopwav
from stopwav.measure.machine import describe
from stopwav.measure.pacer import Pace
from stopwav.speech.events import trace_from_json
from stopwav.stats import nearest_rank

PERCENTILES = (0.50, 0.95)


def lags(engine: str, pace: Pace, limit: int, seed: int) -> list[float]:
    """Chunk lags of one round, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        record = stopwav.latency([engine], pace=pace, limit=limit, rounds=1, save=folder, seed=seed)
    traces = [trace_from_json(p.data["trace"]) for p in record.pieces if p.key[0] == "stream" and p.status == "ok"]
    return [chunk.lag_s for trace in traces for chunk in trace.chunks[:-1]]


def main() -> None:
    """Print the table."""
    engine = sys.argv[1] if len(sys.argv) > 1 else "pocketsphinx"
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    found: dict[Pace, list[float]] = {"virtual": [], "real": [], "idle": []}
    for index in range(rounds):
        for pace in list(found)[:: 1 if index % 2 == 0 else -1]:
            found[pace] += lags(engine, pace, limit, seed=0)
    machine = describe()
    print(f"{engine}, {limit} utterances, {rounds} rounds, {machine.cpu}, {machine.logical_cores} cores\n")
    print("| chunk lag, ms | virtual | real, core awake | difference | idle, core asleep in between |")
    print("|---|---|---|---|---|")
    for p in PERCENTILES:
        virtual, real, idle = (nearest_rank(found[pace], p) * 1e3 for pace in found)
        difference = f"{real - virtual:+.2f} ms, {real / virtual - 1:+.1%}"
        print(f"| P{round(100 * p)} | {virtual:.2f} | {real:.2f} | {difference} | {idle:.2f} |")


if __name__ == "__main__":
    main()
