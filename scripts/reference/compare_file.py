"""The parts of docs/reference/run-file.md that are about a comparison."""

# The data of each kind of piece, by the first item of its key.
DATA: dict[str, tuple[str, dict[str, str]]] = {
    "model": (
        '`["model", engine]`: the engine itself; where it could not be loaded, `loaded` is false '
        "and the run holds nothing more of it.",
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
        {"emitted_tokens": "tokens that the engine emitted for the input, null where it does not report them"},
    ),
    "sample": (
        '`["sample", round, engine, place]`: one input; its process is described by a `load` piece as in a latency '
        "run, with `first_s` for the first call.",
        {
            "id": "the utterance",
            "seconds": "wall time of its transcription",
            "device_s": "the same by the device's events, null without a CUDA device",
            "audio_s": "length of the audio",
            "text": "the recognised text",
            "emitted_tokens": "how many tokens it has, null where the engine does not report them",
        },
    ),
    "meters": (
        '`["meters"]`: the energy meters of the machine.',
        {
            "source": "the meters that were found, null for none",
            "missing": "the meters that were not, and why",
            "grains": "counter resolution by part: the smallest step seen while idle (`step_j`) and the time between "
            "steps (`interval_s`), or null and why (`note`)",
            "keeps_log": "that the readings of an external meter are in the run, so that no file is read for results; "
            "absent in older runs",
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
            "sampled_parts": "the parts without a counter, whose joules are the integral of sampled power",
            "idle": "the window before the first work of the process, in which the process did nothing",
            "windows": "the windows: `begin_s` (seconds since 1970), `seconds`, `iterations`, `joules` by part, and "
            "why a part is `missing`; as a cross-check `sampled_joules`, by sampled power, and why a part is "
            "`unsampled`; where power was sampled, the number of `samples` and the longest time between two "
            "(`longest_gap_s`)",
            "cautions": "`[code, message]` of each warning about the warm-up",
        },
    ),
    "meter-log": (
        '`["meter-log", number]`: readings of the log of `--meter-csv` during the windows, as they came; in older runs '
        'one piece `["meter-log"]`.',
        {
            "times_s": "seconds since 1970",
            "watts": "the power at each",
            "source": "what the log was taken for, with its unit",
            "waited_s": "in the last piece, how long the reading after the last window was waited for",
            "fault": "in the last piece, why that reading is missing; empty where it is not",
        },
    ),
}
