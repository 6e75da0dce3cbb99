"""sherpa-onnx for real: Moonshine's packaged weights on speech, and transducers whose text is known beforehand."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopwav.engines.protocol import Engine, StreamingEngine
from stopwav.engines.registry import available, is_streaming, make, make_streaming
from stopwav.engines.sherpa_folder import token_table
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import load_corpus
from stopwav.speech.wer import ErrorCount, count_errors

pytest.importorskip("sherpa_onnx")

SECOND = 16_000


def save_onnx(path: Path, nodes: list[Any], inputs: Any, outputs: Any, weights: Any = (), **metadata: object) -> None:
    onnx = pytest.importorskip("onnx")
    values = [onnx.numpy_helper.from_array(np.array(value, np.float32), name) for name, value in weights]
    tensors = [[onnx.helper.make_tensor_value_info(*tensor) for tensor in side] for side in (inputs, outputs)]
    graph = onnx.helper.make_graph(nodes, "graph", *tensors, values)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.helper.set_model_props(model, {key: str(value) for key, value in metadata.items()})
    onnx.save(model, path)


def save_transducer(folder: Path, streaming: bool) -> Path:
    """A transducer that says "hey" in every frame whose mean log energy is above -10: in noise, and not in silence."""
    onnx = pytest.importorskip("onnx")
    node, real, whole = onnx.helper.make_node, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    folder.mkdir()
    if streaming:  # the loudness of 9 frames, every 4 frames; the states of an LSTM are passed on as they are
        states = [(name, real, [1, "N", 2]) for name in ("h", "c")]
        save_onnx(
            folder / "encoder.onnx",
            [
                node("ReduceMean", ["x"], ["encoder_out"], axes=[1, 2]),
                *(node("Identity", [name], [f"next_{name}"]) for name in ("h", "c")),
            ],
            [("x", real, ["N", 9, 80]), *states],
            [("encoder_out", real, ["N", 1, 1]), *((f"next_{name}", *rest) for name, *rest in states)],
            model_type="lstm", version=1, T=9, decode_chunk_len=4, num_encoder_layers=1, d_model=2, rnn_hidden_size=2,
        )  # fmt: skip
    else:  # the loudness of each frame
        save_onnx(
            folder / "encoder.onnx",
            [node("ReduceMean", ["x"], ["encoder_out"], axes=[2]), node("Identity", ["x_lens"], ["encoder_out_lens"])],
            [("x", real, ["N", "T", 80]), ("x_lens", whole, ["N"])],
            [("encoder_out", real, ["N", "T", 1]), ("encoder_out_lens", whole, ["N"])],
        )
    save_onnx(
        folder / "decoder.onnx",
        [node("Cast", ["y"], ["as_real"], to=real), node("ReduceMean", ["as_real"], ["decoder_out"], axes=[1])],
        [("y", whole, ["N", 2])],
        [("decoder_out", real, ["N", 1])],
        vocab_size=3, context_size=2,
    )  # fmt: skip
    save_onnx(
        folder / "joiner.onnx",
        [
            node("MatMul", ["encoder_out", "loudness"], ["heard"]),
            node("Mul", ["decoder_out", "nothing"], ["said"]),
            node("Sum", ["heard", "said", "bias"], ["logit"]),
        ],
        [("encoder_out", real, ["N", 1]), ("decoder_out", real, ["N", 1])],
        [("logit", real, ["N", 3])],
        (("loudness", [[0, 0, 1]]), ("nothing", [0]), ("bias", [0, -1000, 10])),
        joiner_dim=1,
    )  # fmt: skip
    (folder / "tokens.txt").write_text("<blk> 0\n<unk> 1\n▁hey 2\n")
    return folder


def audio(*loudness: float) -> Audio:
    """One second of noise for each loudness."""
    random = np.random.default_rng(0)
    return Audio(np.concatenate([random.normal(0, level, SECOND) for level in loudness]).astype(np.float32), SECOND)


def words(texts: list[str]) -> list[int]:
    assert set(" ".join(texts).split()) <= {"hey"}
    return [len(text.split()) for text in texts]


def test_packaged_moonshine_reads_the_bundled_speech() -> None:
    pytest.importorskip("moonshine_voice")
    engine = make("sherpa-onnx")
    assert isinstance(engine, Engine)
    assert engine.info.model == "tiny-en (moonshine_v2, 1 thread)"
    utterances = load_corpus("bundled").utterances[::3]
    batch = [load(utterance.path, SECOND) for utterance in utterances]
    texts = engine.transcribe(batch)
    pairs = zip(utterances, texts, strict=True)
    total = sum((count_errors(utterance.text, text) for utterance, text in pairs), ErrorCount())
    assert total.wer is not None
    assert total.wer < 0.1
    assert texts[:2] == [engine.transcribe([utterance])[0] for utterance in batch[:2]]
    assert set(WallClock().time(lambda: engine.transcribe(batch[:1])).stages) == {"features", "inference", "post"}
    with pytest.raises(StopwavError, match="does not stream"):
        make_streaming("sherpa-onnx")


def test_moonshine_tokens_become_a_token_table() -> None:
    long = b"x" * 300  # its length in two bytes: 300 = 44 + 128 · 2, the first with its high bit set
    content = b"\x05<unk>" + b"\x01\xff" + b"\x00" + bytes([128 + 44, 2]) + long + b"\x02hi"
    lines = [line.rsplit(" ", 1) for line in token_table(content).splitlines()]
    assert [base64.b64decode(token) for token, _ in lines] == [b"<unk>", b"\xff", b"", long, b"hi"]
    assert [number for _, number in lines] == ["0", "1", "2", "3", "4"]


def test_an_offline_transducer_says_what_it_must(tmp_path: Path) -> None:
    engine = make(f"sherpa-onnx:{save_transducer(tmp_path / 'offline', streaming=False)},threads=2")
    assert isinstance(engine, Engine)
    assert not isinstance(engine, StreamingEngine)
    silent, loud, between = words(engine.transcribe([audio(0), audio(0.3), audio(0, 0.3, 0)]))
    assert silent == 0
    assert loud == 100  # frames of 10 ms
    assert 100 <= between <= 103  # and the few that reach from the silence into the noise
    assert engine.info.model == "offline (transducer, 2 threads)"
    assert engine.info.precision == "float32 (onnxruntime)"


def test_a_streaming_transducer_says_it_as_it_hears_it(tmp_path: Path) -> None:
    engine = make_streaming(f"sherpa-onnx:{save_transducer(tmp_path / 'streaming', streaming=True)}")
    # 4 frames at a time, of the 9 that it must have heard.
    assert engine.info.chunk_s == pytest.approx(0.04)
    assert engine.info.lookahead_s == pytest.approx(0.05)
    session = engine.open()
    heard = audio(0, 0.3, 0).samples
    first_s, counts = None, []
    for start in range(0, len(heard), 640):
        shown = words([hypothesis.text for hypothesis in session.push(heard[start : start + 640])])
        counts += shown
        if shown and first_s is None:
            first_s = (start + 640) / SECOND
    counts += words([hypothesis.text for hypothesis in session.finish()])
    # One word every 40 ms of noise, each shown once, the first as soon as its 9 frames are there.
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) in (25, 26, 27)
    assert first_s is not None
    assert 1.0 <= first_s <= 1.0 + 0.09 + 0.08
    # Streams know nothing of each other, and a batch of them reads as they do one by one.
    assert isinstance(engine, Engine)
    batch = [audio(0, 0.3, 0), audio(0), audio(0.3)]
    assert words(engine.transcribe(batch)) == [len(counts), 0, words(engine.transcribe([audio(0.3)]))[0]]


def test_the_end_of_a_stream_is_not_lost(tmp_path: Path) -> None:
    engine = make_streaming(f"sherpa-onnx:{save_transducer(tmp_path / 'streaming', streaming=True)}")
    session = engine.open()
    pushed = words([hypothesis.text for hypothesis in session.push(audio(0.3).samples)])
    ended = words([hypothesis.text for hypothesis in session.finish()])
    # 25 chunks of 40 ms in a second; the last could not be decided without what follows it.
    assert pushed[-1] < 25
    assert ended[-1] >= 25


def test_the_given_precision_is_used(tmp_path: Path) -> None:
    folder = save_transducer(tmp_path / "both", streaming=False)
    with pytest.raises(StopwavError, match=r"dtype=int8: .* has only float32"):
        make(f"sherpa-onnx:{folder},dtype=int8")
    (folder / "encoder.int8.onnx").write_bytes((folder / "encoder.onnx").read_bytes())
    assert make(f"sherpa-onnx:{folder}").info.precision == "float32 (onnxruntime)"
    assert make(f"sherpa-onnx:{folder},dtype=int8").info.precision == "float32 and int8 (onnxruntime)"
    (folder / "encoder-2.onnx").write_bytes(b"")
    with pytest.raises(StopwavError, match=r"several files for encoder\*\.onnx \(encoder-2\.onnx, encoder\.onnx\)"):
        make(f"sherpa-onnx:{folder}")


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ((), "", "is empty; unpack a model into it"),
        (
            ("model.onnx", "tokens.txt"),
            "",
            "do not show the kind .* moonshine_v2, .* type=nemo_ctc",
        ),
        (("model.onnx", "tokens.txt"), ",type=nemo_ctc", "failed:Protobuf parsing failed; .* not a nemo_ctc model"),
        (("model.onnx", "tokens.txt"), ",type=paraformer", "not a paraformer model, or it is broken"),
        (("model.onnx",), ",type=sense_voice", r"has no tokens\.txt"),
        (("tokens.txt",), ",type=zipformer_ctc", r"has no model\*\.onnx"),
        (("encoder.onnx", "decoder.onnx", "joiner.onnx", "tokens.txt"), "", "not a transducer model, or it is broken"),
        (("a-encoder.onnx", "a-decoder.onnx", "a-tokens.txt"), "", "not a whisper model, or it is broken"),
        (("x",), ",type=gmm", "type=gmm: must be one of moonshine_v2"),
        (("x",), ",dtype=int4", "dtype=int4: must be one of float32, float16, int8"),
        (("x",), ",device=tpu", "device=tpu: must be one of cpu, cuda"),
        (("x",), ",threads=0", "threads=0: must be a whole number"),
        (("x",), ",beam=4", "it takes type, dtype, device, threads"),
    ],
)
def test_a_wrong_folder_or_option_is_named(tmp_path: Path, files: tuple[str, ...], options: str, message: str) -> None:
    for name in files:
        (tmp_path / name).write_text("<blk> 0\n" if name.endswith(".txt") else "nonsense")
    with pytest.raises(StopwavError, match=message) as caught:
        make(f"sherpa-onnx:{tmp_path}{options}")
    assert "\n" not in str(caught.value)


def test_a_streaming_folder_with_broken_files(tmp_path: Path) -> None:
    folder = save_transducer(tmp_path / "streaming", streaming=True)
    (folder / "joiner.onnx").write_bytes(b"nonsense")
    with pytest.raises(StopwavError, match=r"joiner\.onnx failed"):
        make(f"sherpa-onnx:{folder}")


def test_a_build_without_cuda_does_not_pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopwav.engines.sherpa_onnx_asr.version", lambda package: "2.0.1")
    with pytest.raises(StopwavError, match="is built without CUDA"):
        make("sherpa-onnx,device=cuda")


def test_the_model_decides_whether_it_streams() -> None:
    entry = next(entry for entry in available() if entry.name == "sherpa-onnx")
    assert entry.version is not None
    assert is_streaming(entry) is None
