"""The step study: any model gets its table, sums are right, and errors say what is wrong."""

import gc
import inspect
import json
from pathlib import Path

import pytest
import torch
from command_line import command
from step_jobs import TINY, SmallLstm, rows_of, run_steps, small_cnn
from torch import nn

import stopwav
from stopwav.errors import StopwavError
from stopwav.measure.training_step import PhaseProfiler, StepTimer, run_step
from stopwav.record import Record
from stopwav.studies.plan.plan_file import read_plan
from stopwav.studies.step.job import make_job
from stopwav.studies.step.results import memory_pass
from stopwav.studies.step.run import step
from stopwav.studies.step.spec import StepSpec


def cross_entropy(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())


def check_sums(results: list[stopwav.Result]) -> None:
    """Own shares add up to one, and each row's time is its own and that of its children."""
    rows = rows_of(results)
    single = {name: row for name, row in rows.items() if row.params["kind"] != "layers"}
    assert sum(row.metrics["self_share"].value for row in single.values()) == pytest.approx(1)
    for name, row in single.items():
        children = [child for child in single.values() if child.params["parent"] == ("" if name == "model" else name)]
        for part in ("forward", "backward"):
            own = row.metrics[f"{part}_self_time"].value
            expected = own + sum(child.metrics[f"{part}_time"].value for child in children)
            assert row.metrics[f"{part}_time"].value == pytest.approx(expected)


def test_a_cnn_gets_its_table(tmp_path: Path) -> None:
    images, classes = torch.randn(4, 3, 12, 12), torch.tensor([0, 1, 2, 3])
    record = run_steps(small_cnn(), lambda _: (images, classes), cross_entropy, tmp_path)
    found = stopwav.results(record)
    check_sums(found)
    rows = rows_of(found)
    assert rows["blocks.*"].params["members"] == ["blocks.0", "blocks.1"]
    assert rows["blocks.*"].params["type"] == "Sequential"
    assert rows["blocks.*.0"].params["type"] == "Conv2d"
    assert "stem.*" not in rows  # three classes in it: no repetition
    assert rows["stem.2"].metrics["calls"].value == 1
    for name in ("stem.0", "stem.1", "head", "blocks.1.0"):
        assert rows[name].metrics["backward_time"].value > 0
        assert rows[name].metrics["gradient_bytes"].value == 4 * rows[name].metrics["parameters"].value
    model = rows["model"].metrics
    assert model["parameters"].value == sum(parameter.numel() for parameter in small_cnn().parameters())
    # Adam keeps two numbers for a parameter, and how often it stepped.
    assert model["state_bytes"].value == 2 * model["gradient_bytes"].value + 4 * 14
    assert found[0].metrics["peak_bytes"].value > found[0].metrics["baseline_bytes"].value


def test_an_lstm_gets_its_table(tmp_path: Path) -> None:
    tokens = torch.randint(0, 30, (3, 7))
    found = stopwav.results(run_steps(SmallLstm(), lambda _: (tokens, tokens), cross_entropy, tmp_path))
    check_sums(found)
    rows = rows_of(found)
    assert {"embedding", "lstm", "out"} <= rows.keys()
    assert rows["lstm"].metrics["backward_time"].value > 0
    # What the linear layer keeps is what it was given: 3 × 7 × 16 floats, which are the LSTM's own output.
    assert rows["lstm"].metrics["held_bytes"].value > 0


def test_a_transformers_model_gets_its_table(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, vocab_size=40
    )
    model = transformers.BertForMaskedLM(config)
    tokens = torch.randint(0, 40, (2, 6))
    batch = {"input_ids": tokens, "labels": tokens}
    found = stopwav.results(run_steps(model, lambda _: (batch, None), lambda output, _: output.loss, tmp_path, steps=2))
    check_sums(found)
    rows = rows_of(found)
    layers = rows["bert.encoder.layer.*"]
    assert len(layers.params["members"]) == 2
    assert layers.metrics["backward_time"].value > 0
    # Its output weights are those of the embedding.
    assert any(w.code == "shared-parameter" and "word_embeddings" in w.message for w in found[0].warnings)


def test_saved_activations_are_counted_to_the_byte(tmp_path: Path) -> None:
    class Squares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(8, 8, bias=False)
            self.square = Square()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.square(self.scale(x))

    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x

    data = torch.randn(5, 8)
    found = rows_of(stopwav.results(run_steps(Squares(), lambda _: (data, None), lambda y, _: y.sum(), tmp_path)))
    # The linear layer keeps its input and not its own weight, which is there anyway; the square what it was given.
    assert found["scale"].metrics["held_bytes"].value == 5 * 8 * 4
    assert found["square"].metrics["held_bytes"].value == 5 * 8 * 4
    assert found["model"].metrics["held_bytes"].value == 2 * 5 * 8 * 4


