"""`stopwav.gate`: what fails it and what does not, exit codes, Markdown, and thresholds from repeated runs."""

import json
from pathlib import Path

import pytest
from command_line import Done, command
from synthetic_runs import UTTERANCES, saved, synthetic_run

import stopwav
from stopwav.studies.diff.gate import calibrate, read_thresholds


def gate(*arguments: object) -> Done:
    return command("gate", *arguments)


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return saved(synthetic_run(1), tmp_path / "baseline.jsonl")


def test_each_condition_fails_on_what_it_names_and_on_nothing_else() -> None:
    before = synthetic_run(1, wrong=(0,) * UTTERANCES)
    cases = {
        "slower": synthetic_run(2, slowdown=0.1, wrong=(0,) * UTTERANCES),
        "bigger": synthetic_run(2, growth=0.1, wrong=(0,) * UTTERANCES),
        "missing": synthetic_run(2, lost=[(0, 0)], wrong=(0,) * UTTERANCES),
    }
    for condition, run in cases.items():
        found = stopwav.gate(before, run)
        assert {failure.condition for failure in found.failures} == {condition}
        assert not found.passed
        assert stopwav.gate(before, run, fail_on=[other for other in cases if other != condition]).passed
    assert stopwav.gate(before, synthetic_run(3, wrong=(0,) * UTTERANCES)).passed


def test_a_worse_error_rate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import synthetic_runs

    # More utterances: six cannot be certain of any error rate.
    monkeypatch.setattr(synthetic_runs, "UTTERANCES", 24)
    monkeypatch.setattr(synthetic_runs, "HARDNESS", synthetic_runs.HARDNESS.repeat(4, axis=0))
    before = synthetic_run(1, rounds=3, wrong=(1, 2) * 12)
    after = synthetic_run(2, rounds=3, wrong=(3, 4, 4) * 8)
    found = stopwav.gate(before, after, fail_on=["worse-wer"])
    assert [(failure.condition, failure.metric) for failure in found.failures] == [("worse-wer", "wer")]
    assert stopwav.gate(after, before, fail_on=["worse-wer"]).passed


def test_an_engine_that_is_gone_is_missing() -> None:
    found = stopwav.gate(synthetic_run(1, names=["x", "y"]), synthetic_run(2, names=["y"]))
    assert [(failure.condition, failure.name) for failure in found.failures] == [("missing", "x")]


def test_undecided_never_fails_and_is_said(tmp_path: Path) -> None:
    a = saved(synthetic_run(1, rounds=1), tmp_path / "a.jsonl")
    b = saved(synthetic_run(2, rounds=1, slowdown=0.5), tmp_path / "b.jsonl")
    done = gate(a, b, "--markdown", tmp_path / "comment.md")
    assert done.code == 0, done.stderr
    assert "are undecided, which never fails" in done.stdout
    assert "are undecided, which never fails" in (tmp_path / "comment.md").read_text()


def test_exit_codes(baseline: Path, tmp_path: Path) -> None:
    same = saved(synthetic_run(2), tmp_path / "same.jsonl")
    slow = saved(synthetic_run(3, slowdown=0.1), tmp_path / "slow.jsonl")
    other = saved(synthetic_run(4, machine={"fingerprint": "beef"}), tmp_path / "other.jsonl")
    assert gate(baseline, same).code == 0
    failed = gate(baseline, slow)
    assert failed.code == 3
    assert "stopwav gate: failed" in failed.stdout
    assert gate(baseline, slow, "--fail-on", "bigger", "--fail-on", "worse-wer").code == 0
    assert gate(baseline, slow, "--threshold", "20%").code == 0
    assert gate(baseline, other).code == 2
    assert gate(baseline, other, "--force").code == 0


