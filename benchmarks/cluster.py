"""What a piece costs more on a Ray cluster than in a local process, and how a corpus goes faster on more of its nodes.

    python benchmarks/cluster.py [ENGINE …] [--nodes 3] [--samples 300] [--calls 300] [--starts 10]

Starts a cluster on this machine, whose nodes have one processor each as far as Ray counts. The cost is that of a call
that does nothing, and of starting a process, through a machine that is held and in a local process, in turn. Throughput
is that of `compare --shared --machines N` over the bundled corpus, again and again, without loading: from the first to
the last transcription by the times in the pieces. The engine `fake,…` waits as an engine on a GPU of its own would;
others need processors, of which one machine has only so many. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import psutil

from stopwav import compare
from stopwav.measure.launcher import Launcher, LocalLauncher
from stopwav.measure.machine import describe
from stopwav.record import Record
from stopwav.studies.launch.destination import parse_destination
from stopwav.studies.launch.machine_launcher import MachineLauncher
from stopwav.studies.launch.ray_cluster import RayCluster

# What waits 20 ms for each utterance, as for a GPU, and takes no processor meanwhile.
WAITING = """
import time
from stopwav.engines.fake import Fake
class Waiting(Fake):
    def transcribe(self, batch):
        time.sleep(0.02 * len(batch))
        return ["one two three"] * len(batch)
"""
LIMIT_S = 60.0


class Nothing:
    """What does nothing."""

    def work(self) -> None:
        """Do it."""


def main() -> None:
    """Measure both, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engines", nargs="*", default=[])
    for name, value in (("nodes", 3), ("samples", 300), ("calls", 300), ("starts", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(options.nodes):
            cluster.add_node(num_cpus=1, resources={"stopwav": 1})
        machine = describe()
        print(f"{machine.usable_cores:g} cores of {machine.cpu}, {machine.system}, {machine.python}\n")
        print_cost(f"ray:{cluster.address}", options.calls, options.starts)
        with tempfile.TemporaryDirectory() as folder:
            waiting = Path(folder, "waiting.py")
            waiting.write_text(WAITING)
            for engine in [f"{waiting}:Waiting", *options.engines]:
                print_throughput(f"ray:{cluster.address}", engine, options.nodes, options.samples, Path(folder))
    finally:
        cluster.shutdown()


def print_cost(on: str, calls: int, starts: int) -> None:
    """Print what calls and starts of processes take here and there."""
    ray_cluster = RayCluster(parse_destination(on))
    with MachineLauncher(ray_cluster, lambda text: print(text, file=sys.stderr)) as there:
        there.link()
        launchers: dict[str, Launcher] = {"here": LocalLauncher(), "there": there}
        opened: dict[str, list[float]] = {"here": [], "there": []}
        called: dict[str, list[float]] = {"here": [], "there": []}
        for _ in range(starts):
            for name, launcher in launchers.items():
                with launcher.open(Nothing) as process:
                    begin_s = time.perf_counter()
                    process.start(LIMIT_S)
                    opened[name].append(time.perf_counter() - begin_s)
        processes = {name: launcher.open(Nothing) for name, launcher in launchers.items()}
        for process in processes.values():
            process.start(LIMIT_S)
        for _ in range(calls):
            for name, process in processes.items():
                begin_s = time.perf_counter()
                process.call("work", time_limit_s=LIMIT_S)
                called[name].append(time.perf_counter() - begin_s)
        for process in processes.values():
            process.close()
    ray_cluster.close()
    print("| | here, median | on Ray, median | more | more, P95 |\n|---|---|---|---|---|")
    for what, values in (("start of a process", opened), ("call", called)):
        more = [there_s - here_s for here_s, there_s in zip(values["here"], values["there"], strict=True)]
        cells = (median(values["here"]), median(values["there"]), median(more), quantiles(more, n=20)[-1])
        print(f"| {what} | " + " | ".join(f"{1e3 * cell:.1f} ms" for cell in cells) + " |")
    print(flush=True)


def print_throughput(on: str, engine: str, nodes: int, samples: int, folder: Path) -> None:
    """Print how many utterances a second are transcribed by one node, two, and so on."""
    print(f"`{Path(engine).name}`, {samples} utterances\n")
    print("| nodes | utterances/s | of one node | this process grew by |\n|---|---|---|---|")
    first = 0.0
    for machines in range(1, nodes + 1):
        before_bytes = psutil.Process().memory_info().rss
        record = compare(
            [engine],
            frames=[100],
            samples=samples,
            rounds=1,
            shared=True,
            machines=machines,
            on=on,
            save=folder / f"{Path(engine).name}-{machines}",
        )
        grown = (psutil.Process().memory_info().rss - before_bytes) / 2**20
        rate = utterances_per_s(record)
        first = first or rate
        print(f"| {machines} | {rate:.1f} | {rate / first:.2f} | {grown:.0f} MiB |", flush=True)
    print(flush=True)


def utterances_per_s(record: Record) -> float:
    """Return the rate while all machines took part: from when the last of them began to when the first had ended."""
    spans: dict[str, list[float]] = {}
    for piece in record.pieces:
        if piece.key[0] == "sample" and piece.ran is not None:
            spans.setdefault(piece.machine, []).append(piece.ran.ended_s)
    begin_s, end_s = max(map(min, spans.values())), min(map(max, spans.values()))
    count = sum(begin_s < ended_s <= end_s for of_machine in spans.values() for ended_s in of_machine)
    return count / (end_s - begin_s)


if __name__ == "__main__":
    main()
