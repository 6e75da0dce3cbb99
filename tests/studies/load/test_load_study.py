"""`stopwav load` from end to end, by the clock and in virtual time, against what a script implies."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import short_levels
from command_line import command
from noise_corpus import write_corpus

import stopwav
from stopwav.record import Record, Result
from stopwav.studies.load import search
from stopwav.studies.study import results

CHUNK_S, SECONDS, CHUNKS = 0.1, 0.6, 6
# Half of a core per stream: two streams fill a worker, so that three do not fit.
SERVICE_MS = 20.0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", count=3, seconds=SECONDS)


def script(folder: Path, **changes: Any) -> str:
    """An engine that shows the first word with the third chunk, in which it ends, and the second with the last."""
    partials = [None, None, "red", None, None, "red fox"]
    path = folder / "script.json"
    path.write_text(json.dumps({"service_ms": SERVICE_MS, "partials": partials, "final": "red fox", **changes}))
    return f"fake:{path}"


def load(corpus: Path, engine: str, **settings: Any) -> dict[str, Result]:
    places = {"corpus": corpus, "words": corpus / "words.ctm", "save": corpus.parent / "runs"}
    return {result.name.removeprefix(engine).strip(): result for result in results(run(engine, places, settings))}


def run(engine: str, places: dict[str, Any], settings: dict[str, Any]) -> Record:
    return stopwav.load([engine], **places, **settings)


@pytest.mark.alone
def test_by_the_clock_it_measures_what_the_script_says(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_levels.plan, "THOROUGH_S", 8.0)
    monkeypatch.setattr(short_levels.plan, "PATIENCE_S", 1.0)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)
    engine = script(tmp_path)
    rows = load(corpus, engine, streams=[1], rounds=1, slo="word_latency_p50<0.5, failed<1%")
    level = rows["@ 1"]
    metrics = level.metrics
    assert level.params["verdict"] in ("holds", "invalid")
    assert (metrics["wer"].value, metrics["failed"].value, metrics["unfinished"].value) == (0, 0, 0)
    # The schedule: a session follows the other after an eighth of a second on average, for eight seconds.
    sessions = metrics["sessions"].value
    assert sessions is not None
    assert sessions == pytest.approx(8.0 / (SECONDS + 0.125), abs=2)
    if level.params["verdict"] == "invalid":
        pytest.skip("this machine keeps the client from its schedule")
    # Both words are seen as soon as the chunk that ends them has been worked on.
    latency_s = metrics["word_latency_p50"].value
    assert latency_s is not None
    assert SERVICE_MS / 1e3 <= latency_s < SERVICE_MS / 1e3 + 0.04
    # A share of the core for a share of the time: six chunks of 20 ms in each session, and what serving takes.
    assert metrics["server_cores"].value == pytest.approx(CHUNKS * SERVICE_MS / 1e3 / (SECONDS + 0.125), abs=0.15)
    assert metrics["network"].value == pytest.approx(0.001, abs=0.005)
    assert metrics["served"].value == pytest.approx(SECONDS / (SECONDS + 0.125), abs=0.2)


def test_in_virtual_time_it_measures_what_the_script_says(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_levels.plan, "THOROUGH_S", 3.0)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)
    rows = load(corpus, script(tmp_path), streams=[1, 10], rounds=1, pace="virtual", slo="final_latency_p95<0.1")
    one, ten = rows["@ 1"], rows["@ 10"]
    # Six chunks of 20 ms for 0.6 s of audio. It spins: a busy machine makes it longer, and never shorter.
    assert one.params["verdict"] == "holds"
    assert one.metrics["rtf"].value == pytest.approx(CHUNKS * SERVICE_MS / 1e3 / SECONDS, rel=0.25)
    assert one.metrics["word_latency_p50"].value == pytest.approx(SERVICE_MS / 1e3, abs=0.01)
    assert one.metrics["chunk_lag_p50"].value == pytest.approx(SERVICE_MS / 1e3, abs=0.01)
    assert one.metrics["wer"].value == 0
    # With ten streams there are 1.2 s of work in each 0.73 s: what cannot be done queues up.
    assert ten.params["verdict"] in ("fails", "unstable")
    rise, queue = ten.metrics["latency_slope"], ten.metrics["waterfall_queue"].value
    assert rise.low is not None
    assert rise.low > 0
    assert queue is not None
    assert queue > 10 * SERVICE_MS / 1e3
    assert rows[""].metrics["capacity"].value == 1


def test_a_search_in_virtual_time_doubles_until_the_worker_is_full(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LOOK_S", 1.0), ("PATIENCE_S", 0.5)):
        monkeypatch.setattr(short_levels.plan, name, value)
    monkeypatch.setattr(short_levels.schedule, "SHORTEST_RAMP_S", 0.5)
    monkeypatch.setattr(search, "MOST_MEASURED", 3)
    # A stream needs 6 × 60 ms in each 0.73 s: two fill a worker.
    engine = script(tmp_path, service_ms=60.0)
    rows = load(corpus, engine, pace="virtual", budget_s=25.0, slo="final_latency_p95<0.25")
    assert {"@ 1", "@ 2"} <= set(rows)
    # A busy machine makes the work longer.
    assert rows[""].metrics["capacity"].value in (0, 1, 2)
    if "@ 4" in rows:
        assert rows["@ 4"].params["verdict"] in ("fails", "unstable")
    assert sum(int(str(row.params.get("rounds", 0))) for row in rows.values()) == 3


def test_a_plan_holds_studies_of_load(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_levels.plan, "THOROUGH_S", 2.0)
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"""
save: runs
corpus: {corpus}
words: {corpus / "words.ctm"}
studies:
  - load: {{targets: ["fake"], streams: [1, 2], rounds: 1, pace: virtual}}
  - load: {{targets: ["fake"], streams: [1], rounds: 1, pace: virtual, slo: "final_latency_p95<0.5"}}
""")
    with chdir(tmp_path):
        checked = command("run", plan, "--check")
        assert checked.code == 0, checked.stderr
        assert not (tmp_path / "runs").exists()
        done = command("run", plan)
    assert done.code == 0, done.stderr
    studies = [Record.read(path).header for path in sorted((tmp_path / "runs").glob("*.jsonl"))]
    assert [header.study for header in studies] == ["load", "load"]
    assert {header.spec["slo"] for header in studies} == {"voice-agent", "final_latency_p95<0.5"}
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text('studies:\n  - load: {targets: ["fake"], slo: "nonsense"}\n')
    refused = command("run", wrong, "--check")
    assert refused.code == 2
    assert "unknown objective 'nonsense'" in refused.stderr


def test_init_writes_a_plan_of_load_that_can_be_checked(tmp_path: Path) -> None:
    with chdir(tmp_path):
        done = command("init", "load")
        assert done.code == 0, done.stderr
        (plan,) = tmp_path.glob("*.yaml")
        checked = command("run", plan, "--check")
    assert checked.code == 0, checked.stderr + checked.stdout
    assert "load" in plan.read_text()
