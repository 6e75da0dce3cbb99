"""How each study is shown, one entry a study: nowhere else does the report ask which study a run is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report.charts import Chart
from stopwav.report.compare_layout import by_letter
from stopwav.report.compare_markdown import compare_markdown
from stopwav.report.compare_table import print_compare
from stopwav.report.detail import Detail
from stopwav.report.explanation import explanation_markdown, print_explanation
from stopwav.report.grid_layout import arrange, by_place
from stopwav.report.grid_markdown import grid_markdown
from stopwav.report.grid_table import print_grid
from stopwav.report.latency_table import print_latency
from stopwav.report.loss_markdown import loss_markdown
from stopwav.report.loss_table import print_loss
from stopwav.report.markdown import markdown_report
from stopwav.report.sections import Part, Section, compare, grid, latency, loss, step
from stopwav.report.step_comparison import step_comparison_html
from stopwav.report.step_layout import arrange_step, told_cautions
from stopwav.report.step_markdown import step_markdown
from stopwav.report.step_table import print_step
from stopwav.studies.compare.definitions import compare_definition
from stopwav.studies.grid.definitions import GRID_DEFINITIONS
from stopwav.studies.latency.definitions import Definition, definition
from stopwav.studies.loss.definitions import LOSS_DEFINITIONS
from stopwav.studies.step.definitions import STEP_DEFINITIONS

# What a run says beside its results, by key, such as the card of a comparison; for charts, what they show as well.
Beside = Mapping[str, Any]
# Engines of a comparison differ in their options and have long names: more of them make no heading; the card has them.
MOST_NAMED = 3


def _engines(section: Section) -> Sequence[str]:
    # A comparison has results of its engines, and of each at every length.
    return [one.name for one in section.results if one.params.get("kind", "engine") == "engine"]


def _told(results: Sequence[Result]) -> list[Result]:
    # Every engine, so that what touches them all is told of all; of a comparison's lengths those in doubt.
    return [one for one in results if one.warnings or one.params.get("kind", "engine") == "engine"]


@dataclass(frozen=True)
class Presentation:
    """How the runs of a study are shown: in the terminal, as Markdown, on the page, and beside runs of others."""

    terminal: Callable[[Sequence[Result], Beside, Console, Detail], None]
    markdown: Callable[[Record, Sequence[Result], Beside, Detail], str]
    section: Callable[[Section, str], Part]
    charts: Callable[[Beside, Sequence[Result]], dict[str, Chart]]
    # What the study means by a metric: some have a metric of the same name.
    definition: Callable[[str], Definition | None]
    # How the codes of those cautions begin that say why something was not measured.
    lost: tuple[str, ...]
    # On the page: what the heading says that the run is of; the results, under names short enough that what tells
    # them apart is not cut off; and those whose cautions are told.
    subject: Callable[[Section], Sequence[str]] = _engines
    named: Callable[[Section], Sequence[Result]] = lambda section: section.results
    doubted: Callable[[Section], Sequence[Result]] = lambda section: _told(section.results)
    # Of several runs of this study alone, what stands on top of their page in place of the usual table.
    comparison: Callable[[Sequence[tuple[Record, Sequence[Result]]]], str] | None = None
    # Whether it is of training: there is no recogniser in it, and none of the numbers that the others share.
    of_training: bool = False
    # What tells its points in a history from those of another study, which times other things under the same name.
    series: str = ""


def presentation_of(study: str) -> Presentation:
    """How runs of that study are shown."""
    if study not in PRESENTATIONS:
        raise StopwavError(f"a run of {study!r}, which this version of stopwav does not know")
    return PRESENTATIONS[study]


def _print_latency(results: Sequence[Result], beside: Beside, console: Console, detail: Detail) -> None:
    explained = beside.get("explanation")
    # Of the settings that were tried, the explanation is what a reader wants; `--all` has every number of each.
    print_latency(results, console, every_metric=detail.every_metric, shown=None if explained is None else 1)
    if explained is not None:
        console.print()
        print_explanation(explained, console)


def _latency_markdown(record: Record, results: Sequence[Result], beside: Beside, detail: Detail) -> str:
    explained = beside.get("explanation")
    # As on the terminal: of the settings that were tried, what they gain.
    shown = results if explained is None or detail.every_metric else results[:1]
    report = markdown_report(record, shown, every_metric=detail.every_metric)
    return report if explained is None else f"{report}\n{explanation_markdown(explained)}\n"


def _short_cells(section: Section) -> list[Result]:
    # The engine of a grid stands in the heading.
    engine = f"{section.record.header.spec['engine']} "
    return [replace(one, name=one.name.removeprefix(engine)) for one in section.results]


def _compared(section: Section) -> Sequence[str]:
    engines = _engines(section)
    return engines if len(engines) <= MOST_NAMED else [f"{len(engines)} engines"]


# Altair takes longer to import than all the rest: the charts of a study are imported when they are drawn.
def _latency_charts(view: Beside, results: Sequence[Result]) -> dict[str, Chart]:
    from stopwav.studies.latency.charts import latency_charts

    return latency_charts(view)


def _grid_charts(view: Beside, results: Sequence[Result]) -> dict[str, Chart]:
    from stopwav.studies.grid.charts import grid_charts

    return grid_charts(results)


def _compare_charts(view: Beside, results: Sequence[Result]) -> dict[str, Chart]:
    from stopwav.studies.compare.charts import compare_charts

    return compare_charts(results, view["card"])


def _loss_charts(view: Beside, results: Sequence[Result]) -> dict[str, Chart]:
    from stopwav.studies.loss.charts import loss_charts

    return loss_charts(results)


def _step_charts(view: Beside, results: Sequence[Result]) -> dict[str, Chart]:
    from stopwav.studies.step.charts import step_charts

    return step_charts(view, results)


PRESENTATIONS = {
    "latency": Presentation(
        terminal=_print_latency,
        markdown=_latency_markdown,
        section=latency.render_section,
        charts=_latency_charts,
        definition=definition,
        lost=("stream-",),
    ),
    "grid": Presentation(
        terminal=lambda results, beside, console, detail: print_grid(
            results, console, every_metric=detail.every_metric, scientific=detail.scientific
        ),
        markdown=lambda record, results, beside, detail: grid_markdown(
            record, results, every_metric=detail.every_metric, scientific=detail.scientific
        ),
        section=grid.render_section,
        charts=_grid_charts,
        definition=GRID_DEFINITIONS.get,
        lost=("cell-", "triangle"),
        subject=lambda section: [str(section.record.header.spec.get("engine"))],
        named=_short_cells,
        doubted=lambda section: by_place(arrange(section.results)),
        series="grid",
    ),
    "compare": Presentation(
        terminal=lambda results, beside, console, detail: print_compare(
            results, beside["card"], console, every_metric=detail.every_metric
        ),
        markdown=lambda record, results, beside, detail: compare_markdown(
            record, results, beside["card"], every_metric=detail.every_metric
        ),
        section=compare.render_section,
        charts=_compare_charts,
        definition=compare_definition,
        lost=("sample-", "model-", "cell-"),
        subject=_compared,
        named=lambda section: by_letter(section.results),
        doubted=lambda section: _told(by_letter(section.results)),
        series="compare",
    ),
    "loss": Presentation(
        terminal=lambda results, beside, console, detail: print_loss(
            results, console, every_metric=detail.every_metric
        ),
        markdown=lambda record, results, beside, detail: loss_markdown(
            record, results, every_metric=detail.every_metric
        ),
        section=loss.render_section,
        charts=_loss_charts,
        definition=LOSS_DEFINITIONS.get,
        lost=("loss-",),
        # It has a result for each setting.
        subject=lambda section: section.record.header.spec.get("losses") or _engines(section),
        of_training=True,
    ),
    "step": Presentation(
        terminal=lambda results, beside, console, detail: print_step(
            results, console, every_metric=detail.every_metric, unfold=detail.unfold, labels=detail.labels
        ),
        markdown=lambda record, results, beside, detail: step_markdown(
            record, results, every_metric=detail.every_metric
        ),
        section=step.render_section,
        charts=_step_charts,
        definition=STEP_DEFINITIONS.get,
        lost=("step-",),
        subject=lambda section: [str(section.record.header.spec.get("model"))],
        doubted=lambda section: told_cautions(arrange_step(section.results)),
        comparison=step_comparison_html,
        of_training=True,
    ),
}
