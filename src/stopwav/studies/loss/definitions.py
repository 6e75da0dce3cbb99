"""The metrics of a loss run: title, unit and meaning of each."""

from __future__ import annotations

from dataclasses import replace

from stopwav.studies.definition import Definition, Definitions, ratio, seconds, size

TIME = {
    "step_time": replace(
        seconds(
            "step time",
            "Joiner, loss and backward of one batch: device time on CUDA, wall time on the CPU; mean of batches.",
        ),
        headline="step, ms",
        scale=1e3,
    ),
    "forward_time": seconds("forward time", "The part of the step up to the loss: joiner and loss."),
    "backward_time": seconds("backward time", "The part of the step from the loss to all gradients."),
    "step_wall_time": seconds("step time on the host", "How long the host waits for a step, the device synchronised."),
    "time_per_cell": seconds("time per cell", "Σ step time / Σ T·(U + 1): a step's time per real cell of the lattice."),
    "padding_efficiency": ratio(
        "padding efficiency", "Σ T·(U + 1) / Σ N·max T·(max U + 1): the share of padded cells that are real."
    ),
    "rank": ratio(
        "rank",
        "1 + the number of correct, exact losses that are ahead: faster beyond doubt, by paired rounds on the batches "
        "that all share, or without failures where it failed itself.",
    ),
}

_WITHOUT_INPUTS = "The same, less what was in use once the inputs of the batch were made."
MEMORY = {
    "peak_host_bytes": size("peak host memory", "Most host memory resident during a step, the largest over batches."),
    "peak_host_over_inputs_bytes": replace(
        size("peak host memory, excluding inputs", _WITHOUT_INPUTS), headline="peak host memory"
    ),
    "peak_allocated_bytes": size("peak allocated", "Most memory that PyTorch's CUDA allocator had handed out at once."),
    "peak_allocated_over_inputs_bytes": replace(
        size("peak allocated, excluding inputs", _WITHOUT_INPUTS), headline="peak allocated"
    ),
    "peak_reserved_bytes": size(
        "peak reserved", "Most memory that PyTorch's CUDA allocator had reserved on the device."
    ),
    "peak_reserved_over_inputs_bytes": size("peak reserved, excluding inputs", _WITHOUT_INPUTS),
    "largest_batch": ratio("largest batch", "Most utterances, drawn by the seed, whose step succeeds once."),
}

CORRECTNESS = {
    "value_deviation": ratio(
        "max relative error of the value",
        "Largest |loss − oracle| / |oracle|, the oracle in float64, on small batches.",
    ),
    "gradient_deviation": ratio(
        "max relative error of the gradient",
        "Largest |gradient − oracle's| / largest |oracle's|, to encoder, predictor and joiner weights.",
    ),
    "correct": Definition(
        "correct", "bool", "1 where value and gradient are those of the oracle but for rounding, otherwise 0."
    ),
    "deterministic": Definition("deterministic", "bool", "1 where a second run gives the same bits, otherwise 0."),
    "pruning_gap": ratio("pruning gap", "Pruned loss / exact loss − 1: the effect of the paths that are left out."),
}

DEFINITIONS = Definitions(
    {"Loss: time": TIME, "Loss: memory": MEMORY, "Loss: correctness": CORRECTNESS},
)
