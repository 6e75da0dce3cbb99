"""A large run makes a page that is small enough to send and quick to use."""

from pathlib import Path

import pytest
from synthetic import write_run

from stopwav.record import Record
from stopwav.report.page import render_page
from stopwav.studies.latency.timelines import MOST_TIMELINES
from stopwav.studies.side_by_side import page_section
from stopwav.studies.study import StudyRun

pytestmark = [pytest.mark.alone, pytest.mark.browser]

UTTERANCES, CHUNKS, ENGINES = 2000, 25, ("swift", "steady")
LARGEST_BYTES, LONGEST_S = 8_000_000, 3.0


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    run = StudyRun(Record.read(write_run(folder / "latency-large.jsonl", ENGINES, UTTERANCES, CHUNKS)))
    page = folder / "page.html"
    page.write_text(render_page([page_section(run)]), encoding="utf-8")
    return page


def test_the_page_of_2000_utterances_and_100000_chunks_is_under_8_mb(large_page: Path) -> None:
    assert UTTERANCES * CHUNKS * len(ENGINES) >= 100_000
    assert large_page.stat().st_size < LARGEST_BYTES


def test_it_is_interactive_within_3_s(browser, large_page: Path) -> None:
    ready_s, drawn_s = [], []
    # The best of three: what else the machine does meanwhile is not the page's.
    for _ in range(3):
        browser.open(large_page)
        marked = browser.run("return performance.getEntriesByName('stopwav-interactive')[0].startTime / 1e3")
        complete = browser.run("return performance.getEntriesByType('navigation')[0].domComplete / 1e3")
        ready_s.append(max(marked, complete))
        # And stays so: choosing the last utterance draws it at once.
        browser.run("window.since = performance.now(); document.querySelector('[data-step=\"-1\"]').click()")
        last = browser.run(
            "const s = document.querySelector('.pick select'); s.value = s.options.length - 1; s.onchange();"
            "return s.value"
        )
        assert int(last) == MOST_TIMELINES - 1
        took_ms = browser.wait(
            f"return document.querySelector('.stage').dataset.shown === '{last}' && performance.now() - window.since"
        )
        drawn_s.append(took_ms / 1e3)
    assert min(ready_s) < LONGEST_S
    assert min(drawn_s) < LONGEST_S
