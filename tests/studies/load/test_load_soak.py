"""A level that is held: a server that leaks shows it, and one that does not is not accused of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import short_levels
from load_runs import MEGABYTE, MadeLevel, load_run
from noise_corpus import write_corpus
from shown_runs import printed, study_run

import stopwav
from stopwav.stats import Estimate
from stopwav.studies.study import results

ENGINES = Path(__file__).parent / "load_engines.py"
# Two streams that speak for 0.5 s and pause for an eighth of a second on average: chunks of 0.1 s and 200 kB each.
LEAK_BYTES_PER_S = 2 * 0.5 / 0.625 * 10 * 200_000


def slope(record: stopwav.Record, metric: str = "memory_slope") -> Estimate:
    return results(record)[1].metrics[metric]


@pytest.mark.alone
@pytest.mark.parametrize(("engine", "leaks"), [("Leaks", True), ("Speaks", False)])
def test_memory_rises_where_the_server_leaks(
    engine: str, leaks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_levels.plan, "PATIENCE_S", 1.0)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)
    corpus = write_corpus(tmp_path / "corpus", count=3, seconds=0.5)
    places = {"corpus": corpus, "words": corpus / "words.ctm", "save": tmp_path / "runs"}
    record = stopwav.load([f"{ENGINES}:{engine}"], streams=[2], rounds=1, soak_s=6.0, **places)
    memory = slope(record)
    assert memory.value is not None
    assert memory.low is not None
    assert memory.high is not None
    if leaks:
        assert memory.low > 0
        assert memory.value == pytest.approx(LEAK_BYTES_PER_S, rel=0.25)
    else:
        assert memory.low < 0 < memory.high


def test_the_slopes_are_given_in_words_with_intervals() -> None:
    leaking = load_run([MadeLevel(2, grows=2 * MEGABYTE, rise_s=0.002)], soak_s=20.0)
    memory, latency = slope(leaking), slope(leaking, "latency_slope")
    assert memory.value == pytest.approx(2 * MEGABYTE)
    # 40 sessions in 20 s.
    assert latency.value == pytest.approx(0.002 * 40 / 20)
    text = " ".join(printed(study_run(leaking), width=200).split())
    assert "server memory rises: 7.20 GB per hour [7.00 GB to 7.40 GB]" in text
    assert "latency rises: 14.40 s per hour" in text
    tight = " ".join(printed(study_run(load_run([MadeLevel(2)], soak_s=20.0)), width=200).split())
    assert "server memory is not shown to change: 0 B per hour" in tight


def test_less_than_what_memory_is_taken_in_is_no_leak() -> None:
    memory = slope(load_run([MadeLevel(2, grows=20_000)], soak_s=20.0))
    assert memory.value == pytest.approx(20_000)
    assert memory.low is not None
    assert memory.low < 0
