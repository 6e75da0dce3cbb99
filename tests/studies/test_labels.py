"""Engines with labels in every study: names of results, settings beside them, plan files, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from noise_corpus import write_corpus

import stopwav
from stopwav import Plan, StopwavError
from stopwav.record import Record
from stopwav.studies.engine_names import engine_names, engine_settings, label_line
from stopwav.studies.forecast import earlier_speed

FAST = Plan(min_values=3, max_values=5, warmup_s=0, min_values_s=0.01, max_values_s=0.2)
ENGINES = ["quick=fake,service_ms=1", "fake,service_ms=2,label=slow"]


def latency(folder: Path, engines: list[str] | str = ENGINES, **settings: Any) -> Record:
    corpus = folder / "corpus"
    if not corpus.exists():
        write_corpus(corpus, count=2)
    given: dict[str, Any] = {"words": corpus / "words.ctm", "rounds": 1, **settings}
    return stopwav.latency(engines, corpus=str(corpus), save=folder, **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return latency(tmp_path_factory.mktemp("labelled"))


def test_names_are_labels_or_settings_and_numbered_where_they_are_the_same() -> None:
    engines = ["m=fake,final=a", "fake,final=a", "fake", "fake", "fake,final=b"]
    assert engine_names(engines) == ["m", "fake,final=a", "fake", "fake#2", "fake,final=b"]
    assert engine_settings({"engines": engines})["m"] == "fake,final=a"
    # What results call by its setting needs no line.
    assert label_line({"engines": engines}) == "m: fake,final=a"
    assert label_line({"targets": ["fake"]}) == label_line({}) == ""
    # Runs of a grid by an older version have one engine.
    assert engine_settings({"engine": "fake"}) == {"fake": "fake"}


def test_every_medium_calls_engines_by_their_labels(record: Record) -> None:
    told = json.loads(command("report", record.path, "--json").stdout)
    assert [result["name"] for result in told["results"]] == ["quick", "slow"]
    assert [result["params"]["setting"] for result in told["results"]] == ["fake,service_ms=1", "fake,service_ms=2"]
    assert {str(piece.key[2]) for piece in record.pieces} == {"quick", "slow"}
    for options in ((), ("--markdown",), ("--all",)):
        printed = command("report", record.path, *options).stdout
        assert "slow: fake,service_ms=2" in printed
        assert "Latency of quick and slow" in printed or options != ("--markdown",)
    rows = command("report", record.path, "--csv").stdout
    assert "quick" in rows
    assert "slow" in rows
    page = record.path.with_name("page.html")
    command("report", record.path, "--html", page)
    assert "quick: fake,service_ms=1; slow: fake,service_ms=2" in page.read_text()
    assert "slow" in command("history", record.path.parent).stdout


def test_the_label_is_a_part_of_the_run(record: Record) -> None:
    folder = record.path.parent
    again = latency(folder, resume=True)
    assert again.path == record.path
    other = latency(folder, ["quick=fake,service_ms=1", "fake,service_ms=2,label=slower"], resume=True)
    assert other.path != record.path


def test_an_earlier_run_is_found_by_the_setting_whatever_its_label(record: Record) -> None:
    folder = record.path.parent
    for engine in ("fake,service_ms=1", "other=fake,service_ms=1"):
        found = earlier_speed(engine, folder, "latency")
        assert found is not None
        assert 0 < found.rtf < 1
    assert earlier_speed("fake,service_ms=7", folder, "latency") is None


def test_compare_and_its_hypotheses_take_labels(tmp_path: Path) -> None:
    small: dict[str, Any] = {"rounds": 1, "frames": [10], "samples": 2, "plan": FAST, "expect": ["slow faster quick"]}
    record = stopwav.compare(["quick=fake,second_ms=1", "slow=fake,second_ms=3"], save=tmp_path, **small)
    results = [result for result in stopwav.results(record) if result.kind == "engine"]
    assert [(result.name, result.params["setting"]) for result in results] == [
        ("quick", "fake,second_ms=1"),
        ("slow", "fake,second_ms=3"),
    ]
    assert "slow: fake,second_ms=3" in command("report", record.path).stdout


def test_load_takes_labels_and_two_settings_of_one_engine(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", count=1)
    record = stopwav.load(
        ["a=fake,service_ms=1", "b=fake,service_ms=1"], corpus=str(corpus), words=str(corpus / "words.ctm"),
        pace="virtual", streams=[1], rounds=1, slo="final_latency_p95<5", save=tmp_path,
    )  # fmt: skip
    targets = [result for result in stopwav.results(record) if result.kind == "target"]
    assert [(result.name, result.params["setting"]) for result in targets] == [
        ("a", "fake,service_ms=1"),
        ("b", "fake,service_ms=1"),
    ]
    assert {str(piece.key[2]) for piece in record.pieces if piece.key[0] == "level"} == {"a", "b"}


def test_plan_files_take_labels_and_a_matrix_of_settings(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        'studies:\n  - grid:\n      engine: "m{ms}=fake,second_ms={ms}"\n      matrix: {ms: [1, 2]}\n'
        "      durations: [0.1]\n      batch-sizes: [1]\n      rounds: 1\n"
    )
    done = command("run", plan, "--json", "--save", tmp_path)
    assert done.code == 0, done.stderr
    assert [result["name"] for result in json.loads(done.stdout)["runs"][0]["results"]] == [
        "m1 0.1 s × 1",
        "m2 0.1 s × 1",
    ]


@pytest.mark.parametrize("study", [stopwav.latency, stopwav.compare, stopwav.grid, stopwav.load])
@pytest.mark.parametrize(
    ("engines", "reason"),
    [
        (["m=fake", "m=fake,final=x"], "two engines are called 'm'.*a label of its own"),
        (["fake,label=", "fake"], "its label is empty"),
        (["<b>x</b>=fake"], "unknown engine"),
        (["a\x1b[31mb=fake"], "cannot be a label"),
    ],
)
def test_hostile_labels_are_refused_before_anything_is_measured(
    study: Any, engines: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(StopwavError, match=reason) as refused:
        study(engines, save=tmp_path)
    assert len(str(refused.value).splitlines()) == 1
    assert not list(tmp_path.glob("*.jsonl"))
