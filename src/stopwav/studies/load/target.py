"""A target of load: its server, started by us where an engine is named, and the client processes that load it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome, signal_name
from stopwav.servers.registry import is_server
from stopwav.servers.serve.background import BackgroundServer
from stopwav.speech.utterance import Utterance
from stopwav.studies.launch.run import machine_launcher
from stopwav.studies.load.client import Client, ClockOffset, open_clients
from stopwav.studies.load.faults import FAULTS, FaultPlan
from stopwav.studies.load.level_energy import EnergyWatch
from stopwav.studies.load.schedule import LevelSchedule
from stopwav.studies.load.server_watch import ServerWatch
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.worker import LOAD_LIMIT_S

# On one machine a busy server would keep the client from its schedule. A lower priority takes nothing from the server
# that the client, which sleeps nearly always, does not need.
NICENESS = 10
# Between the request of a level and its first session: the client processes have to be ready by then.
LEAD_S = 0.3
# Requests to other machines take longer, and those of many clients are sent one after the other.
REMOTE_LEAD_S = 2.0
# After a level the server forgets the sessions that were cut.
PAUSE_S = 0.5
# What a level may take beyond its schedule.
SLACK_S = 60.0
# A worker of ours that died in the last level starts again within this time, or else the whole server is started anew.
RESTART_LIMIT_S, RESTART_NAP_S = 60.0, 0.05
# More than any level: whether a stream is refused is not the question here.
MANY_STREAMS = 10_000


@dataclass(frozen=True)
class LevelPlan:
    """A level to be measured: its streams, when sessions begin, how long it lasts, and what disturbs it."""

    streams: int
    schedule: LevelSchedule
    cut_s: float
    faults: tuple[FaultPlan, ...] = ()


class Target:
    """A target while it is measured. Whoever opens it closes it."""

    def __init__(self, name: str, target: str, spec: LoadSpec, utterances: Sequence[Utterance]) -> None:
        self.name, self._target, self._spec, self._utterances = name, target, spec, utterances
        self._server: BackgroundServer | None = None
        self._clients: list[Client] = []
        self.facts: dict[str, Any] = {}

    def open(self) -> Outcome:
        """Start the server where it is ours, and the clients; return why that failed, if it did."""
        if self._clients:
            return Outcome("ok")
        try:
            address = self._target if is_server(self._target) else self._start_server()
        except StopwavError as error:
            return Outcome("error", message=str(error))
        self._clients = open_clients(address, self._spec.chunk_ms, self._spec.processes)
        outcomes = self._ask_all("prepare", [(list(self._utterances),)] * len(self._clients), LOAD_LIMIT_S)
        failed = next((outcome for outcome in outcomes if not outcome.ok), None)
        if failed is not None:
            self.close()
            return failed
        self.facts = dict(outcomes[0].value)
        if self._server is not None:
            self.facts["engine"] = self._server.info
        return Outcome("ok")

    def measure(self, plan: LevelPlan) -> Outcome:
        """Return the raw observations of a level."""
        if self._server is not None and not self._is_whole(self._server):
            self.close()
        opened = self.open()
        if not opened.ok:
            return opened
        primed = self._prime(plan.streams)
        if not primed.ok:
            return primed
        offsets = self._clock_offsets()
        if isinstance(offsets, Outcome):
            self.close()
            return offsets
        lead_s = REMOTE_LEAD_S if offsets else LEAD_S
        origin_ns = time.perf_counter_ns() + round(lead_s * 1e9)
        schedule = plan.schedule
        requests = self._requests(plan, origin_ns, offsets)
        window = EnergyWatch(origin_ns, schedule.ramp_s, schedule.steady_s)
        with ServerWatch(self._watched_pid, origin_ns) as watch, window as energy:
            outcomes = self._ask_all("run", requests, plan.cut_s + lead_s + SLACK_S)
        time.sleep(PAUSE_S)
        server_end = self._server_end()
        failed = next((outcome for outcome in outcomes if not outcome.ok), None)
        if failed is not None:
            self.close()
            return failed
        watched = {
            "ended_s": max(outcome.value["ended_s"] for outcome in outcomes),
            "server_end": server_end,
            "prime_s": primed.value,
            **({"clocks": [offset.to_json() for offset in offsets]} if offsets else {}),
            "looks": [look.to_json() for look in watch.looks],
            "energy": energy.result.to_json(),
        }
        facts = {"target": self.facts, "ramp_s": schedule.ramp_s, "steady_s": schedule.steady_s}
        return Outcome("ok", {**facts, **watched, **_pooled([outcome.value for outcome in outcomes])})

    def close(self) -> None:
        """End the clients, and the server where it is ours; the next level starts them again."""
        for client in self._clients:
            client.close()
        self._clients = []
        if self._server is not None:
            self._server.stop()
            self._server = None

    @property
    def _watched_pid(self) -> int | None:
        return self._spec.pid if self._server is None else self._server.pid

    def _start_server(self) -> str:
        options = ["--protocol", "vosk", "--workers", str(self._spec.workers), "--max-streams", str(MANY_STREAMS)]
        if self._spec.max_batch is not None:
            options += ["--max-batch", str(self._spec.max_batch)]
        if self._spec.max_wait_ms is not None:
            options += ["--max-wait", str(self._spec.max_wait_ms)]
        server = BackgroundServer(self._target, *options, drain_limit_s=0.0, niceness=NICENESS)
        self._server = server.__enter__()
        return f"vosk-server:{server.url()}"

    def _is_whole(self, server: BackgroundServer) -> bool:
        """Whether our server is there with all of its workers; one that was killed is given time to start again."""
        deadline_s = time.monotonic() + RESTART_LIMIT_S
        while server.alive and time.monotonic() < deadline_s:
            if server.workers_up() >= self._spec.workers:
                return True
            time.sleep(RESTART_NAP_S)
        return False

    def _server_end(self) -> str:
        """How our server ended, with the last thing it said; "" while it is there, and of a server of others."""
        if self._server is None or self._server.alive:
            return ""
        code, said = self._server.stop()
        how = f"crashed ({signal_name(-code)})" if code < 0 else f"exited with code {code}"
        last = said.strip().rpartition("\n")[2].removeprefix("stopwav: ")
        return f"serve {how}" + (f": {last}" if last else "")

    def _prime(self, streams: int) -> Outcome:
        """Open so many sessions for a moment; a server that accepts none is not there."""
        counts = [len(range(index, streams, len(self._clients))) for index in range(len(self._clients))]
        outcomes = self._ask_all("prime", [(count,) for count in counts], LOAD_LIMIT_S)
        failed = next((outcome for outcome in outcomes if not outcome.ok), None)
        if failed is not None:
            self.close()
            return failed
        failures = [failure for outcome in outcomes for failure in outcome.value["failures"]]
        if len(failures) >= streams:
            if end := self._server_end():
                return Outcome("crashed", message=end)
            return Outcome("error", message=": ".join(failures[0]))
        return Outcome("ok", max(outcome.value["prime_s"] for outcome in outcomes))

    def _requests(self, plan: LevelPlan, origin_ns: int, offsets: Sequence[ClockOffset]) -> list[tuple[object, ...]]:
        """What each client is asked to run: its part of the sessions, from a common start by its own clock."""
        count, schedule = len(self._clients), plan.schedule
        steady_s = (schedule.ramp_s, schedule.steady_end_s)
        ahead_ns = [round(offset.offset_s * 1e9) for offset in offsets] or [0] * count
        return [
            (
                schedule.sessions[index::count],
                origin_ns + ahead_ns[index],
                steady_s,
                plan.cut_s,
                plan.faults if index == 0 else (),
            )
            for index in range(count)
        ]

    def _clock_offsets(self) -> list[ClockOffset] | Outcome:
        """How the clock of each client differs from ours; empty where they have the same, on this machine."""
        offsets: list[ClockOffset] = []
        # One at a time: the round trips of another would make its own longer.
        for client in self._clients if machine_launcher() is not None else ():
            offset = client.clock_offset()
            if isinstance(offset, Outcome):
                return offset
            offsets.append(offset)
        return offsets

    def _ask_all(self, method: str, arguments: Sequence[tuple[object, ...]], limit_s: float) -> list[Outcome]:
        """Ask all clients at the same time."""
        asked = [
            client.ask(method, *own, time_limit_s=limit_s) for client, own in zip(self._clients, arguments, strict=True)
        ]
        return [future.result() for future in asked]


def _pooled(answers: Sequence[Any]) -> dict[str, Any]:
    """What the clients saw together: each session, with the client that had it where that is not the first."""
    return {
        "processors": [answer["processor"] for answer in answers],
        "sessions": [
            {**session, **({"client": index} if index else {})}
            for index, answer in enumerate(answers)
            for session in answer["sessions"]
        ],
        "faults": [fault for answer in answers for fault in answer["faults"]],
    }


def fault_plans(streams: int, seed: int, schedule: LevelSchedule) -> tuple[FaultPlan, ...]:
    """Return the faulty sessions of a level: of each kind one for every four streams, spread over the level."""
    generator = random.Random(f"{seed}-{streams}-faults")
    end_s = schedule.steady_end_s
    count = max(1, streams // 4)
    plans = [
        FaultPlan(kind, begin_s=end_s * (turn + generator.random()) / count) for kind in FAULTS for turn in range(count)
    ]
    return tuple(sorted(plans, key=lambda plan: plan.begin_s))
