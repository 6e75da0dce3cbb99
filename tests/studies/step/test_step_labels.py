"""Labels of record_function in a user's own training code, and the steps under a profiler's schedule."""

import json
from pathlib import Path

import pytest
import torch
from command_line import command
from torch import nn

import stopwav
from stopwav.record import Record
from stopwav.studies.step.tree import StepTree

# As the published profile has it: labels by hand, around modules, in modules, and in the loss.
TRAINING = """
import torch
from torch import nn
from torch.profiler import record_function


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        with record_function("rnnt_encoder_layer_feed_forward"):
            return x + self.lin(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        with record_function("rnnt_encoder"):
            for layer in self.layers:
                with record_function("rnnt_encoder_layer"):
                    x = layer(x)
        return x


def loss(output, targets):
    with record_function("rnnt_loss_simple"):
        return output.square().mean()


def make():
    model = Model()
    data = torch.ones(64, 32)
    return model, lambda step: (data, None), loss, torch.optim.AdamW(model.parameters())
"""
SCHEDULE = "wait=1,warmup=1,active=2,repeat=2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    (folder / "training.py").write_text(TRAINING)
    done = command(
        "step", f"{folder}/training.py:make", "--steps", "3", "--rounds", "1", "--save", folder, "--no-html",
        "--profile-schedule", SCHEDULE,
    )  # fmt: skip
    assert done.code == 0, done.stderr
    (path,) = folder.glob("step-*.jsonl")
    return path


def test_labels_are_rows_with_their_nesting_backward_and_memory(run: Path) -> None:
    results = stopwav.results(Record.read(run))
    labels = {row.result.params["label"]: row for row in StepTree(results).labels}
    assert [(row.depth, row.name) for row in labels.values()] == [
        (0, "rnnt_encoder"), (1, "rnnt_encoder_layer"), (2, "rnnt_encoder_layer_feed_forward"), (0, "rnnt_loss_simple"),
    ]  # fmt: skip
    metrics = {name: row.result.metrics for name, row in labels.items()}
    assert [metrics[name]["calls"].value for name in labels] == [1, 2, 2, 1]
    for name in labels:
        assert metrics[name]["forward_time"].value > 0
        assert metrics[name]["backward_time"].value > 0
    # What a label surrounds belongs to it: the modules, and the labels inside it.
    layers = next(result for result in results if result.name == "layers.*").metrics
    assert metrics["rnnt_encoder"]["share"].value >= layers["share"].value
    assert metrics["rnnt_encoder"]["share"].value >= metrics["rnnt_encoder_layer"]["share"].value
    # Each layer saves its input of 64 × 32 float32 numbers.
    assert metrics["rnnt_encoder"]["held_bytes"].value == layers["held_bytes"].value == 2 * 64 * 32 * 4
    # They are other rows seen once more: own shares of the rows alone add up.
    own = [row.metrics["self_share"].value for row in StepTree(results).rows if row.kind != "layers"]
    assert sum(own) == pytest.approx(1)


def test_labels_are_found_and_where_there_are_none_that_is_said(run: Path) -> None:
    table = command("report", run, "--labels", "rnnt").stdout
    assert "activations" in table
    assert "kB" in table
    for name in ("rnnt_encoder", "rnnt_encoder_layer", "rnnt_loss_simple"):
        assert any(name in line.split() for line in table.splitlines())
    nothing = command("report", run, "--labels", "joiner").stdout
    assert "No label of this run matches 'joiner'; its labels are rnnt_encoder, " in nothing
    assert "rnnt_loss_simple" in command("report", run, "--markdown").stdout
    assert "@rnnt_encoder@rnnt_encoder_layer,backward_time" in command("report", run, "--csv").stdout


def test_the_labels_of_a_run_keep_its_warnings(run: Path, tmp_path: Path) -> None:
    header, *pieces = run.read_text().splitlines()
    fields = json.loads(header)
    fields["warnings"] = [{"code": "busy-machine", "message": "load average 9"}]
    warned = tmp_path / run.name
    warned.write_text("\n".join([json.dumps(fields), *pieces, ""]))
    assert "! busy-machine: load average 9" in command("report", warned, "--labels", "rnnt").stdout


def test_profiled_steps_follow_the_schedule_and_every_operator_is_kept(run: Path) -> None:
    (profile,) = [piece.data for piece in Record.read(run).pieces if piece.key[0] == "profile"]
    assert (profile["schedule"], profile["steps"]) == (SCHEDULE, 4)
    assert len(profile["files"]) == 2
    names, mm_calls = set(), 0
    for file in profile["files"]:
        events = json.loads((run.parent / file).read_text())["traceEvents"]
        operators = [event["name"] for event in events if event.get("cat") == "cpu_op"]
        names |= set(operators)
        mm_calls += operators.count("aten::addmm")
        assert "layers.1.lin" in {event["name"] for event in events if event.get("cat") == "module"}
    assert {name for name, *_ in profile["operators"]} == names
    # Two layers in each of four steps.
    assert {name: calls for name, calls, *_ in profile["operators"]}["aten::addmm"] == mm_calls == 8
    for file in profile["operator_tables"]:
        table = (run.parent / file).read_text()
        assert "# of Calls" in table
        assert all(name in table for name in (*names, "rnnt_encoder_layer"))
    # Wide enough for the longest name of an operator.
    short, whole = (command("report", run, *options, COLUMNS="200").stdout for options in ((), ("--all",)))
    assert "Means of 4 steps" in short
    assert "--all prints every one" in short
    assert len(names) > 10
    assert all(name in whole for name in names)
    assert any(name not in short for name in names)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("1,2", "give wait, warmup, active and repeat"),
        ("wait=1,pause=2", "give wait, warmup, active and repeat"),
        ("wait=1,repeat=0", "repeat (1 or more)"),
        ("active=0", "active=0: give a whole number from 1"),
    ],
)
@pytest.mark.parametrize("verb", [("step", "conformer-transducer"), ("loss", "plain")])
def test_a_wrong_schedule_is_refused(verb: tuple[str, str], schedule: str, message: str, tmp_path: Path) -> None:
    refused = command(*verb, "--profile-schedule", schedule, "--save", tmp_path)
    assert refused.code != 0
    assert f"--profile-schedule {schedule!r}" in refused.stderr
    assert message in refused.stderr


def test_a_large_loss_is_named_and_a_run_without_labels_says_how_to_have_some(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    data = torch.ones(1, 2)

    def loss(output: torch.Tensor, targets: None) -> torch.Tensor:
        return torch.stack([output.exp().mean() for _ in range(100)]).sum()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    record = stopwav.step(model, lambda _: (data, None), loss, optimizer, steps=1, save=tmp_path)
    printed, labels = (command("report", record.path, *more).stdout for more in ((), ("--labels", "rnnt")))
    assert "Largest parts of model and loss: (loss) (" in printed
    assert "it has none: name parts by record_function or stopwav.stage" in " ".join(labels.split())
