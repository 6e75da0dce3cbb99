"""The load generator: one process, one scheduler that serves whatever is due next, for all of its sessions.

A task per stream would have to be woken for each chunk, at the mercy of the order in which an event loop wakes tasks.
Here a single task takes what is due off a heap, hands it over without waiting, and sleeps until the next is due. Chunks
are encoded beforehand and no garbage is looked for, so that nothing is left to do when one is due.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stopwav.servers.protocol import Server
from stopwav.servers.registry import make_server
from stopwav.speech.audio import load_utterance
from stopwav.speech.utterance import Utterance
from stopwav.studies.load.faults import FaultPlan, run_fault
from stopwav.studies.load.live_session import NS, LiveSession, Speech
from stopwav.studies.load.open_files import allow_open_files
from stopwav.studies.load.schedule import ScheduledSession

# After so long the scheduler lets answers come in, also when it is late.
TURN_NS = 2_000_000
# How long it sleeps at most: it has to notice that a level is over.
LONGEST_SLEEP_S = 0.05
# An engine that is loaded makes its first text of a second of audio within this time, also one that waits for N others.
PRIME_LIMIT_S = 60.0
# Audio that makes a stream known to the server, and its engine ready.
PRIME_AUDIO_S = 0.5


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the fastest event loop that is installed."""
    try:
        from uvloop import Loop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = Loop()
    return loop


@dataclass
class _Level:
    """A level that runs: its sessions by number, and those that count and are not over yet."""

    sessions: dict[int, LiveSession] = field(default_factory=dict)
    awaited: set[int] = field(default_factory=set)
    steps: list[tuple[int, int, LiveSession]] = field(default_factory=list)


