"""Vosk up to the toolkit's own loader, and the text that its sentences become."""

import json
from pathlib import Path

import numpy as np
import pytest

from stopwav.engines.registry import available, is_streaming, make
from stopwav.engines.vosk_asr import VoskSession
from stopwav.errors import StopwavError

CHUNK = np.zeros(1600, dtype=np.float32)


class Script:
    """A recogniser that answers as Vosk's does: a partial text while someone speaks, a text at a pause."""

    def __init__(self, *answers: tuple[str, str]) -> None:
        self._answers = list(answers)
        self._now = ("partial", "")

    def AcceptWaveform(self, pcm: bytes) -> int:
        assert len(pcm) == 2 * len(CHUNK)
        self._now = self._answers.pop(0)
        return int(self._now[0] == "text")

    def PartialResult(self) -> str:
        return json.dumps({"partial": self._now[1]})

    def Result(self) -> str:
        return json.dumps({"text": self._now[1]})

    def FinalResult(self) -> str:
        return json.dumps({"text": self._answers.pop(0)[1]})


def shown(*answers: tuple[str, str]) -> list[list[str]]:
    session = VoskSession(Script(*answers))
    steps = [session.push(CHUNK) for _ in answers[1:]] + [session.finish()]
    return [[hypothesis.text for hypothesis in step] for step in steps]


def test_a_sentence_that_a_pause_closed_stays() -> None:
    assert shown(
        ("partial", ""), ("partial", "good"), ("partial", "good"), ("text", "good morning"), ("partial", ""),
        ("partial", "how"), ("text", "how are you"),
    ) == [[], ["good"], [], ["good morning"], [], ["good morning how"], ["good morning how are you"]]  # fmt: skip


def test_silence_shows_nothing() -> None:
    assert shown(("partial", ""), ("text", ""), ("text", "")) == [[], [], []]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    pytest.importorskip("vosk")
    with pytest.raises(StopwavError, match=r"which model\? write vosk:FOLDER"):
        make("vosk")
    with pytest.raises(StopwavError, match="no folder 'nowhere'"):
        make("vosk:nowhere")
    with pytest.raises(StopwavError, match="is empty; unpack a model into it"):
        make(f"vosk:{tmp_path}")
    (tmp_path / "README").write_text("no model")
    with pytest.raises(StopwavError, match=r"Failed to create a model; .* must contain a model: am, conf and graph"):
        make(f"vosk:{tmp_path}")
    with pytest.raises(StopwavError, match="takes no options"):
        make(f"vosk:{tmp_path},beam=3")


def test_it_streams() -> None:
    pytest.importorskip("vosk")
    assert is_streaming(next(entry for entry in available() if entry.name == "vosk")) is True
