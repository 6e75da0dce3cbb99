"""Make the images of the documentation from the runs in docs/runs: `python scripts/docs_site/make_images.py`.

Charts as SVG in docs/images, screenshots as WebP in docs/images/screenshots; these need Chromium and its driver.
"""

import base64
import io
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from site_charts import CHARTS, RUNS, chart_of_image

from stopwav.record import Record
from stopwav.report.chart import chart_svg
from stopwav.report.document import Detail
from stopwav.report.page import render_page
from stopwav.report.terminal import print_document
from stopwav.speech.corpus import bundled_corpus
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun

IMAGES = RUNS.parent / "images"
# Sharp enough to read, small enough to keep with the sources.
WIDTH, HEIGHT, QUALITY = 1200, 800, 70
# The part of a page from the heading of a section on.
SECTION = "return [...document.querySelectorAll('section.block')].find((one) => one.textContent.includes(arguments[0]))"


@dataclass(frozen=True)
class Shot:
    """A screenshot: its name, the run, what of it is shown, from which section on, and on which ground."""

    name: str
    run: str
    view: str = "page"
    section: str = ""
    dark: bool = False
    height: int = HEIGHT


SHOTS = (
    Shot("terminal", "latency.jsonl", "terminal", height=1000),
    Shot("page", "latency.jsonl"),
    Shot("page-dark", "latency.jsonl", dark=True),
    Shot("utterance", "latency.jsonl", section="moment by moment"),
    Shot("words", "latency.jsonl", section="Why a word takes so long", height=1000),
    Shot("compare", "compare.jsonl", section="Verdicts"),
    Shot("grid", "grid.jsonl"),
    Shot("load", "load.jsonl"),
    Shot("notebook", "compare.jsonl", "notebook", dark=True),
)


def main() -> None:
    """Write every image."""
    for name in CHARTS:
        (IMAGES / f"{name}.svg").write_text(chart_svg(chart_of_image(name).spec), encoding="utf-8")
        print(IMAGES / f"{name}.svg")
    folder = IMAGES / "screenshots"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as pages:
        driver = _browser(pages)
        try:
            for shot in SHOTS:
                page = Path(pages) / f"{shot.name}.html"
                page.write_text(_page(shot, Path(pages)), encoding="utf-8")
                (folder / f"{shot.name}.webp").write_bytes(_screenshot(driver, page, shot))
                print(folder / f"{shot.name}.webp")
        finally:
            driver.quit()


def _read(name: str, folder: Path) -> Record:
    """The stored run, with its audio where the corpus is here."""
    text = (RUNS / name).read_text(encoding="utf-8")
    for utterance in bundled_corpus().utterances:
        text = text.replace(f'"corpus/{utterance.path.name}"', f'"{utterance.path}"')
    (folder / name).write_text(text, encoding="utf-8")
    return Record.read(folder / name)


def _page(shot: Shot, folder: Path) -> str:
    """The HTML of what is shown."""
    record = _read(shot.run, folder)
    run = StudyRun(record)
    if shot.view == "page":
        return render_page([page_section(run)])
    console = Console(record=True, width=90, file=io.StringIO(), force_terminal=True)
    print_document(run.document(Detail()), console, every_metric=False)
    style = "<style>body { background: #fff; padding: 1rem; font-size: 15px }</style>"
    return style + console.export_html(inline_styles=True)


def _browser(profile: str) -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}/user",
    ):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or ""))


def _screenshot(driver: Any, page: Path, shot: Shot) -> bytes:
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if shot.dark else "light"}]
    size = {"width": WIDTH, "height": shot.height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get(page.as_uri())
    for _ in range(600):
        if not driver.execute_script("return document.querySelector('.plot:empty, .stage:not([data-shown])')"):
            break
        time.sleep(0.1)
    top = 0.0
    if shot.section:
        element = driver.execute_script(SECTION, shot.section)
        top = driver.execute_script("return arguments[0].getBoundingClientRect().top + scrollY", element) - 20
    clip = {"x": 0, "y": max(0.0, top), "width": WIDTH, "height": shot.height, "scale": 1}
    asked = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"])


if __name__ == "__main__":
    main()
