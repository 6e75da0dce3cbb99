"""Stored runs of load, as every verb and every medium shows them: levels that hold, fail, are invalid, or are none."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import command as stopwav
from load_runs import MadeLevel, load_run, saved
from shown_runs import markdown, page, printed, study_run
from stored_runs import changed

from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, Record, Result
from stopwav.stats import Estimate
from stopwav.studies.load.plan import LOOK_S
from stopwav.studies.load.run import _searched, _steady_s
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.study import results

MANY = 100
LEVELS = [MadeLevel(2, MANY), MadeLevel(4, MANY, final_s=0.5), MadeLevel(8, MANY, final_s=1.5)]


def text(record: Record) -> str:
    return " ".join(printed(study_run(record), width=200).split())


def rows(record: Record) -> dict[str, Result]:
    return {result.name: result for result in results(record)}


def capacity(record: Record) -> Estimate:
    return rows(record)["fake"].metrics["capacity"]


def test_the_capacity_is_between_what_surely_holds_and_what_surely_does_not() -> None:
    record = load_run(LEVELS, rounds=3)
    estimate = capacity(record)
    assert (estimate.value, estimate.low, estimate.high) == (4, 4, 7)
    assert "fake carries 4 streams under voice-agent: surely 4, and surely not 8" in text(record)
    level = rows(record)["fake @ 4"]
    assert (level.params["verdict"], level.params["sure"]) == ("holds", True)
    assert level.metrics["final_latency_p95"].value == pytest.approx(0.5)
    # "one" ends in the middle, a fifth of a second before it is seen; "two" is seen with the final text.
    assert level.metrics["word_latency_mean"].value == pytest.approx((0.2 + 0.5) / 2)
    assert level.metrics["wer"].value == 0
    # Three rounds of 100 sessions of a second, each in 20 s.
    assert level.metrics["served"].value == pytest.approx(MANY / 20)
    assert level.metrics["server_cores"].value == pytest.approx(0.5)
    assert level.metrics["core_s_per_stream_hour"].value == pytest.approx(0.5 * 20 / MANY * 3600)


def test_a_level_of_which_the_client_was_late_is_invalid_and_has_no_times() -> None:
    record = load_run([MadeLevel(2, MANY), MadeLevel(4, MANY, late_s=0.02)], rounds=3)
    level = rows(record)["fake @ 4"]
    assert level.params["verdict"] == "invalid"
    assert [warning.code for warning in level.warnings] == ["invalid"]
    for metric in ("word_latency_p50", "final_latency_p95", "latency_slope", "word_latency_mean"):
        estimate = level.metrics[metric]
        assert (estimate.value, estimate.code) == (None, "invalid"), metric
        assert estimate.note.startswith("invalid: this client sent chunks 20.0 ms late (P99)")
    # What was late stays, and so do the texts.
    assert level.metrics["send_lateness_p99"].value == pytest.approx(0.02)
    assert level.metrics["wer"].value == 0
    assert not any(metric.startswith("over_") for metric in level.metrics)
    # It says nothing of the capacity.
    assert capacity(record).value == 2
    assert "4 – " in text(record).replace("invalid", "")
    assert "invalid" in markdown(study_run(record))


def test_levels_that_are_all_invalid_give_no_capacity() -> None:
    record = load_run([MadeLevel(4, late_s=0.02)])
    assert capacity(record).value is None
    assert "carries" not in text(record)


def test_a_fewest_level_that_fails_says_nothing_of_fewer_streams() -> None:
    record = load_run([MadeLevel(4, final_s=2.0)])
    assert "fake was not seen to carry 4 streams or fewer under voice-agent: with 4 streams not final_l" in text(record)
    assert "fake carries no stream under voice-agent: with 1 stream not" in text(load_run([MadeLevel(1, final_s=2.0)]))


def test_latency_that_rises_is_unstable() -> None:
    record = load_run([MadeLevel(2, rise_s=0.05)])
    level = rows(record)["fake @ 2"]
    assert level.params["verdict"] == "unstable"
    # From the first of 40 sessions to the end of the level.
    assert [warning.message for warning in level.warnings] == ["latency rises by 2.0 s in the course of the level"]


def test_sessions_fail_by_reason_and_count_against_the_objective() -> None:
    record = load_run([MadeLevel(2, MANY, failures=["refused"] * 30 + ["closed"] * 10, refused=30)])
    level = rows(record)["fake @ 2"]
    assert level.params["failures"] == {"refused": 30, "closed": 10}
    assert level.params["verdict"] == "fails"
    assert level.metrics["failed"].value == pytest.approx(0.4)
    codes = {warning.code: warning.message for warning in level.warnings}
    assert codes["session-refused"] == "30 of 100 sessions, the server says refused"
    assert "fake @ 2: 10 of 100 sessions, the server says closed" in text(record)
    # A session that was lost is late, whatever the others say.
    assert level.metrics["over_p95_final_latency"].value == pytest.approx(0.4)


def test_a_level_that_crashed_has_its_reason_and_the_rest_is_shown() -> None:
    record = load_run([MadeLevel(2, failed=("crashed", "crashed (SIGKILL)")), MadeLevel(4, MANY)])
    target = rows(record)["fake"]
    assert (target.status, rows(record)["fake @ 2"].status, rows(record)["fake @ 4"].status) == ("ok", "crashed", "ok")
    assert "level-crashed" in [warning.code for warning in target.warnings]
    assert "1 stream" not in text(record)
    assert "level-crashed: fake: 2 streams: crashed (SIGKILL)" in text(record)
    lone = text(load_run([MadeLevel(1, failed=("error", "refused: no"))]))
    assert "fake: 1 stream: refused: no" in lone


def test_a_server_that_ended_is_said() -> None:
    record = load_run([MadeLevel(2, server_end="serve crashed (SIGKILL)", failures=["closed"])])
    assert "fake @ 2: round 1: serve crashed (SIGKILL); it was started again" in text(record)


def test_without_transcripts_final_latency_counts_from_the_end_of_the_audio() -> None:
    record = load_run([MadeLevel(2, MANY)], transcribed=False)
    metrics = rows(record)["fake @ 2"].metrics
    assert metrics["final_latency_p95"].value == pytest.approx(0.3)
    assert metrics["final_latency_from_end_p95"].value == pytest.approx(0.3)
    for metric in ("word_latency_p50", "committed_latency_p95", "wer", "word_latency_mean"):
        assert (metrics[metric].value, metrics[metric].code) == (None, NO_TRANSCRIPT), metric


def test_a_condition_without_any_value_is_said() -> None:
    record = load_run([MadeLevel(2)], slo="endpoint_latency_p95<1")
    assert "endpoint_latency_p95<1 cannot hold: no session has it" in text(record)


def test_faulty_sessions_are_told_beside_what_they_did_to_the_others() -> None:
    endings = [("disconnect", "dropped"), ("garbage", "closed 1007"), ("garbage", "closed 1007")]
    record = load_run([MadeLevel(2, MANY), MadeLevel(2, MANY, final_s=0.6, faults=endings)], faults=True)
    without, with_faults = rows(record)["fake @ 2"], rows(record)["fake @ 2 + faults"]
    assert with_faults.params["faulty_sessions"] == {"disconnect: dropped": 1, "garbage: closed 1007": 2}
    assert without.metrics["final_latency_p50"].value == pytest.approx(0.3)
    assert with_faults.metrics["final_latency_p50"].value == pytest.approx(0.6)
    assert "fake @ 2 + faults: 1 × disconnect: dropped, 2 × garbage: closed 1007" in text(record)
    # The capacity is that of a server that nobody disturbs.
    assert capacity(record).note.startswith("at least")


def test_a_search_goes_on_after_a_round_that_failed() -> None:
    spec = LoadSpec(targets=["fake"])
    (crashed,) = load_run([MadeLevel(1, failed=("crashed", "killed"))]).pieces
    _, again = load_run([MadeLevel(1)], rounds=2).pieces
    above, above_again = load_run([MadeLevel(2, final_s=2.0)], rounds=2).pieces

    def following(*pieces: Piece) -> list[tuple[str, int, int, bool]]:
        header = load_run([MadeLevel(1)], streams=None).header
        return list(_searched(spec, Record(Path("load.jsonl"), header, pieces, complete=False)))

    assert following(crashed) == [("fake", 1, 1, False)]
    assert following(crashed, again) == [("fake", 2, 0, False)]
    # What clearly failed is confirmed, then the edge is measured again: in a round that no piece has.
    assert following(crashed, again, above) == [("fake", 2, 1, False)]
    assert following(crashed, again, above, above_again) == [("fake", 1, 2, False)]


def test_a_level_that_was_invalid_gets_another_short_look() -> None:
    spec = LoadSpec(targets=["fake"])
    spoiled, measured = load_run([MadeLevel(4, late_s=0.02)]), load_run([MadeLevel(4)])
    following = ("fake", 4, 1, False)
    assert _steady_s(spec, spoiled, following, [5.0]) == LOOK_S
    assert _steady_s(spec, measured, following, [5.0]) > 5 * LOOK_S


def test_json_is_what_the_design_says(tmp_path: Path) -> None:
    done = stopwav("report", saved(load_run(LEVELS, rounds=3), tmp_path / "load.jsonl"), "--json")
    assert done.code == 0, done.stderr
    printed_json = json.loads(done.stdout)
    assert {"stopwav", "study", "run", "results"} <= set(printed_json)
    assert printed_json["study"] == "load"
    assert [row["name"] for row in printed_json["results"]] == ["fake", "fake @ 2", "fake @ 4", "fake @ 8"]
    for row in printed_json["results"]:
        assert {"name", "params", "status", "metrics", "warnings"} <= set(row)
        for metric in row["metrics"].values():
            assert {"value", "low", "high", "n", "unit", "note"} <= set(metric)
            assert metric["value"] is not None or metric["note"]


def test_every_medium_shows_it(tmp_path: Path) -> None:
    path = saved(load_run(LEVELS, rounds=3), tmp_path / "load.jsonl")
    csv_done = stopwav("report", path, "--csv")
    lines = list(csv.DictReader(io.StringIO(csv_done.stdout)))
    assert {line["metric"] for line in lines if line["name"] == "fake"} == {"capacity"}
    done = stopwav("report", path, "--html", tmp_path / "page.html")
    assert (csv_done.code, done.code) == (0, 0), done.stderr
    html = (tmp_path / "page.html").read_text()
    for part in ("Latency over streams", "The levels of fake", "Sessions over time", "voice-agent"):
        assert part in html
    assert stopwav("report", path, "--markdown").stdout.startswith("### stopwav: Load on fake\n")
    assert "Traceback" not in html


def test_odd_runs_are_shown_too() -> None:
    for levels in (
        [MadeLevel(2, failed=("crashed", "killed"))],
        [MadeLevel(2, failures=["refused"] * 40, refused=40)],
        [MadeLevel(2, text="")],
        [MadeLevel(2, sessions=1)],
        [MadeLevel(2, late_s=0.1)],
    ):
        run = study_run(load_run(levels))
        assert printed(run)
        assert page(run)


def noisy(path: Path, final_s: float, **changes: Any) -> Path:
    levels = [MadeLevel(2, MANY, final_s=final_s, word_s=final_s / 2, **changes)]
    return saved(load_run(levels, rounds=3), path)


def test_diff_and_gate_compare_levels(tmp_path: Path) -> None:
    before, after = noisy(tmp_path / "a.jsonl", 0.3), noisy(tmp_path / "b.jsonl", 0.6)
    diff = json.loads(stopwav("diff", before, after, "--json").stdout)
    assert diff["results"][0]["name"] == "fake @ 2"
    gate = stopwav("gate", before, after)
    assert gate.code == 3
    assert "slower, finalization latency P50: fake @ 2" in gate.stdout
    assert stopwav("gate", before, before).code == 0


def test_a_gate_fails_on_sessions_that_were_lost(tmp_path: Path) -> None:
    before = noisy(tmp_path / "a.jsonl", 0.3)
    lossy = noisy(tmp_path / "b.jsonl", 0.3, failures=["closed"] * 20)
    done = stopwav("gate", before, lossy)
    assert done.code == 3
    assert "missing" in done.stdout
    # A baseline that lost as many is no better.
    assert stopwav("gate", lossy, lossy).code == 0


def test_times_of_an_invalid_level_are_not_compared(tmp_path: Path) -> None:
    before = noisy(tmp_path / "a.jsonl", 0.3)
    late = noisy(tmp_path / "b.jsonl", 0.9, late_s=0.02)
    done = stopwav("diff", before, late)
    assert "slower" not in done.stdout
    assert "invalid: this client sent chunks 20.0 ms late" in " ".join(done.stdout.split())
    assert stopwav("gate", before, late).code == 0


def test_history_follows_the_capacity(tmp_path: Path) -> None:
    for number in (1, 2):
        levels = [MadeLevel(2, MANY), MadeLevel(4, MANY, final_s=0.5 * number)]
        saved(load_run(levels, rounds=3), tmp_path / f"load-{number}.jsonl")
    done = stopwav("history", tmp_path, COLUMNS="250")
    assert done.code == 0, done.stderr
    assert "capacity, streams" in done.stdout
    assert (tmp_path / "history.html").exists()


def put(*path: Any, value: object) -> Callable[[list[dict[str, Any]]], None]:
    """An edit of the data of the first level."""

    def edit(lines: list[dict[str, Any]]) -> None:
        holder: Any = lines[1]["data"]
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (put("looks", 3, value=[1.0, 2.0, 3.0]), "looks.3 is [1.0, 2.0, 3.0]"),
        (put("energy", value={"joules": {"gpu": 5.0}, "window_s": 0.0, "note": ""}), "joules without a window"),
        (put("energy", value={}), "energy.joules is missing"),
        (put("faults", value=[{"kind": "garbage"}]), "faults.0.ended is missing"),
        (put("sessions", 0, "part", value="x"), "sessions.0.part is 'x'"),
        (put("sessions", 0, "failure", value=["closed"]), "sessions.0.failure is ['closed']"),
        (put("sessions", 0, "utterance", value="nobody"), "level 2 of fake: 'nobody'"),
        (put("sessions", 0, "trace", "audio_s", value=-1), "level 2 of fake: audio_s"),
        (put("processors", value=[-1]), "processors.0 is -1"),
        (put("target", value={"engine": 3}), "target.engine is 3"),
    ],
)
def test_an_edited_level_is_refused_with_its_line(edit: Any, said: str, tmp_path: Path) -> None:
    path = changed(saved(load_run([MadeLevel(2, 4)]), tmp_path / "load.jsonl"), tmp_path / "edited.jsonl", edit)
    for arguments in (["report", path], ["report", path, "--json"], ["gate", tmp_path / "load.jsonl", path]):
        done = stopwav(*arguments)
        assert (done.code, done.stderr.count("\n")) == (2, 1)
        assert f"{path}:2: " in done.stderr
        assert said in done.stderr
