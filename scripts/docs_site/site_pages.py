"""What the site takes from the repository: its tabs from the index, and files beside docs/ that pages link to."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
# Pages beside docs/ that are pages of the site as well.
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# The heading of a tab, and an entry of it.
_HEADING = re.compile(r"^## (.+)$")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#]+\.md)\)")
_LINK = re.compile(r"\]\((?:\.\./)*(?:docs/)?([^)\s#]+)(#[^)\s]+)?\)")


def navigation(index: str) -> list[dict[str, Any]]:
    """Return the tabs: one per heading of the index, with the pages listed under it."""
    tabs: list[dict[str, Any]] = [{"stopwav": "index.md"}]
    for line in index.splitlines():
        if heading := _HEADING.match(line):
            tabs.append({heading[1]: []})
        elif entry := _ENTRY.match(line):
            (pages,) = tabs[-1].values()
            pages.append({entry[1]: entry[2]})
    return [tab for tab in tabs if all(tab.values())]


def outside_files() -> dict[str, str]:
    """Return the text of each file beside docs/ that the site has, by its place in the site."""
    examples = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "examples").rglob("*")) if _shown(path)}
    files = {**examples, "LICENSE.txt": ROOT / "LICENSE", **{place: ROOT / name for name, place in PAGES.items()}}
    return {place: path.read_text(encoding="utf-8") for place, path in files.items()}


def _shown(path: Path) -> bool:
    return path.suffix in (".py", ".yaml", ".toml", ".ipynb") and "__pycache__" not in path.parts


def with_links_inside(markdown: str, place: str) -> str:
    """Return a page whose links to files beside docs/ lead to their copies in the site."""
    depth = "../" * place.count("/")

    def inside(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if target in PAGES or target.startswith("examples/") or target == "LICENSE":
            target = PAGES.get(target, "LICENSE.txt" if target == "LICENSE" else target)
            return f"]({depth}{target}{anchor})"
        # A page from the root of the repository names the pages of docs/ from there.
        return f"]({target}{anchor})" if link[0].startswith("](docs/") else link[0]

    return _LINK.sub(inside, markdown)
