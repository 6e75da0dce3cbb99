"""`--traces`: a trace per cell that went well, from a pass that leaves the numbers alone."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from grid_runs import FAST, engine_file, run

import stopwav
from stopwav.record import Record
from stopwav.studies.grid.forecast import forecast
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.study import find_study
from stopwav.studies.traces import traces_folder

# As torch.profiler's handler for TensorBoard names them.
NAME = re.compile(r".+_\d+\.\d+\.pt\.trace\.json")
TORCH = """\
import torch
with stopwav.stage("inference"):
    torch.ones(B, 8) @ torch.ones(8, 8)
"""


def torch_engine(folder: Path, body: str = TORCH) -> str:
    pytest.importorskip("torch")
    return engine_file(folder, f"import stopwav\n{body}")


def traces_of(record: Record) -> dict[str, dict[str, Any]]:
    """The trace in each folder; there is exactly one."""
    found = {}
    for folder in traces_folder(record).iterdir():
        (path,) = folder.iterdir()
        assert NAME.fullmatch(path.name)
        found[folder.name] = json.loads(path.read_text())
    return found


def codes(record: Record) -> list[set[str]]:
    return [{w.code for w in one.warnings} for one in stopwav.results(record) if one.params["kind"] == "cell"]


def test_a_torch_engine_leaves_a_trace_of_operators_and_stages_per_cell(tmp_path: Path) -> None:
    record = run(torch_engine(tmp_path), tmp_path, durations=[0.5], batch_sizes=[1, 2], traces=True)
    traces = traces_of(record)
    assert set(traces) == {"0.5s-x1", "0.5s-x2"}
    for trace in traces.values():
        named = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
        call, inner, product = named["transcribe"], named["inference"], named["aten::matmul"]
        assert call["ts"] <= inner["ts"]
        # Two clocks, both of the time of day, read by two libraries: they agree to a fraction of a millisecond, unless
        # the machine does something else while one is set by the other.
        assert inner["ts"] - 50_000 <= product["ts"] <= inner["ts"] + inner["dur"] + 50_000
    found = stopwav.analyse(traces_folder(record), report=False)
    calls = {one.name: one.calls for one in found.operators}
    assert (len(found.files), found.skipped, found.notes) == (2, (), ())
    assert calls["aten::matmul"] == 2
    # The stages are the same time seen again: none of the operators'.
    assert {one.name: one.calls for one in found.stages} == {"transcribe": 2, "inference": 2}
    assert not {"transcribe", "inference"} & calls.keys()
    assert not any(code.startswith("trace") for cell in codes(record) for code in cell)


def test_an_engine_without_torch_is_said_to_leave_nothing_for_the_profiler(tmp_path: Path) -> None:
    record = run("fake,batch_ms=1", tmp_path, durations=[0.5], batch_sizes=[1], traces=True)
    (trace,) = traces_of(record).values()
    (event,) = trace["traceEvents"]
    assert (event["name"], event["cat"]) == ("transcribe", "stage")
    assert event["dur"] >= 1000
    assert "trace-empty" in codes(record)[0]
    found = stopwav.analyse(traces_folder(record), report=False)
    assert found.operators == ()
    assert [(one.name, one.calls) for one in found.stages] == [("transcribe", 1)]


def test_details_calls_names_and_compression_are_options_that_ask_for_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stopwav.studies.grid.spec.REPORT", FAST)
    done = command(
        "grid", torch_engine(tmp_path), "--durations", "0.5", "--batch-sizes", "2", "--rounds", "1", "--no-html",
        "--trace-details", "stacks,shapes", "--trace-details", "flops", "--trace-calls", "3", "--trace-gzip",
        "--trace-worker", "node7", "--save", tmp_path / "runs",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    (folder,) = (tmp_path / "runs").glob("grid-*-traces")
    assert f"traces in {folder}" in done.stderr
    # What it holds names the folder: traces of other details may follow.
    stacks, trace = sorted((folder / "0.5s-x2-shapes-stacks-flops-3-calls").iterdir(), key=lambda path: path.suffix)[
        ::-1
    ]
    assert re.fullmatch(r"node7\.\d+\.pt\.trace\.json\.gz", trace.name)
    assert re.fullmatch(r"node7\.\d+\.self_cpu_time_total\.stacks\.txt", stacks.name)
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    products = [event["args"] for event in events if event["name"] == "aten::mm"]
    assert [(product["Input Dims"][:2], product["flops"]) for product in products] == [([[2, 8], [8, 8]], 256)] * 3
    assert [event["name"] for event in events if event.get("cat") == "stage"] == ["transcribe", "inference"] * 3
    assert any(event.get("cat") == "python_function" for event in events)
    assert any(line.split(" ")[0].endswith("aten::mm") for line in stacks.read_text().splitlines())


def test_other_details_add_traces_to_a_run_that_has_some(tmp_path: Path) -> None:
    options: dict[str, Any] = {"durations": [0.5], "batch_sizes": [1], "resume": True}
    run("fake,batch_ms=1", tmp_path, **{**options, "resume": False}, traces=True)
    record = run("fake,batch_ms=1", tmp_path, **options, trace_calls=2)
    again = run("fake,batch_ms=1", tmp_path, **options, trace_calls=2)
    assert again.path.read_bytes() == record.path.read_bytes()
    assert set(traces_of(record)) == {"0.5s-x1", "0.5s-x1-2-calls"}
    assert [event["name"] for event in traces_of(record)["0.5s-x1-2-calls"]["traceEvents"]] == ["transcribe"] * 2
    assert "trace-empty" in codes(record)[0]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--trace-details", "shape"), "--trace-details ['shape']: unknown detail 'shape'; did you mean 'shapes'?"),
        (("--trace-details", ""), "unknown detail ''; there are shapes, stacks, flops, modules"),
        (("--trace-calls", "0"), "--trace-calls 0: should be greater than 0"),
        (("--trace-worker", "a/b"), "trace: worker name 'a/b' is not a file name"),
    ],
)
def test_wrong_trace_options_are_named(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = command("grid", "fake", *flags, "--save", tmp_path)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert said in done.stderr


def test_a_model_without_texts_can_be_measured(tmp_path: Path) -> None:
    engine = Path(engine_file(tmp_path, "pass").removesuffix(":Own"))
    engine.write_text(
        engine.read_text().replace("def transcribe", "def process").replace("return [''] * B", "return B")
    )
    record = run(f"{engine}:Own", tmp_path, durations=[0.5], batch_sizes=[1, 2], traces=True)
    assert [one.status for one in stopwav.results(record) if one.params["kind"] == "cell"] == ["ok", "ok"]
    assert {event["name"] for trace in traces_of(record).values() for event in trace["traceEvents"]} == {"process"}


def test_what_a_killed_pass_left_makes_room_for_the_whole_trace(tmp_path: Path) -> None:
    record = run("fake,batch_ms=1", tmp_path, durations=[0.5], batch_sizes=[1])
    left = traces_folder(record) / "0.5s-x1" / "host_1.1.pt.trace.json"
    left.parent.mkdir(parents=True)
    left.write_text('{"traceEvents": [')
    run("fake,batch_ms=1", tmp_path, durations=[0.5], batch_sizes=[1], traces=True, resume=True)
    (trace,) = left.parent.iterdir()
    assert trace != left


def test_traces_come_after_the_sweep_and_change_no_number(tmp_path: Path) -> None:
    options: dict[str, Any] = {"durations": [0.5], "batch_sizes": [1, 2]}
    plain = run("fake,batch_ms=1", tmp_path, **options)
    before = plain.path.read_bytes()
    # Not part of what identifies a run: the finished one is found, and only its traces are taken.
    traced = run("fake,batch_ms=1", tmp_path, **options, traces=True, resume=True)
    assert traced.path == plain.path
    assert traced.path.read_bytes().startswith(before)
    assert [one.metrics for one in stopwav.results(traced)] == [one.metrics for one in stopwav.results(plain)]
    assert len(traces_of(traced)) == 2
    after = traced.path.read_bytes()
    again = run("fake,batch_ms=1", tmp_path, **options, traces=True, resume=True)
    assert again.path.read_bytes() == after
    assert Record.read(again.path).complete


def test_a_traced_pass_that_fails_is_a_caution_and_a_failed_cell_has_none(tmp_path: Path) -> None:
    body = "if d > 0.7: raise ValueError('too long')\nif os.path.exists(os.environ['BREAK']): os._exit(3)"
    engine = engine_file(tmp_path, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BREAK", str(tmp_path / "break"))
        options: dict[str, Any] = {"durations": [0.5, 1], "batch_sizes": [1]}
        run(engine, tmp_path, **options)
        (tmp_path / "break").touch()
        record = run(engine, tmp_path, **options, traces=True, resume=True)
    good, failed = (one for one in stopwav.results(record) if one.params["kind"] == "cell")
    assert (good.status, failed.status) == ("ok", "error")
    assert good.metrics["rtf"].value is not None
    (told,) = (w.message for w in good.warnings if w.code == "trace-failed")
    assert told == "no trace (crashed: exited with code 3); the numbers do not need it"
    assert not any(w.code.startswith("trace") for w in failed.warnings)


def test_the_command_says_where_the_traces_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopwav.studies.grid.spec.REPORT", FAST)
    done = command(
        "grid", "fake,service_ms=1", "--durations", "0.5", "--batch-sizes", "1",
        "--rounds", "1", "--traces", "--no-html", "--save", tmp_path,
    )  # fmt: skip
    assert done.code == 0
    (folder,) = tmp_path.glob("grid-*-traces")
    assert f"traces in {folder}" in done.stderr
    assert "no PyTorch operator" in done.stdout + done.stderr
    assert len(list(folder.glob("0.5s-x1/*.pt.trace.json"))) == 1


@pytest.mark.parametrize(("line", "flags", "expected"), [("", (), False), ("", ("--traces",), True), ("yes", (), True)])
def test_a_recipe_asks_for_traces_by_export_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, flags: tuple[str, ...], expected: bool
) -> None:
    asked = f"profiling_dimensions: {{export_logs: {line}}}\n" if line else ""
    recipe = tmp_path / "profile.yaml"
    recipe.write_text(f"pretrained_model: {{source: some/model, type: EncoderASR}}\n{asked}")

    def study(**arguments: Any) -> None:
        raise stopwav.StopwavError(f"traces={arguments['traces']}")

    grid = find_study("grid")
    monkeypatch.setattr("stopwav.studies.grid.study.STUDY", replace(grid, run=study))
    assert f"traces={expected}" in command("grid", recipe, *flags).stderr


def test_the_forecast_says_that_traces_are_not_in_it() -> None:
    bases = [forecast(GridSpec(engine="fake", traces=traces)).basis for traces in (False, True)]
    assert bases[1] == (*bases[0], "traces are not included")
