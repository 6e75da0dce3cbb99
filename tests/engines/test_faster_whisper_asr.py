"""faster-whisper on a tiny Whisper that CTranslate2's own converter wrote."""

from pathlib import Path

import numpy as np
import pytest

from stopwav.engines.protocol import Engine, StreamingEngine
from stopwav.engines.registry import make
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio

pytest.importorskip("faster_whisper")


@pytest.fixture(scope="module")
def converted(whisper_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ctranslate2.converters import TransformersConverter

    folder = tmp_path_factory.mktemp("converted") / "tiny"
    copied = ["tokenizer.json", "preprocessor_config.json"]
    TransformersConverter(str(whisper_folder), copy_files=copied).convert(str(folder))
    return folder


def noise(seconds: float, seed: int) -> Audio:
    samples = np.random.default_rng(seed).normal(0, 0.1, round(16_000 * seconds))
    return Audio(samples.astype(np.float32), 16_000)


def test_a_converted_whisper_runs(converted: Path) -> None:
    engine = make(f"faster-whisper:{converted},beam=1,threads=1")
    assert isinstance(engine, Engine)
    assert not isinstance(engine, StreamingEngine)
    batch = [noise(1.0, 1), noise(2.0, 2)]
    texts = engine.transcribe(batch)
    assert all(texts)
    assert set(WallClock().time(lambda: engine.transcribe(batch[:1])).stages) == {"inference", "post"}
    assert (engine.info.name, engine.info.device, engine.info.precision) == ("faster-whisper", "cpu", "float32")
    assert engine.info.model == "tiny (beam 1, 1 threads)"


def test_another_precision_is_what_it_says(converted: Path) -> None:
    assert make(f"faster-whisper:{converted},dtype=int8").info.precision == "int8"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dtype=float7", "dtype=float7: must be one of .*float32.*int8"),
        ("device=tpu", "device=tpu: must be one of cpu, cuda"),
        ("beam=0", "beam=0: must be a whole number, at least 1"),
        ("threads=-1", "threads=-1: must be a whole number, at least 0"),
        ("search=greedy", "it takes dtype, device, beam, language, threads"),
    ],
)
def test_an_invalid_option_is_named(converted: Path, options: str, message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        make(f"faster-whisper:{converted},{options}")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=r"which model\? write faster-whisper:FOLDER"):
        make("faster-whisper")
    with pytest.raises(StopwavError, match="no folder 'nowhere'"):
        make("faster-whisper:nowhere")
    with pytest.raises(StopwavError, match="is empty"):
        make(f"faster-whisper:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(StopwavError, match=r"has no tokenizer\.json"):  # which the toolkit would download
        make(f"faster-whisper:{tmp_path}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(StopwavError, match=r"model\.bin is incomplete.*must contain a Whisper") as caught:
        make(f"faster-whisper:{tmp_path}")
    assert "\n" not in str(caught.value)
