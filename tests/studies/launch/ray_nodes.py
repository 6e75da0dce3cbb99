"""A Ray cluster of three nodes on this machine, of which any may be killed and replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NODES = 3


class RayNodes:
    """The cluster: a head that measures nothing, and nodes that may each be had alone."""

    def __init__(self, cpus: int = 1) -> None:
        from ray.cluster_utils import Cluster

        self._cpus = cpus
        # The head only answers: it is not killed.
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes: list[Any] = [self._add() for _ in range(NODES)]

    @property
    def on(self) -> str:
        """What `--on` names."""
        return f"ray:{self._cluster.address}"

    def kill(self, position: int) -> None:
        """Kill a node as a power cut would, and start another in its place."""
        self._cluster.remove_node(self.nodes[position], allow_graceful=False)
        self.nodes[position] = self._add()

    def close(self) -> None:
        """End every node."""
        import ray

        ray.shutdown()
        self._cluster.shutdown()

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=self._cpus, resources={"stopwav": 1})


@contextmanager
def ray_nodes() -> Iterator[RayNodes]:
    """Start the cluster, and end it."""
    nodes = RayNodes()
    try:
        yield nodes
    finally:
        nodes.close()
