"""Checkpoints and statistics that do not fit are refused in one line, and nothing in them is ever run."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from stopwav.errors import StopwavError
from stopwav.models.checkpoint import load_statistics, load_weights


def model() -> nn.Module:
    return nn.Sequential(*(nn.Linear(2, 2) for _ in range(4)))


def refused(path: Path) -> str:
    with pytest.raises(StopwavError) as raised:
        load_weights(model(), path)
    message = str(raised.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_saved_model_is_loaded(tmp_path: Path) -> None:
    saved, loaded = model(), model()
    torch.save(saved.state_dict(), tmp_path / "model.pt")
    load_weights(loaded, tmp_path / "model.pt")
    for name, tensor in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_missing_extra_and_misshaped_tensors_are_counted_and_the_first_three_named(tmp_path: Path) -> None:
    tensors = model().state_dict()
    for name in ("0.weight", "0.bias", "1.weight", "1.bias"):
        del tensors[name]
    tensors |= {"other": torch.zeros(1), "2.weight": torch.zeros(2, 3), "3.bias": torch.tensor(1.0)}
    torch.save(tensors, tmp_path / "model.pt")
    message = refused(tmp_path / "model.pt")
    assert "of the model's 8 tensors and the file's 5" in message
    assert "4 missing (0.weight; 0.bias; 1.weight …)" in message
    assert "1 unexpected (other)" in message
    assert "2 of the wrong shape (2.weight is 2×3 and should be 2×2; 3.bias is a scalar and should be 2)" in message


class RunsWhenLoaded:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_code_in_a_file_is_refused_and_does_not_run(tmp_path: Path, how: str) -> None:
    trace, path = tmp_path / "it-ran", tmp_path / "evil.pt"
    evil = {"0.weight": RunsWhenLoaded(trace)}
    if how == "torch":
        torch.save(evil, path)
    else:
        path.write_bytes(pickle.dumps(evil, protocol=2))
    assert "refused" in refused(path)
    assert not trace.exists()
    # Where it is trusted, the file does run its code.
    torch.load(path, weights_only=False) if how == "torch" else pickle.loads(path.read_bytes())
    assert trace.exists()


@pytest.mark.parametrize("content", [b"", b"\x00", b"hello", b"PK\x03\x04 broken", b"\x80\x02"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    refused(path)


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(3), {"0.weight": 3}, {1: torch.zeros(1)}, "text"])
def test_a_file_of_something_else_says_what_it_holds(tmp_path: Path, content: object) -> None:
    path = tmp_path / "model.pt"
    torch.save(content, path)
    message = refused(path)
    assert "state dict" in message


def test_a_cut_off_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(model().state_dict(), path)
    path.write_bytes(path.read_bytes()[:-200])
    refused(path)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    assert "directory" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "nothing.pt")


def test_statistics_are_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"mean": list(range(80)), "invstddev": [0.5] * 80}))
    statistics = load_statistics(path)
    assert statistics.mean.tolist() == list(range(80))
    assert statistics.inverse_deviation.tolist() == [0.5] * 80


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected JSON"),
        ("[1, 2]", "expected JSON"),
        ('{"mean": [1]}', "expected JSON"),
        ('{"mean": ["a"], "invstddev": [1]}', "expected JSON"),
        ('{"mean": null, "invstddev": [1]}', "expected JSON"),
        ('{"mean": [[1], [2, 3]], "invstddev": [1]}', "expected JSON"),
        ('{"mean": [1, 2], "invstddev": [1, 2, 3]}', "2 and 3 values, but there are 80 mel bands"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "stats.json"
    path.write_text(content)
    with pytest.raises(StopwavError, match=message):
        load_statistics(path)


def test_statistics_that_are_not_there_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(StopwavError, match=f"stats={path}"):
            load_statistics(path)


def test_binary_statistics_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StopwavError, match="expected JSON"):
        load_statistics(path)
