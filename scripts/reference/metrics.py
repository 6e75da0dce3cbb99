"""docs/reference/metrics.md: every metric of a result, as its study defines it."""

from collections.abc import Mapping

from reference.markdown import code, page, table
from stopwav.stats import minimum_count
from stopwav.studies.definition import Definition
from stopwav.studies.latency.metrics import PERCENTILES
from stopwav.studies.study import LISTED, find_study

INTRODUCTION = """
Every metric of the results of `latency`, `grid`, `compare`, `loss` and `step`, by its name in `--json`, in `--all` and
in `Result.metrics`. Times are in seconds. Each metric is an estimate: a value, the ends of its 95 % confidence
interval, the number of values behind it, and a note.

Time 0 of a stream is when its first sample is spoken. A chunk is due when its last sample is spoken, starts when it
is due and the chunk before it is done, and its text is visible when it is done. Reference words come with the times at
which they are spoken; recognised text is aligned to them after normalisation.
"""

# What a reader has to know besides the definitions of a study.
NOTES = {
    "latency": """
## Stages of the engine's own

An engine may mark any stage, also inside another: `inference/search` becomes `inference_search_pNN` (s), and `vad`, a
name that is not one of the four, `stage_vad_pNN` (s). In the waterfall, time in a stage other than `features`, `copy`,
`inference` and `post` counts as `other`; a stage inside one of these counts there.
""",
    "compare": """
Energy is that of the part by which engines are compared, named in the note: the external meter, the whole machine, or
the device on which all engines run. Where several parts are metered, each has the same metrics with its name behind
them, such as `mean_power_gpu`. Each engine's latency over length has the metrics of a scaling fit, as above.
""",
}


def render() -> str:
    """Return the page."""
    sections = []
    for name in LISTED:
        groups = find_study(name).definitions.groups
        sections += [_section(heading, group) for heading, group in groups.items()]
        sections += [NOTES[name]] if name in NOTES else []
    return page("Metrics", INTRODUCTION, _percentiles(), *sections)


def _percentiles() -> str:
    suffixes = ", ".join(code(f"_p{100 * p:.0f}") for p in PERCENTILES)
    needed = ", ".join(f"{minimum_count(p)} for P{100 * p:.0f}" for p in PERCENTILES)
    return (
        f"A name that ends in `_pNN` comes with {suffixes}. A percentile is given only where there are enough values "
        f"for an interval with two ends ({needed}); otherwise its value is `null` and the note says how many there are."
    )


def _section(heading: str, group: Mapping[str, Definition]) -> str:
    rows = [
        (code(_name(family, definition)), definition.unit or "ratio", f"**{definition.title}.** {definition.text}")
        for family, definition in group.items()
    ]
    return f"## {heading}\n\n{table(('metric', 'unit', 'meaning'), rows)}"


def _name(family: str, definition: Definition) -> str:
    return f"{family}_pNN" if definition.percentiles else family
