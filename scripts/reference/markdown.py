"""The pieces of Markdown that the pages consist of."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar inside a cell is escaped."""
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: object) -> str:
    """Return the text as code."""
    return f"`{text}`"


def fenced(text: str, language: str) -> str:
    """Return the text as a block of code."""
    return f"```{language}\n{text.strip()}\n```\n"


def page(title: str, *parts: str) -> str:
    """Return a page: its title, and its parts with a blank line between them."""
    return "\n\n".join([f"# {title}", *(part.strip() for part in parts)]) + "\n"
