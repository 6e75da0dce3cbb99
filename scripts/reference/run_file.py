"""docs/reference/run-file.md: the format of a run file."""

import re
from collections.abc import Mapping

from pydantic import BaseModel

from reference import compare_file
from reference.markdown import code, page, table
from stopwav.record import FORMAT, Header, Piece
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.step.spec import StepSpec

INTRODUCTION = f"""
A run is one file of JSON lines, format {FORMAT}: a header, then a line for each finished piece of work, then an end
line. Each line is flushed to disk before the next piece begins, so a run that is killed loses at most the piece it
was in; a torn last line is dropped when the file is read. Only raw observations are stored. `stopwav report` computes
every statistic anew.

The file is ASCII: other characters are escaped. Times are in seconds. Of pieces with equal keys there is never more
than one. A file of a newer format is refused, with a word to upgrade. Unknown keys are ignored.
"""

HEADER = {
    "kind": "`header`",
    "format": "version of this format",
    "stopwav": "version that wrote the file",
    "study": "`latency`, `grid`, `compare`, `loss` or `step`",
    "started": "UTC, to the second",
    "spec": "what was asked for, see below; `--resume` looks for the newest run with an equal one",
    "machine": "processor, memory, system, packages with versions, fingerprint: what `stopwav doctor --json` prints",
    "corpus": "`name`, `digest`, `problems`, `cautions`, and `utterances`, each with `id`, `path`, `start_s`, `end_s`, "
    "`text` and `words` (`[word, start, end]`); of a grid, `name` and `digest` of its audio, of a step of its shapes; "
    "of a comparison also `inputs`, the ids in the order in which they are taken; of a loss run, `name` and `digest` "
    "of its shapes, how many there are (`count`), and `settings`, each with the `batches` that every loss is fed",
    "normaliser": "`name` and `version` of the text normaliser behind WER and word latency",
    "warnings": "what the health checks of `doctor` warned of at the start, as `code` and `message`",
}

SPEC = {
    "engines": "as named on the command line; the same one twice is called `NAME#2`",
    "corpus": "`--corpus`",
    "words": "`--words`",
    "chunk_ms": "`--chunk-ms`",
    "pace": "`--pace`",
    "limit": "`--limit`",
    "rounds": "`--rounds`",
    "time_limit_s": "`--time-limit`",
    "seed": "`--seed`",
    "knobs": "with `--explain`, the settings that the first engine offers to try: each `setting`, the `engine` with "
    "it or `null`, and why it is `unavailable`; otherwise `null`",
}

GRID_SPEC = {
    "engine": "as named on the command line",
    "durations": "`--durations`",
    "batch_sizes": "`--batch-sizes`",
    "audio": "`--audio`",
    "device": "`--device`",
    "triangle": "`--triangle`",
    "frontier": "`--frontier`",
    "rounds": "`--rounds`",
    "time_limit_s": "`--time-limit`",
    "memory_limit_gb": "`--memory-limit`",
    "predict_s": "`--predict`",
    "seed": "`--seed`",
    "plan": "the `Plan` given in Python, null for the default",
}

LOSS_SPEC = {
    "losses": "as named on the command line, or all that were installed",
    "shapes": "`--shapes`",
    "tokenizer": "`--tokenizer`",
    "subsampling": "`--subsampling`",
    "batch_size": "`--batch-size`",
    "max_frames": "`--max-frames`",
    "sort": "`pairs` for `--sort`, `columns-independently`, or false",
    "buckets": "`--buckets`",
    "batches": "`--batches`",
    "vocab": "`--vocab`",
    "dim": "`--dim`",
    "blank": "`--blank`",
    "dtype": "`--dtype`",
    "device": "`--device`",
    "largest_batch": "`--largest-batch`",
    "rounds": "`--rounds`",
    "time_limit_s": "`--time-limit`",
    "memory_limit_gb": "`--memory-limit`",
    "seed": "`--seed`",
    "plan": "the `Plan` given in Python, null for the default",
}

PIECE = {
    "kind": "`piece`",
    "key": "which piece: the kind of observation, the round (from 0), the engine's name, and what else tells it apart",
    "status": "how it ended",
    "message": "why, where it did not end well",
    "last_words": "the end of what the engine's process wrote to its output before it died",
    "data": "what was observed, see below",
}

