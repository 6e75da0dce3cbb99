"""`stopwav.diff_traces`: operators, kernels, stages and functions that became slower or faster between traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from stopwav.errors import StopwavError
from stopwav.profiling.analysis import Order, TraceAnalysis, analyse_file, check_order
from stopwav.profiling.operators import Kernel, Operator
from stopwav.profiling.trace_file import trace_files
from stopwav.profiling.trace_spans import STEP

if TYPE_CHECKING:
    from stopwav.stats.change import Change

Places = str | Path | Sequence[str | Path]

# Names that hold less than this share of the own time of their table on both sides get no verdict: every verdict makes
# the others stricter (Holm), and nobody acts on them.
LEAST_SHARE = 0.01
# Instead of the name of a span: everything in a trace counts once.
WHOLE_TRACE = "trace"
# torch.profiler's kind of the labels that users set with record_function, and of its own marks of steps.
LABEL = "user_annotation"

TABLE_NAMES = ("operators", "kernels", "launches", "labels", "stages", "functions")
Key = tuple[str, str, str]  # table, name, kind


@dataclass(frozen=True)
class NameTimes:
    """One name on one side, per unit: calls, own and total seconds as means over its traces, and each trace's own."""

    calls: float
    self_s: float
    total_s: float
    each_self_s: tuple[float, ...]

    @property
    def self_per_call_s(self) -> float | None:
        """Own seconds of one call."""
        return self.self_s / self.calls if self.calls else None

    @property
    def total_per_call_s(self) -> float | None:
        """Total seconds of one call."""
        return self.total_s / self.calls if self.calls else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {**asdict(self), "self_per_call_s": self.self_per_call_s, "total_per_call_s": self.total_per_call_s}


@dataclass(frozen=True)
class NameChange:
    """One operator, kernel, stage or function on both sides; `own` has the verdict on its own time, where one is given.

    `status` says whether only b has it (`appeared`), only a (`vanished`), or both.
    """

    name: str
    kind: str
    a: NameTimes
    b: NameTimes
    own: Change | None = None

    @property
    def status(self) -> Literal["both", "appeared", "vanished"]:
        """Which sides have it."""
        if self.a.calls and self.b.calls:
            return "both"
        return "appeared" if self.b.calls else "vanished"

    @property
    def self_change_s(self) -> float:
        """The change of the own time, in seconds per unit."""
        return self.b.self_s - self.a.self_s

    @property
    def total_change_s(self) -> float:
        """The change of the total time, in seconds per unit."""
        return self.b.total_s - self.a.total_s

    @property
    def self_ratio(self) -> float | None:
        """The own time of b as a multiple of that of a."""
        return self.b.self_s / self.a.self_s if self.a.self_s and self.b.calls else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "self_change_s": self.self_change_s,
            "total_change_s": self.total_change_s,
            "self_ratio": self.self_ratio,
            "verdict": None if self.own is None else self.own.to_json(),
        }


