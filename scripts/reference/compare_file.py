"""The parts of docs/reference/run-file.md that are about a comparison."""

SPEC = {
    "engines": "as named on the command line; the same one twice is called `NAME#2`",
    "frames": "`--frames`",
    "samples": "`--samples`",
    "corpus": "`--corpus`",
    "energy": "`--energy`, and true with `--meter-csv`",
    "energy_time_s": "`--energy-time`",
    "meter_csv": "`--meter-csv`",
    "rounds": "`--rounds`",
    "depth": "`--depth`",
    "expect": "`--expect`, as written",
    "time_limit_s": "`--time-limit`",
    "seed": "`--seed`",
    "plan": "the `Plan` given in Python, null for the default",
}

# What the data of each kind of piece holds, by the first item of its key; a test compares it with a real run.
DATA: dict[str, tuple[str, dict[str, str]]] = {
    "model": (
        '`["model", engine]`: what an engine of a comparison is; of one that could not be loaded, `loaded` is false '
        "and nothing more is in the run.",
        {
            "engine": "the engine's `info`",
            "parameters": "`parameters`, `trainable` and `bytes`, in all and for each of its `modules`, and the "
            "tensors that are `shared`, with their `names`; null where there is no torch network",
        },
    ),
    "operations": (
        '`["operations", engine, frames]`: the multiply-adds of one input, by torch\'s counter.',
        {
            "multiply_adds": "how many; null where they were not counted, with a `reason`",
            "modules": "how many of them in each module",
        },
    ),
    "length": (
        '`["length", round, engine, frames, attempt]`: one round at one length; as `cell` of a grid, and',
        {"emitted_tokens": "tokens that the engine wrote for the input, null where it does not say"},
    ),
    "sample": (
        '`["sample", round, engine, place]`: one input; its process is described by a `load` piece as in a latency '
        "run, with `first_s` for the first call.",
        {
            "id": "the utterance",
            "seconds": "wall time of its transcription",
            "device_s": "the same by the device's events, null without a CUDA device",
            "audio_s": "length of the audio",
            "text": "what the engine wrote",
            "emitted_tokens": "in how many tokens, null where it does not say",
        },
    ),
    "meters": (
        '`["meters"]`: the energy meters of the machine.',
        {
            "source": "those that were found, null for none",
            "missing": "those that were not, and why",
            "grains": "by part, the smallest step of its counter seen while idle (`step_j`) and the time between steps "
            "(`interval_s`), or null and why (`note`)",
        },
    ),
    "energy": (
        '`["energy", round, engine, frames]`: the work at one length, repeated.',
        {
            "engine": "the engine's `info`",
            "emitted_tokens": "as in `length`",
            "source": "the meters that were read",
            "tick_s": "how often the slowest of them advances",
            "whole": "the parts whose sum is the machine's total",
            "idle": "the window before the first work of the process, in which nothing was done",
            "windows": "the windows: `begin_s` (seconds since 1970), `seconds`, `iterations`, `joules` by part, and "
            "why a part is `missing`; beside them `sampled_joules`, by sampled power, and why a part is `unsampled`",
            "cautions": "`[code, message]` of each doubt about the warm-up",
        },
    ),
    "meter-log": (
        '`["meter-log"]`: what the log of `--meter-csv` says of the windows.',
        {"times_s": "seconds since 1970", "watts": "the power at each"},
    ),
}
