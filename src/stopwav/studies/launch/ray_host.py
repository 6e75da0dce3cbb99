"""The actor that holds a machine of a Ray cluster: Ray starts it there, and kills it when it is no longer used."""

from __future__ import annotations

from stopwav.studies.launch.host import Host


class RayHost:
    """A host behind Ray's calls."""

    def __init__(self) -> None:
        self._host = Host()

    def where(self) -> str:
        """Return the number that Ray gives the machine."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def handle(self, request: bytes) -> bytes:
        """Answer a request."""
        return self._host.handle(request)
