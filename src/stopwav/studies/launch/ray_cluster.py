"""Machines of a Ray cluster: each is held by an actor, which has it to itself by a resource that its owner gave it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from stopwav.errors import StopwavError
from stopwav.studies.launch.cluster import NAP_S, LeaseCancelledError, Link, LinkLostError
from stopwav.studies.launch.destination import Destination
from stopwav.studies.launch.ray_host import RayHost

# The resource of which a machine has as many as pieces may be timed on it at a time: one, or one for each GPU.
EXCLUSIVE = "stopwav"
# Ray's resource of a machine with GPUs of a type.
GPU_TYPE = "accelerator_type:"
# A cluster that answers at all does so at once.
CONNECT_LIMIT_S = 5.0
# While nodes start, the resource may not be there yet; after so long it will not come.
ABSENT_LIMIT_S = 5.0
# An actor that waits for a machine is asked for anew so often: others may have come, and that which it waits for gone.
ATTEMPT_S = 30.0
# The longest wait for machines that others use.
QUEUE_LIMIT_S = 6 * 3600.0
# What the look at a machine may take that is busy, or is gone without Ray knowing it.
LOOK_LIMIT_S = 60.0
# Calls to processes of one machine that may run at a time.
CALLS = 64


@dataclass
class RayLink:
    """A machine that an actor holds."""

    node: str
    machine_id: str
    actor: Any

    def send(self, request: bytes, time_limit_s: float) -> bytes:
        """Return the host's answer, or raise that the link was lost."""
        import ray

        try:
            # A future of Python's: what waits for it hears signals, and which one it was.
            answer: bytes = self.actor.handle.remote(request).future().result(time_limit_s)
        except TimeoutError:
            raise LinkLostError(f"no answer within {time_limit_s:g} s") from None
        except ray.exceptions.RayError as error:
            raise LinkLostError(_reason(error)) from None
        return answer

    def close(self) -> None:
        """Kill the actor, and with it whatever it started."""
        import ray

        if ray.is_initialized():
            ray.kill(self.actor)


class RayCluster:
    """A Ray cluster to which this process is connected."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._resources = _resources(destination)
        self._connected = _connect(destination)

    def lease(
        self, avoid: Collection[str], never: Collection[str], say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> RayLink:
        """Return a machine with the resources that are asked for, once one is free, or raise why there will be none."""
        begun_s, said = time.monotonic(), False
        while time.monotonic() - begun_s < QUEUE_LIMIT_S:
            nodes = self._fitting_nodes(never)
            names = {node["NodeID"]: _name(node) for node in nodes}
            others = [node for node in nodes if node["NodeID"] not in avoid]
            refused = {*never, *(avoid if others else ())}
            link = self._attempt(others or nodes, refused, names, cancelled)
            if link is not None:
                return link
            if not said:
                say(f"waiting for a machine: all {len(names)} that have {self._asked_for} are in use")
                said = True
        raise StopwavError(f"--on {self._destination}: no machine was free within {QUEUE_LIMIT_S / 3600:g} h")

    def every_machine(self) -> Sequence[Callable[[], Link]]:
        """Return a way to reach each machine of the cluster, busy or not, for a look at it."""
        return [partial(self._look, node) for node in _alive_nodes()]

    def close(self) -> None:
        """Leave the cluster, unless this process was connected to it before."""
        import ray

        if self._connected:
            ray.shutdown()

    @property
    def _asked_for(self) -> str:
        kinds = [name.removeprefix(GPU_TYPE) for name in self._resources if name.startswith(GPU_TYPE)]
        amounts = {name: amount for name, amount in self._resources.items() if not name.startswith(GPU_TYPE)}
        return ", ".join([*(f"{name} {amount:g}" for name, amount in amounts.items()), *kinds])

    def _fitting_nodes(self, never: Collection[str]) -> list[dict[str, Any]]:
        """The machines that have the resources, free or not; raise where for a while there is none."""
        begun_s = time.monotonic()
        while True:
            alive = _alive_nodes()
            fitting = [node for node in alive if self._fits(node)]
            if nodes := [node for node in fitting if node["NodeID"] not in never]:
                return nodes
            if time.monotonic() - begun_s > ABSENT_LIMIT_S:
                break
            time.sleep(NAP_S)
        if fitting:
            raise StopwavError(
                f"--on {self._destination}: no other machine of the kind on which this run began is there; continue it "
                "with --resume once there is one"
            )
        hint = f"""start its nodes with --resources='{{"{EXCLUSIVE}": 1}}', or use --shared"""
        if len(self._resources) > 1:
            hint = f"the {len(alive)} there have {_listed(alive)}"
        raise StopwavError(f"--on {self._destination}: no node has {self._asked_for}; {hint}")

    def _fits(self, node: Mapping[str, Any]) -> bool:
        return all(node["Resources"].get(name, 0.0) >= amount for name, amount in self._resources.items())

    def _attempt(
        self,
        nodes: Sequence[Mapping[str, Any]],
        refused: Collection[str],
        names: Mapping[str, str],
        cancelled: Callable[[], bool],
    ) -> RayLink | None:
        """A machine that became free within a while; None where none did, or the one that was lent is gone."""
        import ray
        from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

        options: dict[str, Any] = dict(self._options(nodes))
        if refused:
            options["scheduling_strategy"] = NodeLabelSchedulingStrategy(hard={"ray.io/node-id": NotIn(*refused)})
        actor: Any = ray.remote(RayHost).options(**options).remote()
        begun, end_s = actor.where.remote().future(), time.monotonic() + ATTEMPT_S
        try:
            while time.monotonic() < end_s:
                if cancelled():
                    raise LeaseCancelledError
                with suppress(TimeoutError):
                    number = begun.result(NAP_S)
                    return RayLink(names.get(number, number), number, actor)
        except ray.exceptions.RayError as error:
            _raise_if_missing(error)
            return None
        except BaseException:
            ray.kill(actor)
            raise
        ray.kill(actor)
        return None

    def _options(self, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the actor asks Ray for: of a machine that it is to have alone, also its processors."""
        own = {name: amount for name, amount in self._resources.items() if name not in ("GPU", "CPU")}
        shares = [node["Resources"].get("CPU", 0.0) / node["Resources"].get(EXCLUSIVE, 1.0) for node in nodes]
        return {
            # Ray takes parts of a processor, or whole ones.
            "num_cpus": self._resources.get("CPU", 1.0) if self._destination.shared else _whole(min(shares)),
            "num_gpus": self._resources.get("GPU", 0.0),
            "resources": own,
            "max_restarts": 0,
            "max_concurrency": CALLS,
        }

    def _look(self, node: Mapping[str, Any]) -> Link:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actor: Any = ray.remote(RayHost).options(num_cpus=0, scheduling_strategy=strategy).remote()
        try:
            ray.get(actor.where.remote(), timeout=LOOK_LIMIT_S)
        except ray.exceptions.RayError as error:
            ray.kill(actor)
            _raise_if_missing(error)
            raise LinkLostError(_reason(error)) from None
        return RayLink(_name(node), node["NodeID"], actor)


