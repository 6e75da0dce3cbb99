"""docs/reference/run-file.md: the format of a run file."""

import ast
import inspect
import textwrap
from collections.abc import Mapping

from pydantic import BaseModel

from reference import compare_file
from reference.markdown import code, page, table
from reference.source import comment_of, type_name
from stopwav.record import FORMAT, Header
from stopwav.studies.spec import Option, PythonOnly, StudySpec, flag_of
from stopwav.studies.study import LISTED, find_study

INTRODUCTION = f"""
A run is one file of JSON lines, format {FORMAT}: a header, then a line for each finished piece of work, then an end
line. Each line is flushed to disk before the next piece begins, so a run that is killed loses at most the piece it
was in; a torn last line is dropped when the file is read. Only raw observations are stored. `stopwav report` computes
every statistic again from the file.

The file is ASCII: other characters are escaped. Times are in seconds. No two pieces have the same key. A file of a
newer format is refused, with the advice to upgrade. Unknown keys are ignored. Keys, types and ranges are checked
before anything is computed: a piece of an engine that is not in the settings, a negative time or lists of unequal
length are an error in one line, with the file, the line and the value.
"""

HEADER = {
    "kind": "`header`",
    "format": "version of this format",
    "stopwav": "version that wrote the file",
    "study": "`latency`, `grid`, `compare`, `loss` or `step`",
    "started": "UTC, to the second",
    "spec": "the settings, see below; `--resume` continues the newest run with the same ones",
    "machine": "processor, memory, system, packages with versions, fingerprint: as `stopwav doctor --json` prints them",
    "corpus": "`name`, `digest`, `problems`, `cautions`, and `utterances`, each with `id`, `path`, `start_s`, `end_s`, "
    "`text` and `words` (`[word, start, end]`); of a grid, `name` and `digest` of its audio; "
    "of a comparison also `inputs`, the ids in the order in which they are used; of a step or a loss run, "
    "`name` and `digest` of its shapes, their `count`, whether they hold `input` or `encoder` `frames`, and their "
    "`subsampling`; of a loss run also `settings`, each with the `batches` that every loss gets",
    "digests": "by path, a digest of each file that the run measures: `sha256` of the content of sources and audio; "
    "`outline` of a model, of the content of small files, and of size and time of change of others; `corpus` of ids, "
    "texts and sizes of the audio of a grid. `--resume` refuses a run whose files have changed",
    "normaliser": "`name` and `version` of the text normaliser behind WER and word latency",
    "place": "what the machine was asked to have (`--place`), where it is one of a cluster; else empty",
    "plan_version": "1 where a complete run holds every planned piece, those of failures included; older runs have no "
    "such key, and may lack some, such as a `memory` piece",
    "warnings": "warnings of the health checks of `doctor` at the start, as `code` and `message`",
}

PIECE = {
    "kind": "`piece`",
    "key": "the kind of observation, the round (from 0), the engine's name, and whatever else identifies the piece",
    "status": "how it ended",
    "message": "the reason, where it failed",
    "last_words": "the end of the output of the engine's process before it died",
    "data": "the observations, see below",
}

RAN = (
    "A piece that was measured on a cluster has `ran` too: the `machine`, by the fingerprint of its kind and a "
    "number of its own, and from `begun_s` to `ended_s` by its clock, in seconds since 1970. Of a level of `load`"
    " on a cluster the data have `clocks`: by client, `offset_s`, by which its clock is ahead of the driver's, "
    "and the `round_trip_s` behind that; a session names its `client` where that is not the first."
)

# The data of each kind of piece, by the first item of its key; a test compares it with a real run.
DATA: dict[str, tuple[str, dict[str, str]]] = {
    "stream": (
        '`["stream", round, engine, utterance]`: one utterance through one engine.',
        {"trace": "the trace; cut short where the engine failed, absent where its process died"},
    ),
    "load": (
        '`["load", round, engine, attempt]`: one process, loaded and warmed up; `attempt` counts restarts.',
        {
            "engine": "the engine's `info`",
            "load_s": "time to make the engine",
            "warmup_s": "time of each warm-up stream",
            "cautions": "`[code, message]` of each warning",
            "first": "trace of the first stream through the process; no metric uses it",
        },
    ),
    "memory": (
        '`["memory", round, engine]`: the host peak of streaming the longest utterance, in a pass of its own.',
        {
            "peak_bytes": "the most memory that was resident",
            "baseline_bytes": "resident memory once the engine was loaded",
            "method": "how the peak was measured",
            "note": "a remark on the method, or null",
        },
    ),
}

