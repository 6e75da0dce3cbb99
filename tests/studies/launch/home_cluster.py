"""A cluster whose machines are hosts in this process, each of which dies when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import cloudpickle

from stopwav.errors import StopwavError
from stopwav.studies.launch.cluster import Link, LinkLostError
from stopwav.studies.launch.host import Host


@dataclass
class HomeMachine:
    """A machine, the requests that it has answered, and whether it dies instead of answering the next one."""

    name: str
    dies: Callable[[str, tuple[object, ...]], bool] = lambda method, arguments: False
    fingerprint: str = ""
    problems: tuple[str, ...] = ()
    answered: list[str] = field(default_factory=list)
    alive: bool = True
    lent: int = 0


class HomeLink:
    """A machine that was lent."""

    def __init__(self, machine: HomeMachine) -> None:
        self.machine, self.node, self.machine_id = machine, machine.name, machine.name
        self._host = Host()

    def send(self, request: bytes, time_limit_s: float) -> bytes:
        method, arguments = cloudpickle.loads(request)
        if not self.machine.alive or self.machine.dies(method, arguments):
            self.machine.alive = False
            self._host.close_all()
            raise LinkLostError("it was switched off")
        self.machine.answered.append(method)
        answer = self._host.handle(request)
        if method == "prepare" and (self.machine.fingerprint or self.machine.problems):
            _, welcome = cloudpickle.loads(answer)
            known = dict(welcome.machine)
            if self.machine.fingerprint:
                known["fingerprint"] = self.machine.fingerprint
            answer = bytes(cloudpickle.dumps((True, type(welcome)(known, self.machine.problems))))
        return answer

    def close(self) -> None:
        self._host.close_all()


class HomeCluster:
    """Lends its machines in their order; those that lost a run come last, and dead ones never."""

    def __init__(self, *machines: HomeMachine) -> None:
        self.machines = machines
        self.closed = False

    def lease(
        self, avoid: Collection[str], never: Collection[str], say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> Link:
        there = [machine for machine in self.machines if machine.alive and machine.name not in never]
        there.sort(key=lambda machine: machine.name in avoid)
        if not there:
            raise StopwavError("no machine is left")
        there[0].lent += 1
        return HomeLink(there[0])

    def every_machine(self) -> Sequence[Callable[[], Link]]:
        return [partial(HomeLink, machine) for machine in self.machines]

    def close(self) -> None:
        self.closed = True
