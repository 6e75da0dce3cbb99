"""docs/reference/json.md: the output of `--json`, and the exit codes."""

from reference.markdown import fenced, page, table
from stopwav.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_NO_BASELINE,
    EXIT_PARTLY,
    EXIT_TERMINATED,
    EXIT_UNDECIDED,
    EXIT_UNUSABLE,
    EXIT_VIOLATED,
)

STUDY = """
Every study, `demo` and `report` print one object on one line. This is `stopwav latency pocketsphinx
--limit 6 --quick --json` on a 2-core x86-64 virtual machine, Linux, Python 3.11, with line breaks added, most metrics
left out:
"""

STUDY_EXAMPLE = """
{"stopwav": "0.1.0", "study": "latency", "run": "stopwav-runs/latency-20261115-090626.jsonl",
 "results": [{"name": "pocketsphinx",
              "params": {"engine": {"name": "pocketsphinx", "version": "5.1.1", "sample_rate_hz": 16000, "chunk_s": 0.1,
                                    "lookahead_s": 0.0, "parameters": null, "device": "cpu",
                                    "precision": "int16 audio, fixed-point scores",
                                    "model": "en-us (in the package)", "notes": []},
                         "corpus": "bundled", "utterances": 6, "audio_s": 28.165, "words": 88, "chunk_s": 0.1,
                         "pace": "virtual", "rounds": 1, "normaliser": "stopwav-english 1"},
              "status": "ok",
              "metrics": {"rtf": {"value": 0.2803041347061956, "low": 0.22111904693318735, "high": 0.3504378915433376,
                                  "n": 6, "unit": "", "note": "", "rough": false},
                          "word_latency_p95": {"value": 4.133670982, "low": null, "high": null, "n": 76, "unit": "s",
                                               "note": "effective n 37; a P95 interval needs 72", "rough": false},
                          "chunk_lag_p99": {"value": null, "low": null, "high": null, "n": 285, "unit": "s",
                                            "note": "needs 368 events, has 285", "rough": false}},
              "warnings": [{"code": "busy-machine",
                            "message": "other processes used 0.9 of 2 cores just now: stop other processes …"}]}]}
"""

STUDY_KEYS = """
There is one result per engine, in the order of the command. `status` is `ok` where at least one stream completed, and
otherwise how the first one ended: `error`, `timeout`, `crashed`, `oom`, `skipped`; `metrics` is then empty. A metric
that is not available has `"value": null` and a `note`. Neither NaN nor infinity appears. `low` and `high` are the
ends of the 95 % confidence interval, `null` where there is none; `rough` is `true` where it rests on fewer than 5
independent samples. `keeps_up` has no value and a note that begins with `undecided` where the interval of `rtf` leaves
it open. Names and units: [Metrics](metrics.md).

Metrics that depend on the texts of an engine with random weights (`"untrained": true` in its `params`) have no value
and the note `untrained`.

A run of `latency --explain` has one more key, `"explanation": {"base", "felt", "gains": [{"setting", "algorithmic_s",
"felt_s", "felt", "lag_p95", "lag_p50", "wer"}], "left_out": [{"setting", "reason"}]}`. The gains are ranked, the best
first. `felt` names the metric that they are ranked by, `felt_s` and `algorithmic_s` are changes in seconds (negative
is a gain), and the last four are changes as `diff --json` prints them: `a` is the engine as it is, `b` the engine with
the setting, `value` the ratio `b` / `a` or, for `wer`, the difference.

`step` has one result for the step (`"kind": "step"`), then one per row: `model`, `module`, `stage`, `phase`, or
`layers` for a row that stands for repeated layers, its `members`. `parent` names the row around it (`""` is the model),
`label` its label in older recipes, and `doubtful` is true where the share cannot be trusted. Where there are several
processes, one result for each follows (`"kind": "rank"`).

`grid` has one result per cell, engine by engine and row by row, with `"kind": "cell"`, the engine it is `of`,
`duration_s` and `batch_size` in its `params`; then one per scaling fit (`"kind": "law"`, with the `axis`, the form of
the `law`, and the `cells` it is fitted to); then, with `--frontier`, one per duration (`"kind": "frontier"`, with
`fails_at` and the `failure`). Of several engines it has
one more key, `"verdicts": {"base", "verdicts": [{"engine", "duration_s", "batch_size", "rtf"}]}`, in which `rtf` is a
change as `diff --json` prints it: `a` is the first engine, `b` this one.

In the `params` of results, `setting` is the engine as it was written, without its label; `name` is the label where it
has one. `diff --json` of more than two runs has a list `diffs`, one per run after the first, each as of two runs;
`models` lists the pairs of engines whose settings differ.

`compare` has one result per engine (`"kind": "engine"`, with its `modules` and the tensors that are `shared` in its
`params`); then one per engine and length (`"kind": "length"`, with `of`, `frames`, `audio_s`, and multiply-adds by
module); then one per scaling fit of an engine's latency (`"kind": "law"`). It has one more key, `"card": {"engines",
"verdicts", "by_length", "pareto": {"axes", "members", "beaten", "left_out"}, "expectations": [{"text", "judgement",
"reason", "verdict"}]}`. Each verdict is a change as `diff --json` prints it, with `of` and `against` for the two
engines: `a` is the one it is compared `against`, `b` the one it is `of`, `value` is `b` relative to `a`, and `frames`
is `null` over all inputs. `judgement` is `supported`, `not supported` or `undecided`.

`loss` has one result per loss and setting, with `loss`, `batch_size` (`null` under `--max-frames`) and `vocab` in its
`params`; `right` says whether it matches the oracle, `approximate` whether it is pruned, `covered` which part of the
corpus's lengths the batches span, as two shares; `compared_batches` are the numbers of the batches that all metrics
are of, `failed_batches` those that the loss completed in no round. A loss that is missing is `skipped`.
"""

