"""The numbers that Prometheus reads at `/metrics`, in a registry of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stopwav.servers.serve.failure import RefusalReason, StreamEnd
from stopwav.servers.serve.options import ServedProtocol

# From a chunk that a small engine does in a millisecond to one that waited behind a whole queue.
CHUNK_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServeMetrics:
    """Streams, audio, times and restarts since the start of the server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._open = Gauge("stopwav_streams_open", "Streams that are open now.", registry=self._registry)
        self._workers = Gauge("stopwav_workers_up", "Workers that take streams now.", registry=self._registry)
        self._tasks = Gauge("stopwav_tasks", "Tasks of the server's event loop.", registry=self._registry)
        self._accepted = self._counter("stopwav_streams_accepted", "Streams that were accepted.", "protocol")
        self._refused = self._counter("stopwav_streams_refused", "Streams that were refused.", "protocol", "reason")
        self._failed = self._counter(
            "stopwav_streams_failed", "Accepted streams that ended without their text.", "protocol", "reason"
        )
        self._audio = self._counter("stopwav_audio_seconds", "Audio that was recognised.", "protocol")
        self._restarts = self._counter("stopwav_worker_restarts", "Workers that were started again.")
        self._chunks = Histogram(
            "stopwav_chunk_seconds",
            "Time from a chunk's arrival to its texts: the wait for the worker and the engine's work.",
            ["protocol"],
            registry=self._registry,
            buckets=CHUNK_BUCKETS_S,
        )

    def watch(self, open_streams: Callable[[], int], workers_up: Callable[[], int]) -> None:
        """Read these two, and the number of tasks, whenever somebody asks."""
        self._tasks.set_function(lambda: len(asyncio.all_tasks()))
        self._open.set_function(open_streams)
        self._workers.set_function(workers_up)

    def accept(self, protocol: ServedProtocol) -> None:
        """Count a stream that was accepted."""
        self._accepted.labels(protocol).inc()

    def refuse(self, protocol: ServedProtocol, reason: RefusalReason) -> None:
        """Count a stream that was not."""
        self._refused.labels(protocol, reason).inc()

    def fail(self, protocol: ServedProtocol, reason: StreamEnd) -> None:
        """Count a stream that ended without its text."""
        self._failed.labels(protocol, reason).inc()

    def hear(self, protocol: ServedProtocol, audio_s: float, took_s: float) -> None:
        """Count a chunk: its audio, and the time to its texts."""
        self._audio.labels(protocol).inc(audio_s)
        self._chunks.labels(protocol).observe(took_s)

    def restart(self) -> None:
        """Count a worker that was started again."""
        self._restarts.inc()

    def page(self) -> bytes:
        """Return all of them in Prometheus's text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)
