"""The run of a study on a cluster: its pieces are measured there, and the file is written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stopwav.measure.launcher import LocalLauncher, current_launcher, launching_on
from stopwav.studies.launch.destination import Destination, parse_destination

# The rest is imported when a cluster is named: a run on this machine needs none of it.
if TYPE_CHECKING:
    from typing import TypeVar

    from stopwav.piece import Ran
    from stopwav.record import Record
    from stopwav.studies.launch.cluster import Cluster
    from stopwav.studies.launch.machine_launcher import MachineLauncher
    from stopwav.studies.spec import StudySpec

    Spec = TypeVar("Spec", bound=StudySpec)


def run_where_asked(spec: Spec, run: Callable[[Spec], Record]) -> Record:
    """Return the run of a spec, measured on this machine, or on the cluster that it names.

    Where its machine is lost, the run is continued on another, as it is when it was killed and is resumed.
    """
    if spec.on is None:
        return run(spec)
    from stopwav.studies.engine_check import check_names
    from stopwav.studies.launch.machine_launcher import MachineLauncher, MachineLostError

    destination = parse_destination(spec.on, spec.place, spec.shared)
    check_names(_engines_of(spec))  # before a machine is waited for, maybe for hours
    cluster = open_cluster(destination)
    try:
        machines = getattr(spec, "machines", 1)  # of those studies that can share their work out
        with MachineLauncher(cluster, spec.say, machines) as launcher, launching_on(launcher):
            while True:
                try:
                    launcher.link()  # before the time of the run begins: machines may be in use for hours
                    return run(spec)
                except MachineLostError as lost:
                    spec.say(f"{lost}; continuing on another machine")
    finally:
        cluster.close()


def _engines_of(spec: StudySpec) -> list[str]:
    """The engines and servers that a spec names, if any; a profile of SpeechBrain is none."""
    settings = spec.stored()
    named = [settings.get("engine"), *settings.get("engines", ()), *settings.get("targets", ())]
    return [str(name) for name in named if name and not str(name).endswith((".yaml", ".yml"))]


def open_cluster(destination: Destination) -> Cluster:
    """Return the cluster of a destination."""
    if destination.scheduler == "ray":
        from stopwav.studies.launch.ray_cluster import RayCluster

        return RayCluster(destination)
    from stopwav.studies.launch.slurm_cluster import SlurmCluster

    return SlurmCluster(destination)


def machine_launcher() -> MachineLauncher | None:
    """Return the launcher of this context where it measures on a cluster."""
    launcher = current_launcher()
    if isinstance(launcher, LocalLauncher):
        return None
    from stopwav.studies.launch.machine_launcher import MachineLauncher

    return launcher if isinstance(launcher, MachineLauncher) else None


def where_it_ran() -> Ran | None:
    """Return where and when what was measured last was measured, where that was on a cluster."""
    launcher = machine_launcher()
    return None if launcher is None else launcher.stamp()