WARNINGS = (
    (
        "`stream-error`, `stream-timeout`, `stream-crashed`, `stream-oom`, `stream-skipped`",
        "utterances not measured",
    ),
    ("`cell-oom`, `cell-timeout`, `cell-crashed`, `cell-error`", "how a cell ended, with its last words"),
    ("`budget`", "a cell that the budget had no time for, and the time that it needs; not counted as a failure"),
    ("`send-lateness`", "chunks that our client sent late to a server, by more than 10 ms at P99"),
    ("`one-call`", "a value that is one first call, without a warm-up: the budget had no time for more"),
    ("`implausible`", "a cell whose time does not fit to those of its neighbours"),
    ("`loss-missing`, `loss-device`", "a loss that is not installed, or does not run on the device"),
    ("`loss-oom`, `loss-timeout`, `loss-crashed`, `loss-error`, `loss-skipped`", "how batches of a loss ended"),
    ("`loss-wrong`, `loss-unchecked`", "a loss that does not match the oracle, or whose check did not finish"),
    ("`loss-not-compared`", "a loss without a time: it lacks batches that the others are compared on"),
    ("`shared-batches`", "numbers of a loss that are of fewer batches than it completed: those that all share"),
    ("`columns-independently`", "batches with pairs of T and U that exist in no utterance"),
    ("`trace-failed`, `trace-empty`", "a cell or a loss without a profiler trace, or with an empty one"),
    (
        "`sample-error`, `sample-timeout`, `sample-crashed`, `sample-oom`, `sample-skipped`",
        "inputs not measured",
    ),
    ("`model-…`, `energy-…`", "how inspecting an engine, or metering it, ended"),
    ("`samples-repeat`", "a corpus with fewer utterances than samples"),
    ("`languages`", "engines that recognise different languages"),
    ("`meter-log`", "a problem with the log of an external meter"),
    ("`meters-disagree`", "sampled power and the energy counter of a part are more than 10 % apart"),
    ("`net-too-small`", "net energy of a window, at some lengths, is below the counter resolution"),
    ("`step-oom`, `step-timeout`, `step-crashed`, `step-error`", "how a step or a pass ended; earlier steps are kept"),
    ("`attribution`", "a row whose module is shared, called from elsewhere, or recomputed by a checkpoint"),
    ("`shared-parameter`", "a parameter that several modules hold"),
    ("`frames-guessed`", "a file of shapes that does not say whether it holds input or encoder frames"),
    ("`below-noise`", "a row whose share cannot be trusted, and why"),
    ("`compiled`", "a compiled model, whose modules cannot be distinguished"),
    ("`triangle`", "a cell that `--triangle` leaves out"),
    ("`rounds-failed`", "a cell, or batches of a loss, of which some rounds failed"),
    ("`engine-changed`", "a grid of which some rounds used another version of the engine"),
    ("`noise`", "noise was fed to an engine whose work depends on the speech"),
    ("`device`", "an engine that ran on another device than the one whose clock timed it"),
    ("`corpus`", "a part of the corpus that could not be used"),
    ("`incomplete`", "the run stopped early; `--resume` continues it"),
    ("`no-word-times`", "utterances without word latency"),
    ("`guessed-pronunciation`", "word times near a word that the aligner's dictionary or model lacks"),
    ("`no-aligner`", "utterances in a language that the default aligner does not know"),
    ("`other-language`", "an engine that recognises another language than the corpus is in"),
    (
        "`normaliser-version`",
        "a run whose words are counted by another version of its normaliser than when it was made",
    ),
    ("`not-warm`", "times were still changing at the end of the warm-up"),
    ("`engine`", "a remark of the engine's author on its numbers"),
    ("others, such as `busy-machine`", "warnings of the health checks of `stopwav doctor` at the start of the run"),
)

