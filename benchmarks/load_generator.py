"""How many paced streams one client process on one core carries: the scheduler of `stopwav load` beside a task each.

    python benchmarks/load_generator.py --streams 250 500 1000 1500 2000 --seconds 20

Chunks of 100 ms go to a server on loopback that answers each with a partial and does nothing else. Client and server
are pinned to a core each. Prints a Markdown table of how late chunks were sent. Where other processes run as well, they
are kept away by `chrt -f 10 python benchmarks/load_generator.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from sink_server import serve_sink

from stopwav.measure.machine import describe
from stopwav.servers.registry import make_server
from stopwav.speech.audio import load
from stopwav.speech.utterance import Utterance
from stopwav.stats import nearest_rank
from stopwav.studies.load.generator import Generator, new_event_loop
from stopwav.studies.load.open_files import allow_open_files
from stopwav.studies.load.schedule import ScheduledSession
from stopwav.studies.paced_session import SessionLog, run_session

RATE_HZ, CHUNK_S = 16_000, 0.1
# Connections are opened over this time: that of a mean utterance, as in `stopwav load`.
RAMP_S = 8.0
# Before the first session begins.
LEAD_S = 0.5


class Load(NamedTuple):
    """What a client did: how late it sent, what it used of its core, and how many sessions did not end well."""

    p99_s: float
    most_s: float
    core_share: float
    broken: int

    @property
    def cells(self) -> str:
        """The cells of its row."""
        broken = f" ({self.broken} sessions broken)" if self.broken else ""
        return f"{1e3 * self.p99_s:.1f} ms{broken} | {1e3 * self.most_s:.0f} ms | {100 * self.core_share:.0f} %"


Client = Callable[[str, Path, int, float], Load]


def begins_s(streams: int) -> list[float]:
    """When sessions begin: evenly over the ramp, so that chunks are spread over all phases of 100 ms."""
    return [RAMP_S * number / streams for number in range(streams)]


def scheduler(address: str, path: Path, streams: int, seconds: float) -> Load:
    """The generator of `stopwav load`."""
    generator = Generator(address, 1e3 * CHUNK_S)
    generator.prepare([Utterance("noise", path, None)])
    sessions = [ScheduledSession(0, begin_s, "steady") for begin_s in begins_s(streams)]
    origin_ns = time.perf_counter_ns() + round(LEAD_S * 1e9)
    steady_s = (RAMP_S, seconds)  # from the moment at which all streams are open
    answer = generator.run(sessions, origin_ns, steady_s, RAMP_S + seconds + 5)
    late_s = []
    for session in answer["sessions"]:
        due_s, sent_s = (np.array(session["trace"][column]) for column in ("due", "sent"))
        # As in `stopwav load`: a chunk that was due before the server had accepted the session waited for the server.
        late_s.append(sent_s - np.maximum(due_s, session["ready_s"]))
    broken = sum(not session["over"] or session["failure"] is not None for session in answer["sessions"])
    every_s = np.concatenate(late_s)
    return Load(nearest_rank(every_s, 0.99), float(every_s.max()), float(answer["processor"]), broken)


def task_per_stream(address: str, path: Path, streams: int, seconds: float) -> Load:
    """A task per stream that sleeps until its next chunk is due, as `stopwav latency` streams one at a time."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        logs, core_share = runner.run(_all_tasks(address, path, streams, seconds))
    late_s = np.concatenate([np.array(log.sent_s) - np.array(log.due_s[: len(log.sent_s)]) for log in logs])
    broken = sum(log.failure is not None for log in logs)
    return Load(nearest_rank(late_s, 0.99), float(late_s.max()), core_share, broken)


async def _all_tasks(address: str, path: Path, streams: int, seconds: float) -> tuple[list[SessionLog], float]:
    server = make_server(address)
    samples = load(path, RATE_HZ).samples
    size = round(CHUNK_S * RATE_HZ)
    messages = [server.encode(samples[start : start + size]) for start in range(0, len(samples), size)]
    dues_s = [*((number + 1) * CHUNK_S for number in range(len(messages))), len(samples) / RATE_HZ]

    async def stream(begin_s: float) -> SessionLog:
        await asyncio.sleep(begin_s)
        return await run_session(server, messages, dues_s)

    tasks = [asyncio.create_task(stream(LEAD_S + begin_s)) for begin_s in begins_s(streams)]
    await asyncio.sleep(LEAD_S + RAMP_S)
    wall_s, processor_s = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds - RAMP_S)
    core_share = (time.process_time() - processor_s) / (time.perf_counter() - wall_s)
    return await asyncio.gather(*tasks), core_share


CLIENTS: dict[str, Client] = {"scheduler": scheduler, "task per stream": task_per_stream}


def _client_process(core: int | None, name: str, pipe: Connection, *arguments: object) -> None:
    _pin(core)
    allow_open_files()
    pipe.send(CLIENTS[name](*arguments))  # type: ignore[arg-type]


def _sink_process(core: int | None, pipe: Connection) -> None:
    _pin(core)
    allow_open_files()
    serve_sink(pipe.send)


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})


def measure(address: str, path: Path, client: str, streams: int, seconds: float, core: int | None) -> Load:
    """Return what a client did in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    arguments = (core, client, theirs, address, path, streams, seconds)
    process = spawn.Process(target=_client_process, args=arguments)
    process.start()
    theirs.close()
    load_ = ours.recv()
    process.join()
    assert isinstance(load_, Load)
    return load_


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", type=int, default=[250, 500, 1000, 1500, 2000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    arguments = parser.parse_args()
    cores: list[int | None] = [None, None]
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        cores = [*sorted(os.sched_getaffinity(0))[:2]]
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    sink = spawn.Process(target=_sink_process, args=(cores[1], theirs), daemon=True)
    sink.start()
    address = f"vosk-server:ws://127.0.0.1:{ours.recv()}"
    machine = describe()
    print(f"{machine.cpu}, {machine.logical_cores} cores; {arguments.seconds:g} s of 100 ms chunks\n")
    print("| streams |" + "".join(f" {name}: P99 | most | core |" for name in arguments.clients))
    print("|---|" + "---|---|---|" * len(arguments.clients))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "noise.wav")
        samples = np.random.default_rng(0).uniform(-0.1, 0.1, round(arguments.seconds * RATE_HZ))
        soundfile.write(path, samples, RATE_HZ)
        run = functools.partial(measure, address, path)
        for streams in arguments.streams:
            cells = [run(name, streams, arguments.seconds, cores[0]).cells for name in arguments.clients]
            print(f"| {streams} | {' | '.join(cells)} |", flush=True)
    sink.terminate()
    sink.join()


if __name__ == "__main__":
    main()
