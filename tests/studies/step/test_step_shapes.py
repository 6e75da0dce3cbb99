"""The frames of `step --shapes`: which kind a file holds, what is said of it, and what is trained on."""

import json
from pathlib import Path

import pytest
import torch
from command_line import command
from step_jobs import TINY

from stopwav.record import Record
from stopwav.studies.loss.batch_sets import corpus_of
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.step.job import batches_of
from stopwav.studies.step.spec import StepSpec

# Input frames, and the encoder frames that are left of them.
INPUT, ENCODER = (128, 1376, 2725), (31, 343, 680)


def shape_info(folder: Path, frames: tuple[int, ...]) -> Path:
    path = folder / "shape_info.pt"
    torch.save(torch.tensor([[length, 2] for length in frames], dtype=torch.int32), path)
    return path


def trained_frames(path: Path, **settings: object) -> list[int]:
    spec = StepSpec(model=TINY, shapes=str(path), batch_size=1, steps=3, **settings)
    return sorted(frames for batch in batches_of(spec) for frames in batch.frames)


def test_a_step_trains_on_the_input_frames_that_a_file_holds(tmp_path: Path) -> None:
    path = shape_info(tmp_path, INPUT)
    assert trained_frames(path) == [128, 1376, 2725]
    assert trained_frames(path, frames="encoder") == [4 * frames + 3 for frames in INPUT]
    encoder = shape_info(tmp_path, ENCODER)
    assert trained_frames(encoder) == [127, 1375, 2723]
    assert trained_frames(encoder, frames="input") == [31, 343, 680]
    assert trained_frames(encoder, frames="encoder", subsampling=8) == [255, 2751, 5447]


def test_a_corpus_is_trained_on_by_its_durations(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text('{"duration": 2.55, "text": "a b"}\n{"duration": 1.01, "text": "c"}\n')
    assert trained_frames(manifest, tokenizer="words") == [101, 255]


def test_what_was_guessed_is_printed_and_stored(tmp_path: Path) -> None:
    path = shape_info(tmp_path, (1001, 9, 9, 9))
    options = ("--shapes", path, "--batch-size", "1", "--steps", "1", "--rounds", "1", "--save", tmp_path, "--no-html")
    run = command("step", TINY, *options, "--json")
    assert run.code == 0, run.stderr
    assert "taken as input frames: the longest utterance has 1001, which is 10.0 s" in run.stderr
    step = json.loads(run.stdout)["results"][0]
    assert step["params"]["frames"] == "input"
    (warning,) = [warning for warning in step["warnings"] if warning["code"] == "frames-guessed"]
    assert "--frames encoder" in warning["message"]
    (stored,) = tmp_path.glob("step-*.jsonl")
    corpus = Record.read(stored).header.corpus
    assert (corpus["name"], corpus["frames"], corpus["subsampling"]) == ("shape_info.pt", "input", 4)
    assert "frames-guessed" in command("report", stored).stdout


def test_loss_and_shapes_take_a_file_as_step_does(tmp_path: Path) -> None:
    path = shape_info(tmp_path, INPUT)
    shapes = command("shapes", path, "--json")
    assert "taken as input frames" in shapes.stderr
    assert (json.loads(shapes.stdout)["frames"], json.loads(shapes.stdout)["T"]["max"]) == ("input", 680)
    corpus = corpus_of(LossSpec(losses=["torch"], shapes=path, batch_size=3, batches=1))
    assert sorted(corpus["settings"][0]["batches"][0]["frames"]) == list(ENCODER)
    assert [caution["code"] for caution in corpus["cautions"]] == ["frames-guessed"]
    said = corpus_of(LossSpec(losses=["torch"], shapes=path, frames="input", batch_size=3, batches=1))
    assert (said["frames"], said["cautions"]) == ("input", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shapes", "librispeech", "--subsampling", "0"), "--subsampling 0: give 1 to 1000"),
        (("shapes", "librispeech", "--frames", "raw"), "--frames raw: give input or encoder"),
        (("step", TINY, "--frames", "raw"), "--frames 'raw': should be 'input' or 'encoder'"),
        (("step", TINY, "--frames", "input"), "only for a .csv, .npz or .pt file of shapes, and not for librispeech"),
        (("step", TINY, "--subsampling", "0"), "--subsampling 0"),
    ],
)
def test_a_wrong_kind_of_frames_is_refused(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    refused = command(*arguments, *(("--save", tmp_path) if arguments[0] == "step" else ()))
    assert refused.code != 0
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
