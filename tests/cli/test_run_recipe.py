"""`stopwav run profile.yaml`: SpeechBrain's recipe, run as `stopwav grid profile.yaml` runs it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import FAST
from speechbrain_stand_in import speechbrain_installed

import stopwav
from stopwav.studies.study import find_study

torch = pytest.importorskip("torch")

RECIPE = """\
pretrained_model:
  source: model
  type: {kind}

profiling_dimensions:
  audio_mockup_secs: [1]
  batch_sizes: [1]
  example_audio: None
  triangle_only: False
  export_logs: True
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The recipe of a voice activity detector, beside a SpeechBrain that records its calls."""
    path = tmp_path / "profile.yaml"
    path.write_text(RECIPE.format(kind="VAD"))
    with speechbrain_installed(tmp_path, monkeypatch):
        yield path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments with which a grid was to be run; none is."""
    calls: list[dict[str, Any]] = []

    def study(**arguments: Any) -> None:
        calls.append({name: value for name, value in arguments.items() if name != "progress"})
        raise stopwav.StopwavError("not run in this test")

    monkeypatch.setattr("stopwav.studies.grid.study.STUDY", replace(find_study("grid"), run=study))
    return calls


def test_a_recipe_is_run_and_its_traces_are_found(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopwav.studies.grid.spec.REPORT", FAST)
    save = recipe.parent / "runs"
    done = command("run", recipe, "--rounds", 1, "--save", save, "--no-html", "--json")
    assert done.code == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    (cell,) = (result for result in run["results"] if result["params"]["kind"] == "cell")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert (cell["status"], cell["params"]["device"]) == ("ok", device)
    assert cell["metrics"]["rtf"]["value"] > 0
    assert f"profile.yaml: SpeechBrain's recipe, on {device}" in done.stderr
    (folder,) = save.glob("grid-*-traces")
    assert f"traces in {folder}" in done.stderr
    (trace,) = folder.glob("1s-x1/*.pt.trace.json")
    stages = {event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "stage"}
    assert stages == {"process", "copy", "inference"}  # a detector transcribes nothing


def test_it_asks_for_the_same_grid_as_the_command_grid(recipe: Path, asked: list[dict[str, Any]]) -> None:
    command("grid", recipe, "--rounds", 2)
    command("run", recipe, "--rounds", 2)
    by_grid, by_run = asked
    defaults = {name: by_grid[name] for name in by_grid.keys() - by_run.keys()}
    assert by_grid == {**defaults, **by_run}
    spec = find_study("grid").spec
    assert spec(**by_grid) == spec(**by_run)
    assert by_run["engines"] == [f"speechbrain:{recipe.parent / 'model'},type=VAD"]


@pytest.mark.parametrize("verb", ["grid", "run"])
@pytest.mark.parametrize(("cuda", "device", "found"), [(True, "cuda", "found here"), (False, "cpu", "not found here")])
def test_the_device_is_as_speechbrains_tools_take_it_and_is_said(
    recipe: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch,
    verb: str, cuda: bool, device: str, found: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    done = command(verb, recipe)
    assert asked[0]["device"] == device
    assert f"SpeechBrain's recipe, on {device}: CUDA, which its tools prefer, was {found}" in done.stderr


def test_a_device_that_is_given_wins(recipe: Path, asked: list[dict[str, Any]]) -> None:
    by_flag = command("grid", recipe, "--device", "cuda:1")
    by_set = command("run", recipe, "--set", "device=cuda:1")
    assert [arguments["device"] for arguments in asked] == ["cuda:1", "cuda:1"]
    assert by_flag.stderr.splitlines()[0] == by_set.stderr.splitlines()[1]
    assert by_flag.stderr.startswith(f"stopwav: {recipe}: SpeechBrain's recipe, on cuda:1 as given\n")


def test_a_recipe_is_checked_first_on_request(recipe: Path) -> None:
    done = command("run", "--check", recipe, "--json")
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["study"], cell["problems"]) == ("grid", [])
    assert cell["settings"]["durations"] == [1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pretrained_model: {source: model, tpye: VAD}", "unknown key 'tpye' of pretrained_model; did you mean"),
        ("pretrained_model: !new:os.system {}", "tag '!new:os.system' is refused"),
        ("profiling_dimensions: {batch_sizes: [1]}", "no 'pretrained_model', so not a profiling recipe"),
        ("studies: [grid: {engine: !ref <x>}]", "tag '!ref' is refused"),
        ("modell: {}", "no `studies`, the list of what to run"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_named(recipe: Path, text: str, said: str) -> None:
    recipe.write_text(text)
    done = command("run", recipe, "--quick", "--save", recipe.parent / "runs", "--no-html")
    assert said in done.stderr + done.stdout
    assert done.code != 0
