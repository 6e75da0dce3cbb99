"""Write docs/reference from the code: `python scripts/make_reference.py [FOLDER]`."""

import sys
from pathlib import Path

from reference import cli, defaults, json_output, metrics, python, run_file

PAGES = {
    "cli.md": cli.render,
    "python.md": python.render,
    "metrics.md": metrics.render,
    "defaults.md": defaults.render,
    "run-file.md": run_file.render,
    "json.md": json_output.render,
}
NOTICE = "<!-- Written by scripts/make_reference.py from the code: change that, then run `make docs`. -->\n\n"


def main(folder: Path) -> None:
    """Write every page into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (folder / name).write_text(NOTICE + render(), encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    default = Path(__file__).parent.parent / "docs" / "reference"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
