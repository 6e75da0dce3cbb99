"""What `doctor` says of a machine, of this one or of each machine of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stopwav.errors import Caution, StopwavError
from stopwav.measure import health
from stopwav.measure.health import Sensor, Steadiness
from stopwav.measure.machine import Machine, describe
from stopwav.studies.launch.cluster import Cluster, Link, LinkLostError
from stopwav.studies.launch.environment import Welcome, current_environment
from stopwav.studies.launch.host import pack, unpack

# A look takes some seconds, of which two are for how steady a core is.
LOOK_LIMIT_S = 120.0
# Machines that are looked at together.
TOGETHER = 16


@dataclass(frozen=True)
class Checkup:
    """A machine, what it can measure with, and what would spoil a measurement on it."""

    machine: Machine
    steady: Steadiness
    sensors: tuple[Sensor, ...]
    cautions: tuple[Caution, ...]


@dataclass(frozen=True)
class NodeCheckup:
    """The checkup of a machine of a cluster, and what keeps it from being used for a run that is driven from here."""

    node: str
    checkup: Checkup | None
    problems: tuple[str, ...]


def check_up() -> Checkup:
    """Return the checkup of this machine."""
    cautions = health.health()
    steady = health.steadiness()
    machine, sensors = describe(), tuple(health.list_sensors())
    return Checkup(machine, steady, sensors, (*cautions, *steady.cautions(), *_without_fft(machine)))


def check_up_cluster(cluster: Cluster) -> Iterator[NodeCheckup]:
    """Yield the checkup of each machine of a cluster, in the cluster's order."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        yield from pool.map(_check_up_node, cluster.every_machine())


def _check_up_node(reach: Callable[[], Link]) -> NodeCheckup:
    try:
        link = reach()
    except (LinkLostError, StopwavError) as error:
        return NodeCheckup("node", None, (str(error),))
    try:
        welcome: Welcome = unpack(link.send(pack("prepare", current_environment()), LOOK_LIMIT_S))
        checkup: Checkup = unpack(link.send(pack("ask", check_up, ()), LOOK_LIMIT_S))
    except (LinkLostError, StopwavError) as error:
        return NodeCheckup(link.node, None, (str(error),))
    finally:
        link.close()
    return NodeCheckup(link.node, checkup, welcome.problems)


def _without_fft(machine: Machine) -> list[Caution]:
    """A warning where PyTorch has no FFT, as in some builds for small boards; stopwav works all the same."""
    if "torch" not in machine.packages:
        return []
    try:
        from stopwav.models.features import has_fft
    except (ImportError, OSError):  # a PyTorch that does not load is another matter
        return []
    if has_fft():
        return []
    message = (
        f"PyTorch {machine.packages['torch']} was built without MKL or another FFT, so torch.stft fails here: our own "
        "models compute features by a matrix product, the same in more time; other toolkits may fail"
    )
    return [Caution("no-fft", message)]
