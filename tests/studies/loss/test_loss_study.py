"""The loss study: correct losses are ranked, wrong ones marked, and one that dies does not affect the others."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import command
from loss_runs import by_loss, own, run, shapes_file

import stopwav
from stopwav import StopwavError
from stopwav.record import Record
from stopwav.studies.loss.largest_batch import nested_batch

pytest.importorskip("torch")

STEP = "step_time"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A run of losses of every kind: correct, wrong, dying, raising, unsteady, not installed."""
    folder = tmp_path_factory.mktemp("losses")
    losses = ["torch", *(own(folder, name) for name in ("wrong", "wrong_gradient", "aborting", "raising", "unsteady"))]
    return run([*losses, "torchaudio", "warp-rnnt"], folder, batches=1)


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Two rounds of eight batches of one utterance: the longest, the last, is too much for one of the two losses."""
    folder = tmp_path_factory.mktemp("rounds")
    options = {"batch_size": [1], "batches": 8, "sort": "pairs", "memory_limit_gb": 4.0, "rounds": 2}
    return run([own(folder, "hungry"), "torch"], folder, **options)


def test_a_loss_that_is_right_is_measured(record: Record) -> None:
    result = by_loss(record)["torch"]
    assert result.status == "ok"
    assert result.params["right"] is True
    assert result.metrics["deterministic"].value == 1
    assert (result.metrics["value_deviation"].value or 1) < 1e-5
    assert (result.metrics["gradient_deviation"].value or 1) < 1e-4
    parts = [result.metrics[name].value for name in (STEP, "forward_time", "backward_time")]
    assert all(part is not None and part > 0 for part in parts)
    # Value by value a step holds its parts, and so do the medians; those of the parts need not add up to it.
    assert parts[0] >= max(parts[1:])  # type: ignore[type-var, operator]
    assert result.metrics["peak_host_over_inputs_bytes"].value is not None
    assert result.metrics["peak_allocated_bytes"].note == "no CUDA device"


def test_one_round_ranks_no_loss(record: Record) -> None:
    found = {name: result for name, result in by_loss(record).items() if result.status == "ok"}
    right = [name for name, result in found.items() if result.params["right"]]
    assert set(found) - set(right) == {"wrong", "wrong_gradient"}
    assert {"torch", "unsteady"} <= set(right)
    assert [found[name].metrics["rank"].value for name in right] == [None] * len(right)


@pytest.mark.parametrize("name", ["wrong", "wrong_gradient"])
def test_a_loss_that_is_wrong_is_timed_and_never_ranked(record: Record, name: str) -> None:
    result = by_loss(record)[name]
    assert result.status == "ok"
    assert result.metrics[STEP].value is not None
    assert result.params["right"] is False
    assert result.metrics["rank"].value is None
    assert "loss-wrong" in [warning.code for warning in result.warnings]


def test_a_factor_and_a_gradient_that_are_wrong_are_measured(record: Record) -> None:
    wrong, gradient = by_loss(record)["wrong"], by_loss(record)["wrong_gradient"]
    assert wrong.metrics["value_deviation"].value == pytest.approx(0.1, rel=1e-4)
    assert wrong.metrics["gradient_deviation"].value == pytest.approx(0.1, rel=1e-3)
    # Its value is right, and only the gradient gives it away.
    assert (gradient.metrics["value_deviation"].value or 1) < 1e-5
    assert (gradient.metrics["gradient_deviation"].value or 0) > 0.1


def test_a_loss_that_aborts_or_raises_does_not_affect_the_others(record: Record) -> None:
    found = by_loss(record)
    assert found["aborting"].status == "crashed"
    messages = {warning.code: warning.message for warning in found["aborting"].warnings}
    assert "SIGABRT" in messages["loss-crashed"]
    assert "about to die" in messages["loss-crashed"]
    assert found["raising"].status == "error"
    assert "expected int32" in {w.code: w.message for w in found["raising"].warnings}["loss-error"]
    for name in ("torch", "wrong", "unsteady"):
        assert found[name].status == "ok"
    assert record.complete


def test_a_loss_that_does_not_repeat_itself_is_not_deterministic(record: Record) -> None:
    assert by_loss(record)["unsteady"].metrics["deterministic"].value == 0


def test_a_loss_that_cannot_take_part_says_why(record: Record) -> None:
    found = by_loss(record)
    assert found["warp-rnnt"].status == "skipped"
    assert found["warp-rnnt"].warnings[0].message == "runs on cuda only, and this is cpu"


def test_every_loss_gets_the_same_batches_in_turn(two_rounds: Record) -> None:
    steps = [piece.key for piece in two_rounds.pieces if piece.key[0] == "step"]
    hungry, torch = two_rounds.header.spec["losses"]
    expected = [(0, hungry), (0, torch), (1, torch), (1, hungry)]
    assert [(key[1], key[2], key[4]) for key in steps] == [(*turn, batch) for turn in expected for batch in range(8)]
    (setting,) = two_rounds.header.corpus["settings"]
    assert [len(batch["frames"]) for batch in setting["batches"]] == [1] * 8


def test_what_runs_out_of_memory_is_that_batchs_result(two_rounds: Record) -> None:
    found = by_loss(two_rounds)["hungry"]
    assert found.status == "ok"
    (oom,) = [warning.message for warning in found.warnings if warning.code == "loss-oom"]
    # The longest of the eight is the last.
    assert oom.startswith("1 of 8 batches, first batch 7")
    assert "7 batches; 1 more were not measured" in found.metrics[STEP].note
    again = [piece.status for piece in two_rounds.pieces if piece.key[1:] == [1, found.params["loss"], "b1 v12", 7, 0]]
    assert again == ["skipped"]
    assert "1 more" not in by_loss(two_rounds)["torch"].metrics[STEP].note


def test_settings_are_varied_and_the_largest_batch_is_found(tmp_path: Path) -> None:
    # A limit of its own, as the default is what happens to be free.
    options = {"batches": 1, "largest_batch": True, "memory_limit_gb": 8.0}
    record = run(["torch"], tmp_path, batch_size=[3, 8], **options)
    results = stopwav.results(record)
    assert [result.name for result in results] == ["torch (b3 v12)", "torch (b8 v12)"]
    assert [result.params["batch_size"] for result in results] == [3, 8]
    # All eight utterances fit, and are tried although they are not twice six.
    assert [piece.key[2:] for piece in record.pieces if piece.key[0] == "largest"] == [[12, 3], [12, 6], [12, 8]]
    assert {result.metrics["largest_batch"].value for result in results} == {8}
    note = "at least: nothing failed up to 8, and the corpus has 8 utterances"
    assert {result.metrics["largest_batch"].note for result in results} == {note}


def test_a_larger_batch_holds_the_smaller_ones(tmp_path: Path) -> None:
    from stopwav.speech.shapes import load_shapes

    shapes = load_shapes(shapes_file(tmp_path))
    batches = [nested_batch(shapes, size, 3) for size in range(1, 9)]
    for small, large in pairwise(batches):
        assert large.frames[: len(small)] == small.frames


@pytest.mark.parametrize(
    ("losses", "options", "message"),
    [
        (["torhc"], {}, "did you mean 'torch'"),
        (["torch"], {"blank": 12}, "one of the 12 symbols"),
        (["torch"], {"dtype": "int8"}, "--dtype 'int8'"),
        (["torch"], {"batch_size": [0]}, "each must be 1 or more"),
        (["torch"], {"vocab": [1]}, "each must be 2 or more"),
        (["torch"], {"seed": -1}, "--seed -1"),
        (["torch"], {"dtype": "tf32"}, "only CUDA devices have it"),
        (["torch"], {"device": "tpu"}, "device=tpu: must be cpu, cuda or cuda:N"),
        (["torch"], {"batch_size": [2], "max_frames": 50}, "give one of them, not both"),
        (["torch"], {"batch_size": [100]}, "too few for a batch of 100"),
        (["torch"], {"sort": "pairs", "order": "file"}, "--sort is --order sorted, and --order is file"),
        (["torch"], {"first": 2, "batches": 3}, "--first and --batches: give one of them"),
        (["torch"], {"skip": 2, "batches": None}, "--skip 2: needs --first"),
        (["torch"], {"first": 2, "skip": 4, "batches": None}, "--skip 4: 4 batches in all"),
        (["torch", "oracle"], {"profile": True}, "--profile with oracle: .* profile `torch`"),
    ],
)
def test_what_cannot_be_measured_is_an_error_at_once(
    tmp_path: Path, losses: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(StopwavError, match=message):
        run(losses, tmp_path, **options)
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "losses", "sort"),
    [
        (["--sort", "no-such-loss"], ["no-such-loss"], "pairs"),
        (["no-such-loss", "--sort"], ["no-such-loss"], "pairs"),
        (["--sort", "--batches", "3", "no-such-loss"], ["no-such-loss"], "pairs"),
        (["--sort", "columns-independently", "no-such-loss"], ["no-such-loss"], "columns-independently"),
        (["no-such-loss", "--sort=columns-independently"], ["no-such-loss"], "columns-independently"),
        (["no-such-loss"], ["no-such-loss"], None),
    ],
)
def test_sort_may_stand_alone(
    arguments: list[str], losses: list[str], sort: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stopwav.studies.loss.study import STUDY

    given: dict[str, object] = {}

    def prepare(settings: dict[str, object], names: object) -> None:
        given.update(settings)

    monkeypatch.setattr("stopwav.studies.loss.study.STUDY", replace(STUDY, verb=replace(STUDY.verb, prepare=prepare)))
    assert command("loss", *arguments).code == 0
    assert (given["losses"], given["sort"]) == (losses, sort)


def test_every_flag_of_the_command_line_reaches_the_run(tmp_path: Path) -> None:
    options = (
        "--shapes", shapes_file(tmp_path), "--tokenizer", "chars", "--subsampling", "2", "--max-frames", "60",
        "--order", "file", "--first", "1", "--skip", "1", "--buckets", "2",
        "--vocab", "8", "--dim", "4", "--blank", "1", "--dtype", "float64",
        "--device", "cpu", "--largest-batch", "--profile", "--profile-schedule", "0,1,1,2", "--rounds", "1",
        "--size", "published",
        "--time-limit", "100", "--memory-limit", "30", "--seed", "2", "--save", tmp_path, "--all",
    )  # fmt: skip
    printed = command("loss", "torch", *options)
    assert printed.code == 0, printed.stderr
    assert "traces in" in printed.stderr
    assert "aten::" in printed.stderr
    assert "gradient_deviation" in printed.stdout
    (path,) = tmp_path.glob("loss-*.jsonl")
    assert path.with_suffix(".html").exists()
    record = Record.read(path)
    expected = {
        "tokenizer": "chars", "subsampling": 2, "batch_size": None, "max_frames": 60, "sort": False, "buckets": 2,
        "order": "file", "first": 1, "skip": 1,
        "batches": 1, "vocab": [8], "dim": 4, "blank": 1, "dtype": "float64", "device": "cpu", "largest_batch": True,
        "rounds": 1, "time_limit_s": 100, "memory_limit_gb": 30, "seed": 2,
    }  # fmt: skip
    assert record.header.spec.items() >= expected.items()
    assert [piece.key[0] for piece in record.pieces] == ["check", "step", "largest", "trace"]
    # A trace per repetition of the schedule; no number comes from them.
    *others, trace = record.pieces
    assert len(trace.data["files"]) == 2
    assert trace.data["active"] == 1
    page = path.with_suffix(".html").read_text()
    for text in ("Under the profiler", "Operators of torch", "aten::", "Memory over time: torch"):
        assert text in page
    assert "| aten::" in command("report", path, "--markdown").stdout
    events = json.loads((tmp_path / trace.data["files"][0]).read_text())["traceEvents"]
    assert any(event.get("cat") == "cpu_op" for event in events)
    without = Record(path, record.header, others, complete=True)
    assert stopwav.results(without) == stopwav.results(record)


def test_the_list_says_what_each_needs_and_how_to_get_it() -> None:
    rows = {row["name"]: row for row in json.loads(command("loss", "--list", "--json").stdout)["losses"]}
    assert rows["torch"]["installed"] is True
    assert rows["warp-rnnt"]["devices"] == ["cuda"]
    assert "packed logits" in rows["optimized-transducer"]["needs"]
    assert all(row["install"] for row in rows.values())
    assert "warprnnt-numba" in command("loss", "--list").stdout


def test_shapes_are_written_from_the_command_line(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text('{"audio_filepath": "a.wav", "duration": 13.75, "text": "two words"}\n')
    done = command("shapes", manifest, "--tokenizer", "words", "-o", tmp_path / "shapes.csv")
    assert done.code == 0
    assert "1 utterance " in done.stdout
    assert (tmp_path / "shapes.csv").read_text().endswith("T,U\n343,2\n")
    assert json.loads(command("shapes", tmp_path / "shapes.csv", "--json").stdout)["T"]["median"] == 343


def test_a_file_can_name_losses(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    settings = f"shapes: {shapes_file(tmp_path)}, batch-size: 2, batches: 1, vocab: [8], dim: 4, save: {tmp_path}"
    file.write_text(f"rounds: 1\nstudies:\n  - loss: {{losses: [torch], sort: true, {settings}}}\n")
    printed = command("run", file, "--no-html")
    assert printed.code == 0, printed.stderr
    assert "torch is the only exact loss that was measured" in printed.stdout
    (path,) = tmp_path.glob("loss-*.jsonl")
    assert Record.read(path).header.spec["sort"] == "pairs"
    file.write_text("studies:\n  - loss: {losses: [torhc]}\n")
    assert "did you mean 'torch'" in command("run", "--check", file).stdout
