"""`stopwav run --gate`: conditions in a plan file, their errors and exit codes, and a repository that it judges."""

import json
import subprocess
from pathlib import Path

import pytest
from command_line import Done, command

from stopwav.errors import StopwavError
from stopwav.studies.plan.plan_file import read_plan

# Streams like a small recogniser; `WORK` says how much it computes for each tenth of a second.
ENGINE = """
import numpy as np
from stopwav import EngineInfo, Hypothesis

WORK = {work}

class Session:
    def __init__(self, numbers):
        self._numbers = numbers
    def push(self, samples):
        for _ in range(WORK):
            np.tanh(self._numbers)
        return []
    def finish(self):
        return [Hypothesis("a b", 0)]

class Mine:
    info = EngineInfo(name="mine", version="1")
    def __init__(self):
        self._numbers = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    def open(self):
        return Session(self._numbers)
"""
WORK = 150
PLAN = """
save: runs
studies:
  - latency:
      engines: ["base/engine.py:Mine", "engine.py:Mine"]
      limit: 4
      rounds: 10
      gate: [slower by 2%]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def run(path: Path, *options: object) -> Done:
    return command("run", path, "--no-html", *options)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_conditions_are_shared_by_the_studies_that_have_the_metric(tmp_path: Path) -> None:
    text = """
gate: [rtf < 0.5, wer < 10%]
studies:
  - latency: {engines: [fake, fake], gate: [slower by 3%, "word_latency_p95 < 800ms of fake"]}
  - grid: {engine: fake, gate: peak_host_bytes < 2GB}
"""
    latency, grid = (planned.gate for planned in read_plan(written(tmp_path, text)))
    assert [condition.text for condition in latency.require] == [
        "rtf < 0.5",
        "wer < 10%",
        "word_latency_p95 < 800ms of fake",
    ]
    assert latency.fail_on == (("slower", 0.03),)
    # A grid has no word errors.
    assert [condition.text for condition in grid.require] == ["rtf < 0.5", "peak_host_bytes < 2GB"]


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("gate: [rtv < 1]\nstudies: [{latency: {engines: [fake]}}]", "plan.yaml:1:8", "did you mean 'rtf'?"),
        ("studies: [{latency: {engines: [fake], gate: low}}]", "plan.yaml:1:45", "'low' is not a condition"),
        ("studies: [{latency: {engines: [fake], gate: {rtf: 1}}}]", "plan.yaml:1:45", "gate holds conditions such as"),
        ("studies: [{latency: {engines: [fake], gate: [3]}}]", "plan.yaml:1:46", "gate holds conditions such as"),
        ("studies: [{latency: {engines: [fake], gate: [slower]}}]", "plan.yaml:1:12", "it has 1"),
        ("studies: [{grid: {engine: fake, gate: [slower]}}]", "plan.yaml:1:40", "which grid does not have"),
        ("studies: [{grid: {engine: fake, gates: [slower]}}]", "plan.yaml:1:33", "did you mean 'gate'?"),
    ],
)
def test_a_wrong_condition_is_an_error_before_anything_runs(tmp_path: Path, text: str, where: str, told: str) -> None:
    with pytest.raises(StopwavError) as caught:
        read_plan(written(tmp_path, text))
    assert where in str(caught.value)
    assert told in str(caught.value)


def test_exit_codes_json_and_markdown(tmp_path: Path) -> None:
    text = 'save: "{save}"\nstudies: [{{latency: {{engines: [fake], limit: 3, rounds: 3, gate: ["{gate}"]}}}}]'

    def gated(condition: str, *options: object) -> Done:
        return run(written(tmp_path, text.format(save=tmp_path / "runs", gate=condition)), "--resume", *options)

    comment = tmp_path / "gate.md"
    holds = gated("rtf < 100", "--gate", "--json", "--markdown", comment)
    assert holds.code == 0, holds.stderr
    assert "to resume: a new one begins" in holds.stderr
    (row,) = json.loads(holds.stdout)["runs"]
    assert row["gate"]["passed"]
    (judged,) = row["gate"]["requirements"]
    assert {"condition": "rtf < 100", "name": "fake", "outcome": "holds", "limit": 100.0}.items() <= judged.items()
    assert judged["low"] < judged["value"] < judged["high"]
    assert "### stopwav: gate passed" in comment.read_text()
    failed = gated("wer < 1%", "--gate")
    assert (failed.code, "stopwav gate: failed" in failed.stdout) == (3, True)
    assert "is complete: nothing was measured" in failed.stderr
    open_ = gated(f"rtf < {judged['value']:.4f}", "--gate")
    assert (open_.code, "stopwav gate: undecided" in open_.stdout) == (4, True), open_.stdout
    assert gated("word_latency_p99 < 1", "--gate").code == 1  # three utterances are too few for it
    # Without --gate the conditions are not asked.
    assert gated("wer < 1%").code == 0


def test_a_gate_without_conditions_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "studies: [{latency: {engines: [fake]}}]")
    for options, told in ((["--gate"], "has no `gate`"), (["--markdown", "gate.md"], "add --gate")):
        done = run(path, *options)
        assert (done.code, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert told in done.stderr


def repository(folder: Path, work: int, changed: int) -> None:
    """A repository with an engine in one commit, and a change to it in the next; the first is checked out as `base`."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "engine.py").write_text(ENGINE.format(work=work))
    git(folder, "add", "engine.py")
    git(folder, "commit", "--quiet", "--message", "An engine")
    (folder / "engine.py").write_text(ENGINE.format(work=changed) + "# changed\n")
    git(folder, "commit", "--quiet", "--all", "--message", "A change")
    git(folder, "worktree", "add", "--detach", "base", "HEAD~1")


@pytest.mark.soak
@pytest.mark.alone
def test_a_commit_that_slows_an_engine_by_a_tenth_fails_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both versions take turns in one run: 10 of 10 slower commits fail, and 10 of 10 others pass."""
    rows = []
    for number in range(10):
        for kind, changed in (("slower", WORK * 11 // 10), ("same", WORK)):
            folder = tmp_path / f"{kind}-{number}"
            folder.mkdir()
            repository(folder, WORK, changed)
            monkeypatch.chdir(folder)
            done = run(written(folder, PLAN), "--gate", "--json")
            (row,) = json.loads(done.stdout)["runs"]
            race = row["gate"]["race"]
            changes = {change["metric"]: change for change in race["results"][0]["changes"]}
            rtf = changes["rtf"]
            rows.append((kind, done.code))
            print(
                f"| {kind} | {number + 1} | {done.code} | {race['race']['extent']} | "
                f"{rtf['value']:.3f} [{rtf['low']:.3f}–{rtf['high']:.3f}] |",
                flush=True,
            )
    assert [code for kind, code in rows if kind == "slower"] == [3] * 10
    assert [code for kind, code in rows if kind == "same"] == [0] * 10
