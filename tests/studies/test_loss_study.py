"""The loss study: what is right is ranked, what is wrong is marked, and what dies takes nothing with it."""

import json
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
    """A run of losses of every kind: two are right, one of them in name only."""
    folder = tmp_path_factory.mktemp("losses")
    losses = ["torch", *(own(folder, name) for name in ("wrong", "wrong_gradient", "aborting", "raising", "unsteady"))]
    return run([*losses, "torchaudio", "warp-rnnt"], folder)


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Two rounds of eight batches of one utterance: the longest, the last, is too much for one of the two losses."""
    folder = tmp_path_factory.mktemp("rounds")
    options = {"batch_size": [1], "batches": 8, "sort": "pairs", "memory_limit_gb": 4.0, "rounds": 2}
    return run([own(folder, "hungry"), "torch"], folder, **options)


def test_a_loss_that_is_right_is_measured(record: Record) -> None:
    one = by_loss(record)["torch"]
    assert one.status == "ok"
    assert one.params["right"] is True
    assert one.metrics["deterministic"].value == 1
    assert (one.metrics["value_deviation"].value or 1) < 1e-5
    assert (one.metrics["gradient_deviation"].value or 1) < 1e-4
    parts = [one.metrics[name].value for name in (STEP, "forward_time", "backward_time")]
    assert all(part is not None and part > 0 for part in parts)
    # Value by value a step holds its parts, and so do the medians; those of the parts need not add up to it.
    assert parts[0] >= max(parts[1:])  # type: ignore[type-var, operator]
    assert one.metrics["peak_host_over_inputs_bytes"].value is not None
    assert one.metrics["peak_allocated_bytes"].note == "no CUDA device"


def test_the_losses_that_are_right_are_ranked_by_their_time_and_no_others(record: Record) -> None:
    found = {name: one for name, one in by_loss(record).items() if one.status == "ok"}
    right = [name for name, one in found.items() if one.params["right"]]
    assert set(found) - set(right) == {"wrong", "wrong_gradient"}
    assert {"torch", "unsteady"} <= set(right)
    # Some do the same: which of them is faster is the machine's to say.
    by_time = sorted(right, key=lambda name: found[name].metrics[STEP].value or 0)
    assert [found[name].metrics["rank"].value for name in by_time] == list(range(1, len(right) + 1))


@pytest.mark.parametrize("name", ["wrong", "wrong_gradient"])
def test_a_loss_that_is_wrong_is_timed_and_never_ranked(record: Record, name: str) -> None:
    one = by_loss(record)[name]
    assert one.status == "ok"
    assert one.metrics[STEP].value is not None
    assert one.params["right"] is False
    assert one.metrics["rank"].value is None
    assert "loss-wrong" in [warning.code for warning in one.warnings]


def test_a_factor_and_a_gradient_that_are_wrong_are_measured(record: Record) -> None:
    wrong, gradient = by_loss(record)["wrong"], by_loss(record)["wrong_gradient"]
    assert wrong.metrics["value_deviation"].value == pytest.approx(0.1, rel=1e-4)
    assert wrong.metrics["gradient_deviation"].value == pytest.approx(0.1, rel=1e-3)
    # Its value is right, and only the gradient gives it away.
    assert (gradient.metrics["value_deviation"].value or 1) < 1e-5
    assert (gradient.metrics["gradient_deviation"].value or 0) > 0.1


def test_a_loss_that_aborts_or_raises_takes_nothing_with_it(record: Record) -> None:
    found = by_loss(record)
    assert found["aborting"].status == "crashed"
    told = {warning.code: warning.message for warning in found["aborting"].warnings}
    assert "SIGABRT" in told["loss-crashed"]
    assert "about to die" in told["loss-crashed"]
    assert found["raising"].status == "error"
    assert "expected int32" in {w.code: w.message for w in found["raising"].warnings}["loss-error"]
    for name in ("torch", "wrong", "unsteady"):
        assert found[name].status == "ok"
    assert record.complete


def test_a_loss_that_does_not_repeat_itself_is_said_to(record: Record) -> None:
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
    record = run(["torch"], tmp_path, batch_size=[4, 8], vocab=[12, 24], **options)
    results = stopwav.results(record)
    assert [(one.params["batch_size"], one.params["vocab"]) for one in results] == [(4, 12), (4, 24), (8, 12), (8, 24)]
    assert {one.name for one in results} == {f"torch (b{b} v{v})" for b in (4, 8) for v in (12, 24)}
    # All eight utterances fit.
    assert [piece.key[2:] for piece in record.pieces if piece.key[0] == "largest"] == [
        [vocab, size] for vocab in (12, 24) for size in (4, 8)
    ]
    assert {one.metrics["largest_batch"].value for one in results} == {8}


def test_a_larger_batch_holds_the_smaller_ones(tmp_path: Path) -> None:
    from stopwav.speech.shapes import load_shapes

    shapes = load_shapes(shapes_file(tmp_path))
    batches = [nested_batch(shapes, size, 3) for size in range(1, 9)]
    for small, large in pairwise(batches):
        assert large.frames[: len(small)] == small.frames


def test_a_profile_feeds_no_number_and_leaves_traces(tmp_path: Path) -> None:
    record = run(["torch"], tmp_path, batches=1, profile=True, profile_schedule=(0, 1, 1, 2))
    before = stopwav.results(record)[0].metrics[STEP]
    (piece,) = [piece for piece in record.pieces if piece.key[0] == "trace"]
    assert piece.status == "ok"
    assert len(piece.data["files"]) == 2
    trace = json.loads((tmp_path / piece.data["files"][0]).read_text())
    assert any(event.get("cat") == "cpu_op" for event in trace["traceEvents"])
    assert stopwav.results(Record.read(record.path))[0].metrics[STEP] == before


@pytest.mark.parametrize(
    ("losses", "options", "told"),
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
        (["torch"], {"batch_size": [100]}, "do not fill one batch"),
    ],
)
def test_what_cannot_be_measured_is_an_error_at_once(
    tmp_path: Path, losses: list[str], options: dict[str, object], told: str
) -> None:
    with pytest.raises(StopwavError, match=told):
        run(losses, tmp_path, **options)
    assert not list(tmp_path.glob("*.jsonl"))


def test_the_old_mistake_is_reproduced_and_said_to_be_one(tmp_path: Path) -> None:
    words = f"--shapes {shapes_file(tmp_path)} --batch-size 2 --batches 1 --vocab 8 --dim 4 --quick --no-html".split()
    told = command("loss", "torch", "--sort", "columns-independently", *words, "--save", tmp_path)
    assert "columns-independently" in told.stdout
    assert "are in no utterance" in told.stdout.replace("\n", " ")
    assert told.code == 0


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
    assert "1 utterances" in done.stdout
    assert (tmp_path / "shapes.csv").read_text().endswith("T,U\n343,2\n")
    assert json.loads(command("shapes", tmp_path / "shapes.csv", "--json").stdout)["T"]["median"] == 343


def test_a_file_can_name_losses(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    settings = f"shapes: {shapes_file(tmp_path)}, batch-size: 2, batches: 1, vocab: [8], dim: 4, save: {tmp_path}"
    file.write_text(f"quick: true\nstudies:\n  - loss: {{losses: [torch], sort: true, {settings}}}\n")
    printed = command("run", file, "--no-html")
    assert printed.code == 0, printed.stderr
    assert "torch is the fastest exact loss" in printed.stdout
    (path,) = tmp_path.glob("loss-*.jsonl")
    assert Record.read(path).header.spec["sort"] == "pairs"
    file.write_text("studies:\n  - loss: {losses: [torhc]}\n")
    assert "did you mean 'torch'" in command("run", "--check", file).stdout
