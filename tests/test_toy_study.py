"""A study from one folder: without touching the package it has a verb, plan files, reports, pages, history and diff."""

import json
from pathlib import Path

import pytest
from command_line import command as stopwav


@pytest.fixture(autouse=True)
def toy_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder on the path, as an installed package would be."""
    tests = Path(__file__).parent
    monkeypatch.syspath_prepend(str(tests))
    monkeypatch.syspath_prepend(str(tests / "toy_study"))


def make_run(folder: Path, *arguments: object) -> Path:
    done = stopwav("counting", "sum", "loop", "--save", folder, "--json", *arguments)
    assert done.code == 0, done.stderr
    return Path(json.loads(done.stdout)["run"])


def test_it_runs_from_a_plan_file_and_prints_its_table(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"save: {tmp_path}\nstudies:\n  - counting: {{counters: [sum, loop], up-to: 500}}\n")
    checked = stopwav("run", plan, "--check")
    assert "up-to: 500" in checked.stdout
    done = stopwav("run", plan)
    assert done.code == 0, done.stderr
    assert "time, µs" in done.stdout
    assert "Counting was timed" in done.stdout
    (run,) = tmp_path.glob("counting-*.jsonl")
    assert run.with_suffix(".html").is_file()


def test_its_verb_has_its_settings(tmp_path: Path) -> None:
    printed = stopwav("counting", "--help").stdout
    for part in ("--up-to", "--rounds", "--quick", "--resume", "--json", "How long does it take to count?"):
        assert part in printed
    assert "counting" in stopwav("--help").stdout
    done = stopwav("counting", "sum", "--up-to", "0")
    assert done.code == 2
    assert "--up-to 0" in done.stderr


def test_init_writes_a_file_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "counting.yaml"
    assert stopwav("init", "counting", file).code == 0
    assert stopwav("run", file, "--check").code == 0


def test_it_is_reported_in_every_format(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert "time, µs" in stopwav("report", run).stdout
    assert "count_time" in stopwav("report", run, "--all").stdout
    assert "| counter | time, µs |" in stopwav("report", run, "--markdown").stdout
    assert "count_time" in stopwav("report", run, "--csv").stdout
    page = tmp_path / "page.html"
    assert stopwav("report", run, "--html", page).code == 0
    assert "Wall time of counting once." in page.read_text()


def test_runs_are_diffed_gated_and_followed(tmp_path: Path) -> None:
    before, after = make_run(tmp_path), make_run(tmp_path / "b")
    printed = json.loads(stopwav("diff", before, after, "--json").stdout)
    assert [item["name"] for item in printed["results"]] == ["sum", "loop"]
    assert printed["results"][0]["changes"][0]["metric"] == "count_time"
    assert "time to count" in stopwav("diff", before, after).stdout
    assert stopwav("gate", before, after, "--threshold", "99%").code in (0, 3)
    assert "time, s" in stopwav("history", tmp_path).stdout


def test_a_run_is_resumed(tmp_path: Path) -> None:
    run = make_run(tmp_path, "--rounds", "3")
    whole = run.read_text().splitlines(keepends=True)
    run.write_text("".join(whole[:3]))
    assert make_run(tmp_path, "--rounds", "3", "--resume") == run
    keys = [json.loads(line).get("key") for line in run.read_text().splitlines()]
    counts = [key for key in keys if key and key[0] == "count"]
    assert sorted(counts) == sorted(["count", index, name] for index in range(3) for name in ("sum", "loop"))
