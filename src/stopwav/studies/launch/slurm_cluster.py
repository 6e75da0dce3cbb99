"""Machines of a Slurm cluster: each is held by a job, which submitit submits, and which calls back once it runs."""

from __future__ import annotations

import inspect
import re
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.studies.launch.cluster import NAP_S, LeaseCancelledError, Link, LinkLostError
from stopwav.studies.launch.destination import Destination
from stopwav.studies.launch.socket_link import Callbacks, SocketLink, call_back

# Scripts and logs of the jobs, relative to where the command was given: a place that the nodes see too.
FOLDER = Path(".stopwav-jobs")
# Jobs wait in a queue for hours; between two looks at it.
QUEUE_NAP_S = 2.0
# A job that runs and does not call back cannot.
CALLBACK_LIMIT_S = 60.0
# What the look at a machine may take that may be busy.
LOOK_LIMIT_S = 60.0
# A job that was refused, or ended before it began, is submitted so often.
MOST_JOBS = 3
# Why a job waits that will never begin.
HOPELESS = {
    "AccountNotAllowed",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "PartitionDown",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
}


class SlurmCluster:
    """A Slurm cluster, by its commands on this machine; with `local` jobs are processes of this machine, to try it."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        if destination.address not in ("", "local"):
            raise StopwavError(f"--on {destination}: write slurm, or slurm:local, which runs jobs on this machine")
        self._submitit = _import_submitit(destination)
        self._parameters = {} if destination.address else _parameters(destination, self._submitit)
        self._callbacks = Callbacks()

    def lease(
        self, avoid: Collection[str], never: Collection[str], say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> SocketLink:
        """Return a machine with the resources that are asked for, once a job has it, or raise why none will."""
        excluded = sorted({*avoid, *never})
        for _ in range(MOST_JOBS):
            try:
                job, token = self._submit({"exclude": ",".join(excluded)} if excluded else {})
            except _RefusedError as error:
                if excluded == sorted(never):
                    raise StopwavError(f"--on {self._destination}: {error}") from None
                excluded = sorted(never)  # there is no other
                continue
            if (link := self._await(job, token, say, cancelled)) is not None:
                return link
        raise StopwavError(
            f"--on {self._destination}: {MOST_JOBS} jobs ended before they began; see the logs in {FOLDER}"
        )

    def every_machine(self) -> Sequence[Callable[[], Link]]:
        """Return a way to reach each machine of the cluster, for a look at it; of a busy one it fails in a minute."""
        if self._destination.address:
            return [partial(self._look, {})]
        listed = subprocess.run(["sinfo", "-h", "-N", "-o", "%N"], capture_output=True, text=True, check=False)
        names = dict.fromkeys(listed.stdout.split())
        return [partial(self._look, {"nodelist": name}) for name in names]

    def close(self) -> None:
        """Leave the cluster."""
        self._callbacks.close()

    def _look(self, more: Mapping[str, str]) -> Link:
        try:
            job, token = self._submit(more)
        except _RefusedError as error:
            raise LinkLostError(str(error)) from None
        end_s = time.monotonic() + LOOK_LIMIT_S
        try:
            link = self._await(job, token, lambda text: None, lambda: time.monotonic() > end_s)
        except LeaseCancelledError:
            raise LinkLostError(f"its job did not begin within {LOOK_LIMIT_S:g} s") from None
        if link is None:
            raise LinkLostError(f"its job ended before it began; see the logs in {FOLDER}")
        return link

    def _submit(self, more: Mapping[str, str]) -> tuple[Any, bytes]:
        """A job that will call back, and its token; raise where Slurm refuses it."""
        token, arguments = self._callbacks.invitation()
        FOLDER.mkdir(mode=0o700, exist_ok=True)  # the key of the callbacks is in the job's script
        kind = self._submitit.LocalExecutor if self._destination.address else self._submitit.SlurmExecutor
        try:
            executor = kind(folder=FOLDER / "%j")
        except RuntimeError as error:  # there is no sbatch
            raise StopwavError(f"--on {self._destination}: this machine has no sbatch and srun ({error})") from None
        if not self._destination.address:
            executor.update_parameters(**self._parameters, **more)
        try:
            return executor.submit(call_back, *arguments), token
        except (self._submitit.core.utils.FailedJobError, subprocess.CalledProcessError) as error:
            said = str(getattr(error, "stderr", "") or error)
            raise _RefusedError(" ".join(said.split())[-300:]) from None

    def _await(
        self, job: Any, token: bytes, say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> SocketLink | None:
        """The link of a job once it has called back; None where it ended before."""
        cancel = partial(job.cancel, check=False)
        look_s, running_s, said = 0.0, None, False
        try:
            while True:
                if (caller := self._callbacks.arrived(token)) is not None:
                    return SocketLink(*caller, cancel)
                if cancelled():
                    raise LeaseCancelledError
                if (now_s := time.monotonic()) >= look_s:
                    look_s = now_s + QUEUE_NAP_S
                    state, reason = self._state(job)
                    if state == "":
                        return None
                    if reason in HOPELESS:
                        raise StopwavError(f"--on {self._destination}: job {job.job_id} will not begin: {reason}")
                    running_s = (running_s or now_s) if state == "RUNNING" else None
                    if running_s is not None and now_s - running_s > CALLBACK_LIMIT_S:
                        raise StopwavError(
                            f"--on {self._destination}: job {job.job_id} runs and does not call back to this machine; "
                            f"see its log in {FOLDER}, and start the command where nodes can reach it"
                        )
                    if state == "PENDING" and not said:
                        say(f"waiting for a machine: job {job.job_id} is in the queue ({reason})")
                        said = True
                time.sleep(NAP_S)
        except BaseException:
            cancel()
            raise

    def _state(self, job: Any) -> tuple[str, str]:
        """The state of a job, and why it waits; "" where it has ended."""
        if self._destination.address:
            return ("" if job.done() else "RUNNING"), ""
        # By the queue itself: submitit asks the accounts, which not every cluster keeps.
        asked = subprocess.run(
            ["squeue", "-h", "-j", str(job.job_id), "-o", "%T|%r"], capture_output=True, text=True, check=False
        )
        state, _, reason = asked.stdout.strip().partition("|")
        return ("" if state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL") else state), reason


class _RefusedError(Exception):
    """Slurm does not take the job; its text says why."""


def _import_submitit(destination: Destination) -> Any:
    try:
        import submitit
    except ImportError as error:
        raise StopwavError(f"--on {destination} needs submitit: pip install 'stopwav[slurm]' ({error})") from None
    return submitit


def _parameters(destination: Destination, submitit: Any) -> dict[str, Any]:
    """What the job asks Slurm for: what is wanted by name, as sbatch calls it, and the machine alone."""
    known = inspect.signature(submitit.slurm.slurm._make_sbatch_string).parameters
    parameters: dict[str, Any] = {
        "job_name": "stopwav",
        # In the batch step itself: a step of srun would be bound to one processor of the machine.
        "use_srun": False,
        # That of the partition.
        "time": None,
    }
    more: dict[str, str] = {}
    for name, value in destination.wanted.items():
        if name == "gpu":
            parameters["gres"] = f"gpu:{value}:1"
        elif name == "cpu":
            if not re.fullmatch("[0-9]{1,6}", value):
                raise StopwavError(f"--place cpu={value}: give a whole number of processors")
            parameters["cpus_per_task"] = int(value)
        elif name in known:
            parameters[name] = value
        else:
            more[name.replace("_", "-")] = value
    if not destination.shared:
        parameters["exclusive"] = True
    return {**parameters, "additional_parameters": more}
