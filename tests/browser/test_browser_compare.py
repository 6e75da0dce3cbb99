"""The page of a comparison in a real browser: it draws, asks for nothing, fits its window, and runs nothing."""

from pathlib import Path

import pytest
from compare_runs import whole

from stopwav.report.page import render_page
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun

pytestmark = pytest.mark.browser

HOSTILE = "one</script><script>window.pwned=1</script><img/src=x/onerror='window.pwned=2'>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    record = whole(folder, engines=(HOSTILE, "steady", "w" * 5000))
    path = folder / "page.html"
    path.write_text(render_page([page_section(StudyRun(record))]), encoding="utf-8")
    return path


def test_it_draws_every_chart_with_no_error_and_no_request(browser, page: Path) -> None:
    browser.open(page, dark=True)
    marks = browser.run(
        "return [...document.querySelectorAll('.plot')].map((plot) => ["
        "plot.ariaLabel, plot.querySelectorAll('svg .mark-symbol path, svg .mark-rect path').length])"
    )
    # Two engines and their rings; two at four lengths, twice; two with two modules.
    assert marks == [
        ["Word error rate against RTFx", 4],
        ["Latency over the length of the input", 8],
        ["Energy per utterance, gross, over the length of the input", 8],
        ["Parameters by module", 4],
    ]
    bands = "return document.querySelectorAll('#s0-chart-1 svg .mark-area path').length"
    assert browser.run(bands) == 2
    # The page has a legend of its own; the one for files is not drawn.
    assert browser.run("return document.querySelectorAll('.plot svg .role-legend').length") == 0
    assert browser.run("return window.pwned") is None
    assert browser.console() == []
    assert browser.requests() == []
    browser.open(page, width=320)
    assert browser.run("return document.documentElement.scrollWidth") <= 320
