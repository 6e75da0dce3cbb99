"""docs/reference/metrics.md: every metric of a result."""

from reference.markdown import code, page, table
from stopwav.stats import minimum_count
from stopwav.studies.compare.definitions import COMPARE_GROUPS
from stopwav.studies.grid.definitions import GRID_GROUPS
from stopwav.studies.latency.definitions import GROUPS, Definition
from stopwav.studies.latency.results import PERCENTILES
from stopwav.studies.loss.definitions import LOSS_GROUPS
from stopwav.studies.step.definitions import STEP_GROUPS

INTRODUCTION = """
Every metric of a `stopwav latency` result and, further down, of `grid`, `compare`, `loss` and `step`, by its
name in `--json`, in `--all` and in `Result.metrics`. Times are in seconds. Each is an estimate: a value, the ends of
its 95 % interval, the number of values behind it, and a note.

Time 0 of a stream is when its first sample is spoken. A chunk is due when its last sample is spoken, starts when it
is due and the chunk before is done, and its text is visible when it is done. Reference words come with the times at
which they are spoken; recognised text is aligned to them after normalisation.
"""

COMPARE = """
Energy is that of the part which engines are compared by, named in the note: the external meter, the whole machine, or
the device on which all engines run. Where several parts are metered, each has the same metrics with its name behind
them, such as `mean_power_gpu`. Each engine's latency over length has the metrics of a law, as above.
"""


def render() -> str:
    """The page."""
    sections = [_section(heading, group) for heading, group in GROUPS.items()]
    grid, compare, loss, step = (
        [_section(heading, group) for heading, group in groups.items()]
        for groups in (GRID_GROUPS, COMPARE_GROUPS, LOSS_GROUPS, STEP_GROUPS)
    )
    others = (*grid, *compare, COMPARE, *loss, *step)
    return page("Metrics", INTRODUCTION, _percentiles(), *sections, _own_stages(), *others)


def _percentiles() -> str:
    suffixes = ", ".join(code(f"_p{100 * p:.0f}") for p in PERCENTILES)
    needed = ", ".join(f"{minimum_count(p)} for P{100 * p:.0f}" for p in PERCENTILES)
    return (
        f"A name that ends in `_pNN` comes with {suffixes}. A percentile is given only where there are enough values "
        f"for an interval with two ends ({needed}); otherwise its value is `null` and the note says how many there are."
    )


def _section(heading: str, group: dict[str, Definition]) -> str:
    rows = [
        (code(_name(name, one)), one.unit or "ratio", f"**{one.title}.** {one.text}") for name, one in group.items()
    ]
    return f"## {heading}\n\n{table(('metric', 'unit', 'what it is'), rows)}"


def _name(family: str, one: Definition) -> str:
    return f"{family}_pNN" if one.percentiles else family


def _own_stages() -> str:
    return (
        "## Stages of the engine's own\n\n"
        "An engine may mark any stage, also inside another: `inference/search` becomes `inference_search_pNN` (s), "
        "and `vad`, a name that is not one of the four, `stage_vad_pNN` (s). In the waterfall, time in a stage other "
        "than `features`, `copy`, `inference` and `post` counts as `other`; a stage inside one of these counts there."
    )