@dataclass(frozen=True)
class TraceDiff:
    """The changes from traces a to traces b, table by table, largest change first.

    Numbers are per unit: `per` is the name of the span that is the unit, `ProfilerStep` or another, or `trace`;
    `units_a` and `units_b` count it in each trace.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    per: str
    units_a: tuple[int, ...]
    units_b: tuple[int, ...]
    tables: Mapping[str, tuple[NameChange, ...]]
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The unit that numbers are per, in a word."""
        return {STEP: "step", WHOLE_TRACE: "trace"}.get(self.per, self.per)

    @property
    def decided(self) -> bool:
        """Whether there are enough traces for verdicts: two per side."""
        return min(len(self.a), len(self.b)) > 1

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as `--json` prints it."""
        fields = {name: getattr(self, name) for name in ("a", "b", "per", "units_a", "units_b", "notes")}
        return {**fields, **{name: [row.to_json() for row in rows] for name, rows in self.tables.items()}}

    def __str__(self) -> str:
        from stopwav.profiling.trace_document import trace_diff_document
        from stopwav.report.terminal import document_text

        return document_text(trace_diff_document(self))


def diff_traces(
    a: Places, b: Places, *, per: str | None = None, threshold: float | None = None, sort: Order = "own"
) -> TraceDiff:
    """Compare the traces of `a` with those of `b`: each a trace, a folder of traces, or several of them.

    Several traces of a side are repetitions of the same thing: their spread decides the verdicts, which need two traces
    per side. Numbers are per step where every trace has torch.profiler's marks of steps, and per trace otherwise; `per`
    names another span to divide by, such as a `record_function` label or a stage, or `trace`. `threshold` is the
    relative change of own time that does not matter. `sort` orders the tables by the change of `own` or `total` time,
    of `calls`, or by `name`.
    """
    from stopwav.stats import DEFAULT_THRESHOLD

    check_order(sort)
    limit = DEFAULT_THRESHOLD if threshold is None else threshold
    if not 0 <= limit < float("inf"):
        raise StopwavError(f"diff_traces: threshold {threshold}: give 0 or more, such as 0.01 for 1 %")
    paths_a, paths_b = _paths(a), _paths(b)
    before, after = [analyse_file(path) for path in paths_a], [analyse_file(path) for path in paths_b]
    unit = _unit([*before, *after], per)
    units_a, units_b = ([_count(analysis, unit) for analysis in side] for side in (before, after))
    tables = _tables(before, units_a, after, units_b)
    return TraceDiff(
        a=tuple(map(str, paths_a)),
        b=tuple(map(str, paths_b)),
        per=unit,
        units_a=tuple(units_a),
        units_b=tuple(units_b),
        tables={name: _sorted(rows, sort) for name, rows in _with_verdicts(tables, limit).items()},
        notes=tuple(_notes((paths_a, paths_b), (before, after), unit, per)),
    )


def _paths(places: Places) -> list[Path]:
    several = [places] if isinstance(places, str | Path) else places
    paths = [path for place in several for path in trace_files(Path(place), "diff_traces")]
    if not paths:
        raise StopwavError(
            f"diff_traces: no .json or .json.gz file in {str(places)!r}; give a trace, or a folder of traces"
        )
    return paths


def _unit(analyses: Sequence[TraceAnalysis], per: str | None) -> str:
    if per is None:
        return STEP if all(analysis.steps for analysis in analyses) else WHOLE_TRACE
    for analysis in analyses:
        if not _count(analysis, per):
            raise StopwavError(
                f"per {per!r}: no span of that name in {analysis.folder}; name one that is in every trace, or 'trace'"
            )
    return per


def _count(analysis: TraceAnalysis, unit: str) -> int:
    return 1 if unit == WHOLE_TRACE else analysis.count(unit)


def _tables(
    before: Sequence[TraceAnalysis], units_a: Sequence[int], after: Sequence[TraceAnalysis], units_b: Sequence[int]
) -> dict[str, list[NameChange]]:
    """Return the names on both sides by table."""
    side_a, side_b = [_rows(analysis) for analysis in before], [_rows(analysis) for analysis in after]
    tables: dict[str, list[NameChange]] = {name: [] for name in TABLE_NAMES}
    for key in dict.fromkeys(key for rows in (*side_a, *side_b) for key in rows):
        table, name, kind = key
        change = NameChange(name, kind, _times(side_a, key, units_a), _times(side_b, key, units_b))
        tables[table].append(change)
    return {name: rows for name, rows in tables.items() if rows}


def _rows(analysis: TraceAnalysis) -> dict[Key, Operator | Kernel]:
    """Return the rows of all tables. Labels are apart from operators: their own time is that between operators."""
    return {
        ("labels" if row.kind == LABEL and table == "operators" else table, row.name, row.kind): row
        for table, rows in analysis.tables.items()
        for row in rows
    }


def _times(side: Sequence[Mapping[Key, Operator | Kernel]], key: Key, units: Sequence[int]) -> NameTimes:
    """Return the means over the traces of a side; a trace without the name counts as none."""
    rows = [
        (row.calls / unit, row.self_s / unit, row.total_s / unit) if (row := rows.get(key)) else (0.0, 0.0, 0.0)
        for rows, unit in zip(side, units, strict=True)
    ]
    calls, own, total = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    return NameTimes(calls, own, total, tuple(self_s for _, self_s, _ in rows))


def _with_verdicts(tables: Mapping[str, Sequence[NameChange]], threshold: float) -> dict[str, list[NameChange]]:
    """Return the tables with a verdict on each name that every trace has and that is not too small for one."""
    from stopwav.stats.change import answer_all, ask_ratio

    asked = {(table, row.name, row.kind): row for table, rows in tables.items() for row in _to_decide(rows)}
    questions = [
        ask_ratio("self_s", "s", "time", row.a.each_self_s, row.b.each_self_s, threshold) for row in asked.values()
    ]
    answers = dict(zip(asked, answer_all(questions), strict=True))
    return {
        table: [replace(row, own=answers.get((table, row.name, row.kind))) for row in rows]
        for table, rows in tables.items()
    }


def _to_decide(rows: Sequence[NameChange]) -> Iterator[NameChange]:
    whole_a, whole_b = sum(row.a.self_s for row in rows), sum(row.b.self_s for row in rows)
    for row in rows:
        each_a, each_b = row.a.each_self_s, row.b.each_self_s
        large = row.a.self_s >= LEAST_SHARE * whole_a or row.b.self_s >= LEAST_SHARE * whole_b
        if large and min(len(each_a), len(each_b)) > 1 and min(*each_a, *each_b) > 0:
            yield row


def _sorted(rows: Sequence[NameChange], sort: Order) -> tuple[NameChange, ...]:
    """Return the rows with the largest change first, in either direction."""
    by_name = sorted(rows, key=lambda row: (row.name, row.kind))
    changes = {
        "own": lambda row: -abs(row.self_change_s),
        "total": lambda row: -abs(row.total_change_s),
        "calls": lambda row: -abs(row.b.calls - row.a.calls),
        "name": lambda row: 0,
    }
    return tuple(sorted(by_name, key=changes[sort]))


def _notes(
    paths: Sequence[Sequence[Path]], sides: Sequence[Sequence[TraceAnalysis]], unit: str, per: str | None
) -> Iterator[str]:
    if unit == WHOLE_TRACE and per is None:
        yield (
            "numbers are per whole trace, as not every trace has torch.profiler's marks of steps: if the traces do not "
            "hold the same amount of work, divide by a span that marks it (--per NAME)"
        )
    if min(map(len, paths)) > 1:
        yield (
            "verdicts are on own time: Welch's t on logarithms, a value per trace; Holm: 95 % for all together; "
            f"names below {LEAST_SHARE:.0%} of their table on both sides, or not in every trace, get none"
        )
    else:
        yield (
            "one trace on a side shows no spread, so no verdict is given and any change may be noise; verdicts need "
            "folders with at least 2 traces each"
        )
    for label, side_paths in zip("ab", paths, strict=True):
        folders = {path.parent for path in side_paths}
        if len(folders) > 1:
            yield f"{label}: traces of {len(folders)} folders are taken as repetitions of the same thing"
    for label, analyses in zip("ab", sides, strict=True):
        yield from (f"{label}: {note}" for analysis in analyses for note in analysis.notes)
