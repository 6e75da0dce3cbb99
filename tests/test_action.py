"""The GitHub Action: its steps, run by the shell that GitHub runs them with, on a study that only counts."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SHELL = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
OUTPUTS = {"runs", "markdown", "outcome"}

PLAN = """
rounds: 5
studies:
  - counting: {counters: [sum], up-to: 500, gate: ["count_time < LIMIT"]}
"""
# What a title of a pull request, a branch or a path may be made of.
HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    '"; touch pwned; #',
    "'; touch pwned; '",
    "a\ntouch pwned\noutcome=passed",
    "&& touch pwned ||",
    "--help",
    "-c touch",
    "${IFS}touch${IFS}pwned",
    "\u202e%0a::set-output name=outcome::passed",
]


@dataclass
class Runner:
    """A runner that has what a step needs: the files of GitHub, a `python` that installs nothing, and a `gh`."""

    folder: Path
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    comments: str = "[]"
    gh_code: int = 0

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir()
        (self.folder / "temp").mkdir()
        self._program("python", f'[ "$2" = pip ] && printf "%s\\n" "$@" > pip.txt && exit\nexec {sys.executable} "$@"')
        self._program(
            "gh",
            'printf "%s\\n" "$*" >> gh.txt; [ "$GH_CODE" = 0 ] || exit "$GH_CODE"\n'
            'for word in "$@"; do case $word in body=@*) cp "${word#body=@}" comment.md ;; esac; done\n'
            'case "$*" in *--jq*) printf "%s" "$COMMENTS" | jq -r "${@: -1}" ;; esac',
        )

    def _program(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does: its script in a file, everything else in the environment."""
        script = self.folder / "temp" / "script.sh"
        script.write_text(STEPS[name]["run"])
        files = {name: str(self.folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        environment = {
            **os.environ,
            **files,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT / 'tests' / 'toy_study'}",
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_REPOSITORY": "owner/name",
            "COMMENTS": self.comments,
            "GH_CODE": str(self.gh_code),
            **{key: self.value(text) for key, text in STEPS[name].get("env", {}).items()},
        }
        done = subprocess.run(
            [*SHELL, script], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        self.outputs = dict(line.split("=", 1) for line in self._lines("GITHUB_OUTPUT"))
        return done

    def value(self, text: str) -> str:
        """What GitHub puts in the place of an expression."""
        known = {
            **{
                f"inputs.{name}": self.inputs.get(name, str(given["default"]))
                for name, given in ACTION["inputs"].items()
            },
            **{f"steps.measure.outputs.{name}": self.outputs.get(name, "") for name in OUTPUTS},
            "github.action_path": str(ROOT),
            "github.event.pull_request.number": "7",
        }
        return EXPRESSION.sub(lambda match: known[match[1]], text)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path, {"token": "none"})


def plan(folder: Path, limit: str) -> str:
    (folder / "plan.yaml").write_text(PLAN.replace("LIMIT", limit))
    return "plan.yaml"


def test_nothing_from_outside_is_ever_a_part_of_a_command() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", ""), step["name"]
        if "run" in step:
            assert step["shell"] == "bash"
            assert "eval" not in step["run"]
    named = {name for step in STEPS.values() for name in EXPRESSION.findall(str(step.get("env", {})))}
    assert {name.removeprefix("inputs.") for name in named if name.startswith("inputs.")} == set(ACTION["inputs"]) - {
        "comment", "artifact", "install",
    }  # fmt: skip


def test_a_plan_that_passes_without_a_baseline_becomes_one(runner: Runner) -> None:
    runner.inputs |= {"plan": plan(runner.folder, "10"), "baselines": "kept", "save-baselines": "true"}
    done = runner.step("Measure")
    assert done.returncode == 0, done.stderr
    assert set(runner.outputs) == OUTPUTS
    assert runner.outputs["outcome"] == "no-baseline"
    (run,) = Path(runner.outputs["runs"]).glob("*.jsonl")
    summary = runner.read("GITHUB_STEP_SUMMARY")
    for part in (
        "## stopwav: no-baseline",
        "gate passed",
        "| count_time &#60; 10 |",
        "gate: no baseline",
        "<summary>Results",
    ):
        assert part in summary
    assert runner.step("Comment").returncode == 0
    assert "api --silent repos/owner/name/issues/7/comments --field body=@" in runner.read("gh.txt")
    assert runner.read("comment.md") == f"<!-- stopwav -->\n{summary}"
    assert runner.step("Outcome").returncode == 0
    (kept,) = (runner.folder / "kept").glob("*/counting/main.jsonl")
    assert kept.read_bytes() == run.read_bytes()
    # Held against itself, nothing is worse.
    runner.inputs["threshold"] = "900%"
    assert runner.step("Measure").returncode == 0
    assert runner.outputs["outcome"] == "passed"


def test_a_violated_condition_fails_the_job_and_its_comment_is_updated(runner: Runner) -> None:
    runner.inputs |= {"plan": plan(runner.folder, "0.0001us"), "set": "up-to=700\nrounds=4\n"}
    runner.comments = '[{"id": 1, "body": "by somebody"}, {"id": 42, "body": "<!-- stopwav -->\\nearlier"}]'
    assert runner.step("Measure").returncode == 0
    assert runner.outputs["outcome"] == "failed"
    assert '"up_to":700' in next(Path(runner.outputs["runs"]).glob("*.jsonl")).read_text()
    assert runner.step("Comment").returncode == 0
    assert "--method PATCH repos/owner/name/issues/comments/42 --field body=@" in runner.read("gh.txt")
    assert runner.step("Outcome").returncode == 3


@pytest.mark.parametrize("turn", [0, 3, 6])
def test_hostile_inputs_are_not_executed(turn: int, runner: Runner) -> None:
    free = ("plan", "set", "budget", "baselines", "baseline-name", "threshold", "thresholds")
    runner.inputs |= dict(zip(free, (HOSTILE + HOSTILE)[turn:], strict=False))
    done = runner.step("Measure")
    assert done.returncode == 0, done.stderr
    assert runner.outputs["outcome"] == "unusable"
    assert set(runner.outputs) == OUTPUTS
    # What is printed between these lines is no command to the runner.
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert commands[0] == f"::stop-commands::{commands[-1].strip(':')}"
    assert "## stopwav: unusable" in runner.read("GITHUB_STEP_SUMMARY")
    assert runner.step("Outcome").returncode == 2
    assert not list(runner.folder.rglob("pwned"))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_installation_is_only_a_wrong_name(hostile: str, runner: Runner) -> None:
    runner.inputs |= {"extras": hostile, "requirements": hostile}
    assert runner.step("Install").returncode == 0
    assert not list(runner.folder.rglob("pwned"))
    given = runner.read("pip.txt")
    assert given == f"-m\npip\ninstall\n--quiet\n--requirement={hostile}\n--\n{ROOT}[{hostile}]\n"


def test_without_a_right_to_comment_the_job_goes_on(runner: Runner) -> None:
    runner.outputs["markdown"] = str(runner.folder / "outcome.md")
    (runner.folder / "outcome.md").write_text("é" * 100_000)
    runner.gh_code = 1
    done = runner.step("Comment")
    assert done.returncode == 0
    assert done.stdout.startswith("::notice::stopwav: no comment could be written")
    comment = (runner.folder / "outcome.md.comment").read_text()
    assert len(comment) < 65_536
    assert comment.endswith("the summary of the job has all of it\n")


@pytest.mark.parametrize(
    ("outcome", "undecided", "code"),
    [("undecided", "pass", 0), ("undecided", "fail", 4), ("incomplete", "pass", 1), ("", "pass", 2)],
)
def test_the_exit_code_is_that_of_the_verbs(outcome: str, undecided: str, code: int, runner: Runner) -> None:
    runner.inputs["undecided"] = undecided
    (runner.folder / "GITHUB_OUTPUT").write_text(f"outcome={outcome}\n")
    runner.outputs = {"outcome": outcome}
    assert runner.step("Outcome").returncode == code


def test_every_input_is_explained_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "in-your-ci.md").read_text()
    assert [name for name in ACTION["inputs"] if f"`{name}`" not in guide] == []


def test_files_and_outputs_are_those_of_the_steps(runner: Runner) -> None:
    steps: list[dict[str, Any]] = list(STEPS.values())
    kept = next(step for step in steps if "uses" in step)
    assert kept["with"]["path"] == "${{ steps.measure.outputs.runs }}/*.jsonl"
    assert {given["value"] for given in ACTION["outputs"].values()} == {
        f"${{{{ steps.measure.outputs.{name} }}}}" for name in OUTPUTS
    }