# What the data of each kind of piece holds, by the first item of its key; a test compares it with a real run.
DATA: dict[str, tuple[str, dict[str, str]]] = {
    "stream": (
        '`["stream", round, engine, utterance]`: one utterance through one engine.',
        {"trace": "the trace; cut short where the engine failed, absent where its process died"},
    ),
    "load": (
        '`["load", round, engine, attempt]`: one process that was loaded and warmed up; `attempt` counts restarts.',
        {
            "engine": "the engine's `info`",
            "load_s": "time to make the engine",
            "warmup_s": "time of each warm-up stream",
            "cautions": "`[code, message]` of each doubt",
            "first": "trace of the first stream through the process, which no metric uses",
        },
    ),
    "memory": (
        '`["memory", round, engine]`: the host peak of streaming the longest utterance, in a pass of its own.',
        {
            "peak_bytes": "the most that was resident",
            "baseline_bytes": "what was resident once the engine was loaded",
            "method": "how the peak was taken",
            "note": "what to know about that, or null",
        },
    ),
}

GRID_DATA: dict[str, tuple[str, dict[str, str]]] = {
    "cell": (
        '`["cell", round, duration, batch size, attempt]`: one round of a cell; `attempt` is 1 for a throttled round '
        "that was taken once more. Empty where it did not end well.",
        {
            "load_s": "time to make the engine and its input",
            "samples": "`first_s`, `warmup_s`, `loops`, `values_s`, `device_values_s`, `stages_s`, `cautions`",
            "memory": "host peak, as in a latency run",
            "cuda_memory": "`peak` and `baseline`, each with `allocated_bytes`, `reserved_bytes` and `device_bytes`, "
            "and `device_method`; null without a CUDA device",
            "throttled": "whether the processor was throttled meanwhile",
            "engine": "the engine's `info`",
        },
    ),
    "frontier": (
        '`["frontier", duration, batch size]`: whether a batch goes through once.',
        {"memory_limit_bytes": "what its process was allowed of the host's memory, null for no limit"},
    ),
}

LOSS_DATA: dict[str, tuple[str, dict[str, str]]] = {
    "absent": (
        '`["absent", loss]`: a loss that cannot take part; `message` says why.',
        {"code": "`loss-missing` or `loss-device`"},
    ),
    "check": (
        '`["check", loss]`: a loss beside the oracle, on small batches.',
        {
            "deviations": "of `value`, and of the gradients to `encoder`, `decoder`, `weight` and `bias`, relative",
            "deterministic": "whether a second run gave the same bits",
            "gap": "of a pruned loss, how far it is above the exact one, relative; otherwise null",
            "version": "the package, and its version",
            "precision": "by whose rounding it is judged",
        },
    ),
    "step": (
        '`["step", round, loss, setting, batch, attempt]`: a batch of a loss in one round, with the data of a `cell`; '
        "`engine` has the loss's name and version, and the stages are `forward` and `backward`.",
        {},
    ),
    "largest": (
        '`["largest", loss, vocabulary, batch size]`: whether a batch goes through one step.',
        {"memory_limit_bytes": "what its process was allowed of the host's memory, null for no limit"},
    ),
    "trace": (
        '`["trace", loss, setting]`: a pass under the profiler, with `--profile`.',
        {"files": "its traces, from the folder of the run file"},
    ),
}

TRACE = {
    "audio_s": "length of the audio",
    "chunk_s": "length of a chunk",
    "lookahead_s": "look-ahead of the engine",
    "chunks": "the pushes in order; the last is the call that ended the stream",
}

CHUNK = {
    "due": "when its last sample was spoken",
    "start": "when its work began",
    "done": "when its work was done and its text visible",
    "stages": "`[path, start, duration]` of each passage through a stage, from `start` on; absent where none",
    "text": "the texts that became visible, each the whole text so far; absent where none",
}

STEP_SPEC = {
    "model": "as named on the command line; of a model that Python code handed over its class",
    "shapes": "`--shapes`",
    "max_frames": "`--max-frames`",
    "batch_size": "`--batch-size`",
    "sort": "`--sort`",
    "steps": "`--steps`",
    "depth": "`--depth`",
    "modules": "`--modules`",
    "optimizer": "`--optimizer`",
    "dtype": "`--dtype`",
    "autocast": "`--autocast`",
    "compile": "`--compile`",
    "device": "`--device`",
    "rounds": "`--rounds`",
    "time_limit_s": "`--time-limit`",
    "memory_limit_gb": "`--memory-limit`",
    "profile": "`--profile`",
    "seed": "`--seed`",
}