def _whole(processors: float) -> float:
    return processors if processors < 1 else float(int(processors))


def _alive_nodes() -> list[dict[str, Any]]:
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _resources(destination: Destination) -> dict[str, float]:
    """The resources that a machine must have, as Ray counts them."""
    resources = {} if destination.shared else {EXCLUSIVE: 1.0}
    for name, value in destination.wanted.items():
        if name == "gpu":
            resources |= {"GPU": 1.0, f"{GPU_TYPE}{value}": 0.001}
            continue
        try:
            resources["CPU" if name == "cpu" else name] = float(value)
        except ValueError:
            raise StopwavError(
                f"--place {name}={value}: give gpu=TYPE, or a resource of the Ray cluster with its amount, such as "
                "big-memory=1"
            ) from None
    return resources


def _connect(destination: Destination) -> bool:
    """Connect this process to the cluster, unless it is; return whether that was done."""
    try:
        import ray
    except ImportError as error:
        raise StopwavError(f"--on {destination} needs Ray: pip install 'stopwav[ray]' ({error})") from None
    if ray.is_initialized():
        return False
    address = destination.address or os.environ.get("RAY_ADDRESS", "")
    _reach(destination, address)
    interrupt = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError:
        raise StopwavError(
            f"--on {destination}: no Ray cluster runs on this machine; start one with `ray start --head`, or name the "
            "address of its head: --on ray:HOST:6379"
        ) from None
    except Exception as error:
        raise StopwavError(f"--on {destination}: {' '.join(str(error).split())[:300]}") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)  # Ray's own would print a stack and end the command without results
    return True


def _reach(destination: Destination, address: str) -> None:
    """Raise at once where nobody answers at an address: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        if address and address not in ("auto", "local"):
            raise StopwavError(f"--on {destination}: write the address of its head as ray:HOST:PORT, such as :6379")
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_LIMIT_S).close()
    except (OSError, OverflowError, ValueError) as error:
        raise StopwavError(f"--on {destination}: cannot reach {address} ({error}); is its head running?") from None


def _name(node: Mapping[str, Any]) -> str:
    return f"node {node['NodeName']} ({node['NodeID'][:6]})"


def _listed(nodes: Sequence[Mapping[str, Any]]) -> str:
    """The resources of the nodes that somebody may ask for."""
    names = {name for node in nodes for name in node["Resources"]}
    own = sorted(name for name in names if not name.startswith("node:") and "memory" not in name)
    return ", ".join(own) or "none"


def _reason(error: BaseException) -> str:
    """The first sentence of what Ray says, which may go on with pages of logs."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def _raise_if_missing(error: BaseException) -> None:
    """Raise where a machine could not start the host because it has no stopwav, or another Python."""
    text = str(error)
    if "ModuleNotFoundError" in text or "ImportError" in text:
        last = [line.strip() for line in text.splitlines() if "Error" in line][-1]
        raise StopwavError(f"a node of the cluster cannot import stopwav: {last[:200]}") from None
