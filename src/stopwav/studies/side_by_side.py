"""Several runs on one page: a section each, and on top a table with a row per run and engine."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Header
from stopwav.report.document import Cell, Column, Detail, Document, Note, Row, Source, Table
from stopwav.report.page import PageSection
from stopwav.report.provenance import fingerprint, machine_name
from stopwav.report.text import DASH, format_bytes, format_interval, missing
from stopwav.studies.definition import Definition
from stopwav.studies.study import StudyRun


def page_section(run: StudyRun) -> PageSection:
    """Return the section of a run, with its charts and the meaning of its metrics."""
    return PageSection(run.document(Detail(page=True)), run.charts, run.study.definitions.explain)


def side_by_side(runs: Sequence[StudyRun]) -> Document:
    """Return the comparison of runs, with a warning where they differ in more than their engines.

    Each row leads to the section of its run on the same page. Runs that are all of one study are compared in its own
    way, where it has one.
    """
    own, *others = {run.study.comparison for run in runs}
    if own is not None and not others:
        return own(runs)
    headlines = _headlines(runs)
    machines = [machine_name(run.record.header) for run in runs]
    by_machine = len(set(machines)) > 1
    rows = [
        row
        for index, run in enumerate(runs)
        for row in _rows(index, run, headlines, machines[index] if by_machine else "")
    ]
    absent = [run.record.path.stem for run in runs if run.study.followed is None]
    columns = (
        Column("run", "left"),
        *((Column("machine", "left"),) if by_machine else ()),
        Column("engine", "left"),
        *(Column(definition.headline) for definition in headlines.values()),
    )
    table = (Table(columns, tuple(rows), title="Comparison of runs", sortable=True),) if rows else ()
    reason = "runs of training have none of these numbers; each is in its section below"
    left_out = (Note(f"Not in the table: {', '.join(absent)}: {reason}."),) if absent else ()
    return Document(
        f"{len(runs)} runs compared", (Note(_differences([run.record.header for run in runs])), *table, *left_out)
    )


def _headlines(runs: Sequence[StudyRun]) -> dict[str, Definition]:
    """The metrics that runs are compared by, with their headings."""
    headlines: dict[str, Definition] = {}
    for run in runs:
        if run.study.followed is not None:
            for metric, definition in run.study.definitions.headlines():
                headlines.setdefault(metric, definition)
    return headlines


def _rows(index: int, run: StudyRun, headlines: dict[str, Definition], machine: str) -> list[Row]:
    rows = []
    # The lengths of a comparison are in its section.
    for result in (followed for followed in run.followed if followed.kind != "length"):
        absent = f"not measured by {run.study.name}" if result.metrics else "nothing was measured"
        named = [Cell(machine)] if machine else []
        cells = [Cell(run.record.path.stem, href=f"#s{index}-run"), *named, Cell(result.name)]
        for metric, definition in headlines.items():
            estimate = result.metrics.get(metric)
            if estimate is None:
                cells.append(Cell(DASH))
                continue
            text = format_interval(estimate, definition.scale, definition.decimals)
            if estimate.value is None:
                text = missing(estimate)
            elif estimate.unit == "B":
                text = format_bytes(estimate.value)
            cells.append(Cell(text, source=Source(result.name, metric, estimate, definition.scale)))
        rows.append(Row(tuple(cells), status="" if result.status == "ok" else f"{result.status}: {absent}"))
    return rows


def _differences(headers: Sequence[Header]) -> str:
    """The differences between the runs, in a sentence."""
    aspects = {
        "study": [header.study for header in headers],
        "machine": [fingerprint(header) for header in headers],
        "corpus": [str(header.corpus.get("digest")) for header in headers],
        "normaliser": [str(header.normaliser) for header in headers],
        "pace": [str(header.spec.get("pace")) for header in headers],
        "chunk size": [str(header.spec.get("chunk_ms")) for header in headers],
        "version of stopwav": [header.stopwav for header in headers],
    }
    differing = [name for name, values in aspects.items() if len(set(values)) > 1]
    if not differing:
        return "Same machine, corpus and settings. `stopwav diff` says whether a difference is more than noise."
    return f"These runs differ in {', '.join(differing)}: their numbers are not comparable as such."
