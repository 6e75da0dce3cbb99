"""The changes between two runs as a document: a table per item, and a sentence on each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

from stopwav.report.document import (
    BRIEF,
    EVERYWHERE,
    PAGE,
    Block,
    Cell,
    Column,
    Document,
    Figures,
    Lines,
    Missing,
    Note,
    Row,
    Section,
    Table,
    in_detail,
)
from stopwav.report.text import (
    DASH,
    amount_text,
    counted,
    effect_text,
    listed,
    verdict_text,
)
from stopwav.stats import Rule, rule_text
from stopwav.stats.change import NEITHER_IS_BETTER, WORDS, Change
from stopwav.studies.definition import Definitions
from stopwav.studies.diff.diff import Diff, Diffs, ItemDiff
from stopwav.studies.study import find_study

_COLUMNS = (
    Column("metric", "left", fold=True, least=20),
    Column("a"),
    Column("b"),
    Column("b / a [interval]"),
    Column("verdict", "left", fold=True),
)
# How far the interval of two separate runs reaches, by rule; that of a race is named by the rule alone.
_UNPAIRED: dict[Rule, str] = {
    "fixed": "Welch's t on log round values",
    "anytime": f"log round values, {rule_text('anytime')}",
}
HOLM = "Holm over all rows: 95 % for all of them together"
_CLAIMS = tuple(dict.fromkeys(word for words in WORDS.values() for word in reversed(words)))
# A step has hundreds of rows: those at these depths are shown, unless they are more than so many, and what changed.
OUTERMOST, MOST_PARTS = 1, 40
MOST_PART_FINDINGS = 5


def diff_document(compared: Diff | Diffs) -> Document:
    """Return where the runs lie, a table per item, why numbers are missing, and a sentence per item.

    On the page, a chart of every ratio with its interval stands above the tables.
    """
    diffs = (compared,) if isinstance(compared, Diff) else compared.diffs
    runs = (f"a: {diffs[0].a}", *(f"{letter}: {diff.b}" for letter, diff in lettered(diffs)))
    places = Lines("Runs", runs)
    title = f"{diffs[0].study.capitalize()} runs compared: {listed([path.stem for path in _paths(diffs)])}"
    figures = Section("At a glance", (Figures((("ratios-*",),)),), media=PAGE)
    if len(diffs) == 1:
        return changes_document(title, diffs[0], (places, figures), (), unpaired_text(diffs[0]))
    return _side_by_side(title, diffs, (places, figures))


def lettered(diffs: Sequence[Diff]) -> list[tuple[str, Diff]]:
    """Return each comparison with the letter of its run: b, c and so on; beyond z a number."""
    letters = [*ascii_lowercase[1:], *(f"run {number}" for number in range(len(ascii_lowercase) + 1, len(diffs) + 2))]
    return list(zip(letters, diffs, strict=False))


def _paths(diffs: Sequence[Diff]) -> list[Path]:
    return [diffs[0].a, *(diff.b for diff in diffs)]


def _side_by_side(title: str, diffs: Sequence[Diff], places: Sequence[Block]) -> Document:
    """Several runs against the first: a table per item, in which each run has its ratios and verdicts."""
    definitions = find_study(diffs[0].study).definitions
    wholes = [[item for item in diff.items if not item.part] for diff in diffs]
    names = dict.fromkeys(item.name for items in wholes for item in items)
    letters = [letter for letter, _ in lettered(diffs)]
    parts: list[Block] = []
    findings: list[str] = []
    for letter, diff in lettered(diffs):
        of_run = [item for item in diff.items if item.part]
        parts += _part_tables(of_run, definitions, f"{letter}: ")
        findings += [
            *(
                f"{letter}, {item.name}: {finding_text(item.changes, definitions)}"
                for item in diff.items
                if not item.part
            ),
            *(f"{letter}, {finding}" for finding in _part_findings(of_run, definitions)),
        ]
    tables = [_table_of_runs(name, letters, wholes, definitions) for name in names]
    reasons = dict.fromkeys(reason for diff in diffs for reason in _reasons(diff, definitions))
    remarks = _remarks_of_runs(diffs)
    return Document(
        title,
        (
            *places,
            *tables,
            *parts,
            *in_detail((Note(unpaired_text(diffs[0])), Missing(tuple(reasons), media=EVERYWHERE))),
            *((Lines("Read with care", tuple(remarks)),) if remarks else ()),
        ),
        findings=tuple(findings),
    )


def _remarks_of_runs(diffs: Sequence[Diff]) -> list[str]:
    """The remarks on each run; those on all of them, such as on the first, once."""
    remarks = [list(_remarks(diff)) for diff in diffs]
    of_all = [remark for remark in remarks[0] if all(remark in others for others in remarks)]
    own = (
        f"{letter}: {remark}"
        for (letter, _), found in zip(lettered(diffs), remarks, strict=True)
        for remark in found
        if remark not in of_all
    )
    return [*of_all, *own]


def _table_of_runs(
    name: str, letters: Sequence[str], wholes: Sequence[Sequence[ItemDiff]], definitions: Definitions
) -> Table:
    """One item: a row per metric, and for each run that has it its ratio to the first and the verdict."""
    columns, by_metric = [*_COLUMNS[:2]], []
    for letter, items in zip(letters, wholes, strict=True):
        changes = next((item.changes for item in items if item.name == name), ())
        if changes:
            columns.append(Column(f"{letter} / a, verdict"))
            by_metric.append({change.metric: change for change in changes})
    rows = []
    for metric in dict.fromkeys(metric for changes in by_metric for metric in changes):
        own = [changes.get(metric) for changes in by_metric]
        known = next(change for change in own if change is not None)
        cells = [Cell(definitions.short_title(metric)), Cell(amount_text(known, known.a))]
        rows.append(Row((*cells, *map(_ratio_cell, own))))
    return Table(tuple(columns), tuple(rows), title=name)


def _ratio_cell(change: Change | None) -> Cell:
    """A ratio with its interval and verdict; where there is little room, without the interval."""
    if change is None or change.value is None:
        return Cell(DASH)
    ratio = effect_text(change)
    return Cell(f"{ratio} {change.verdict}", f"{ratio.partition(' ')[0]} {change.verdict}")


def unpaired_text(diff: Diff) -> str:
    """Return how the changes between two runs were decided."""
    return f"unpaired: two separate runs, {_UNPAIRED[diff.rule]} (WER, CER: paired, by utterance); {HOLM}"


def changes_document(title: str, diff: Diff, places: Sequence[Block], outcome: Sequence[str], method: str) -> Document:
    """Return the changes from one run to another, with what was decided of them on top."""
    definitions = find_study(diff.study).definitions
    wholes, parts = ([item for item in diff.items if bool(item.part) == is_part] for is_part in (False, True))
    tables = tuple(_table(item.name, item.changes, definitions) for item in wholes if item.changes)
    remarks = tuple(_remarks(diff))
    return Document(
        title,
        (
            *places,
            *map(_brief, tables),
            *in_detail(tables),
            *_part_tables(parts, definitions),
            Missing(tuple(_left_out(diff)), media=BRIEF),
            *in_detail((Note(method), Missing(tuple(_reasons(diff, definitions)), media=EVERYWHERE))),
            *((Lines("Read with care", remarks),) if remarks else ()),
        ),
        findings=(
            *outcome,
            *(f"{item.name}: {finding_text(item.changes, definitions)}" for item in wholes),
            *_part_findings(parts, definitions),
        ),
    )


def _part_tables(parts: Sequence[ItemDiff], definitions: Definitions, of: str = "") -> Iterator[Block]:
    """A table per metric of parts, as they stand in the tree."""
    shown = _shown_parts(parts)
    for metric in dict.fromkeys(change.metric for item in shown for change in item.changes):
        rows = [
            Row(tuple(map(Cell, ("\u2003" * item.depth + item.part, *_cells(change)))))
            for item in shown
            for change in item.changes
            if change.metric == metric
        ]
        columns = (Column("part", "left", fold=True, least=20), *_COLUMNS[1:])
        yield Table(columns, tuple(rows), title=f"{of}{definitions.short_title(metric)}")
    if len(shown) < len(parts):
        yield Note(f"{len(shown)} of {len(parts)} parts: the outermost, and those that changed; --json has all")


def _shown_parts(parts: Sequence[ItemDiff]) -> list[ItemDiff]:
    """The outermost parts, unless they are many, and those with a change that is claimed, after what they stand in."""
    outermost = sum(item.depth <= OUTERMOST for item in parts) <= MOST_PARTS
    shown: dict[str, ItemDiff] = {}
    around: list[ItemDiff] = []
    for item in parts:
        around = [*around[: item.depth], item]
        if outermost and item.depth <= OUTERMOST:
            shown[item.name] = item
        if _has_changed(item):
            shown |= {outer.name: outer for outer in around}
    return list(shown.values())


def _has_changed(item: ItemDiff) -> bool:
    """Whether a change is claimed: where one row takes longer, the shares of all others are smaller."""
    claims = (change for change in item.changes if change.verdict in _CLAIMS)
    return any(change.quantity not in NEITHER_IS_BETTER for change in claims)


def _part_findings(parts: Sequence[ItemDiff], definitions: Definitions) -> Iterator[str]:
    """The first parts that changed, and how many more did."""
    changed = list(filter(_has_changed, parts))
    for item in changed[:MOST_PART_FINDINGS]:
        yield f"{item.name}: {finding_text(item.changes, definitions)}"
    if len(changed) > MOST_PART_FINDINGS:
        yield f"{counted(len(changed) - MOST_PART_FINDINGS, 'more part')} changed"
    if parts and not changed:
        yield f"{counted(len(parts), 'part')}: no change beyond the thresholds"


def _table(name: str, changes: Sequence[Change], definitions: Definitions) -> Table:
    rows = [(definitions.short_title(change.metric), *_cells(change)) for change in changes]
    return Table(_COLUMNS, tuple(Row(tuple(map(Cell, row))) for row in rows), title=name)


def _brief(table: Table) -> Table:
    """The table without the rows that have no number to compare."""
    rows = [row for row in table.rows if row.cells[3].text != DASH]
    return replace(table, rows=tuple(rows), media=BRIEF)


def _cells(change: Change) -> tuple[str, ...]:
    """Both numbers, their ratio or difference, and the verdict."""
    return amount_text(change, change.a), amount_text(change, change.b), effect_text(change), verdict_text(change)


def finding_text(changes: Sequence[Change], definitions: Definitions) -> str:
    """Return the changes in one sentence: the verdicts that claim a change, then how many are open."""
    if not changes:
        return "nothing to compare"
    parts = []
    for claim in _CLAIMS:
        titles = [definitions.short_title(change.metric) for change in changes if change.verdict == claim]
        if titles:
            parts.append(f"{claim} in {', '.join(titles)}")
    undecided = sum(change.verdict == "undecided" for change in changes)
    if undecided:
        parts.append(f"{undecided} of {len(changes)} undecided")
    return "; ".join(parts) or "no change beyond the thresholds"


def _reasons(diff: Diff, definitions: Definitions) -> Iterator[str]:
    """Why numbers or verdicts are missing, each reason once with the metrics it is about."""
    reasons: dict[str, dict[str, None]] = {}
    for item in diff.items:
        for change in item.changes:
            if change.note:
                reasons.setdefault(change.note, {})[definitions.short_title(change.metric)] = None
    for reason, titles in reasons.items():
        yield f"{reason}: {'; '.join(titles)}"


def _left_out(diff: Diff) -> Iterator[str]:
    """Why rows are left out where only numbers are shown: each reason once."""
    notes = [change.note for item in diff.items for change in item.changes if change.value is None and change.note]
    yield from (f"{counted(notes.count(note), 'row')} left out: {note}" for note in dict.fromkeys(notes))


def _remarks(diff: Diff) -> Iterator[str]:
    """Remarks to read with the verdicts; overridden obstacles first."""
    yield from (f"compared by force: {reason}" for reason in diff.forced)
    yield from (f"only in a: {name}" for name in diff.only_a)
    yield from (f"only in b: {name}" for name in diff.only_b)
    yield from diff.remarks