def test_the_peak_is_found_where_it_is(tmp_path: Path) -> None:
    class Big(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(1_000_000).sum()

    model = nn.Sequential(nn.Linear(4, 4), Big(), nn.Linear(4, 4))
    record = run_steps(model, lambda _: (torch.ones(2, 4), None), lambda y, _: y.sum(), tmp_path)
    metrics = stopwav.results(record)[0].metrics
    assert metrics["peak_bytes"].note.startswith("in 1, forward")
    over = metrics["peak_bytes"].value - metrics["baseline_bytes"].value
    assert 4_000_000 <= over < 4_001_000
    moments = memory_pass(record)["moments"]
    assert max(moments, key=lambda moment: moment[3])[:2] == ["1", "forward"]


def test_phases_frames_and_padding(tmp_path: Path) -> None:
    model, data = nn.Linear(4, 4), torch.randn(3, 4)
    batch = stopwav.TrainingBatch(data, None, utterances=3, real_frames=6, padded_frames=8)
    record = run_steps(model, lambda _: batch, lambda y, _: y.square().mean(), tmp_path)
    metrics = stopwav.results(record)[0].metrics
    assert metrics["padding_efficiency"].value == pytest.approx(0.75)
    assert metrics["frames_per_second"].value == pytest.approx(6 / metrics["step_time"].value)
    phases = [metrics[f"{name}_time"].value for name in ("data", "forward", "loss", "backward", "optimizer", "rest")]
    assert sum(phases) == pytest.approx(metrics["step_time"].value)
    assert metrics["overhead"].value is not None


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_waits_until_a_step_is_over_and_is_collected_as_before(collects: bool, tmp_path: Path) -> None:
    within: list[bool] = []

    def loss(output: torch.Tensor, _: object) -> torch.Tensor:
        within.append(gc.isenabled())
        if len(within) == 10:
            raise RuntimeError("a step that breaks off")
        return output.square().mean()

    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(StopwavError, match="breaks off"):
            run_steps(nn.Linear(4, 4), lambda _: (torch.randn(3, 4), None), loss, tmp_path)
        assert within == [False] * 10
        assert gc.isenabled() == collects
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("batch", "loss", "message"),
    [
        ((torch.ones(2, 4), torch.ones(2)), lambda y, _: y, r"shape \(2, 4\)"),
        ((torch.ones(2, 4), None), lambda y, _: y.detach().sum(), "no gradient"),
        ((torch.ones(2, 4), None), lambda y, _: 1.0, "is a float"),
        (({"x": torch.ones(2, 4)}, None), lambda y, _: y.sum(), r"forward\(input\) was given \(x=\)"),
        (((torch.ones(2, 4), torch.ones(2)), None), lambda y, _: y.sum(), "too many positional"),
        (torch.ones(2, 4), lambda y, _: y.sum(), "returned a Tensor"),
        ((torch.ones(2, 5), None), lambda y, _: y.sum(), "a step failed: RuntimeError"),
    ],
)
def test_what_is_wrong_with_a_job_is_an_error_in_one_line(
    batch: object, loss: object, message: str, tmp_path: Path
) -> None:
    model = nn.Linear(4, 4)
    with pytest.raises(StopwavError, match=message) as error:
        run_steps(model, lambda _: batch, loss, tmp_path)
    assert "\n" not in str(error.value)
    assert not model._forward_hooks


def test_the_signature_has_the_job_first_and_then_the_settings() -> None:
    parameters = inspect.signature(step).parameters
    assert list(parameters)[:4] == ["model", "make_batch", "loss_fn", "optimizer"]
    assert set(StepSpec.model_fields) <= set(parameters)
    assert parameters["steps"].default is None
    assert parameters["steps"].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(StopwavError, match="unknown setting 'stepz'"):
        step(TINY, stepz=3)


def test_a_job_needs_its_parts(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match="make_batch= is missing"):
        step(nn.Linear(1, 1), save=tmp_path)
    with pytest.raises(StopwavError, match=r"torch\.optim"):
        step(nn.Linear(1, 1), lambda _: 0, lambda y, _: y, save=tmp_path)
    with pytest.raises(StopwavError, match="is a int"):
        step(3, lambda _: 0, lambda y, _: y, save=tmp_path)


