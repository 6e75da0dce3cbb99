"""A run of 100,000 utterances in three rounds can be looked at: in about a minute, and with less than a gigabyte."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_runs import write_utterance_run
from growth import run_stopwav

# Of processor time. Charts and the words that are taken for each other are on the page alone.
MOST_S = {"terminal": 60.0, "--json": 60.0, "--html": 75.0}
MOST_BYTES, MOST_PAGE_BYTES = 1e9, 15e6


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "latency-100000.jsonl"
    write_utterance_run(path, 100_000, 1.0)
    return path


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", ["terminal", "--json", "--html"])
def test_a_report_takes_about_a_minute_and_less_than_a_gigabyte(large_run: Path, form: str) -> None:
    page = large_run.with_suffix(".html")
    arguments = {"terminal": [], "--json": ["--json"], "--html": ["--html", page]}[form]
    cost = run_stopwav("report", large_run, *arguments)
    assert not cost.failure
    assert cost.user_s < MOST_S[form]
    assert cost.peak_bytes < MOST_BYTES
    assert form != "--html" or page.stat().st_size < MOST_PAGE_BYTES
