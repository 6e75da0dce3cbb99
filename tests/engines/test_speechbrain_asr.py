"""SpeechBrain through a stand-in that records how it is called; the real one where it is installed and imports."""

import importlib
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from speechbrain_stand_in import speechbrain_installed

from stopwav.engines.protocol import AudioProcessor, Engine
from stopwav.engines.registry import available, is_streaming, make
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio

torch = pytest.importorskip("torch")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of SpeechBrain's name on the path, and the folder of a model."""
    with speechbrain_installed(tmp_path, monkeypatch) as model:
        yield model


def processors() -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module("stopwav.engines.speechbrain_asr").PROCESSORS
    return found


def ones(count: int) -> Audio:
    return Audio(np.ones(count, dtype=np.float32), 16_000)


@pytest.mark.parametrize("kind", ["EncoderASR", "EncoderDecoderASR"])
def test_it_is_loaded_and_fed_as_speechbrain_wants_it(stand_in: Path, kind: str) -> None:
    engine = make(f"speechbrain:{stand_in},type={kind}")
    assert isinstance(engine, Engine)
    asr = importlib.import_module("speechbrain.inference.ASR")
    assert asr.EncoderASR.calls == [(kind, str(stand_in), {"device": "cpu"})]
    # Padded to the longest, each with its share of it.
    assert engine.transcribe([ones(200), ones(50), ones(100)]) == ["200 200", "50 50", "100 100"]
    assert set(WallClock().time(lambda: engine.transcribe([ones(9)])).stages) == {"copy", "inference", "post"}
    assert engine.info.parameters == 3 * 4 + 4
    assert engine.info.version.startswith("9.8.7, torch ")
    assert engine.info.model == f"model ({kind})"


# Each interface of SpeechBrain's profiling script that gives no transcript, and the shapes that its method gets for two
# waves of 200 and 50 samples.
WAVES, SHARES = (2, 200), (2,)
CALLS = {
    "EncoderClassifier": ("classify_batch", [WAVES, SHARES]),
    "EndToEndSLU": ("decode_batch", [WAVES, SHARES]),
    "SepformerSeparation": ("separate_batch", [WAVES]),
    "SNREstimator": ("estimate_batch", [WAVES, (2, 200, 2)]),
    "SpeakerRecognition": ("verify_batch", [WAVES, WAVES, SHARES, SHARES]),
    "SpectralMaskEnhancement": ("enhance_batch", [WAVES, SHARES]),
    "VAD": ("get_speech_prob_chunk", [WAVES, SHARES]),
}


@pytest.mark.parametrize("kind", CALLS)
def test_an_interface_without_transcripts_is_called_as_in_speechbrains_script(stand_in: Path, kind: str) -> None:
    engine = make(f"speechbrain:{stand_in},type={kind}")
    assert isinstance(engine, AudioProcessor)
    assert not isinstance(engine, Engine)  # so that only the grid takes it: it has no text to score
    engine.process([ones(200), ones(50)])
    calls = importlib.import_module("speechbrain.inference.interfaces").Pretrained.calls
    assert calls[-1] == CALLS[kind]
    assert engine.info.model == f"model ({kind})"
    assert "gives no transcript" in engine.info.notes[0]
    assert set(WallClock().time(lambda: engine.process([ones(9)])).stages) == {"copy", "inference"}


def test_every_interface_is_tested() -> None:
    assert set(CALLS) == set(processors())


def test_a_separator_of_8_khz_gets_audio_of_8_khz(stand_in: Path) -> None:
    (stand_in / "hyperparams.yaml").write_text("8000")
    assert make(f"speechbrain:{stand_in},type=SepformerSeparation").info.sample_rate_hz == 8000


def test_whether_it_streams_is_known_without_a_model(stand_in: Path) -> None:
    assert is_streaming(next(entry for entry in available() if entry.name == "speechbrain")) is False


@pytest.mark.parametrize(
    ("yaml", "options", "message"),
    [
        ("16000", "type=Tacotron2", "type=Tacotron2: must be one of EncoderASR, EncoderDecoderASR, WhisperASR"),
        ("16000", "device=tpu", "device=tpu: must be cpu, cuda or cuda:N"),
        ("16000", "beam=3", "it takes type, device"),
        ("8000", "type=EncoderASR", "needs audio at 8000 Hz"),
        ("broken", "type=EncoderASR", r"Need hparams\['decoder'\]; .* a model whose card names EncoderASR"),
    ],
)
def test_an_invalid_option_or_model_is_named(stand_in: Path, yaml: str, options: str, message: str) -> None:
    (stand_in / "hyperparams.yaml").write_text(yaml)
    with pytest.raises(StopwavError, match=message) as caught:
        make(f"speechbrain:{stand_in},{options}")
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_model(stand_in: Path) -> None:
    (stand_in / "hyperparams.yaml").unlink()
    with pytest.raises(StopwavError, match=r"has no hyperparams\.yaml"):
        make(f"speechbrain:{stand_in}")
    with pytest.raises(StopwavError, match=r"no folder '\./nowhere'"):
        make("speechbrain:./nowhere")
    with pytest.raises(StopwavError, match="which model"):
        make("speechbrain")


def test_one_that_does_not_import_says_why(stand_in: Path) -> None:
    asr = stand_in.parent / "site" / "speechbrain" / "inference" / "ASR.py"
    asr.write_text("raise OSError('libtorchaudio.so: undefined symbol')")
    with pytest.raises(StopwavError, match="undefined symbol; speechbrain is installed but does not import"):
        make(f"speechbrain:{stand_in}")


def test_one_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(StopwavError, match=r"needs speechbrain, which is not installed: pip install 'stopwav\[speech"):
        make("speechbrain:any/model")


def test_the_real_one_has_what_is_called() -> None:
    try:
        asr = importlib.import_module("speechbrain.inference.ASR")
    except Exception as error:  # missing, or beside a torchaudio of another PyTorch
        pytest.skip(f"SpeechBrain does not import here: {error}")
    for kind in ("EncoderASR", "EncoderDecoderASR", "WhisperASR"):
        assert callable(getattr(asr, kind).from_hparams)
        assert callable(getattr(asr, kind).transcribe_batch)
    for kind, interface in processors().items():
        module = importlib.import_module(f"speechbrain.inference.{interface.module}")
        assert callable(getattr(getattr(module, kind), interface.method))
