"""The overhead of the harness per chunk, on an engine that does nothing. Prints a Markdown table.

python benchmarks/overhead.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

from stopwav.engines.protocol import EngineInfo
from stopwav.measure.machine import describe
from stopwav.speech.corpus import Utterance
from stopwav.speech.events import Hypothesis
from stopwav.speech.stored_trace import trace_from_json
from stopwav.stats import nearest_rank
from stopwav.studies.latency.stream_runner import StreamRunner

CHUNKS = 5_000
CHUNK_MS = 10


class Nothing:
    """An engine that does nothing; it is its own stream."""

    info = EngineInfo(name="nothing", version="1", chunk_s=CHUNK_MS / 1e3)

    def open(self) -> Nothing:
        """Return itself."""
        return self

    def push(self, samples: object) -> list[Hypothesis]:
        """Return no text."""
        return []

    def finish(self) -> list[Hypothesis]:
        """Return no text."""
        return []


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "silence.wav"
        soundfile.write(path, np.zeros(16 * CHUNK_MS * CHUNKS, dtype=np.float32), 16_000)
        utterance = Utterance("silence", path, "")
        runner = StreamRunner(f"{__file__}:Nothing", None)
        runner.stream(utterance, "virtual")
        start = time.perf_counter()
        data = runner.stream(utterance, "virtual")
        loop_us = (time.perf_counter() - start) / CHUNKS * 1e6
    added_us = trace_from_json(data["trace"]).service_s[:-1] * 1e6
    print(f"{added_us.size} chunks on {describe().cpu}, {describe().logical_cores} cores\n")
    print("| per chunk, in µs | P50 | P95 | P99 |")
    print("|---|---|---|---|")
    cells = " | ".join(f"{nearest_rank(added_us, p):.2f}" for p in (0.50, 0.95, 0.99))
    print(f"| added to the engine's own time | {cells} |")
    print(f"\nThe whole loop, slicing and bookkeeping included: {loop_us:.1f} µs per chunk, outside the timed part.")


if __name__ == "__main__":
    main()
