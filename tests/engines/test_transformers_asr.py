"""The engine for models of Hugging Face transformers, saved small and run for real: what it is, takes and refuses."""

from pathlib import Path

import pytest
from tiny_transformers import BATCH, save_ctc, torch, transformers

from stopwav.engines import transformers_asr
from stopwav.engines.protocol import StreamingEngine
from stopwav.engines.registry import make, make_streaming
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def ctc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_ctc(tmp_path_factory.mktemp("ctc") / "tiny-wav2vec2")


def test_what_it_is(ctc: Path, moonshine: Path) -> None:
    engine = make(f"transformers:{ctc}")
    info = engine.info
    saved = transformers.AutoModelForCTC.from_pretrained(ctc)
    assert info.parameters == saved.num_parameters() == engine.network.num_parameters()
    assert info.version.startswith(transformers.__version__)
    assert (info.name, info.device, info.precision) == ("transformers", "cpu", "float32")
    assert info.model == "tiny-wav2vec2 (Wav2Vec2ForCTC)"
    assert not info.untrained
    assert not info.data_dependent
    assert make(f"transformers:{moonshine}").info.data_dependent


def test_stages_are_marked(ctc: Path) -> None:
    engine = make(f"transformers:{ctc}")
    stages = WallClock().time(lambda: engine.transcribe(BATCH)).stages
    assert set(stages) == {"features", "copy", "inference", "post"}


def test_half_precision_is_what_runs(ctc: Path) -> None:
    engine = make(f"transformers:{ctc},dtype=float16")
    assert engine.info.precision == "float16"
    assert len(engine.transcribe(BATCH)) == 3


def test_amx_is_disabled_before_the_model_is_loaded(ctc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a virtual machine announces AMX and does not have it, oneDNN must know before its first use.
    calls: list[str] = []
    load = transformers_asr._load
    monkeypatch.setattr(transformers_asr, "disable_amx_in_vm", lambda: calls.append("disable"))
    monkeypatch.setattr(transformers_asr, "_load", lambda *options: calls.append("load") or load(*options))
    engine = make(f"transformers:{ctc},dtype=bfloat16")
    assert calls == ["disable", "load"]
    assert (len(engine.transcribe(BATCH)), engine.info.precision) == (3, "bfloat16")


@pytest.mark.parametrize("model", ["ctc", "moonshine"])
def test_compiling_does_not_change_the_texts(model: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(model)
    plain = make(f"transformers:{folder}").transcribe(BATCH[:1])
    # Everything but the compiler itself, which takes a minute for the smallest model.
    with torch.compiler.set_stance("force_eager"):
        engine = make(f"transformers:{folder},compile=true")
        assert engine.transcribe(BATCH[:1]) == plain
    assert "torch.compile" in engine.info.notes[-1]


def test_weights_that_the_file_lacks_are_reported_as_random(ctc: Path, tmp_path: Path) -> None:
    folder = tmp_path / "headless"
    transformers.AutoProcessor.from_pretrained(ctc).save_pretrained(folder)
    transformers.Wav2Vec2Model.from_pretrained(ctc).save_pretrained(folder)
    info = make(f"transformers:{folder}").info
    assert info.untrained
    assert "2 weights are missing in the model's file and random, such as lm_head" in info.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dtype=int8", "dtype=int8: must be one of float32, float16, bfloat16"),
        ("device=tpu", "device=tpu: must be cpu, cuda or cuda:N"),
        ("compile=maybe", "compile=maybe: must be true or false"),
        ("max_new_tokens=0", "max_new_tokens=0: must be a whole number, at least 1"),
        ("max_new_tokens=5", "max_new_tokens is for models that generate"),
        ("language=en", "language is for models that generate"),
        ("beam=5", "it takes dtype, device, compile, max_new_tokens, language"),
    ],
)
def test_an_invalid_option_is_named(ctc: Path, options: str, message: str) -> None:
    with pytest.raises(StopwavError, match=message):
        make(f"transformers:{ctc},{options}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_an_error(ctc: Path) -> None:
    with pytest.raises(StopwavError, match="finds no NVIDIA GPU here; use cpu"):
        make(f"transformers:{ctc},device=cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_on_the_gpu_the_texts_are_the_same(ctc: Path) -> None:
    assert make(f"transformers:{ctc},device=cuda").transcribe(BATCH) == make(f"transformers:{ctc}").transcribe(BATCH)
    with pytest.raises(StopwavError, match="no such GPU; the last one is"):
        make(f"transformers:{ctc},device=cuda:999")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "which model"),
        ("./nowhere", r"no folder '\./nowhere'"),
        ("nobody/nothing", r"no folder 'nobody/nothing', and the Hub was not reached .*; give a folder, or download"),
        ("no such name", r"and the Hub was not reached .*\(Repo id must"),
    ],
)
def test_a_model_that_is_not_available(monkeypatch: pytest.MonkeyPatch, source: str | None, message: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nothing answers there
    waited_s: list[float] = []
    monkeypatch.setattr("time.sleep", waited_s.append)
    with pytest.raises(StopwavError, match=message) as caught:
        make(f"transformers:{source}" if source else "transformers")
    assert "\n" not in str(caught.value)
    assert sum(waited_s) < 5  # the toolkit itself would retry for 23 s


def test_a_folder_that_holds_something_else(ctc: Path, tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=r"has no config\.json"):
        make(f"transformers:{tmp_path}")
    transformers.AutoModelForCTC.from_pretrained(ctc).save_pretrained(tmp_path)  # without its processor
    with pytest.raises(StopwavError, match=r"must contain a recogniser and its processor|save its processor") as caught:
        make(f"transformers:{tmp_path}")
    assert "\n" not in str(caught.value)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=8, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(StopwavError, match="is a bert model; CTC, encoder-decoder and transducer recognisers"):
        make(f"transformers:{tmp_path}")


def test_it_does_not_stream(ctc: Path) -> None:
    engine = make(f"transformers:{ctc}")
    assert not isinstance(engine, StreamingEngine)
    with pytest.raises(StopwavError, match="does not stream"):
        make_streaming(f"transformers:{ctc}")
