"""The Emformer RNN-T as an engine, with random weights, on the bundled speech."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from stopwav.engines.emformer_rnnt import EmformerRnnt
from stopwav.engines.named_models import torchaudio_cache
from stopwav.engines.registry import make
from stopwav.measure.clock import WallClock
from stopwav.models.emformer import EmformerShape
from stopwav.models.features import LogMel
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import load_corpus

pytestmark = pytest.mark.usefixtures("one_thread")
CHUNK = 2560


# As torchaudio's pipeline EMFORMER_RNNT_BASE_LIBRISPEECH names its model, its SentencePiece model and its statistics.
PUBLISHED_FILES = (
    "models/emformer_rnnt_base_librispeech.pt",
    "pipeline-assets/spm_bpe_4096_librispeech.model",
    "pipeline-assets/global_stats_rnnt_librispeech.json",
)


@pytest.fixture(scope="module")
def engine(small_emformer: None) -> EmformerRnnt:
    """A narrow beam over a small network is enough for these tests."""
    engine = make("emformer-rnnt,beam=3")
    assert isinstance(engine, EmformerRnnt)
    return engine


@pytest.fixture(scope="module")
def audios() -> list[Audio]:
    """Three short pieces of speech, of lengths that no segment and no frame divides."""
    utterances = load_corpus("bundled").utterances[:3]
    lengths = (20_003, 31_999, 14_777)
    return [
        Audio(load(utterance.path, 16_000).samples[:length], 16_000)
        for utterance, length in zip(utterances, lengths, strict=True)
    ]


def stream(engine: EmformerRnnt, audio: Audio, size: int = CHUNK) -> list[str]:
    session = engine.open()
    texts = []
    for start in range(0, len(audio.samples), size):
        texts += [hypothesis.text for hypothesis in session.push(audio.samples[start : start + size])]
    return texts + [hypothesis.text for hypothesis in session.finish()]


def test_the_default_is_the_published_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopwav.engines.emformer_rnnt.EmformerShape", EmformerShape)
    monkeypatch.setattr(EmformerRnnt, "_calibrate", lambda *_: 3.5)  # which takes seconds at this size
    engine = make("emformer-rnnt")
    assert isinstance(engine, EmformerRnnt)
    info = engine.info
    assert (info.name, info.model, info.precision, info.device) == ("emformer-rnnt", "random weights", "float32", "cpu")
    assert info.parameters == 76_738_049 == sum(parameter.numel() for parameter in engine.network.parameters())
    assert info.chunk_s == pytest.approx(0.16)
    assert info.lookahead_s == pytest.approx(0.04)
    assert info.untrained
    assert info.version == f"torch {torch.__version__}"


@pytest.mark.usefixtures("small_emformer")
@pytest.mark.parametrize("setting", ["beam=3", "beam=1", "search=greedy", "segment=8,beam=1", "dtype=int8,beam=1"])
def test_random_weights_emit_symbols_as_often_as_speech_has_them(setting: str) -> None:
    """With every search, in speech that they were not calibrated on: so that settings do the same work."""
    engine = make(f"emformer-rnnt,{setting}")
    assert isinstance(engine, EmformerRnnt)
    assert engine.info.untrained
    rate = engine.info.symbols_per_s
    assert rate == pytest.approx(3.5, abs=0.3)
    assert f"{rate:.1f} symbols a second" in " ".join(engine.info.notes)
    audios = [load(utterance.path, 16_000) for utterance in load_corpus("bundled").utterances[2:4]]
    streamed = sum(len(stream(engine, audio)[-1].split()) for audio in audios)
    assert streamed / sum(audio.duration_s for audio in audios) == pytest.approx(3.5, rel=0.15)


def test_streaming_and_transcribing_give_the_same_text(engine: EmformerRnnt, audios: list[Audio]) -> None:
    streamed = [stream(engine, audio)[-1] for audio in audios]
    assert all(streamed)
    assert engine.transcribe(audios) == streamed
    assert [engine.transcribe([audio])[0] for audio in audios] == streamed


@pytest.mark.parametrize("size", [400, 100_000])
def test_how_the_audio_is_cut_does_not_change_the_text(engine: EmformerRnnt, audios: list[Audio], size: int) -> None:
    assert stream(engine, audios[2], size)[-1] == stream(engine, audios[2])[-1]


def test_50_streams_at_once_give_the_texts_of_one_after_another(engine: EmformerRnnt, audios: list[Audio]) -> None:
    length = 3 * CHUNK // 2
    pieces = [audios[index % 3].samples[200 * index :][:length] for index in range(50)]
    one_by_one = [stream(engine, Audio(piece, 16_000)) for piece in pieces]
    assert len({texts[-1] for texts in one_by_one if texts}) > 5
    sessions = [engine.open() for _ in pieces]
    together: list[list[str]] = [[] for _ in pieces]
    for start in range(0, length, CHUNK):
        for session, piece, texts in zip(sessions, pieces, together, strict=True):
            texts += [hypothesis.text for hypothesis in session.push(piece[start : start + CHUNK])]
    for session, texts in zip(sessions, together, strict=True):
        texts += [hypothesis.text for hypothesis in session.finish()]
    assert together == one_by_one


def test_an_abandoned_stream_does_not_affect_the_next(engine: EmformerRnnt, audios: list[Audio]) -> None:
    whole = stream(engine, audios[2])
    engine.open().push(audios[1].samples[: 3 * CHUNK])
    assert stream(engine, audios[2]) == whole


@pytest.mark.parametrize("length", [0, 1, 160, 201, CHUNK - 1])
def test_a_very_short_stream_does_not_crash(engine: EmformerRnnt, length: int) -> None:
    audio = Audio(np.zeros(length, np.float32), 16_000)
    texts = stream(engine, audio)
    assert engine.transcribe([audio]) == [texts[-1] if texts else ""]


def test_every_push_of_one_segment_computes_one_segment(engine: EmformerRnnt, audios: list[Audio]) -> None:
    session = engine.open()
    for start in range(0, 6 * CHUNK, CHUNK):
        chunk = audios[1].samples[start : start + CHUNK]
        timing = WallClock().time(lambda chunk=chunk: session.push(chunk))
        paths = [span.path for span in timing.spans]
        assert sorted(paths) == ["features", "inference", "inference/encoder", "inference/search", "post"]
    session.finish()


@pytest.mark.usefixtures("small_emformer")
def test_other_contexts_are_other_waits(audios: list[Audio]) -> None:
    other = make("emformer-rnnt,beam=2,segment=8,right_context=0")
    assert isinstance(other, EmformerRnnt)
    assert other.info.chunk_s == pytest.approx(0.08)
    assert other.info.lookahead_s == 0
    streamed = [(stream(other, audio, 1280) or [""])[-1] for audio in audios]
    assert any(streamed)
    assert other.transcribe(audios) == streamed


@pytest.mark.usefixtures("small_emformer")
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_fewer_bits_stream_too(audios: list[Audio], dtype: str) -> None:
    other = make(f"emformer-rnnt,beam=2,dtype={dtype}")
    assert isinstance(other, EmformerRnnt)
    assert other.info.precision == dtype
    texts = stream(other, audios[1])
    assert texts
    assert stream(other, audios[1]) == texts
    if dtype == "int8":
        assert other.transcribe([audios[1]]) == texts[-1:]


def calibration_statistics() -> dict[str, list[float]]:
    """The statistics by which random weights normalise their features: those of the first utterance."""
    features = LogMel()(torch.from_numpy(load(load_corpus("bundled").utterances[0].path, 16_000).samples))
    return {"mean": features.mean(0).tolist(), "invstddev": (1 / features.std(0)).tolist()}


def test_a_checkpoint_gives_the_texts_of_the_model_it_came_from(
    engine: EmformerRnnt, audios: list[Audio], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    sentencepiece = pytest.importorskip("sentencepiece")
    words = np.random.default_rng(0).integers(97, 123, (12_000, 6), dtype=np.uint8).view("S6").astype(str).ravel()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(" ".join(words[index : index + 6]) for index in range(0, len(words), 6)),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=4096,
        model_type="bpe",
        minloglevel=2,
    )
    torch.save(engine.network.state_dict(), tmp_path / "model.pt")
    (tmp_path / "stats.json").write_text(json.dumps(calibration_statistics()))
    files = f"tokenizer={tmp_path / 'spm.model'},stats={tmp_path / 'stats.json'}"
    trained = make(f"emformer-rnnt:{tmp_path / 'model.pt'},{files},beam=3")
    assert isinstance(trained, EmformerRnnt)
    as_published = torchaudio_cache()
    for name, file in zip(PUBLISHED_FILES, ("model.pt", "spm.model", "stats.json"), strict=True):
        (as_published / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / file, as_published / name)
    published = make("emformer-rnnt:torchaudio,beam=3")
    assert stream(published, audios[0]) == stream(trained, audios[0])
    assert (published.info.model, published.info.language) == ("emformer_rnnt_base_librispeech.pt", "en")
    assert not trained.info.untrained
    assert trained.info.notes == ()
    assert trained.info.symbols_per_s is None
    assert trained.info.model == "model.pt"
    # Only random weights are held at a rate.
    monkeypatch.setattr(engine, "_symbol_rate", None)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    for audio in audios:
        symbols = [int(word.removeprefix("piece")) for word in stream(engine, audio)[-1].split()]
        assert symbols
        assert stream(trained, audio)[-1] == pieces.decode(symbols)
