"""Virtual time against real time: the same engine and audio, fed each way in turn. Prints a Markdown table.

    python benchmarks/pace.py [ENGINE] [UTTERANCES] [ROUNDS]

Paced by the clock a stream takes as long as its audio. The paces take turns utterance by utterance, so that a drift of
the machine touches all alike.
"""

from __future__ import annotations

import sys

from stopwav.measure.machine import describe
from stopwav.measure.pacer import Pace
from stopwav.speech.corpus import load_corpus
from stopwav.speech.events import trace_from_json
from stopwav.stats import nearest_rank
from stopwav.studies.streaming import StreamRunner

PACES: tuple[Pace, ...] = ("virtual", "real", "idle")


def chunk_lags(engine: str, utterances: int, rounds: int, paces: tuple[Pace, ...] = PACES) -> dict[Pace, list[float]]:
    """Chunk lags in seconds by pace, over the first utterances of the bundled corpus."""
    runner = StreamRunner(engine, None)
    chosen = load_corpus("bundled").utterances[:utterances]
    for utterance in chosen[:2]:
        runner.stream(utterance, "virtual")
    found: dict[Pace, list[float]] = {pace: [] for pace in paces}
    for turn, utterance in enumerate(chosen * rounds):
        for pace in paces[:: 1 if turn % 2 == 0 else -1]:
            trace = trace_from_json(runner.stream(utterance, pace)["trace"])
            found[pace] += [chunk.lag_s for chunk in trace.chunks[:-1]]
    return found


def main() -> None:
    """Print the table."""
    engine = sys.argv[1] if len(sys.argv) > 1 else "pocketsphinx"
    utterances, rounds = (int(text) for text in (*sys.argv[2:4], *("6", "3")[len(sys.argv[2:4]) :]))
    found = chunk_lags(engine, utterances, rounds)
    machine = describe()
    print(f"{engine}, {utterances} utterances, {rounds} rounds, {machine.cpu}, {machine.logical_cores} cores\n")
    print("| chunk lag, ms | virtual | real, core awake | difference | idle, core asleep in between |")
    print("|---|---|---|---|---|")
    for p in (0.50, 0.95):
        virtual, real, idle = (nearest_rank(found[pace], p) * 1e3 for pace in PACES)
        difference = f"{real - virtual:+.2f} ms, {real / virtual - 1:+.1%}"
        print(f"| P{round(100 * p)} | {virtual:.2f} | {real:.2f} | {difference} | {idle:.2f} |")


if __name__ == "__main__":
    main()
