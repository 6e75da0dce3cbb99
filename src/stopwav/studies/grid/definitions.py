"""The metrics of a grid: one title, one unit and one sentence each."""

from __future__ import annotations

from dataclasses import replace

from stopwav.studies.definition import Definitions, ratio, seconds, size
from stopwav.studies.growth import GROWTH

PACE = {
    "rtf": replace(
        ratio("real-time factor (RTF)", "Wall time of one batch / (batch size · duration)."),
        headline="RTF",
        decimals=4,
    ),
    "rtfx": ratio("inverse real-time factor (RTFx)", "Seconds of audio processed per second: 1 / RTF."),
    "batch_time": seconds("time of a batch", "Wall time of transcribing one batch, after the warm-up."),
    "device_rtf": ratio("real-time factor of the device", "Time of one batch by the device's events / its audio."),
    "device_time": seconds("device time of a batch", "From the first to the last event of a batch on the device."),
    "host_share": ratio("share of the host", "1 - device time / wall time: what the host adds to a batch."),
    "first_call_time": seconds("first call", "Time of the first batch in a fresh process, never among the others."),
    "load_time": seconds("load time", "Time to make the engine, and its input, in a fresh process."),
}

_OVER = "The same, less what there was once the engine was loaded and its input made."
MEMORY = {
    "peak_host_bytes": replace(
        size("peak host memory", "Most host memory resident during one batch, largest over rounds."),
        headline="peak memory",
    ),
    "peak_host_over_baseline_bytes": size("peak host memory over baseline", _OVER),
    "peak_allocated_bytes": size("peak allocated", "Most that PyTorch's CUDA allocator had handed out at once."),
    "peak_allocated_over_baseline_bytes": size("peak allocated over baseline", _OVER),
    "peak_reserved_bytes": size("peak reserved", "Most that PyTorch's CUDA allocator had taken from the device."),
    "peak_reserved_over_baseline_bytes": size("peak reserved over baseline", _OVER),
    "peak_device_bytes": size("peak on the device", "Most memory of the device in use, by any process."),
    "peak_device_over_baseline_bytes": size("peak on the device over baseline", _OVER),
}

FRONTIER = {
    "largest_batch": ratio("largest batch", "Largest batch of a duration that is transcribed once within the limits."),
}

DEFINITIONS = Definitions(
    {
        "Grid: pace": PACE,
        "Grid: memory": MEMORY,
        "Grid: scaling fits and predictions": GROWTH,
        "Grid: frontier": FRONTIER,
    }
)
