"""The metrics of a step run: title, unit and meaning of each."""

from __future__ import annotations

from dataclasses import replace

from stopwav.studies.definition import Definition, Definitions, ratio, seconds, size

_PHASE = "in a clean step, by the device's clock where there is one"
STEP = {
    "step_time": replace(
        seconds("step time", "Wall time of a clean step, without hooks on any module; mean over the batches."),
        headline="step, ms",
        scale=1e3,
    ),
    "step_device_time": seconds("step time on the device", "The same by the device's events."),
    "data_time": seconds("data", f"Getting the batch, {_PHASE}."),
    "loss_time": seconds("loss", f"Computing the loss from the model's output, {_PHASE}."),
    "optimizer_time": seconds("optimiser", f"The optimiser's step and clearing gradients, {_PHASE}."),
    "rest_time": seconds("rest", f"The remaining time, {_PHASE}."),
    "overhead": ratio(
        "profiling overhead", "Profiled steps / clean steps − 1, on the same batches in alternating order."
    ),
    "frames_per_second": Definition("frames per second", "1/s", "Frames without padding / wall time of clean steps."),
    "padding_efficiency": ratio("padding efficiency", "Frames without padding / all frames of the batches."),
    "first_step_time": seconds("first step", "Time of the first step of a process, which is not among the others."),
    "load_time": seconds("load time", "Time to make the model and its batches."),
    "peak_bytes": replace(
        size("peak memory", "Most memory in use at once in the batch that takes most; the note says where."),
        headline="peak memory",
    ),
    "baseline_bytes": size("memory before a step", "Memory of the model and the optimiser state between steps."),
    "communication_share": ratio(
        "communication", "Waiting for other processes at the end of the backward pass / step."
    ),
}

ROWS = {
    "share": ratio("share", "Time of a row with its children / time of the profiled steps."),
    "self_share": ratio("own share", "The same without its children; over all rows they add up to 1."),
    "total_time": seconds("time", "The row's share of a clean step, in seconds."),
    "forward_time": seconds("forward", "Of a row, its forward and loss part; of the step, the forward phase."),
    "backward_time": seconds("backward", "The backward part, recomputation by checkpoints included."),
    "forward_self_time": seconds("own forward", "The forward part without its children."),
    "backward_self_time": seconds("own backward", "The backward part without its children."),
    "forward_wall_time": seconds("forward on the host", "Host time of the forward part in the profiled steps."),
    "backward_wall_time": seconds("backward on the host", "Host time of the backward part in the profiled steps."),
    "calls": ratio("calls", "Calls of a module, or entries of a stage, in a step; recomputation not counted."),
    "parameters": ratio("parameters", "Parameters of a module and of all modules in it; shared ones once."),
    "held_bytes": size(
        "saved activations", "Tensors saved for the backward pass, each counted where it was first saved."
    ),
    "gradient_bytes": size("gradients", "Gradients of its parameters."),
    "state_bytes": size("optimiser state", "What the optimiser stores for its parameters."),
    "layer_time_min": seconds("quickest layer", "Of a row of repeated layers: the time of the quickest one."),
    "layer_time_max": seconds("slowest layer", "Of a row of repeated layers: the time of the slowest one."),
}

DEFINITIONS = Definitions({"Step: the whole": STEP, "Step: its rows": ROWS})