def test_wrong_commands_say_what_to_do_in_one_line(baseline: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "odd.json").write_text('{"thresholds": {"speed": 1}}')
    for arguments, told in (
        ([baseline], "got run files: 1"),
        (
            [baseline, baseline, "--fail-on", "ugly"],
            "there are slower, bigger, more-energy, fewer, wrong",
        ),
        ([baseline, baseline, "--thresholds", tmp_path / "bad.json"], "--calibrate"),
        ([baseline, baseline, "--thresholds", tmp_path / "none.json"], "cannot be read"),
        ([baseline, baseline, "--thresholds", tmp_path / "odd.json"], "no such metric"),
        ([baseline, baseline, "--calibrate"], "3 or more are needed"),
        ([baseline, baseline, baseline, "--calibrate"], "is named twice"),
        ([baseline, baseline, "--markdown", "/proc/nowhere/comment.md"], "cannot be written"),
    ):
        done = gate(*arguments)
        assert (done.code, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert told in done.stderr


def test_json_and_markdown_tell_the_same(tmp_path: Path) -> None:
    name = "my|engine`<b>"
    before = saved(synthetic_run(1, names=[name]), tmp_path / "a.jsonl")
    after = saved(synthetic_run(2, names=[name], slowdown=0.1), tmp_path / "b.jsonl")
    done = gate(before, after, "--json", "--markdown", tmp_path / "comment.md")
    printed = json.loads(done.stdout)
    assert not printed["passed"]
    assert {"condition": "slower", "name": name, "metric": "rtf"}.items() <= printed["failures"][-1].items()
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith("### stopwav: gate failed\n")
    assert "- slower, real-time factor: my&#124;engine&#96;&#60;b&#62;" in comment
    assert "<b>" not in comment


@pytest.mark.parametrize("pairs", [12, pytest.param(60, marks=pytest.mark.soak)])
def test_calibrated_thresholds_pass_what_a_drifting_machine_does(pairs: int) -> None:
    """Whole runs that differ by 2 % (heat, neighbours): no interval from two runs can hold that, a threshold can."""
    repeated = [synthetic_run(seed, rounds=5, drift=0.02) for seed in range(1000, 1005)]
    thresholds = calibrate(repeated).thresholds
    assert thresholds["rtf"] > 0.03
    assert thresholds["wer"] == thresholds["peak_host_bytes"] == 0.01
    plain = calibrated = 0
    for seed in range(pairs):
        a, b = (synthetic_run(5000 + 2 * seed + side, rounds=5, drift=0.02) for side in (0, 1))
        plain += not stopwav.gate(a, b).passed
        calibrated += not stopwav.gate(a, b, thresholds=thresholds).passed
    print(f"whole runs drift by 2 %: fails {plain / pairs:.0%} at 1 %, {calibrated / pairs:.0%} with {thresholds}")
    assert plain / pairs > 0.05
    assert calibrated / pairs <= 0.05
    slow = synthetic_run(1, rounds=5, slowdown=0.5)
    assert not stopwav.gate(repeated[0], slow, thresholds=thresholds).passed


def test_the_thresholds_file_goes_round(tmp_path: Path) -> None:
    runs = [saved(synthetic_run(seed, rounds=3), tmp_path / f"{seed}.jsonl") for seed in range(3)]
    made = gate("--calibrate", *runs)
    assert made.code == 0, made.stderr
    assert set(json.loads(made.stdout)) == {"stopwav", "thresholds", "spreads", "runs", "how"}
    path = tmp_path / "thresholds.json"
    path.write_text(made.stdout)
    assert read_thresholds(path) == calibrate(runs).thresholds
    assert gate(runs[0], runs[1], "--thresholds", path).code == 0


def test_calibration_refuses_runs_of_different_things() -> None:
    runs = [synthetic_run(1), synthetic_run(2), synthetic_run(3, corpus={"digest": "d2"})]
    with pytest.raises(stopwav.StopwavError, match="other corpus"):
        calibrate(runs)
    with pytest.raises(stopwav.StopwavError, match="no engine in common"):
        calibrate([synthetic_run(1, names=[name]) for name in ("x", "y", "z")])