GRID_DATA: dict[str, tuple[str, dict[str, str]]] = {
    "cell": (
        '`["cell", round, engine, duration, batch size, attempt]`: one round of a cell; `attempt` is 1 where a '
        "throttled round was repeated. The keys of a run of one engine have no `engine`, here and below. Empty where "
        "the round failed. A round behind others in its process also has `opened`, false, and `leftover_bytes`, what "
        "those before it had left of host memory, if its peak may include that.",
        {
            "load_s": "time to make the engine and its input",
            "samples": "`first_s`, `warmup_s`, `loops`, `values_s`, `device_values_s`, `stages_s`, `cautions`",
            "memory": "host peak, as in a latency run",
            "cuda_memory": "`peak` and `baseline`, each with `allocated_bytes`, `reserved_bytes` and `device_bytes`, "
            "and `device_method`; null without a CUDA device",
            "throttled": "whether the processor was throttled during the round",
            "engine": "the engine's `info`",
        },
    ),
    "own": (
        '`["own", 0, engine, duration, batch size]`: a call in a process of its own, for the first call and the memory '
        "of a cell; the data of a `cell`.",
        {},
    ),
    "left-out": (
        '`["left-out", engine, duration, batch size, count]`: a cell that the budget had no time for.',
        {"call_s": "seconds of a call, predicted from other cells"},
    ),
    "frontier": (
        '`["frontier", engine, duration, batch size]`: whether a batch goes through once.',
        {"memory_limit_bytes": "host memory that its process was allowed, null for no limit"},
    ),
}

