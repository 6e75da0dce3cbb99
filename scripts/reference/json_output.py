"""docs/reference/json.md: what `--json` prints, and the exit codes."""

from reference.markdown import fenced, page, table
from stopwav.cli.output import EXIT_INTERRUPTED, EXIT_PARTLY, EXIT_UNUSABLE

STUDY = """
`latency`, `demo` and `report` print one object on one line:
"""

STUDY_EXAMPLE = """
{"stopwav": "0.1.0", "study": "latency", "run": "stopwav-runs/latency-20250102-030405.jsonl",
 "results": [{"name": "pocketsphinx",
              "params": {"engine": {"name": "pocketsphinx", "version": "5.1.1", "chunk_s": 0.1},
                         "corpus": "bundled", "utterances": 24, "audio_s": 125.9, "words": 400,
                         "chunk_s": 0.1, "pace": "virtual", "rounds": 3, "normaliser": "stopwav-english 1"},
              "status": "ok",
              "metrics": {"rtf": {"value": 0.22, "low": 0.18, "high": 0.29, "n": 24, "unit": "", "note": ""},
                          "chunk_lag_p99": {"value": null, "low": null, "high": null, "n": 145, "unit": "s",
                                            "note": "needs 368 events, has 145"}},
              "warnings": [{"code": "busy-machine", "message": "load average 1.6, more than half of 2 cores"}]}]}
"""

STUDY_KEYS = """
(An illustration of the shape, with line breaks added and most metrics left out.) There is one result per engine, in
the order of the command. `status` is `ok` where at least one stream went well, and otherwise how the first one ended:
`error`, `timeout`, `crashed`, `oom`, `skipped`; `metrics` is then empty. A metric that could not be had has `"value":
null` and a `note`. Neither NaN nor infinity appears. `low` and `high` are the ends of the 95 % interval, `null` where
there is none. Names and units: [Metrics](metrics.md).
"""

WARNINGS = (
    ("`stream-error`, `stream-timeout`, `stream-crashed`, `stream-oom`, `stream-skipped`", "utterances that were lost"),
    ("`corpus`", "a part of the corpus that could not be used"),
    ("`incomplete`", "the run stopped early; `--resume` goes on"),
    ("`no-word-times`", "utterances without word latency"),
    ("`guessed-pronunciation`", "word times near a word that the aligner's dictionary lacks"),
    ("`not-warm`", "times were still changing at the end of the warm-up"),
    ("`engine`", "what the engine's author wants said beside its numbers"),
    ("others, such as `busy-machine`", "what `stopwav doctor` found at the start of the run"),
)

OTHERS = """
## Other verbs

`engines`: `{"engines": [{"name", "installed", "version", "streaming", "install", "summary"}]}`; `version` and
`streaming` are `null` where the package is missing, `install` is the command that gets it.

`align`: `{"output", "utterances", "words", "problems": [{"where", "message"}]}`; `utterances` and `words` count what
was written.

`doctor`: `{"stopwav", "machine": {…}, "sensors": [{"name", "available", "detail"}], "warnings": [{"code",
"message"}]}`; `machine` is what the header of a [run file](run-file.md) holds.
"""


def render() -> str:
    """The page."""
    codes = (
        ("0", "all was measured"),
        (str(EXIT_PARTLY), "a part was not: an engine failed, a stream was lost, a part of the corpus is unusable"),
        (
            str(EXIT_UNUSABLE),
            "nothing was measured, or the command was wrong; the reason is one line on standard error",
        ),
        (str(EXIT_INTERRUPTED), "Ctrl-C; `latency --resume` goes on"),
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
        table(("code", "what it is about"), WARNINGS),
        OTHERS,
        "## Exit codes",
        table(("code", "meaning"), codes),
    )