def test_out_of_memory_in_the_third_step_keeps_the_first_two(tmp_path: Path) -> None:
    data = torch.randn(3, 4)

    def make_batch(index: int) -> tuple[torch.Tensor, None]:
        if index == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return data, None

    record = run_steps(nn.Linear(4, 4), make_batch, lambda y, _: y.sum(), tmp_path, steps=5)
    found = stopwav.results(record)
    assert found[0].status == "ok"
    assert found[0].metrics["step_time"].value > 0
    assert [(piece.key, piece.status) for piece in record.pieces if piece.key[0] == "step"] == [
        (["step", 0, 0], "ok"), (["step", 0, 1], "ok"), (["step", 0, 2], "oom"),
    ]  # fmt: skip
    message = next(warning.message for warning in found[0].warnings if warning.code == "step-oom")
    assert "step 2 of round 0" in message
    assert "steps kept: 2" in message


def test_a_compiled_model_has_one_row_and_a_warning(tmp_path: Path) -> None:
    class Compiled(nn.Module):
        """As `torch.compile` wraps a model, without the minute that compiling takes."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self._orig_mod = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._orig_mod(x)

    found = stopwav.results(
        run_steps(Compiled(small_cnn()), lambda _: (torch.randn(2, 3, 8, 8), None), lambda y, _: y.sum(), tmp_path)
    )
    assert "head" not in rows_of(found)
    assert any(w.code == "compiled" for w in found[0].warnings)


def test_the_reference_from_the_command_line(few_shapes: Path, tmp_path: Path) -> None:
    run = command(
        "step", TINY, "--shapes", str(few_shapes), "--batch-size", "2", "--steps", "2", "--rounds", "1", "--profile",
        "--json", "--save", str(tmp_path),
    )  # fmt: skip
    assert run.code == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["study"] == "step"
    labels = {row["params"]["label"] for row in found["results"][1:] if row["params"].get("label")}
    parts = ("feed_forward_macaron", "self_attn", "conv", "feed_forward")
    layers = {f"rnnt_encoder_layer_{part}" for part in parts}
    assert labels >= {
        "rnnt_encoder", "rnnt_encoder_embed", "rnnt_encoder_layer", "rnnt_decoder", "rnnt_loss_simple",
        "rnnt_loss_pruned", *layers,
    }  # fmt: skip
    step_row = found["results"][0]
    assert step_row["metrics"]["padding_efficiency"]["value"] <= 1
    profile = step_row["params"]["profile"]
    assert any(name.startswith("aten::") for name, *_ in profile["operators"])
    backward = {row for row, direction, *_ in profile["modules"] if direction == "backward"}
    assert "encoder.layers.0.self_attn" in backward
    trace = json.loads((tmp_path / profile["file"]).read_text())
    drawn = {event["name"] for event in trace["traceEvents"] if event.get("cat") == "module"}
    assert {"rnnt_loss_simple", "encoder.layers.1.conv"} <= drawn
    path = next(tmp_path.glob("step-*.jsonl"))
    page = tmp_path / "page.html"
    assert command("report", str(path), "--html", page).stdout == ""
    printed = command("report", str(path), "--all").stdout
    assert "Where the step goes" in page.read_text()
    assert "layers.* ×2" in printed
    assert "rnnt_loss_pruned" in printed
    assert "| share |" in command("report", str(path), "--markdown").stdout
    assert "encoder.layers.0.conv,forward_time" in command("report", str(path), "--csv").stdout


def test_every_flag_of_the_command_line_reaches_the_run(few_shapes: Path, tmp_path: Path) -> None:
    options = (
        "--shapes", few_shapes, "--max-frames", "100", "--sort", "--steps", "1", "--depth", "1", "--modules", "*conv",
        "--modules", "joiner.*", "--optimizer", "sgd", "--dtype", "bfloat16", "--autocast", "--device", "cpu",
        "--rounds", "1", "--time-limit", "100", "--memory-limit", "30", "--seed", "2", "--save", tmp_path,
        "--no-html", "--labels", "conv", "--frames", "encoder", "--subsampling", "4",
    )  # fmt: skip
    printed = command("step", TINY, *options)
    assert printed.code == 0, printed.stderr
    assert "rnnt_encoder_layer_conv" in printed.stdout
    (path,) = tmp_path.glob("step-*.jsonl")
    assert not path.with_suffix(".html").exists()
    expected = {
        "model": TINY, "shapes": str(few_shapes), "max_frames": 100, "batch_size": None, "sort": True, "steps": 1,
        "depth": 1, "modules": ["*conv", "joiner.*"], "optimizer": "sgd", "dtype": "bfloat16", "autocast": True,
        "compile": False, "device": "cpu", "rounds": 1, "time_limit_s": 100, "memory_limit_gb": 30, "profile": False,
        "seed": 2, "frames": "encoder", "subsampling": 4, "tokenizer": None,
    }  # fmt: skip
    assert Record.read(path).header.spec == expected
    assert "give one of them" in command("step", TINY, *options, "--unfold").stderr


def test_a_file_of_your_own_is_trained_in_a_fresh_process(tmp_path: Path) -> None:
    path = tmp_path / "my_training.py"
    path.write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Linear(4, 2)\n"
        "    data = torch.ones(3, 4)\n"
        "    return model, lambda step: (data, None), lambda y, _: y.sum(), torch.optim.SGD(model.parameters())\n"
    )
    record = stopwav.step(f"{path}:make", steps=2, rounds=1, save=tmp_path)
    found = stopwav.results(record)
    assert found[0].status == "ok", found[0].warnings
    assert found[0].metrics["parameters"].value == 10
    check_sums(found)
    with pytest.raises(StopwavError, match="there is no file"):
        stopwav.step(f"{tmp_path}/other.py:make", save=tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("loss", ["pruned", "fused"])
def test_on_cuda_the_reference_is_trained_in_bfloat16(autocast: bool, loss: str, few_shapes: Path) -> None:
    model = f"{TINY},loss={loss}"
    options = {"shapes": str(few_shapes), "batch_size": 2, "dtype": "bfloat16", "device": "cuda"}
    job = make_job(StepSpec(model=model, autocast=autocast, **options))
    timer = StepTimer("cuda")
    timer.begin()
    run_step(job, 0, PhaseProfiler(timer))
    time = timer.end()
    assert time.device_s is not None
    assert 0 < time.device_s <= 1.01 * time.wall_s
    kind = torch.float32 if autocast else torch.bfloat16
    assert {parameter.dtype for parameter in job.model.parameters()} == {kind}
    assert all(parameter.isfinite().all() for parameter in job.model.parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_cuda_rows_and_peaks_are_the_devices(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).to("cuda")
    data = torch.randn(4096, 512, device="cuda")
    found = stopwav.results(
        run_steps(model, lambda _: (data, None), lambda y, _: y.square().mean(), tmp_path, profile=True)
    )
    check_sums(found)
    assert found[0].params["clock"] == "device"
    metrics = found[0].metrics
    assert metrics["peak_bytes"].note.endswith("CUDA allocator")
    assert metrics["peak_bytes"].value >= metrics["held_bytes"].value
    # The inputs of both linear layers and of the activation, which is the second one's.
    assert rows_of(found)["model"].metrics["held_bytes"].value == 2 * 4096 * 512 * 4
    profile = found[0].params["profile"]
    assert profile["kernels"]
    assert {"0", "2"} <= {row for row, direction, *_ in profile["modules"] if direction == "backward"}
    assert 0 <= profile["idle_share"] < 1


def test_a_plan_file_can_name_a_step(few_shapes: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"studies:\n- step: {{model: '{TINY}', shapes: {few_shapes}, batch-size: 2, rounds: 1}}\n")
    (cell,) = read_plan(plan)
    assert cell.study == "step"
    assert cell.spec.batch_size == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_frames": 20}, "the longest utterance of shapes.csv has 79 frames"),
        ({"max_frames": 100, "batch_size": 3}, "not both"),
        ({"model": "conformer"}, "FILE.py:FUNCTION"),
        ({"model": f"{TINY},loss=ctc"}, "pruned or fused"),
        ({"model": f"{TINY},width=15"}, "not an even multiple"),
        ({"model": f"{TINY},colour=3"}, "unknown option 'colour'"),
        ({"dtype": "int8"}, "dtype"),
        ({"device": "cuda:99"}, "no CUDA device"),
        ({"autocast": True}, "bfloat16"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str, few_shapes: Path, tmp_path: Path) -> None:
    arguments = {"model": TINY, "shapes": str(few_shapes), "steps": 1, "rounds": 1, "save": tmp_path, **options}
    if "device" in options and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    try:
        record = stopwav.step(**arguments)
    except StopwavError as error:
        text = str(error)
    else:
        text = " ".join(warning.message for warning in stopwav.results(record)[0].warnings)
    assert message in text
