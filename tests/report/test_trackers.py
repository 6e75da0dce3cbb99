"""Runs in TensorBoard and MLflow, written by stopwav and read back by the packages themselves."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import command as stopwav
from stored_runs import DATA, FAILURES, HOSTILE, REAL, renamed

from stopwav.errors import StopwavError
from stopwav.record import Record, Result
from stopwav.report import tracker
from stopwav.report.tracker import TrackedRun, named_results, numbers, parse_target, safe_name, settings
from stopwav.stats import Estimate
from stopwav.studies.study import StudyRun, results


def tracked(path: Path) -> TrackedRun:
    record = Record.read(path)
    return TrackedRun(record, results(record), {}, "", "", "")


def test_every_part_of_a_metric_has_a_name_and_what_is_missing_has_none() -> None:
    metrics = {
        "wer": Estimate(0.25, 0.125, 0.5, 8),
        "rtf": Estimate(2.0, n=1),
        "stage_a/b c": Estimate(None, note="no"),
    }
    assert numbers(Result("x", {}, "ok", metrics)) == {
        "wer/value": 0.25, "wer/low": 0.125, "wer/high": 0.5, "wer/n": 8, "rtf/value": 2.0, "rtf/n": 1
    }  # fmt: skip


def test_settings_are_flat_and_say_where_the_run_comes_from() -> None:
    run = tracked(REAL)
    given = settings(run, run.results[0])
    header = json.loads(REAL.read_text().splitlines()[0])
    assert given["name"] == "pocketsphinx"
    assert given["setting.seed"] == header["spec"]["seed"]
    assert given["setting.engines"] == json.dumps(header["spec"]["engines"])
    assert given["param.engine.name"] == "pocketsphinx"
    assert given["corpus_digest"] == header["corpus"]["digest"]
    assert "fingerprint" in str(given["machine"])
    assert all(isinstance(value, (str, int, float)) for value in given.values())


@pytest.mark.parametrize("name", [*HOSTILE, "../../etc/passwd", "/", "..", "a/b:c,d=1", "CON"])
def test_a_name_is_never_a_path(name: str) -> None:
    safe = safe_name(name)
    assert safe
    assert Path(safe).name == safe
    assert safe not in (".", "..")
    assert len(safe) <= 120
    assert safe.isascii()


def test_names_that_become_the_same_are_told_apart() -> None:
    same = [Result(name, {}, "ok") for name in ("a b", "a:b", "A-b", "a-b-2")]
    run = TrackedRun(Record.read(REAL), same, {}, "", "", "")
    names = [name for name, _ in named_results(run)]
    assert len({name.lower() for name in names}) == 4


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tensorbord:x", "no tracker 'tensorbord': did you mean 'tensorboard'?"),
        ("wandb:x", "no tracker 'wandb': there are tensorboard, mlflow"),
        ("mlflow", "where to? write mlflow:URI"),
        ("tensorboard:", "where to? write tensorboard:FOLDER"),
        ("", "no tracker ''"),
    ],
)
def test_a_wrong_target_is_an_error_before_any_work(target: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "find_spec", lambda name: object())
    done = stopwav("report", REAL, "--to", target)
    assert done.code == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with pytest.raises(StopwavError, match=r"pip install 'stopwav\[mlflow\]'"):
        parse_target("mlflow:x")


def read_events(folder: Path) -> Any:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX; make soak installs it")
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard; make soak installs it"
    )
    accumulator = accumulators.EventAccumulator(str(folder), size_guidance={"images": 0, "tensors": 0, "scalars": 0})
    accumulator.Reload()
    return accumulator


@pytest.mark.soak
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX; make soak installs it")
    done = stopwav("report", REAL, "--to", f"tensorboard:{tmp_path / 'logs'}")
    assert done.code == 0
    folder = tmp_path / "logs" / "latency-real"
    assert f"tensorboard: 1 in {tmp_path / 'logs'}" in done.stderr
    run = StudyRun(Record.read(REAL))
    for result in run.results:
        events = read_events(folder / result.name)
        written = {tag: events.Scalars(tag)[0].value for tag in events.Tags()["scalars"]}
        assert written == pytest.approx(numbers(result), rel=1e-6)  # TensorBoard stores single precision
        started_s = events.Scalars("rtf/value")[0].wall_time
        assert started_s == TrackedRun(run.record, [], {}, "", "", "").started_s
        (plugin,) = {name for name in events.summary_metadata if name == "_hparams_/session_start_info"}
        content = events.SummaryMetadata(plugin).plugin_data.content
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        given = HParamsPluginData.FromString(content).session_start_info.hparams
        assert given["name"].string_value == result.name
        assert given["setting.seed"].number_value == run.record.header.spec["seed"]
    whole = read_events(folder)
    assert {f"charts/{name}" for name in run.charts} == set(whole.Tags()["images"])
    assert whole.Images("charts/waterfall")[0].encoded_image_string.startswith(b"\x89PNG")
    assert "Latency of pocketsphinx" in whole.Tensors("report/text_summary")[0].tensor_proto.string_val[0].decode()
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    layout = Layout.FromString(whole.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    (margin,) = [chart.margin for chart in layout.category[0].chart if chart.title == "rtf"]
    series = margin.series[0]
    assert (series.value, series.lower, series.upper) == ("rtf/value", "rtf/low", "rtf/high")
    assert (folder / "page.html").read_text().startswith("<!doctype html>")
    assert (folder / "results.csv").read_text().count("\n") == stopwav("report", REAL, "--csv").stdout.count("\n")


@pytest.mark.soak
def test_tensorboard_is_never_written_over(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX; make soak installs it")
    to = ("--to", f"tensorboard:{tmp_path}")
    assert stopwav("report", FAILURES, *to).code == 1  # as without it: streams were lost
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = stopwav("report", FAILURES, *to)
    assert again.code == 2
    assert "exists already" in again.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    closed = tmp_path / "closed"
    closed.write_text("")
    done = stopwav("report", REAL, "--to", f"tensorboard:{closed}")
    assert done.code == 2
    assert "cannot be written" in done.stderr


def mlflow_client(uri: str) -> Any:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny; make soak installs it")
    return mlflow.MlflowClient(tracking_uri=uri)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["folder", "database"])
def test_mlflow_reads_what_was_written(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="needs mlflow-skinny; make soak installs it")
    monkeypatch.chdir(tmp_path)  # where MLflow puts the files of a database
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = str(tmp_path / "store") if kind == "folder" else f"sqlite:///{tmp_path}/mlflow.db"
    done = stopwav("report", FAILURES, "--to", f"mlflow:{uri}")
    assert done.code == 1  # as without it: streams were lost
    client = mlflow_client(uri)
    experiment = client.get_experiment_by_name("stopwav")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = {run.data.params["name"]: run for run in runs if run is not parent}
    measured = results(Record.read(FAILURES))
    assert set(children) == {result.name for result in measured}
    for result in measured:
        child = children[result.name]
        assert child.data.metrics == numbers(result)
        assert child.info.status == ("FINISHED" if result.status == "ok" else "FAILED")
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert "model.bin: no such file" in children["flaky.py:Never"].data.tags["stopwav.notes"]
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert files == {"page.html", "results.csv", "report.md", "charts"}
    local = Path(client.download_artifacts(parent.info.run_id, "page.html", str(tmp_path)))
    assert local.read_text().startswith("<!doctype html>")
    charts = {Path(file.path).stem for file in client.list_artifacts(parent.info.run_id, "charts")}
    assert charts == set(StudyRun(Record.read(FAILURES)).charts)


@pytest.mark.soak
def test_mlflow_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs mlflow-skinny; make soak installs it")
    done = stopwav("report", REAL, "--to", "mlflow:http://127.0.0.1:9")
    assert done.code == 2
    assert "--to mlflow:http://127.0.0.1:9: MLflow cannot write there" in done.stderr
    assert done.stderr.count("\n") == 1
    refused = stopwav("report", REAL, "--to", f"mlflow:{tmp_path}", MLFLOW_ALLOW_FILE_STORE="false")
    assert refused.code == 2
    assert "MLFLOW_ALLOW_FILE_STORE=true" in refused.stderr


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_hostile_names_stay_inside_the_folder(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX; make soak installs it")
    run = renamed(REAL, tmp_path / "hostile.jsonl", name)
    assert stopwav("report", run, "--to", f"tensorboard:{tmp_path / 'logs'}").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"hostile.jsonl", "logs"}
    assert sum(path.is_dir() for path in (tmp_path / "logs" / "hostile").iterdir()) == 2


@pytest.mark.soak
def test_a_run_of_every_study_can_be_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX; make soak installs it")
    stems = ["compare-rounds", "grid-failures", "load-levels", "loss-kinds", "step-profile"]
    done = stopwav("report", *(DATA / f"{stem}.jsonl" for stem in stems), "--to", f"tensorboard:{tmp_path}")
    assert "tensorboard: 5 in" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == set(stems)
