"""A run of 100,000 utterances in three rounds can be looked at: in a minute, and with a gigabyte of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_runs import write_utterance_run
from growth import run_stopwav

MOST_S, MOST_BYTES, MOST_PAGE_BYTES = 60.0, 1e9, 15e6


@pytest.fixture(scope="module")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "latency-100000.jsonl"
    write_utterance_run(path, 100_000, 1.0)
    return path


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", ["terminal", "--json", "--html"])
def test_a_report_takes_a_minute_and_a_gigabyte_at_most(large_run: Path, form: str) -> None:
    page = large_run.with_suffix(".html")
    arguments = {"terminal": [], "--json": ["--json"], "--html": ["--html", page]}[form]
    cost = run_stopwav("report", large_run, *arguments)
    assert not cost.failure
    # Processor time: what else the machine does is not part of it.
    assert cost.user_s < MOST_S
    assert cost.peak_bytes < MOST_BYTES
    assert form != "--html" or page.stat().st_size < MOST_PAGE_BYTES
