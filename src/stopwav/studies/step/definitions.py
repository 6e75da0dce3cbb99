"""What each metric of a step means: one title, one unit and one sentence."""

from __future__ import annotations

from stopwav.studies.definition import Definition, ratio, seconds, size

_PHASE = "in a clean step, by the device's clock where there is one"
STEP = {
    "step_time": seconds("time of a step", "Wall time of a clean step, mean over the batches: no hook on any module."),
    "step_device_time": seconds("device time of a step", "The same by the device's events."),
    "data_time": seconds("data", f"Getting the batch, {_PHASE}."),
    "loss_time": seconds("loss", f"Computing the loss from the model's output, {_PHASE}."),
    "optimizer_time": seconds("optimiser", f"The optimiser's step and clearing gradients, {_PHASE}."),
    "rest_time": seconds("rest", f"What is none of the others, {_PHASE}."),
    "overhead": ratio("overhead", "Watched steps / clean steps - 1, on the same batches in turning order."),
    "frames_per_second": Definition(
        "frames per second", "1/s", "Frames that are no padding / wall time of clean steps."
    ),
    "padding_efficiency": ratio("padding efficiency", "Frames that are no padding / all frames of the batches."),
    "first_step_time": seconds("first step", "Time of the first step of a process, never among the others."),
    "load_time": seconds("load time", "Time to make the model and its batches."),
    "peak_bytes": size("peak memory", "Most memory in use at once in the batch that takes most; the note says where."),
    "baseline_bytes": size("memory before a step", "What model and optimiser state hold between steps."),
    "communication_share": ratio(
        "communication", "Waiting for other processes at the end of the backward pass / step."
    ),
}

ROWS = {
    "share": ratio("share", "Time of a row with all that is in it / time of the watched steps."),
    "self_share": ratio("own share", "The same without what is inside it; over all rows they add up to 1."),
    "total_time": seconds("time", "The row's share of a clean step, in seconds."),
    "forward_time": seconds("forward", "Of a row, its forward and loss part; of the step, the forward phase."),
    "backward_time": seconds("backward", "The backward part, recomputation by checkpoints included."),
    "forward_self_time": seconds("own forward", "The forward part without what is inside it."),
    "backward_self_time": seconds("own backward", "The backward part without what is inside it."),
    "forward_wall_time": seconds("forward on the host", "Host time of the forward part in the watched steps."),
    "backward_wall_time": seconds("backward on the host", "Host time of the backward part in the watched steps."),
    "calls": ratio("calls", "Calls of a module, or passages of a stage, in a step; recomputation not counted."),
    "parameters": ratio("parameters", "Parameters of a module and of all modules in it; shared ones once."),
    "held_bytes": size(
        "held for backward", "Tensors kept for the backward pass, each counted where it was first kept."
    ),
    "gradient_bytes": size("gradients", "Gradients of its parameters."),
    "state_bytes": size("optimiser state", "What the optimiser keeps for its parameters."),
    "layer_time_min": seconds("quickest layer", "Of a row of repeated layers: the time of the quickest one."),
    "layer_time_max": seconds("slowest layer", "Of a row of repeated layers: the time of the slowest one."),
}

# In the order in which a reader meets them.
STEP_GROUPS: dict[str, dict[str, Definition]] = {"Step: the whole": STEP, "Step: its rows": ROWS}
STEP_DEFINITIONS = {name: one for group in STEP_GROUPS.values() for name, one in group.items()}
