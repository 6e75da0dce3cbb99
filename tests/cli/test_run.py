"""`stopwav run` and `stopwav init` as a user meets them."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path

import pytest
from command_line import Done, command

from stopwav.studies.spec import flag_of
from stopwav.studies.study import LISTED, find_study

ROOT = Path(__file__).parent.parent.parent

MakeCorpus = Callable[..., Path]


def stopwav(folder: Path, *arguments: object) -> Done:
    with chdir(folder):
        return command(*arguments)


@pytest.fixture
def plan(tiny_corpus: MakeCorpus, tmp_path: Path) -> Path:
    """A plan of three runs, of which the second cannot be."""
    corpus = tiny_corpus(count=2)
    path = tmp_path / "plan.yaml"
    path.write_text(f"""
rounds: 2
save: runs
corpus: {corpus}
words: {corpus / "words.ctm"}
studies:
  - latency: {{engine: fake}}
  - latency: {{engine: fake, corpus: nowhere}}
  - latency: {{engine: fake, seed: 1}}
""")
    return path


def test_a_study_that_fails_does_not_stop_the_rest(plan: Path) -> None:
    done = stopwav(plan.parent, "run", plan, "--rounds", 1, "--no-html", "--json")
    assert done.code == 1
    assert "corpus nowhere does not exist" in done.stderr
    printed = json.loads(done.stdout)
    assert set(printed) == {"stopwav", "runs"}
    first, second, third = printed["runs"]
    assert second["run"] is None
    assert second["results"] == []
    assert "nowhere" in second["error"]
    for run in (first, third):
        assert set(run) == {"study", "run", "results"}
        (result,) = run["results"]
        assert (result["status"], result["params"]["rounds"]) == ("ok", 1)
        assert (plan.parent / run["run"]).is_file()
    assert first["run"] != third["run"]

    # What is finished is kept, and what failed is tried again.
    again = json.loads(stopwav(plan.parent, "run", plan, "--rounds", 1, "--resume", "--no-html", "--json").stdout)
    assert [run["run"] for run in again["runs"]] == [first["run"], None, third["run"]]

    # The measured runs are what the next estimate is based on.
    (checked, *_) = json.loads(stopwav(plan.parent, "run", "--check", plan, "--json").stdout)["cells"]
    assert f"measured in {Path(third['run']).name}" in " ".join(checked["estimate"]["basis"])


def test_the_tables_of_all_runs_are_printed_with_the_path_of_each(plan: Path) -> None:
    done = stopwav(plan.parent, "run", plan, "--rounds", 1, "--no-html")
    assert done.code == 1
    runs = sorted((plan.parent / "runs").glob("*.jsonl"))
    assert len(runs) == 2
    for run in runs:
        assert f"run file: runs/{run.name}" in done.stdout
    assert "3/3 latency" in done.stderr


def test_nothing_measured_is_another_exit_code(plan: Path) -> None:
    done = stopwav(plan.parent, "run", plan, "--set", "engine=pocketsphynx", "--json")
    assert done.code == 2
    assert [run["run"] for run in json.loads(done.stdout)["runs"]] == [None] * 3
    assert "did you mean 'pocketsphinx'?" in done.stderr


def test_check_lists_the_runs_and_their_time_and_runs_nothing(plan: Path) -> None:
    done = stopwav(plan.parent, "run", "--check", plan, "--json")
    assert done.code == 2
    printed = json.loads(done.stdout)
    first, second, third = printed["cells"]
    assert printed["seconds"] is None
    assert "nowhere" in second["problems"][0]
    assert first["problems"] == third["problems"] == []
    assert first["settings"]["engines"] == ["fake"]
    assert first["settings"]["seed"] == 0
    # Two rounds of 2 × 0.5 s of audio: load 3 s, first stream 0.5 s, warm-up 1.5 s, streams 1 s, memory 0.5 s.
    assert first["estimate"]["seconds"] == pytest.approx(2 * (3 + 0.5 + 1.5 + 1 + 0.5))
    assert "assumed" in " ".join(first["estimate"]["basis"])
    assert not (plan.parent / "runs").exists()

    whole = stopwav(plan.parent, "run", "--check", plan, "--set", "corpus=bundled", "--set", "words=null")
    assert whole.code == 2  # the first two are now the same run
    assert "asks for the same run" in whole.stderr


def test_an_error_in_the_file_is_one_line_and_nothing_is_run(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("ronds: 3\nstudies: [{latency: {engine: fake}}]\n")
    done = stopwav(tmp_path, "run", path)
    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"stopwav: {path}:1:1: unknown key 'ronds', which no study of this file takes; did you mean 'rounds'?"
    ]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("study", LISTED)
def test_the_starter_file_of_every_study_passes_the_check(study: str, tmp_path: Path) -> None:
    done = stopwav(tmp_path, "init", study)
    assert done.code == 0, done.stderr
    path = tmp_path / f"{study}.yaml"
    text = path.read_text()
    spec, example = find_study(study).spec, find_study(study).example
    keys = [flag_of(setting) for setting in spec.options()]
    for key in keys:
        assert f" {key}: " in text
    # As it is, and with every setting at the default that it shows.
    for content in (text, "\n".join(_uncommented(text, keys))):
        path.write_text(content)
        checked = stopwav(tmp_path, "run", "--check", path, "--json")
        assert checked.code == 0, checked.stderr
        (run,) = json.loads(checked.stdout)["cells"]
        assert set(run) == {"study", "where", "settings", "estimate", "problems"}
        assert run["study"] == study
        assert run["settings"] == spec(**example).model_dump(mode="json", include=set(spec.options()))

    refused = stopwav(tmp_path, "init", study)
    assert refused.code == 2
    assert "exists already" in refused.stderr
    assert path.read_text() == content
    forced = stopwav(tmp_path, "init", study, path, "--force", "--json")
    assert json.loads(forced.stdout)["file"] == str(path)
    assert path.read_text() == text


def _uncommented(text: str, keys: list[str]) -> list[str]:
    settings = tuple(f"      # {key}: " for key in keys)
    return [line.replace("# ", "", 1) if line.startswith(settings) else line for line in text.splitlines()]


def test_init_of_an_unknown_study_names_the_nearest_or_those_there_are(tmp_path: Path) -> None:
    done = stopwav(tmp_path, "init", "latncy")
    assert done.code == 2
    assert "unknown study 'latncy': did you mean 'latency'?" in done.stderr
    done = stopwav(tmp_path, "init", "zzz")
    assert done.code == 2
    assert f"unknown study 'zzz': there are {', '.join(LISTED)}" in done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_pass_the_check(path: Path) -> None:
    done = stopwav(ROOT, "run", "--check", path)
    assert done.code == 0, done.stdout + done.stderr


def test_check_sees_a_device_that_the_engine_cannot_be_put_on(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("studies:\n  - grid: {engine: pocketsphinx, device: cuda}\n")
    done = stopwav(tmp_path, "run", "--check", "plan.yaml")
    assert done.code == 2
    assert "PROBLEM: plan.yaml:2:20: engine 'pocketsphinx,device=cuda'" in done.stdout


def test_init_writes_through_a_link_and_into_a_pipe(tmp_path: Path) -> None:
    target, link = tmp_path / "target.yaml", tmp_path / "link.yaml"
    target.write_text("before")
    link.symlink_to(target)
    assert stopwav(tmp_path, "init", "grid", link, "--force").code == 0
    assert link.is_symlink()
    assert "grid:" in target.read_text()
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        assert stopwav(tmp_path, "init", "grid", pipe, "--force").code == 0
        assert "grid:" in read.result()
    assert pipe.is_fifo()
