"""The card of a comparison as the output of a notebook's cell."""

from __future__ import annotations

from stopwav.report.document import Document, Lines
from stopwav.report.notebook import notebook_html
from stopwav.report.page import PageSection
from stopwav.studies.compare.comparison import comparison_of
from stopwav.studies.compare.document import (
    expectation_blocks,
    findings_of,
    pareto_blocks,
    subject_of,
    verdict_blocks,
)
from stopwav.studies.study import StudyRun


def card_html(run: StudyRun) -> str:
    """Return who is ahead of whom, in a table and a chart."""
    comparison = comparison_of(run)
    document = Document(
        title=f"Card: {subject_of(comparison)}",
        blocks=(
            Lines("Engines", tuple(comparison.title(engine.name, 100) for engine in comparison.engines)),
            *verdict_blocks(comparison),
            *expectation_blocks(comparison.card.expectations),
            *pareto_blocks(comparison),
        ),
        findings=tuple(findings_of(comparison)),
    )
    return notebook_html(PageSection(document, run.charts, run.study.definitions.explain))
