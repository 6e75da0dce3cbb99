"""What each metric of a loss run means: one title, one unit and one sentence."""

from __future__ import annotations

from stopwav.studies.definition import Definition, Definitions, ratio, seconds, size

TIME = {
    "step_time": seconds(
        "step time",
        "Joiner, loss and backward of one batch: device time on CUDA, wall time on the CPU; mean of batches.",
    ),
    "forward_time": seconds("forward time", "The part of the step up to the loss: joiner and loss."),
    "backward_time": seconds("backward time", "The part of the step from the loss to all gradients."),
    "step_wall_time": seconds("step time by the wall", "What the host waits for a step, the device synchronised."),
    "time_per_cell": seconds("time per cell", "Σ step time / Σ T·(U + 1): a step's time per real cell of the lattice."),
    "padding_efficiency": ratio(
        "padding efficiency", "Σ T·(U + 1) / Σ N·max T·(max U + 1): the share of padded cells that are real."
    ),
    "rank": ratio(
        "rank",
        "1 + the number of right, exact losses that are faster beyond doubt, by paired rounds on shared batches.",
    ),
}

_OVER = "The same, less what there was once the inputs of the batch were made."
MEMORY = {
    "peak_host_bytes": size("peak host memory", "Most host memory resident during one step, largest over batches."),
    "peak_host_over_inputs_bytes": size("peak host memory over inputs", _OVER),
    "peak_allocated_bytes": size("peak allocated", "Most that PyTorch's CUDA allocator had handed out at once."),
    "peak_allocated_over_inputs_bytes": size("peak allocated over inputs", _OVER),
    "peak_reserved_bytes": size("peak reserved", "Most that PyTorch's CUDA allocator had taken from the device."),
    "peak_reserved_over_inputs_bytes": size("peak reserved over inputs", _OVER),
    "largest_batch": ratio("largest batch", "Most utterances, drawn by the seed, whose step goes through once."),
}

CORRECTNESS = {
    "value_deviation": ratio(
        "deviation of the value", "Largest |loss − oracle| / |oracle|, the oracle in float64, on small batches."
    ),
    "gradient_deviation": ratio(
        "deviation of the gradient",
        "Largest |gradient − oracle's| / largest |oracle's|, to encoder, predictor and joiner weights.",
    ),
    "deterministic": Definition("deterministic", "bool", "1 where a second run gives the same bits, 0 where not."),
    "pruning_gap": ratio("pruning gap", "Pruned loss / exact loss − 1: what the paths that are left out amount to."),
}

DEFINITIONS = Definitions(
    {"Loss: time": TIME, "Loss: memory": MEMORY, "Loss: correctness": CORRECTNESS},
)