OTHERS = """
## Other verbs

`report` of several runs prints `{"stopwav", "runs": [{"study", "run", "results"}]}`, each run as it is printed alone.

`run`: `{"stopwav", "runs": [{"study", "run", "results"}]}`, in the order of the file; a run that failed to start has
`"run": null`, no results, and an `error`. With `--check`: `{"stopwav", "file", "cells": [{"study", "where", "settings",
"estimate": {"seconds", "basis"}, "problems"}], "seconds"}`; `seconds` are `null` where the time is unknown.

`init`: `{"stopwav", "study", "file"}`.

`history`: `{"stopwav", "folder", "runs": [{"study", "run", "results", "started", "machine", "page"}], "skipped":
[{"where", "message"}], "change_points": {"level", "series", "shifts": [{"metric", "name", "machine", "setting",
"change", "p", "before": {"run", "started", "value", "runs"}, "after"}]}}`, by time; `machine` is the fingerprint of the
hardware, `page` the run's page or `null` where there is none, `skipped` the files in the folder that are no runs. Of a
change point, `before` and `after` have the run next to it, and the median and number of the runs of that level;
`change` is relative, `null` where a level is not above zero; `series` counts what was tested at that `level`.

`baseline list`: `{"stopwav", "folder", "machine", "baselines": [{"machine", "study", "name", "path", "started", "cpu",
"stopwav"}]}`; the outer `machine` is the fingerprint of this one. `baseline save`: `{"stopwav", "folder",
"baselines"}`,
those that were saved. `baseline compare`: `{"stopwav", "outcome", "passed", "run", "study", "name", "machine",
"reason",
"elsewhere", "comparison"}`; `outcome` is `passed`, `failed` or `no-baseline`, `comparison` what `gate` prints or `null`
without a baseline; then `passed` is `null` too, `reason` says what is missing, and `elsewhere` has the baselines of
other machines.

`engines`: `{"engines": [{"name", "installed", "version", "streaming", "install", "summary", "problem"}],
"servers": [{"name", "installed", "install", "summary", "example"}]}`; `version`
and `streaming` are `null` where the package is missing, and `streaming` also where it depends on the model; `install`
is the command that installs it; `problem` says why one that is installed does not import, or is empty.

`loss --list`: `{"losses": [{"name", "installed", "version", "install", "needs", "devices", "summary"}]}`.

`shapes`: `{"name", "digest", "note", "utterances", "frames", "frames_guess", "subsampling",
"T": {"mean", "min", "p5", "median", "p95", "max"}, "U": {…}, "padding_efficiency"}`, the last in
batches of 30, unsorted.

`align`: `{"output", "utterances", "words", "problems": [{"where", "message"}]}`; `utterances` and `words` count those
that were written.

`traces analyse`: `{"stopwav", "folder", "files", "skipped": [{"file", "reason"}], "operators": [{"name", "kind",
"calls", "self_s", "total_s", "host_bytes", "device_bytes"}], "kernels", "devices": [{"file", "device", "busy_s",
"span_s"}], "memory": [{"file", "device", "peak_bytes", "peak_at_s", "points"}], "notes", "stages", "functions",
"launches", "steps", "idle_share"}`; `self_s` is own time, and the other tables have rows like `operators`.

`diff`: `{"study", "a", "b", "forced", "remarks", "only_a", "only_b", "results": [{"name", "utterances", "lost",
"changes":
[{"metric", "unit", "a", "b", "by", "value", "low", "high", "verdict", "confidence", "threshold", "n", "p_value",
"more_rounds", "paired", "note", "rough", "rule", "quantity"}]}]}`; a part of an item (a length, a row of a step)
also has
`part`, its name in the tree, and `depth`. `gate` has the same and `passed`, `fail_on`, `failures`, `undecided`.

`gate --require`: `{"passed", "outcome", "study", "run", "requirements": [{"condition", "name", "outcome", "reason",
"limit", "value", "low", "high", "n", "unit", "note", "rough"}]}`. With `run --gate` each of `runs` has this as
`gate`, and
in it, where engines are compared, the gate of these as `race`.

`traces diff`: `{"stopwav", "a", "b", "per", "units_a", "units_b", "notes"}` and, for each table that has rows
(`operators`, `kernels`, `launches`, `labels`, `stages`, `functions`), `[{"name", "kind", "status", "a", "b",
"self_change_s", "total_change_s", "self_ratio", "verdict"}]`. `a` and `b` of a row are `{"calls", "self_s", "total_s",
"each_self_s", "self_per_call_s", "total_per_call_s"}` per unit, means over the traces of the side, and each trace's own
time; `status` is `both`, `appeared` or `vanished`; `verdict` is a change as `diff --json` prints it, or `null`.

`traces merge`: `{"stopwav", "path", "events", "alignment", "sources": [{"name", "file", "events", "processes",
"first_s", "moved_s"}], "notes"}`; `processes` has the new number of each old one.

`doctor`: `{"stopwav", "machine": {…}, "steadiness": {"values", "p10_s", "p50_s", "p90_s"}, "sensors": [{"name",
"available", "detail"}], "warnings": [{"code", "message"}]}`; `machine` is as in the header of a
[run file](run-file.md), `steadiness` the time of a fixed piece of work in one thread, repeated for 2 s.
"""