_ROW_BYTES = "bytes by row"
STEP_DATA = {
    '["ready", round]': (
        "A process that is ready to be measured.",
        {
            "load_s": "making the model and its batches",
            "first_s": "the first step",
            "warmup_s": "the warm-up steps",
            "switch_s": "what one change of row costs on the host",
            "modules": "the watched modules, each with `path`, `kind`, `type_name`, `parameters`, `parameter_bytes`, "
            "`also` (other names) and `folded` (its name among repeated layers)",
            "shared": "parameters that several modules hold, by their first name",
            "labels": "classic labels by module",
            "model": "its class",
            "compiled": "whether it was compiled",
            "device": "where it ran",
        },
    ),
    '["step", round, number]': (
        'A clean and a watched step on one batch. Of other processes the key is `["rank", rank, "step", …]`.',
        {
            "batch": "`utterances`, `real_frames` and `padded_frames`, `null` where the batch does not say",
            "clean": "`wall_s`, `device_s` and by phase the pair of both",
            "watched": "`wall_s`, `device_s`; `parts`, each row, phase, wall and device seconds; `calls` by row; "
            "`stages`; rows `recomputed` by a checkpoint; and `callers` that do not hold the module they call",
        },
    ),
    '["memory", 0]': (
        "The memory of the step that takes most.",
        {
            "step": "its number",
            "held": f"kept for the backward pass, {_ROW_BYTES}",
            "gradients": f"gradients, {_ROW_BYTES}",
            "states": f"optimiser state, {_ROW_BYTES}",
            "peak": "`row`, `phase`, `end_bytes` and `peak_bytes` of the highest moment",
            "baseline_bytes": "what there was before",
            "method": "who counted",
            "moments": "the timeline: row, phase, bytes at the end and the most in each stretch",
        },
    ),
    '["profile", 0]': (
        "What torch.profiler saw of that step.",
        {
            "file": "the trace, from the folder of the run file",
            "step": "its number",
            "modules": "row, direction, seconds, count, and the names that took most",
            "lost": "kernels whose launch is not in the trace",
            "operators": "name, calls, own and total seconds",
            "kernels": "name, calls and seconds",
            "idle_share": "share of time in which the device did nothing, `null` without one",
        },
    ),
}

END = 'The last line of a run that is complete: `{"kind": "end", "finished": "…"}`. Without it, `--resume` goes on.'


def render() -> str:
    """The page."""
    kinds, grid, compare, loss, step = (
        [f"### {name}\n\n{what}\n\n{_keys(keys)}" for name, (what, keys) in data.items()]
        for data in (DATA, GRID_DATA, compare_file.DATA, LOSS_DATA, STEP_DATA)
    )
    return page(
        "The run file",
        INTRODUCTION,
        f"## Header\n\n{_fields(Header, HEADER)}",
        f"### spec of `latency`\n\n{_fields(LatencySpec, SPEC)}",
        f"### spec of `grid`\n\n{_fields(GridSpec, GRID_SPEC)}",
        f"### spec of `compare`\n\n{_fields(CompareSpec, compare_file.SPEC)}",
        f"### spec of `loss`\n\n{_fields(LossSpec, LOSS_SPEC)}",
        f"### spec of `step`\n\n{_fields(StepSpec, STEP_SPEC)}",
        f"## Piece\n\n{_fields(Piece, PIECE)}",
        *kinds,
        f"### trace\n\n{_keys(TRACE)}",
        f"### chunk\n\n{_keys(CHUNK)}",
        *grid,
        *compare,
        *loss,
        *step,
        f"## End\n\n{END}",
    )


def _fields(model: type[BaseModel], meanings: Mapping[str, str]) -> str:
    """A table of a model's fields, each of which must have its meaning."""
    if set(model.model_fields) != set(meanings):
        raise ValueError(f"{model.__name__}: {set(model.model_fields) ^ set(meanings)} is not described, or not there")
    rows = [(code(name), _kind(field.annotation), meanings[name]) for name, field in model.model_fields.items()]
    return table(("key", "type", "what it is"), rows)


def _kind(annotation: object) -> str:
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    # What a value must be beside its type, such as above 0, is no part of the format.
    return re.sub(r"Annotated\[(\w+), [^]]*\]", r"\1", str(annotation).replace("typing.", ""))


def _keys(meanings: Mapping[str, str]) -> str:
    return "" if not meanings else table(("key", "what it is"), [(code(name), what) for name, what in meanings.items()])
