"""What each metric of a comparison means: one title, one unit and one sentence."""

from __future__ import annotations

from stopwav.studies.definition import Definition, ratio, seconds
from stopwav.studies.grid.definitions import LAWS


def _joules(title: str, text: str) -> Definition:
    return Definition(title, "J", text)


SIZE = {
    "parameters": ratio("parameters", "Numbers in the model's weights; a tensor that modules share counts once."),
    "trainable_parameters": ratio("trainable parameters", "Those that the engine has not frozen."),
    "parameter_bytes": Definition("size of the parameters", "B", "Bytes of the parameters in their precision."),
}

INPUTS = {
    "latency_mean": seconds("latency, mean", "Mean wall time of one input over all samples, as older reports give it."),
    "latency_p50": seconds("latency, P50", "Median wall time of one input over all samples."),
    "latency_p95": seconds("latency, P95", "Wall time that 95 % of the samples do not exceed."),
    "rtf": ratio("real-time factor (RTF)", "Σ wall time / Σ audio."),
    "rtfx": ratio("inverse real-time factor (RTFx)", "Seconds of audio done in a second: 1 / RTF."),
    "wer": ratio("word error rate (WER)", "Σ (substitutions + deletions + insertions) / Σ reference words."),
    "emitted_tokens": ratio("emitted tokens", "Tokens written for an input: they decide how long a search takes."),
    "load_time": seconds("load time", "Time to make the engine in a fresh process."),
}

LENGTHS = {
    "latency": seconds("latency at a length", "Wall time of one input of that length, after the warm-up."),
    "device_latency": seconds("device latency", "The same by the device's own events, where there is a device."),
    "multiply_adds": ratio("multiply-adds", "Multiply-adds of one input of that length, by torch's counter."),
    "operations_per_s": Definition("operations per second", "op/s", "2 · multiply-adds / latency: what is achieved."),
}

ENERGY = {
    "energy_per_utterance_gross": _joules("energy per utterance", "Joules of one input, idling included."),
    "energy_per_utterance_net": _joules("energy per utterance, net", "The same less what idling would have taken."),
    "energy_per_audio_s_gross": _joules("energy per second of audio", "Joules / seconds of audio, idling included."),
    "energy_per_audio_s_net": _joules("energy per second of audio, net", "The same less what idling takes."),
    "mean_power": Definition("mean power", "W", "Joules of a window / its seconds, while the work repeats."),
    "idle_power": Definition("idle power", "W", "The same while the loaded engine has nothing to do."),
    "sampled_to_counter": ratio(
        "sampled / counted", "Joules that sampled power adds up to / joules by the counter, over the same windows."
    ),
    "counter_step": _joules("smallest step of the counter", "The least by which the counter was seen to advance."),
    "counter_interval": seconds("time between steps", "How often the counter was seen to advance; the median."),
}

# In the order in which a reader meets them.
COMPARE_GROUPS: dict[str, dict[str, Definition]] = {
    "Comparison: size": SIZE,
    "Comparison: inputs": INPUTS,
    "Comparison: lengths": LENGTHS,
    "Comparison: energy": ENERGY,
}

COMPARE_DEFINITIONS = {name: one for group in COMPARE_GROUPS.values() for name, one in group.items()}


def compare_definition(metric: str) -> Definition | None:
    """The definition of a metric of a comparison; that of a part, such as `mean_power_gpu`, is that of the whole."""
    found = COMPARE_DEFINITIONS.get(metric) or LAWS.get(metric)
    if found is not None:
        return found
    whole = next((name for name in ENERGY if metric.startswith(f"{name}_")), None)
    if whole is None:
        return None
    part = metric.removeprefix(f"{whole}_").replace("_", " ")
    return Definition(f"{ENERGY[whole].title}, {part}", ENERGY[whole].unit, ENERGY[whole].text)
