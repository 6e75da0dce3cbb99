"""The metrics of a comparison: one title, one unit and one sentence each."""

from __future__ import annotations

from dataclasses import replace

from stopwav.studies.definition import ERROR_RATES, Definition, Definitions, ratio, seconds, size
from stopwav.studies.growth import GROWTH


def _count(title: str, text: str) -> Definition:
    return Definition(title, "", text, rests_on_speed=False)


def _in_ms(title: str, text: str) -> Definition:
    return Definition(title, "s", text, scale=1e3)


def _joules(title: str, text: str) -> Definition:
    return Definition(title, "J", text, decimals=3)


SIZE = {
    "parameters": _count("parameters", "Numbers in the model's weights; a tensor that modules share counts once."),
    "trainable_parameters": _count("trainable parameters", "Those that the engine has not frozen."),
    "parameter_bytes": size("parameter size", "Bytes of the parameters in their precision."),
}

INPUTS = {
    "latency_mean": _in_ms("latency, mean", "Mean wall time of one input over all samples, as older reports give it."),
    "latency_p50": _in_ms("latency, P50", "Median wall time of one input over all samples."),
    "latency_p95": _in_ms("latency, P95", "Wall time that 95 % of the samples do not exceed."),
    "rtf": Definition("real-time factor (RTF)", "", "Σ wall time / Σ audio.", decimals=4, headline="RTF"),
    "rtfx": Definition(
        "inverse real-time factor (RTFx)", "", "Seconds of audio processed per second: 1 / RTF.", headline="RTFx"
    ),
    **ERROR_RATES,
    "emitted_tokens": Definition(
        "emitted tokens",
        "",
        "Tokens emitted for an input: they decide how long a search takes.",
        decimals=1,
        rests_on_speed=False,
    ),
    "load_time": seconds("load time", "Time to make the engine in a fresh process."),
}

LENGTHS = {
    "latency": _in_ms("latency at a length", "Wall time of one input of that length, after the warm-up."),
    "device_latency": _in_ms("device latency", "The same by the device's own events, where there is a device."),
    "multiply_adds": _count("multiply-adds", "Multiply-adds of one input of that length, by torch's counter."),
    "operations_per_s": Definition("operations per second", "op/s", "2 · multiply-adds / latency, as achieved."),
}

ENERGY = {
    "energy_per_utterance_gross": _joules("energy per utterance", "Joules of one input, idling included."),
    "energy_per_utterance_net": _joules("net energy per utterance", "The same less the joules of idling."),
    "energy_per_audio_s_gross": _joules("energy per s of audio", "Joules / seconds of audio, idling included."),
    "energy_per_audio_s_net": _joules("net energy per s of audio", "The same less the joules of idling."),
    "mean_power": Definition("mean power", "W", "Joules of a window / its seconds, while the work repeats."),
    "idle_power": Definition("idle power", "W", "The same while the loaded engine has nothing to do."),
    "sampled_to_counter": ratio(
        "sampled / counted",
        "Cross-check of the counter: joules by sampled power / joules by the counter, over the same windows.",
    ),
    "counter_step": _joules("counter resolution", "The smallest step by which the counter was seen to advance."),
    "counter_interval": seconds("counter interval", "Median time between two steps of the counter."),
}


def _derive(metric: str) -> Definition | None:
    """The definition of a metric of a scaling fit; or of one part's energy, such as `mean_power_gpu`."""
    if metric in GROWTH:
        return GROWTH[metric]
    whole = next((name for name in ENERGY if metric.startswith(f"{name}_")), None)
    if whole is None:
        return None
    part = metric.removeprefix(f"{whole}_").replace("_", " ")
    return replace(ENERGY[whole], title=f"{ENERGY[whole].title}, {part}")


DEFINITIONS = Definitions(
    {
        "Comparison: size": SIZE,
        "Comparison: inputs": INPUTS,
        "Comparison: lengths": LENGTHS,
        "Comparison: energy": ENERGY,
    },
    _derive,
)
