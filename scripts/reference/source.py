"""What the pages read from the code: comments on constants and settings, and the names of types."""

import ast
import re


def comment_of(lines: list[str], node: ast.Assign | ast.AnnAssign) -> str:
    """Return the comment on the line of an assignment, or else the one above it; "" where there is none."""
    _, mark, behind = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
    if mark and not behind.startswith(("noqa", "type:")):
        return behind.strip()
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.lstrip().startswith("# "):
            break
        above.insert(0, line.lstrip().removeprefix("# "))
    return " ".join(above)


def type_name(annotation: object) -> str:
    """Return a type as a reader writes it: without modules, and without the limits that a spec sets its values."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    text = re.sub(r"Annotated\[(\w+), [^]]*\]", r"\1", str(annotation).replace("typing.", ""))
    return re.sub(r"\b(?:stopwav|collections|pathlib)\.(?:\w+\.)*", "", text)
