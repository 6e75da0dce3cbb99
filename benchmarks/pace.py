"""Virtual time against real time: the same engine and audio, streamed each way in turn. Prints a Markdown table.

    python benchmarks/pace.py [ENGINE] [UTTERANCES] [ROUNDS]

In real time a stream takes as long as its audio. The paces take turns utterance by utterance, so that a drift of the
machine affects all of them.
"""

from __future__ import annotations

import sys

from stopwav.measure.clock import Pace
from stopwav.measure.machine import describe
from stopwav.speech.corpus import load_corpus
from stopwav.speech.events import Trace
from stopwav.speech.latency import reconstructed_lags
from stopwav.speech.stored_trace import trace_from_json
from stopwav.stats import nearest_rank
from stopwav.studies.latency.stream_runner import StreamRunner

PACES: tuple[Pace, ...] = ("virtual", "real", "idle")


def traces_by_pace(engine: str, utterances: int, rounds: int) -> dict[Pace, list[Trace]]:
    """Traces of the first utterances of the bundled corpus, streamed at each pace."""
    runner = StreamRunner(engine, None)
    chosen = load_corpus("bundled").utterances[:utterances]
    for utterance in chosen[:2]:
        runner.stream(utterance, "virtual")
    traces: dict[Pace, list[Trace]] = {pace: [] for pace in PACES}
    for turn, utterance in enumerate(chosen * rounds):
        for pace in PACES[:: 1 if turn % 2 == 0 else -1]:
            traces[pace].append(trace_from_json(runner.stream(utterance, pace)["trace"]))
    return traces


def main() -> None:
    """Print the table."""
    engine = sys.argv[1] if len(sys.argv) > 1 else "pocketsphinx"
    utterances, rounds = (int(text) for text in (*sys.argv[2:4], *("6", "3")[len(sys.argv[2:4]) :]))
    traces = traces_by_pace(engine, utterances, rounds)
    lags = {pace: [lag for trace in group for lag in trace.lag_s[:-1].tolist()] for pace, group in traces.items()}
    columns = {
        "real": lags["real"],
        "real, from its service times": [lag for trace in traces["real"] for lag in reconstructed_lags(trace)],
        "virtual": lags["virtual"],
        "idle": lags["idle"],
    }
    machine = describe()
    print(f"{engine}, {utterances} utterances, {rounds} rounds, {machine.cpu}, {machine.logical_cores} cores\n")
    print(f"| chunk latency, ms | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for p in (0.50, 0.95):
        cells = " | ".join(f"{nearest_rank(values, p) * 1e3:.2f}" for values in columns.values())
        print(f"| P{round(100 * p)} | {cells} |")


if __name__ == "__main__":
    main()