class Generator:
    """The client of one target. Each method returns plain values, ready for the run file."""

    def __init__(
        self,
        server: str | Server,
        chunk_ms: float | None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """`now_ns` is the clock of everything, and of the server's events."""
        self._server: Server = make_server(server) if isinstance(server, str) else server
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self._now_ns = now_ns
        info = self._server.info
        self._chunk_s = info.chunk_s if chunk_ms is None else chunk_ms / 1e3
        self._speeches: list[Speech] = []

    def prepare(self, utterances: Sequence[Utterance]) -> dict[str, Any]:
        """Read and encode the utterances; return the description of the server."""
        allow_open_files()
        self._speeches = [self._speech(utterance) for utterance in utterances]
        gc.collect()
        # Nothing of what is there now will ever be garbage: looking through it would delay chunks.
        gc.freeze()
        return {
            "engine": self._server.info.to_json(),
            "capabilities": self._server.capabilities.to_json(),
            "chunk_s": self._chunk_s,
            "event_loop": type(self._runner.get_loop()).__module__.split(".")[0],
        }

    def clock(self) -> int:
        """Return the time of this process's clock, by which its sessions begin."""
        return self._now_ns()

    def prime(self, streams: int) -> dict[str, Any]:
        """Open so many sessions of half a second at once; return how long that took, and why any failed.

        Servers load a decoder for a stream when it first comes: that is no part of serving it.
        """
        begin_ns = self._now_ns()
        failures = self._runner.run(self._prime(streams))
        return {"prime_s": (self._now_ns() - begin_ns) / NS, "failures": failures}

    def run(
        self,
        sessions: Sequence[ScheduledSession],
        origin_ns: int,
        steady_s: tuple[float, float],
        cut_s: float,
        faults: Sequence[FaultPlan] = (),
    ) -> dict[str, Any]:
        """Return what happened in the sessions of a level that begins at `origin_ns` and is cut after `cut_s`.

        `steady_s` is when the part that counts begins and ends. It ends sooner when all that counts is over.
        """
        # To look for garbage takes a tenth of a second with a thousand streams. What there is of it, some kilobytes per
        # session, is less than what is kept of each.
        gc.disable()
        try:
            return self._runner.run(self._run(sessions, origin_ns, steady_s, cut_s, faults))
        finally:
            gc.enable()
            gc.collect()

    def _speech(self, utterance: Utterance) -> Speech:
        rate_hz = self._server.info.sample_rate_hz
        audio = load_utterance(utterance, rate_hz)
        size = max(1, round(self._chunk_s * rate_hz))
        starts = range(0, len(audio.samples), size)
        dues_s = [min(start + size, len(audio.samples)) / rate_hz for start in starts]
        messages = [self._server.encode(audio.samples[start : start + size]) for start in starts]
        return Speech(utterance.id, messages, (*dues_s, audio.duration_s), audio.duration_s)

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()

    async def _prime(self, streams: int) -> list[list[str]]:
        whole = self._speeches[0]
        count = sum(due_s <= PRIME_AUDIO_S for due_s in whole.due_s[:-1]) or 1
        dues_s = (*whole.due_s[:count], whole.due_s[count - 1])
        speech = Speech(whole.id, whole.messages[:count], dues_s, dues_s[-1])
        now_ns = self._now_ns()
        wanted = [ScheduledSession(0, 0.0, "steady")] * streams
        level = await self._sessions(wanted, [speech], now_ns, PRIME_LIMIT_S)
        failures = [session.failure for session in level.sessions.values() if session.failure is not None]
        return [[failure.reason, str(failure)] for failure in failures]

    async def _run(
        self,
        sessions: Sequence[ScheduledSession],
        origin_ns: int,
        steady_s: tuple[float, float],
        cut_s: float,
        faults: Sequence[FaultPlan],
    ) -> dict[str, Any]:
        clocks = asyncio.create_task(_processor_time(origin_ns, steady_s, self._now_ns))
        longest = max(self._speeches, key=lambda speech: speech.audio_s)
        faulty = [
            asyncio.create_task(run_fault(self._server, plan, longest.messages, self._chunk_s, origin_ns))
            for plan in faults
        ]
        level = await self._sessions(sessions, self._speeches, origin_ns, cut_s)
        for task in (clocks, *faulty):
            task.cancel()
        share, *ended = await asyncio.gather(clocks, *faulty, return_exceptions=True)
        lookahead_s = self._server.info.lookahead_s
        return {
            "sessions": [
                {
                    "utterance": session.speech.id,
                    "begin_s": sessions[number].begin_s,
                    "part": sessions[number].part,
                    **_facts(session, sessions[number], self._chunk_s, lookahead_s),
                }
                for number, session in level.sessions.items()
            ],
            "processor": share if isinstance(share, float) else None,
            "faults": [fault for fault in ended if isinstance(fault, dict)],
            "ended_s": (self._now_ns() - origin_ns) / NS,
        }

    async def _sessions(
        self, wanted: Sequence[ScheduledSession], speeches: Sequence[Speech], origin_ns: int, cut_s: float
    ) -> _Level:
        level = _Level()
        for number, session in enumerate(wanted):
            begin_ns = origin_ns + round(session.begin_s * NS)
            on_over = partial(level.awaited.discard, number)
            live = LiveSession(self._server, speeches[session.utterance], begin_ns, on_over, self._now_ns)
            level.sessions[number] = live
            level.steps.append((begin_ns, number, live))
            if session.part == "steady":
                level.awaited.add(number)
        heapq.heapify(level.steps)
        await _drive(level, origin_ns + round(cut_s * NS), self._now_ns)
        await asyncio.gather(*(session.cut() for session in level.sessions.values()))
        return level


def _facts(session: LiveSession, planned: ScheduledSession, chunk_s: float, lookahead_s: float) -> dict[str, Any]:
    """What happened in a session; of one that does not count, only how it ended."""
    facts = session.to_json(chunk_s, lookahead_s)
    return facts if planned.part == "steady" else {key: facts[key] for key in ("over", "failure")}


async def _drive(level: _Level, end_ns: int, clock_ns: Callable[[], int]) -> None:
    """Do what is due, in the order in which it is due, until all that counts is over or the time ends."""
    turn_ns = clock_ns()
    while level.awaited:
        now_ns = clock_ns()
        if now_ns >= end_ns:
            return
        if not level.steps or level.steps[0][0] > now_ns:
            wait_s = (level.steps[0][0] - now_ns) / NS if level.steps else LONGEST_SLEEP_S
            await asyncio.sleep(min(wait_s, LONGEST_SLEEP_S))
            turn_ns = clock_ns()
            continue
        _, number, session = heapq.heappop(level.steps)
        next_ns = session.step(now_ns)
        if next_ns is not None:
            heapq.heappush(level.steps, (next_ns, number, session))
        if now_ns - turn_ns > TURN_NS:
            await asyncio.sleep(0)
            turn_ns = clock_ns()


async def _processor_time(origin_ns: int, steady_s: tuple[float, float], now_ns: Callable[[], int]) -> float:
    """Return the share of a core that this process used in the steady part, also when it is cut short."""
    begin_s, end_s = steady_s
    await asyncio.sleep(max(0.0, begin_s - (now_ns() - origin_ns) / NS))
    wall_s, processor_s = time.perf_counter(), time.process_time()
    try:
        await asyncio.sleep(max(0.0, end_s - (now_ns() - origin_ns) / NS))
    except asyncio.CancelledError:
        if time.perf_counter() == wall_s:
            raise
    return (time.process_time() - processor_s) / max(1e-9, time.perf_counter() - wall_s)
