"""An engine in a process and behind `stopwav serve` on loopback, by the clock, in turn: do word latencies agree?

    python benchmarks/served_engines.py pocketsphinx moonshine --utterances 12 --rounds 2

They must agree at P50 and P95 within the network's part and 10 ms, unless rounds of the same engine differ by more.
With `--pace idle` the core may sleep between chunks in the process too, as that of a server does. The engine's own
calls are timed both times: an engine that fills the machine computes longer where server and client need a core as
well, which is no delay of the protocol.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import stopwav
from stopwav.stats import nearest_rank
from stopwav.studies.latency.stream_table import stream_tables

TOLERANCE_MS = 10.0
POINTS = {"P50": 0.50, "P95": 0.95}
TIMED = Path(__file__).with_name("timed_engine.py")


def measure(engine: str, utterances: int, rounds: int, pace: str, folder: Path, logs: list[Path]) -> stopwav.Record:
    inside, behind = (f"{TIMED}:TimedEngine,engine={engine},log={log}" for log in logs)
    with stopwav.BackgroundServer(behind) as server:
        engines = [inside, f"vosk-server:{server.url()}"]
        return stopwav.latency(engines, limit=utterances, rounds=rounds, pace=pace, save=folder)


def milliseconds(result: stopwav.Result, metric: str) -> float:
    value = result.metrics[metric].value
    assert value is not None, metric
    return 1e3 * value


def largest_difference_ms(record: stopwav.Record, name: str, p: float) -> float:
    """How much two rounds of the same engine differ at a percentile of word latency, at most."""
    table = stream_tables(record)[name]
    of_rounds = [table.words.shown & (table.round[table.words.stream] == index) for index in np.unique(table.round)]
    values_s = [nearest_rank(table.words.latency_s[chosen], p) for chosen in of_rounds]
    return 1e3 * (max(values_s) - min(values_s))


def call_ms(log: Path, p: float) -> float:
    """How long the engine's own calls took that gave a text, at a percentile."""
    return 1e3 * nearest_rank(np.loadtxt(log), p)


def rows(engine: str, record: stopwav.Record, logs: list[Path]) -> list[str]:
    inside, served = stopwav.results(record)
    network_ms = milliseconds(served, "waterfall_network")
    lines = []
    for point, p in POINTS.items():
        first, second = (milliseconds(result, f"word_latency_{point.lower()}") for result in (inside, served))
        differences = [largest_difference_ms(record, result.name, p) for result in (inside, served)]
        agrees = abs(second - first) <= network_ms + TOLERANCE_MS
        cells = f"{first:.1f} | {second:.1f} | {second - first:+.1f} | {network_ms:.2f} | {'yes' if agrees else 'no'}"
        calls = " | ".join(f"{call_ms(log, p):.1f}" for log in logs)
        lines.append(f"| {engine} | {point} | {cells} | {differences[0]:.1f} | {differences[1]:.1f} | {calls} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=["pocketsphinx", "moonshine"])
    parser.add_argument("--utterances", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--pace", choices=["real", "idle"], default="real")
    parser.add_argument("--save", type=Path, help="Folder for the run files; default: they are not kept.")
    arguments = parser.parse_args()
    print("| engine | | in a process, ms | served, ms | difference | network | within network + 10 ms | "
          "between rounds in a process | served | engine's own calls, in a process | served |")  # fmt: skip
    print("|" + "---|" * 11)
    for name in arguments.engines:
        with tempfile.TemporaryDirectory() as folder:
            kept = arguments.save or Path(folder)
            logs = [Path(folder) / f"{way}.txt" for way in ("inside", "served")]
            run = measure(name, arguments.utterances, arguments.rounds, arguments.pace, kept, logs)
            print("\n".join(rows(name, run, logs)), flush=True)
