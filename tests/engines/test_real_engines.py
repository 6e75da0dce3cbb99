"""The packaged recognisers on real speech: streaming, partials, isolation of streams, no network."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stopwav.engines.protocol import Engine, StreamingEngine
from stopwav.engines.registry import make, make_streaming
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import Utterance, load_corpus
from stopwav.speech.text import normalise
from stopwav.speech.wer import ErrorCount, count_errors

REAL = ["pocketsphinx", "moonshine"]


@pytest.fixture(scope="module", params=REAL)
def engine(request: pytest.FixtureRequest) -> StreamingEngine:
    if request.param == "moonshine":
        pytest.importorskip("moonshine_voice")
    return make_streaming(request.param)


def bundled(count: int) -> list[Utterance]:
    return sorted(load_corpus("bundled").utterances, key=lambda u: u.words[-1].end_s)[:count]


def audio_of(utterance: Utterance) -> Audio:
    return load(utterance.path, 16_000)


def stream(engine: StreamingEngine, audio: Audio, size: int = 1600) -> list[str]:
    session = engine.open()
    texts = []
    for start in range(0, len(audio.samples), size):
        texts += [hypothesis.text for hypothesis in session.push(audio.samples[start : start + size])]
    return texts + [hypothesis.text for hypothesis in session.finish()]


def test_partials_grow_into_a_text_that_is_mostly_right(engine: StreamingEngine) -> None:
    total = ErrorCount()
    shown = 0
    utterances = bundled(5)
    for utterance in utterances:
        texts = stream(engine, audio_of(utterance))
        shown += len(texts)
        total += count_errors(utterance.text, texts[-1])
    assert shown > 1.5 * len(utterances)
    assert total.wer is not None
    assert total.wer < 0.5


def test_offline_transcription_is_mostly_right(engine: Engine) -> None:
    utterances = bundled(3)
    texts = engine.transcribe([audio_of(utterance) for utterance in utterances])
    total = sum((count_errors(u.text, t) for u, t in zip(utterances, texts, strict=True)), ErrorCount())
    assert total.wer is not None
    assert total.wer < 0.5


def test_a_stream_does_not_depend_on_the_ones_before_it(engine: StreamingEngine) -> None:
    first, second = bundled(2)
    alone = stream(engine, audio_of(second))
    stream(engine, audio_of(first))
    assert stream(engine, audio_of(second)) == alone


@pytest.mark.parametrize("seconds", [1 / 16_000, 0.001, 0.05])
def test_a_very_short_stream_does_not_crash(engine: StreamingEngine, seconds: float) -> None:
    stream(engine, Audio(np.zeros(max(1, round(16_000 * seconds)), dtype=np.float32), 16_000))


def test_an_abandoned_stream_does_not_affect_the_next(engine: StreamingEngine) -> None:
    utterance = bundled(1)[0]
    whole = stream(engine, audio_of(utterance))
    engine.open().push(audio_of(utterance).samples[:1600])
    assert stream(engine, audio_of(utterance)) == whole


def test_silence_gives_no_words(engine: StreamingEngine) -> None:
    texts = stream(engine, Audio(np.zeros(16_000, dtype=np.float32), 16_000))
    assert len(normalise(texts[-1] if texts else "")) <= 1


def test_stages_are_marked(engine: StreamingEngine) -> None:
    session = engine.open()
    samples = audio_of(bundled(1)[0]).samples[:1600]
    stages = WallClock().time(lambda: session.push(samples)).stages
    assert "inference" in stages
    session.finish()


def test_timing_pocketsphinx_features_separately_does_not_change_its_text() -> None:
    from pocketsphinx import Decoder

    decoder, engine = Decoder(loglevel="FATAL"), make_streaming("pocketsphinx")
    for utterance in bundled(2):
        audio = audio_of(utterance)
        ours = stream(engine, audio)
        plain: list[str] = []
        decoder.reinit_feat()
        decoder.start_utt()
        pcm = (np.clip(audio.samples, -1, 1) * 32767).astype(np.int16)
        for start in range(0, len(pcm), 1600):
            decoder.process_raw(pcm[start : start + 1600].tobytes(), full_utt=False)
            plain.append(decoder.hyp().hypstr if decoder.hyp() else "")
        decoder.end_utt()
        plain.append(decoder.hyp().hypstr)
        changes = [text for before, text in zip(["", *plain], plain, strict=False) if text != before]
        assert ours == changes


def test_moonshine_does_not_use_the_network() -> None:
    """It opens no socket, and works without a network, where the user may make a namespace that has none."""
    pytest.importorskip("moonshine_voice")
    code = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'urllib.Request'):\n"
        "        raise SystemExit(f'network: {event}')\n"
        "sys.addaudithook(hook)\n"
        "from stopwav.engines.registry import make_streaming; import numpy as np\n"
        "e = make_streaming('moonshine'); s = e.open(); s.push(np.zeros(16000, np.float32)); s.finish(); print('fine')"
    )
    unshare = ["unshare", "--net"] if shutil.which("unshare") else []
    if unshare and subprocess.run([*unshare, "true"], capture_output=True).returncode:
        unshare = []
    result = subprocess.run([*unshare, sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "fine", result.stderr


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("moonshine_voice")
    with pytest.raises(StopwavError, match=r"encoder_model\.ort is missing"):
        make(f"moonshine:{tmp_path}")