def render() -> str:
    """Return the page."""
    codes = (
        ("0", "everything was measured"),
        (
            str(EXIT_PARTLY),
            "a part was not: an engine or a round failed, a stream was lost, a loss is wrong, or a part of the corpus "
            "is unusable",
        ),
        (
            str(EXIT_UNUSABLE),
            "nothing was measured, or the command was wrong; the reason is one line on standard error",
        ),
        (str(EXIT_VIOLATED), "a gate: a condition is violated beyond noise, or surely does not hold"),
        (str(EXIT_UNDECIDED), "a gate: a condition of `--require` or of a plan file is undecided"),
        (str(EXIT_NO_BASELINE), "`baseline compare`: there is no baseline of this machine, study and name"),
        (str(EXIT_INTERRUPTED), "Ctrl-C: what was printed is of what was measured; `--resume` continues the run"),
        (str(EXIT_TERMINATED), "SIGTERM, the same"),
    )
    return page(
        "JSON and exit codes",
        "With `--json`, standard output holds one JSON object and nothing else.",
        "## Studies",
        STUDY,
        fenced(STUDY_EXAMPLE, "json"),
        STUDY_KEYS,
        "## Warnings",
        "`warnings` hold a stable `code` for machines and a `message` for people.",
        table(("code", "meaning"), WARNINGS),
        OTHERS,
        "## Exit codes",
        table(("code", "meaning"), codes),
    )
