"""The gate of `stopwav run --gate`: each run held to its conditions, and the exit code for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.record import Record
    from stopwav.report.document import Document
    from stopwav.studies.plan.plan_file import PlannedRun
    from stopwav.studies.plan.plan_gate import PlanOutcome


@dataclass
class PlanJudge:
    """Judges the runs of a plan one after the other, prints how each did, and writes all of it as Markdown."""

    markdown: Path | None
    show: bool
    codes: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, file: Path, planned: list[PlannedRun], markdown: Path | None, *, show: bool) -> PlanJudge:
        """Return the judge of a file; an error where it has no conditions."""
        if not any(item.gate for item in planned):
            raise StopwavError(f"{file}: has no `gate`, the conditions for --gate, such as gate: [rtf < 0.5]")
        return cls(markdown, show)

    def judge(self, planned: PlannedRun, record: Record | None) -> dict[str, Any]:
        """Judge a run, and return what `--json` says of it; one that could not be measured was reported already."""
        from stopwav.cli.output import show_document, write_file
        from stopwav.studies.plan.plan_gate import judge_plan

        if not planned.gate or record is None:
            return {}
        outcome = judge_plan(record, planned.gate)
        self.codes += _codes(outcome)
        for document in _documents(outcome):
            if self.show:
                show_document(document)
                print()
            if self.markdown is not None:
                from stopwav.report.markdown import render_markdown

                self.texts.append(render_markdown(document))
                write_file(self.markdown, "\n".join(self.texts), [record.path])
        return {"gate": outcome.to_json()}

    def exit_code(self, measured: int) -> int:
        """Return the code of the command: that nothing was measured, or a signal, before any outcome."""
        from stopwav.cli.output import EXIT_PARTLY, EXIT_UNDECIDED, EXIT_VIOLATED

        if measured not in (0, EXIT_PARTLY):
            return measured
        by_weight = (EXIT_VIOLATED, EXIT_PARTLY, EXIT_UNDECIDED)
        return next((code for code in by_weight if code in (measured, *self.codes)), 0)


def _codes(outcome: PlanOutcome) -> list[int]:
    from stopwav.cli.gate import requirements_code
    from stopwav.cli.output import EXIT_VIOLATED

    codes = [] if outcome.requirements is None else [requirements_code(outcome.requirements)]
    return codes if outcome.race is None or outcome.race.passed else [*codes, EXIT_VIOLATED]


def _documents(outcome: PlanOutcome) -> list[Document]:
    from stopwav.studies.diff.gate_document import gate_document, requirements_document

    documents = [] if outcome.requirements is None else [requirements_document(outcome.requirements)]
    return documents if outcome.race is None else [*documents, gate_document(outcome.race)]
