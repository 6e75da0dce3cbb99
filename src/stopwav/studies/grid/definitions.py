"""What each metric of a grid means: one title, one unit and one sentence."""

from __future__ import annotations

from stopwav.studies.definition import Definition, ratio, seconds, size

PACE = {
    "rtf": ratio("real-time factor (RTF)", "Wall time of one batch / (batch size · duration)."),
    "rtfx": ratio("inverse real-time factor (RTFx)", "Seconds of audio done in a second: 1 / RTF."),
    "batch_time": seconds("time of a batch", "Wall time of transcribing one batch, after the warm-up."),
    "device_rtf": ratio("real-time factor of the device", "Time of one batch by the device's events / its audio."),
    "device_time": seconds("device time of a batch", "From the first to the last event of a batch on the device."),
    "host_share": ratio("share of the host", "1 - device time / wall time: what the host adds to a batch."),
    "first_call_time": seconds("first call", "Time of the first batch in a fresh process, never among the others."),
    "load_time": seconds("load time", "Time to make the engine, and its input, in a fresh process."),
}

_OVER = "The same, less what there was once the engine was loaded and its input made."
MEMORY = {
    "peak_host_bytes": size("peak host memory", "Most host memory resident during one batch, largest over rounds."),
    "peak_host_over_baseline_bytes": size("peak host memory over baseline", _OVER),
    "peak_allocated_bytes": size("peak allocated", "Most that PyTorch's CUDA allocator had handed out at once."),
    "peak_allocated_over_baseline_bytes": size("peak allocated over baseline", _OVER),
    "peak_reserved_bytes": size("peak reserved", "Most that PyTorch's CUDA allocator had taken from the device."),
    "peak_reserved_over_baseline_bytes": size("peak reserved over baseline", _OVER),
    "peak_device_bytes": size("peak on the device", "Most memory of the device in use, by whomever."),
    "peak_device_over_baseline_bytes": size("peak on the device over baseline", _OVER),
}

LAWS = {
    "law_constant": seconds("a of the law", "Time ≈ a + b·x + c·x² along the axis: the constant term."),
    "law_linear": seconds("b of the law", "The linear term, in seconds per second of audio or per utterance."),
    "law_quadratic": seconds("c of the law", "The quadratic term, where the F test shows that there is one."),
    "law_quadratic_p": ratio("p of the quadratic term", "Probability of as large a quadratic term by chance alone."),
    "law_spread": ratio("spread about the law", "Standard deviation of the cells about the law, as a share of it."),
    "held_out_time": seconds("held-out cell", "What a fit without the farthest cell of the axis predicts for it."),
    "held_out_error": ratio("error of the held-out cell", "Predicted / measured - 1 of the held-out cell."),
    "predicted_time": seconds("predicted time", "What the law predicts for the length asked for: not measured."),
    "predicted_rtf": ratio("predicted RTF", "The predicted time / the audio of that batch: not measured."),
    "predicted_rtfx": ratio("predicted RTFx", "1 / predicted RTF: not measured."),
}

FRONTIER = {
    "largest_batch": ratio("largest batch", "Largest batch of a duration that goes through once within the limits."),
}

# In the order in which a reader meets them.
GRID_GROUPS: dict[str, dict[str, Definition]] = {
    "Grid: pace": PACE,
    "Grid: memory": MEMORY,
    "Grid: laws and predictions": LAWS,
    "Grid: frontier": FRONTIER,
}

GRID_DEFINITIONS: dict[str, Definition] = {name: one for group in GRID_GROUPS.values() for name, one in group.items()}
