"""Make the images of the documentation from the runs in docs/runs: `python scripts/docs_site/make_images.py`.

Charts as SVG in docs/images, screenshots as WebP in docs/images/screenshots; these need Chromium and its driver.
"""

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

from page_images import Browser, View
from rich.console import Console
from site_charts import CHARTS, RUNS, chart_of_image

from stopwav.cli.history import past_run
from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.report.document import Detail
from stopwav.report.history_chart import history_charts
from stopwav.report.history_document import history_document
from stopwav.report.level_shift import level_shifts
from stopwav.report.page import PageSection, render_page
from stopwav.report.terminal import print_document
from stopwav.speech.corpus import bundled_corpus
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun

IMAGES = RUNS.parent / "images"


@dataclass(frozen=True)
class Shot:
    """A screenshot of a part of a run: its name, the run, whether it is of the terminal, and how it is looked at."""

    name: str
    run: str
    view: View
    terminal: bool = False


SHOTS = (
    Shot("terminal", "latency.jsonl", View(1200, 1000), terminal=True),
    Shot("utterance", "latency.jsonl", View(1200, 800, section="moment by moment")),
    Shot("words", "latency.jsonl", View(1200, 1000, section="Why a word takes so long")),
)
# Every page, from its top on: on a desk, at night, on a tablet, on a telephone and on paper.
PAGES = ("latency", "grid", "compare", "load", "loss", "step", "history")
VIEWS = {
    "1280": View(1280, 1500, scale=0.7),
    "1280-dark": View(1280, 1500, dark=True, scale=0.7),
    "768": View(768, 1400, scale=0.8),
    "390": View(390, 1600),
    "print": View(794, 1123, paper=True),
}


def main() -> None:
    """Write every image."""
    for name in CHARTS:
        (IMAGES / f"{name}.svg").write_text(chart_svg(chart_of_image(name).spec), encoding="utf-8")
        print(IMAGES / f"{name}.svg")
    folder = IMAGES / "screenshots"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as pages, Browser(Path(pages)) as browser:
        for shot in SHOTS:
            html = _terminal(shot.run, Path(pages)) if shot.terminal else _page(shot.run, Path(pages))
            browser.shoot(html, shot.view, folder / f"{shot.name}.webp")
        for page in PAGES:
            html = _history() if page == "history" else _page(f"{page}.jsonl", Path(pages))
            for name, view in VIEWS.items():
                browser.shoot(html, view, folder / f"{page}-{name}.webp")


def _read(name: str, folder: Path) -> Record:
    """The stored run, with its audio where the corpus is here."""
    text = (RUNS / name).read_text(encoding="utf-8")
    for utterance in bundled_corpus().utterances:
        text = text.replace(f'"corpus/{utterance.path.name}"', f'"{utterance.path}"')
    (folder / name).write_text(text, encoding="utf-8")
    return Record.read(folder / name)


def _page(name: str, folder: Path) -> str:
    """The page of a run."""
    return render_page([page_section(StudyRun(_read(name, folder)))])


def _terminal(name: str, folder: Path) -> str:
    """The HTML of what a terminal shows of a run."""
    console = Console(record=True, width=90, file=io.StringIO(), force_terminal=True)
    print_document(StudyRun(_read(name, folder)).document(Detail()), console, every_metric=False)
    style = "<style>body { background: #fff; padding: 1rem; font-size: 15px }</style>"
    return style + console.export_html(inline_styles=True)


def _history() -> str:
    """The page of the history of the runs in docs/runs/history."""
    past = [past_run(StudyRun(Record.read(path))) for path in sorted((RUNS / "history").glob("*.jsonl"))]
    shifts = level_shifts(past)
    document = history_document(past, "stopwav-runs", shifts)
    return render_page([PageSection(document, history_charts(past, shifts), past[0].define)])


if __name__ == "__main__":
    main()
