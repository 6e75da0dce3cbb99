"""Processes on a machine of a cluster: lent when the first is started, and another one when it is lost."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from stopwav.errors import StopwavError
from stopwav.measure.process import LONGEST_WAIT_S, Outcome, pickled
from stopwav.piece import Ran
from stopwav.studies.launch.cluster import Cluster, Link, LinkLostError
from stopwav.studies.launch.environment import Environment, Welcome, current_environment, file_problem
from stopwav.studies.launch.host import Answer, pack, unpack

T = TypeVar("T")

# A request that lost so many machines is what loses them.
MOST_LOSSES = 3
# A host answers that a process ran out of its time; one that says nothing for so much longer is lost.
GRACE_S = 30.0
# What a host may take to look at itself and at the files of a run: a corpus may be on a slow disk.
ASK_LIMIT_S = 600.0
CLOSE_LIMIT_S = 30.0


class MachineLostError(Exception):
    """The machine of a run was lost in the middle of a piece: what the run lacks is measured on another."""


class Turns:
    """Who may run of several threads that measure on a machine each: one at a time, while the others wait for theirs.

    So nothing that a study does in between has to be made for threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Run alone."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def given(self) -> Iterator[None]:
        """Let others run while this thread waits for its machine; of a thread that has no turn, nothing changes."""
        if self._owner != threading.get_ident():
            yield
            return
        self._give()
        try:
            yield
        finally:
            self._take()

    def _take(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()

    def _give(self) -> None:
        self._owner = None
        self._lock.release()


class MachineLauncher:
    """Starts processes on one machine of a cluster."""

    def __init__(
        self, cluster: Cluster, say: Callable[[str], None], machines: int = 1, turns: Turns | None = None
    ) -> None:
        """`machines` is how many of a kind share what can be shared, this one included."""
        self._cluster, self.say, self.machines = cluster, say, machines
        self.turns = turns or Turns()
        self._siblings: list[MachineLauncher] = []
        # Whether a machine that is waited for is no longer needed.
        self.cancelled: Callable[[], bool] = lambda: False
        self._environment: Environment = current_environment()
        self._link: Link | None = None
        self._label = ""
        # The kind of machine that the run is measured on: it does not go on on another.
        self._kind = ""
        self._lost: set[str] = set()
        self._other_kinds: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._ran: Ran | None = None
        # The file of the run, once there is one.
        self.run_file: Path | None = None
        self._digests: Mapping[str, str] = {}

    def open(self, factory: Callable[..., object], *arguments: object) -> RemoteProcess:
        """Return a process, not started yet, on the machine."""
        return RemoteProcess(self, next(self._numbers), factory, arguments)

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function says of the machine."""
        subject = _subject(function, arguments)
        answer = self._send(self.link(), pack("ask", function, arguments), ASK_LIMIT_S, subject)
        if isinstance(answer, Outcome):
            raise StopwavError(answer.message)
        value: T = unpack(answer)
        return value

    def link(self) -> Link:
        """Return the link to the machine, lent and found fit where there was none."""
        if self._link is None:
            with self.turns.given():
                self._link, self._label = self._lend()
        return self._link

    def stamp(self) -> Ran | None:
        """Return the machine and the time of what was measured since this was last asked; None where nothing was."""
        ran, self._ran = self._ran, None
        return ran

    def check_files(self, digests: Mapping[str, str]) -> None:
        """Raise where a file of the run is not on the machine; of one that is lent later this is looked at too."""
        self._digests = digests
        link = self.link()
        if problem := self.ask(file_problem, digests):
            raise StopwavError(f"{link.node}: {problem}; the machines of a cluster need the same files: share the disk")

    def request(self, link: Link, method: str, arguments: tuple[object, ...], limit_s: float, subject: str) -> Outcome:
        """Return the outcome of a request to a process; where its machine is lost, raise, or say so the last time."""
        if link is not self._link:
            raise MachineLostError("a process ended with its machine")
        reply = self._send(link, pack(method, *arguments), limit_s, subject)
        if isinstance(reply, Outcome):
            return reply
        answer: Answer = unpack(reply)
        begun_s = answer.begun_s if self._ran is None else self._ran.begun_s
        self._ran = Ran(machine=self._label, begun_s=begun_s, ended_s=answer.ended_s)
        return answer.outcome

    def end_process(self, link: Link, number: int) -> None:
        """End a process, unless its machine is gone."""
        if link is self._link:
            try:
                with self.turns.given():
                    unpack(link.send(pack("close", number), CLOSE_LIMIT_S))
            except LinkLostError:
                self._drop(link)

    def close(self) -> None:
        """Give the machine back, and those of its siblings."""
        for sibling in self._siblings:
            sibling.close()
        if (link := self._link) is not None:
            self._link = None
            link.close()

    def __enter__(self) -> MachineLauncher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def siblings(self, *, same_kind: bool = True) -> list[MachineLauncher]:
        """Return the launchers for the other machines; they keep theirs from one time to the next."""
        while len(self._siblings) < self.machines - 1:
            self._siblings.append(MachineLauncher(self._cluster, self.say, turns=self.turns))
        for sibling in self._siblings:
            sibling._kind, sibling._digests = self._kind if same_kind else sibling._kind, self._digests
        return list(self._siblings)

    def _lend(self) -> tuple[Link, str]:
        """Return a machine that is set up as this one is and, where the run has begun, of its kind."""
        lost = 0
        while True:
            link = self._cluster.lease(self._lost, self._other_kinds, self.say, self.cancelled)
            try:
                welcome = self._greet(link)
            except LinkLostError as error:
                lost += 1
                self._lost.add(link.machine_id)
                if lost == MOST_LOSSES:
                    message = f"{lost} machines were lost before they began, {link.node} last: {error}"
                    raise StopwavError(message) from None
                continue
            kind = str(welcome.machine["fingerprint"])
            if self._kind in ("", kind):
                self._kind = kind
                return link, f"{kind}/{hashlib.sha256(link.machine_id.encode()).hexdigest()[:6]}"
            link.close()
            self._other_kinds.add(link.machine_id)

    def _greet(self, link: Link) -> Welcome:
        """Have a machine adopt the environment of this one; what it cannot be used for is given back."""
        try:
            welcome: Welcome = unpack(link.send(pack("prepare", self._environment), ASK_LIMIT_S))
            problems = list(welcome.problems)
            if not problems and (problem := self._file_problem(link)):
                problems.append(problem)
            if problems:
                raise StopwavError(f"{link.node} is not set up as this machine is: {'; '.join(problems)}")
        except BaseException:
            link.close()
            raise
        return welcome

    def _file_problem(self, link: Link) -> str:
        return str(unpack(link.send(pack("ask", file_problem, (self._digests,)), ASK_LIMIT_S)))

    def _send(self, link: Link, request: bytes, limit_s: float, subject: str) -> bytes | Outcome:
        """Return the answer to a request, or how it ended where it loses every machine."""
        try:
            with self.turns.given():
                return link.send(request, min(limit_s, LONGEST_WAIT_S) + GRACE_S)
        except LinkLostError as error:
            self._drop(link)
            return self._count(subject, f"{link.node} was lost: {error}")

    def _count(self, subject: str, reason: str) -> Outcome:
        self._losses[subject] += 1
        if self._losses[subject] < MOST_LOSSES:
            raise MachineLostError(reason)
        return Outcome("crashed", message=f"tried {MOST_LOSSES} times, and each time its machine was lost: {reason}")

    def _drop(self, link: Link) -> None:
        self._lost.add(link.machine_id)
        if self._link is link:
            self._link = None
        with suppress(Exception):  # it is gone already, or will be
            link.close()


class RemoteProcess:
    """A process on a machine of a cluster, as a local one is used."""

    def __init__(
        self, launcher: MachineLauncher, number: int, factory: Callable[..., object], arguments: tuple[object, ...]
    ) -> None:
        self._launcher, self._number = launcher, number
        self._request = pickled((factory, arguments))
        self._subject = _subject(factory, arguments[:1])
        self._link: Link | None = None

    def start(self, time_limit_s: float) -> Outcome:
        """Start the process and make the object."""
        self._link = self._launcher.link()
        arguments = (self._number, self._request, time_limit_s)
        return self._ask("start", arguments, time_limit_s, self._subject)

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """Call a method of the object."""
        if self._link is None:
            return Outcome("crashed", message="the process has already ended")
        request = (self._number, method, pickled(arguments), time_limit_s)
        # What is asked for is named by the first argument: a cell, a length, an utterance, a batch.
        subject = _subject(self._subject, method, arguments[:1])
        return self._ask("call", request, time_limit_s, subject)

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        if (link := self._link) is not None:
            self._link = None
            self._launcher.end_process(link, self._number)

    def __enter__(self) -> RemoteProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, arguments: tuple[object, ...], limit_s: float, subject: str) -> Outcome:
        assert self._link is not None
        return self._launcher.request(self._link, method, arguments, limit_s, subject)


def _subject(*parts: object) -> str:
    return hashlib.sha256(pickled(parts)).hexdigest()
