"""SpeechBrain through a stand-in that records how it is called; the real one where it is installed and imports."""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stopwav.engines.protocol import Engine
from stopwav.engines.registry import make
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio

torch = pytest.importorskip("torch")

STAND_IN = '''
import torch

class Normalizer:
    def __init__(self, sample_rate):
        self.sample_rate = sample_rate

class EncoderASR:
    """Returns how many samples of each utterance it got, and their sum."""
    calls = []

    @classmethod
    def from_hparams(cls, source, run_opts):
        cls.calls.append((cls.__name__, source, run_opts))
        text = open(source + "/hyperparams.yaml").read()
        if text == "broken":
            raise ValueError("Need hparams['decoder']\\nand much more")
        made = cls()
        made.mods = torch.nn.ModuleDict({"encoder": torch.nn.Linear(3, 4)})
        made.audio_normalizer = Normalizer(int(text))
        return made

    def transcribe_batch(self, wavs, wav_lens):
        counts = [round(float(share) * wavs.shape[1]) for share in wav_lens]
        texts = [f" {count} {float(wave[:count].sum()):.0f} " for wave, count in zip(wavs, counts)]
        return texts, None

class EncoderDecoderASR(EncoderASR):
    def transcribe_batch(self, wavs, wav_lens):
        return [text.split() for text in super().transcribe_batch(wavs, wav_lens)[0]], None

class WhisperASR(EncoderASR):
    pass
'''


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of SpeechBrain's name on the path, and the folder of a model."""
    package = tmp_path / "site" / "speechbrain" / "inference"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "ASR.py").write_text(STAND_IN)
    about = tmp_path / "site" / "speechbrain-9.8.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: speechbrain\nVersion: 9.8.7\n")
    for name in [name for name in sys.modules if name.split(".")[0] == "speechbrain"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    model = tmp_path / "model"
    model.mkdir()
    (model / "hyperparams.yaml").write_text("16000")
    yield model
    for name in [name for name in sys.modules if name.split(".")[0] == "speechbrain"]:
        del sys.modules[name]


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
