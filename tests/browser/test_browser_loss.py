"""The page of a loss run in a real browser: labels of an axis do not lie over each other, on a screen or on a phone."""

from pathlib import Path

import pytest

from stopwav.cli.output import write_page
from stopwav.record import Record
from stopwav.studies.study import StudyRun

pytestmark = pytest.mark.browser

# Pairs of labels of one axis that share a line, with less than 4 pixels between them.
OVERLAPPING = """
const hits = [];
for (const axis of document.querySelectorAll('.plot svg .role-axis-label')) {
  const texts = [...axis.querySelectorAll('text')].filter((text) => getComputedStyle(text).opacity !== '0');
  const boxes = texts.map((text) => text.getBoundingClientRect());
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const across = Math.min(boxes[i].right, boxes[j].right) - Math.max(boxes[i].left, boxes[j].left);
    const down = Math.min(boxes[i].bottom, boxes[j].bottom) - Math.max(boxes[i].top, boxes[j].top);
    if (across > -4 && down > 1) hits.push(`${texts[i].textContent} over ${texts[j].textContent}`);
  }
}
return hits;
"""


@pytest.fixture(scope="module", params=["loss-kinds", "loss-settings"])
def loss_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("loss") / "loss.html"
    record = Record.read(Path(__file__).parent.parent / "data" / f"{request.param}.jsonl")
    write_page([StudyRun(record)], page)
    return page


@pytest.mark.parametrize("width", [390, 1280])
def test_labels_of_an_axis_do_not_overlap(browser, loss_page: Path, width: int) -> None:
    browser.open(loss_page, width=width)
    assert browser.run("return document.querySelectorAll('.plot svg .role-axis-label text').length") > 10
    assert browser.run(OVERLAPPING) == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
