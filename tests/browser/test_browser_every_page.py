"""The page of every study in a real browser: for a screen, a telephone, paper, a screen reader and a keyboard alike."""

import re
import shutil
from base64 import b64decode
from pathlib import Path

import pytest
from command_line import command as stopwav

from stopwav.cli.output import write_page
from stopwav.record import Record
from stopwav.studies.study import StudyRun

pytestmark = pytest.mark.browser

DATA = Path(__file__).parent.parent / "data"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "runs"
RUNS = {
    "latency": DOCUMENTED / "latency.jsonl",
    "grid": DOCUMENTED / "grid.jsonl",
    "compare": DOCUMENTED / "compare.jsonl",
    "load": DOCUMENTED / "load.jsonl",
    "loss": DATA / "loss-kinds.jsonl",
    "step": DATA / "step-profile.jsonl",
}
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
# Words of names in tables that lie on two lines; they may break after a hyphen, a dot and the like.
BROKEN_WORDS = """
const broken = [];
for (const bdi of document.querySelectorAll('th bdi, td bdi')) {
  if (!bdi.checkVisibility()) continue;
  const walk = document.createTreeWalker(bdi, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    for (const word of walk.currentNode.data.matchAll(/[\\p{L}\\p{N}]{2,30}/gu)) {
      const range = document.createRange();
      range.setStart(walk.currentNode, word.index);
      range.setEnd(walk.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
}
return broken;
"""
# Tables that are wider than their place and do not say that they scroll.
UNSAID = """
return [...document.querySelectorAll('.scroll, .pan')].filter((one) => one.checkVisibility())
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && !one.nextElementSibling?.matches('.hint:not([hidden])'))
  .map((one) => one.ariaLabel);
"""
# What takes the focus and does not show it, or has no name.
UNSEEN_FOCUS = """
const bad = [];
for (const one of document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')) {
  if (!one.checkVisibility()) continue;
  one.focus({ focusVisible: true });
  const style = getComputedStyle(one);
  const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  if (document.activeElement !== one || !seen) bad.push(one.outerHTML.slice(0, 120));
}
return bad;
"""


@pytest.fixture(scope="module", params=[*RUNS, "history", "diff"])
def study_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of each study, of the history of several, and of a comparison."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "history":
        for name in ("latency-real", "latency-failures", "latency-explained"):
            shutil.copy(DATA / f"{name}.jsonl", folder)
            (folder / f"{name}.html").write_text("page")
        done = stopwav("history", folder)
        assert done.code == 0, done.stderr
        return folder / "history.html"
    if request.param == "diff":
        page = folder / "diff.html"
        # The same run twice, which nothing but its name would refuse.
        other = shutil.copy(RUNS["loss"], folder / "other.jsonl")
        stopwav("diff", RUNS["loss"], other, "--force", "--html", page)
        return page
    page = folder / f"{request.param}.html"
    write_page([StudyRun(Record.read(RUNS[request.param]))], page)
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(browser, study_page: Path, axe: str, dark: bool) -> None:
    browser.open(study_page, dark=dark)
    browser.run(OPEN_ALL)
    browser.run(f"{axe}; window.axe = axe;")
    violations = browser.driver.execute_async_script(
        "axe.run(document).then((r) => arguments[0](r.violations.map((v) => [v.id, v.impact, v.nodes[0].html])))"
    )
    assert [violation for violation in violations if violation[1] in ("serious", "critical")] == []


def test_every_chart_is_drawn_once_the_page_is_loaded_wherever_it_stands(browser, study_page: Path) -> None:
    browser.driver.get(study_page.resolve().as_uri())
    drawn = browser.run(
        "return [...document.querySelectorAll('.plot:not(details *)')].map((plot) => !!plot.querySelector('svg'))"
    )
    assert drawn
    assert all(drawn)
    browser.open(study_page)
    assert browser.console() == []


def test_every_chart_has_a_finding_in_words(browser, study_page: Path) -> None:
    browser.open(study_page)
    texts = browser.run(
        "return [...document.querySelectorAll('.plot')].map((plot) => [plot.ariaLabel, "
        "document.getElementById(plot.getAttribute('aria-describedby'))?.textContent ?? ''])"
    )
    assert all(len(title) > 4 and re.search(r"\d", text) for title, text in texts), texts
    assert browser.run("return [...document.querySelectorAll('.plot')].every((plot) => plot.role === 'img')")


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_screen_scrolls_tables_alone_says_so_and_breaks_no_word(browser, study_page: Path, width: int) -> None:
    browser.open(study_page, width=width)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(UNSAID) == []
    assert browser.run(BROKEN_WORDS) == []


def test_everything_that_takes_the_focus_shows_it(browser, study_page: Path) -> None:
    browser.open(study_page)
    browser.run(OPEN_ALL)
    assert browser.run(UNSEEN_FOCUS) == []


def test_it_prints_on_a_few_sheets_none_of_them_blank(browser, study_page: Path) -> None:
    browser.open(study_page, dark=True)
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
    sheets = sheets_of(b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", paper)["data"]))
    assert 1 <= sheets <= 6
    for sheet in range(1, sheets + 1):
        alone = browser.driver.execute_cdp_cmd("Page.printToPDF", {**paper, "pageRanges": str(sheet)})["data"]
        # A blank sheet takes less than 2 kB; one with a line of text holds its font.
        assert len(b64decode(alone)) > 6_000, sheet


def sheets_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


def test_what_prints_is_as_wide_as_its_sheet(browser, study_page: Path) -> None:
    browser.open(study_page, width=720)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    beyond = browser.run(
        "return [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility() && "
        "one.getBoundingClientRect().right > innerWidth + 2).map((one) => one.outerHTML.slice(0, 80))"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert beyond == []