LOSS_DATA: dict[str, tuple[str, dict[str, str]]] = {
    "absent": (
        '`["absent", loss]`: a loss that cannot take part; `message` says why.',
        {"code": "`loss-missing` or `loss-device`"},
    ),
    "check": (
        '`["check", loss]`: a loss compared with the oracle, on small batches.',
        {
            "deviations": "relative error of `value` and of the gradients to `encoder`, `decoder`, `weight`, `bias`",
            "deterministic": "whether a second run gave the same bits",
            "gap": "of a pruned loss, how far it is above the exact one, as a ratio; otherwise null",
            "version": "the package, and its version",
            "precision": "the precision whose rounding errors are allowed",
        },
    ),
    "step": (
        '`["step", round, loss, setting, batch, attempt]`: a batch of a loss in one round, with the data of a `cell`; '
        "`engine` has the loss's name and version, and the stages are `forward` and `backward`.",
        {},
    ),
    "largest": (
        '`["largest", loss, vocabulary, batch size]`: whether a batch goes through one step.',
        {"memory_limit_bytes": "host memory that its process was allowed, null for no limit"},
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
    "due": "for each chunk, when its last sample was spoken; the last chunk is the call that ended the stream",
    "start": "for each chunk, when its work began",
    "done": "for each chunk, when its work was done and its texts were visible",
    "stages": "by path, of each time a stage ran: `chunk` (from 0), `start` since that of the chunk, and `duration`",
    "texts": "`[chunk, kept, added]` of each text that became visible: the first `kept` characters of the text before "
    "it, and `added` after them",
}

FIRST_FORMAT = (
    "In format 1 a trace has `chunks` instead, an object each with `due`, `start`, `done`, `stages` "
    "(`[path, start, duration]`) and `text`, the whole text up to then. Such files are read, and give the same numbers."
)

_ROW_BYTES = "bytes by row"
STEP_DATA = {
    '["ready", round]': (
        "A process that is ready to be measured.",
        {
            "load_s": "making the model and its batches",
            "first_s": "the first step",
            "warmup_s": "the warm-up steps",
            "switch_s": "host time that one change of row costs",
            "modules": "the profiled modules, each with `path`, `kind`, `type_name`, `parameters`, `parameter_bytes`, "
            "`also` (other names) and `folded` (its name among repeated layers)",
            "shared": "parameters that several modules hold, by their first name",
            "labels": "classic labels by module",
            "model": "its class",
            "compiled": "whether it was compiled",
            "device": "where it ran",
        },
    ),
    '["step", round, number]': (
        'A clean and a profiled step on one batch. Of other processes the key is `["rank", rank, "step", …]`.',
        {
            "batch": "`utterances`, `real_frames` and `padded_frames`, `null` where the batch does not report them",
            "clean": "`wall_s`, `device_s`, and both of them by phase",
            "watched": "`wall_s`, `device_s`; `parts`, each row, phase, wall and device seconds; `calls` by row; "
            "`stages`; rows `recomputed` by a checkpoint; `callers` that do not hold the module they call; `labels`, "
            "each the labels of `record_function` that were open, phase and seconds; and their `label_calls`",
        },
    ),
    '["memory", 0]': (
        "The memory of the step that takes the most.",
        {
            "step": "its number",
            "held": f"saved activations, kept for the backward pass, {_ROW_BYTES}",
            "held_by_label": "the same by the labels of `record_function` that were open",
            "gradients": f"gradients, {_ROW_BYTES}",
            "states": f"optimiser state, {_ROW_BYTES}",
            "peak": "`row`, `phase`, `end_bytes` and `peak_bytes` of the highest moment",
            "baseline_bytes": "memory in use before the step",
            "method": "how memory was counted",
            "moments": "the timeline: row, phase, bytes at the end and the most bytes of each part of the step",
        },
    ),
    '["profile", 0]': (
        "Steps under torch.profiler, from the one that takes the most on.",
        {
            "file": "the first trace, from the folder of the run file",
            "files": "all traces, one for each repetition of the schedule",
            "operator_tables": "torch.profiler's own tables, one for each trace",
            "step": "the number of the first step",
            "steps": "how many steps were recorded; seconds and counts are of all of them",
            "schedule": "wait, warmup, active and repeat",
            "modules": "row, direction, seconds, count, and the most expensive names",
            "lost": "kernels whose launch is not in the trace",
            "operators": "name, calls, own and total seconds",
            "kernels": "name, calls and seconds",
            "idle_share": "share of time in which the device was idle, `null` without a device",
        },
    ),
}

END = (
    'The last line of a complete run: `{"kind": "end", "finished": "…"}`. It is written once every planned piece is '
    "there, those of failures included; a file in which it stands over missing pieces is refused. Without it, "
    "`--resume` continues the run."
)


def render() -> str:
    """Return the page."""
    kinds, grid, compare, loss, step = (
        [f"### {name}\n\n{text}\n\n{_keys(keys)}" for name, (text, keys) in data.items()]
        for data in (DATA, GRID_DATA, compare_file.DATA, LOSS_DATA, STEP_DATA)
    )
    return page(
        "The run file",
        INTRODUCTION,
        f"## Header\n\n{_fields(Header, HEADER)}",
        *(f"### spec of `{name}`\n\n{_fields(spec := find_study(name).spec, _settings(spec))}" for name in LISTED),
        f"## Piece\n\n{_keys(PIECE)}\n\n{RAN}",
        *kinds,
        f"### trace\n\n{_keys(TRACE)}\n\n{FIRST_FORMAT}",
        *grid,
        *compare,
        *loss,
        *step,
        f"## End\n\n{END}",
    )


def _settings(spec: type[StudySpec]) -> dict[str, str]:
    """The meaning of each setting that a header holds: its flag with its help, or the comment on it in the code."""
    comments = _comments(spec)
    meanings = {}
    for name, field in spec.model_fields.items():
        declared = next((item for item in field.metadata if isinstance(item, Option | PythonOnly)), None)
        if isinstance(declared, Option) and declared.stored:
            meanings[name] = declared.help if declared.positional else f"`--{flag_of(name)}`: {declared.help}"
        elif declared is None or declared.stored:
            meanings[name] = comments[name]
    return meanings


def _comments(spec: type[StudySpec]) -> dict[str, str]:
    """The comments on the fields of a spec, by field."""
    source = textwrap.dedent(inspect.getsource(spec))
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    fields = [node for node in declared.body if isinstance(node, ast.AnnAssign)]
    return {ast.unparse(field.target): comment_of(source.splitlines(), field) for field in fields}


def _fields(model: type[BaseModel], meanings: Mapping[str, str]) -> str:
    """A table of those fields of a model that have a meaning here."""
    rows = [(code(name), type_name(model.model_fields[name].annotation), meaning) for name, meaning in meanings.items()]
    return table(("key", "type", "meaning"), rows)


def _keys(meanings: Mapping[str, str]) -> str:
    rows = [(code(name), meaning) for name, meaning in meanings.items()]
    return table(("key", "meaning"), rows) if rows else ""
