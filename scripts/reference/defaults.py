"""docs/reference/defaults.md: the plans, and every constant that moves a number, with its reason from the code."""

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path

import stopwav
from reference.markdown import code, page, table
from reference.source import comment_of
from stopwav.stats import minimum_count

INTRODUCTION = """
The values that are used where no option says otherwise. They are chosen before any number is seen, and are the same
for every engine.
"""

PLANS = """
## Plans

A [`Plan`](python.md#stopwavplan) says how a round is measured. `measure` uses `REPORT` and `race` uses `COMPARISON`
unless given another; `stopwav latency` has its own `--rounds` and takes the warm-up from the plan.
"""

MINIMUM = """
## Percentiles

The fewest values for which a percentile is given: with fewer, its 95 % confidence interval does not have two ends.
"""

CONSTANTS = """
## Constants

Numbers in the code, with the reason that the code gives. Private ones, which begin with `_`, are listed too.
"""

PARTS = ("measure", "stats", "speech", "engines", "losses", "studies", "report", "profiling")
PACKAGE = Path(inspect.getfile(stopwav)).parent
# Longer tuples (of words, of names) are data and not settings.
LONGEST = 40


def render() -> str:
    """Return the page."""
    names = ("QUICK", "REPORT", "COMPARISON")
    plans = [getattr(stopwav, name) for name in names]
    rows = [
        (code(field.name), *(code(getattr(plan, field.name)) for plan in plans))
        for field in dataclasses.fields(stopwav.Plan)
    ]
    counts = [(f"P{100 * p:.0f}", str(minimum_count(p))) for p in (0.5, 0.9, 0.95, 0.99)]
    return page(
        "Defaults",
        INTRODUCTION,
        PLANS,
        table(("field", *map(code, names)), rows),
        MINIMUM,
        table(("percentile", "values"), counts),
        CONSTANTS,
        *(section for part in PARTS for path in _files(part) if (section := _section(path))),
    )


def _files(part: str) -> list[Path]:
    return sorted((PACKAGE / part).rglob("[a-z]*.py"))


def _section(path: Path) -> str:
    """The constants of a file, "" where it has none; it is read and not imported, as it may need other packages."""
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    rows = [(code(name), code(value), reason) for name, value, reason in _constants(path.read_text())]
    return f"### {module}\n\n{table(('constant', 'value', 'why'), rows)}" if rows else ""


def _constants(source: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and reason of each number that a file sets at its top level."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name) or not _is_number(node.value):
            continue
        name, value, reason = node.targets[0].id, ast.unparse(node.value), comment_of(lines, node)
        # A private one without a reason is a code of the operating system, not a choice.
        if name.isupper() and len(value) <= LONGEST and (reason or not name.startswith("_")):
            yield name, value, reason


def _is_number(node: ast.expr) -> bool:
    """Whether it is a number, or arithmetic or a tuple of numbers."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Tuple) and all(map(_is_number, node.elts))
