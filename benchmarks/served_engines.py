"""An engine in a process and behind `stopwav serve` on loopback, at real pace, in turn: do word latencies agree?

    python benchmarks/served_engines.py pocketsphinx moonshine --utterances 12 --rounds 2

They must agree at P50 and P95 within the network's part and 10 ms.
"""

import argparse
import tempfile
from pathlib import Path

import stopwav

TOLERANCE_MS = 10.0


def milliseconds(result: stopwav.Result, metric: str) -> float:
    value = result.metrics[metric].value
    assert value is not None, metric
    return 1e3 * value


def compare(engine: str, utterances: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder, stopwav.BackgroundServer(engine) as server:
        engines = [engine, f"vosk-server:{server.url()}"]
        record = stopwav.latency(engines, limit=utterances, rounds=rounds, pace="real", save=Path(folder))
        inside, served = stopwav.results(record)
    network_ms = milliseconds(served, "waterfall_network")
    for point in ("p50", "p95"):
        first, second = (milliseconds(result, f"word_latency_{point}") for result in (inside, served))
        agrees = abs(second - first) <= network_ms + TOLERANCE_MS
        cells = f"{first:.1f} | {second:.1f} | {second - first:+.1f} | {network_ms:.2f} | {'yes' if agrees else 'no'}"
        print(f"| {engine} | {point.upper()} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="*", default=["pocketsphinx", "moonshine"])
    parser.add_argument("--utterances", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print("| engine | | in a process, ms | served, ms | difference | network | within network + 10 ms |")
    print("|---|---|---|---|---|---|---|")
    for engine in arguments.engines:
        compare(engine, arguments.utterances, arguments.rounds)
