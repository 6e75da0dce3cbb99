"""Models of Hugging Face transformers, built small, saved, and run for real."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stopwav.engines.protocol import StreamingEngine
from stopwav.engines.registry import make, make_streaming
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.speech.audio import Audio

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


def noise(seconds: float, seed: int = 0) -> Audio:
    """Noise whose loudness changes, so that a random model has something to say."""
    random = np.random.default_rng(seed)
    count = round(16_000 * seconds)
    loudness = np.repeat(random.uniform(0.01, 0.5, count // 800 + 1), 800)[:count]
    return Audio((random.normal(0, 0.3, count) * loudness).clip(-1, 1).astype(np.float32), 16_000)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are quicker on one thread, and much quicker where other work runs beside them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


BATCH = [noise(1.0, 1), noise(0.55, 2), noise(1.47, 3)]


def save_ctc(folder: Path, kind: str = "Wav2Vec2", norm: str = "layer") -> Path:
    """A CTC model over letters; one with layer norms is trained with a mask, one with a group norm without."""
    folder.mkdir(parents=True)
    vocabulary = {token: at for at, token in enumerate(["<pad>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), bos_token=None, eos_token=None)
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=norm == "layer")
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        conv_dim=(32,) * 7, feat_extract_norm=norm, do_stable_layer_norm=norm == "layer",
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    getattr(transformers, f"{kind}ForCTC")(config).save_pretrained(folder)
    return folder


def save_moonshine(folder: Path) -> Path:
    from tokenizers import Tokenizer, decoders, models

    letters = {token: at for at, token in enumerate(["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyz"])}
    inner = Tokenizer(models.BPE(vocab=letters, merges=[], unk_token="<unk>"))
    inner.decoder = decoders.Fuse()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **marks)
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)
    transformers.Wav2Vec2Processor(extractor, tokenizer).save_pretrained(folder)
    sides = {
        f"{side}_num_{name}": 2 for side in ("encoder", "decoder") for name in ("hidden_layers", "attention_heads")
    }
    torch.manual_seed(0)
    model = transformers.MoonshineForConditionalGeneration(
        transformers.MoonshineConfig(
            vocab_size=len(letters), hidden_size=32, intermediate_size=32, pad_token_id=2, initializer_range=0.5,
            **sides, encoder_num_key_value_heads=2, decoder_num_key_value_heads=2,
        )
    )  # fmt: skip
    model.generation_config.suppress_tokens = [0, 1, 2]
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def ctc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_ctc(tmp_path_factory.mktemp("ctc") / "tiny-wav2vec2")


@pytest.fixture(scope="module")
def moonshine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_moonshine(tmp_path_factory.mktemp("moonshine") / "tiny-moonshine")


def by_pipeline(folder: Path, batch: list[Audio], **generation: Any) -> list[str]:
    """The texts by the toolkit's own pipeline, one after the other."""
    pipeline = transformers.pipeline("automatic-speech-recognition", model=str(folder), dtype="float32", device="cpu")
    options = {"generate_kwargs": generation} if generation else {}
    inputs = [{"raw": audio.samples.copy(), "sampling_rate": 16_000} for audio in batch]
    return [pipeline(one, **options)["text"].strip() for one in inputs]


@pytest.mark.parametrize("kind", ["Wav2Vec2", "Hubert"])
def test_a_ctc_batch_reads_as_its_utterances_do_one_by_one(tmp_path: Path, kind: str) -> None:
    folder = save_ctc(tmp_path / kind, kind)
    engine = make(f"transformers:{folder}")
    texts = engine.transcribe(BATCH)
    assert texts == [engine.transcribe([audio])[0] for audio in BATCH]
    assert texts == by_pipeline(folder, BATCH)
    assert len(set(texts)) == len(BATCH)
    assert all(texts)


def test_a_model_without_a_mask_says_what_that_does_to_a_batch(tmp_path: Path) -> None:
    folder = save_ctc(tmp_path / "group", norm="group")
    engine = make(f"transformers:{folder}")
    assert engine.info.notes == (
        "trained without an attention mask: a batch may read differently than its utterances one by one",
    )
    longest = 2
    assert len(BATCH[longest].samples) == max(len(audio.samples) for audio in BATCH)
    # Nothing is padded there, so its text is the same.
    alone = engine.transcribe([BATCH[longest]])
    assert engine.transcribe(BATCH)[longest] == alone[0]
    assert alone == by_pipeline(folder, [BATCH[longest]])


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


def test_bfloat16_in_a_process_of_its_own(ctc: Path) -> None:
    # Where a virtual machine promises tiles that it has not, oneDNN must know before its first use.
    code = (
        "import sys, numpy as np, torch\n"
        "from stopwav.engines.registry import make; from stopwav.speech.audio import Audio\n"
        "torch.set_num_threads(1); e = make(f'transformers:{sys.argv[1]},dtype=bfloat16')\n"
        "print(len(e.transcribe([Audio(np.ones(16000, np.float32) / 9, 16000)] * 2)), e.info.precision)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ctc)], capture_output=True, text=True)
    assert done.stdout.split() == ["2", "bfloat16"], done.stderr


@pytest.mark.parametrize("model", ["ctc", "moonshine"])
def test_compiling_does_not_change_the_texts(model: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(model)
    plain = make(f"transformers:{folder}").transcribe(BATCH[:1])
    # Everything but the compiler itself, which takes a minute for the smallest model.
    with torch.compiler.set_stance("force_eager"):
        engine = make(f"transformers:{folder},compile=true")
        assert engine.transcribe(BATCH[:1]) == plain
    assert "torch.compile" in engine.info.notes[-1]


def test_whisper_reads_as_in_the_toolkits_pipeline(whisper_folder: Path) -> None:
    engine = make(f"transformers:{whisper_folder},max_new_tokens=12")
    texts = engine.transcribe(BATCH)
    # Whisper pads everything to 30 s, so a batch changes nothing.
    assert texts == by_pipeline(whisper_folder, BATCH, max_new_tokens=12, num_beams=1)
    assert all(0 < len(text) <= 12 for text in texts)


def test_whisper_hears_more_than_its_thirty_seconds(whisper_folder: Path, tmp_path: Path) -> None:
    long = noise(34.0, 4)
    # As models are published: saved to write no times, which the toolkit needs to go on after a window.
    published = shutil.copytree(whisper_folder, tmp_path / "published")
    settings = json.loads((published / "generation_config.json").read_text())
    (published / "generation_config.json").write_text(json.dumps({**settings, "return_timestamps": False}))
    processor = transformers.AutoProcessor.from_pretrained(whisper_folder)
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(whisper_folder)
    how = {"truncation": False, "padding": "longest", "return_attention_mask": True, "return_tensors": "pt"}
    inputs = processor(long.samples, sampling_rate=16_000, **how)
    assert inputs["input_features"].shape[-1] == 3400
    tokens = model.generate(**inputs, max_new_tokens=8)
    whole = processor.batch_decode(tokens, skip_special_tokens=True)[0].strip()
    assert whole
    for folder in (whisper_folder, published):
        assert make(f"transformers:{folder},max_new_tokens=8").transcribe([long]) == [whole]


def test_moonshine_one_by_one(moonshine: Path) -> None:
    engine = make(f"transformers:{moonshine},max_new_tokens=9")
    texts = [engine.transcribe([audio])[0] for audio in BATCH]
    assert texts == by_pipeline(moonshine, BATCH, max_new_tokens=9, num_beams=1)
    assert {len(text) for text in texts} == {9}
    # Its encoder begins with a norm over the whole padded length, so that a batch may read differently.
    assert len(engine.transcribe(BATCH)) == 3
    assert engine.info.notes[0].startswith("normalised over its padding as well")


def test_parakeet(tmp_path: Path) -> None:
    pytest.importorskip("librosa")
    if not hasattr(transformers, "ParakeetForCTC"):
        pytest.skip("this version of transformers has no Parakeet")
    from tokenizers import Tokenizer, models

    vocabulary = {token: at for at, token in enumerate([*"abcdefgh", "<unk>", "<pad>"])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>")
    transformers.ParakeetProcessor(transformers.ParakeetFeatureExtractor(), tokenizer).save_pretrained(tmp_path)
    torch.manual_seed(0)
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.ParakeetCTCConfig(
        vocab_size=len(vocabulary), pad_token_id=vocabulary["<pad>"], encoder_config=encoder
    )
    transformers.ParakeetForCTC(config).save_pretrained(tmp_path)
    engine = make(f"transformers:{tmp_path}")
    texts = engine.transcribe(BATCH)
    assert any(texts)
    assert texts == [engine.transcribe([audio])[0] for audio in BATCH]


@pytest.mark.parametrize("kind", ["RNNT", "TDT"])
def test_a_parakeet_transducer(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("librosa")
    if not hasattr(transformers, f"ParakeetFor{kind}"):
        pytest.skip(f"this version of transformers has no Parakeet {kind}")
    from tokenizers import Tokenizer, models

    vocabulary = {token: at for at, token in enumerate([*"abcdefgh", "<unk>", "<pad>", "<blank>"])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    marks = {"unk_token": "<unk>", "pad_token": "<pad>", "additional_special_tokens": ["<blank>"]}
    tokenizer = transformers.ParakeetTokenizer(tokenizer_object=inner, **marks)
    processor = transformers.ParakeetProcessor(
        transformers.ParakeetFeatureExtractor(), tokenizer, decoder_type=kind.lower()
    )
    processor.save_pretrained(tmp_path)
    torch.manual_seed(0)
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = getattr(transformers, f"Parakeet{kind}Config")(
        vocab_size=len(vocabulary), pad_token_id=vocabulary["<pad>"], blank_token_id=vocabulary["<blank>"],
        encoder_config={**encoder, "initializer_range": 0.5}, decoder_hidden_size=16, num_decoder_layers=1,
    )  # fmt: skip
    model = getattr(transformers, f"ParakeetFor{kind}")(config)
    model.generation_config.decoder_start_token_id = vocabulary["<blank>"]
    with torch.no_grad():
        model.joint.head.bias[: len("abcdefgh")] += 2.0  # random weights would rather say nothing
    if kind == "TDT":  # behind the tokens stand the durations, which are no tokens
        model.generation_config.suppress_tokens = [len(vocabulary) + at for at in range(len(config.durations))]
    model.save_pretrained(tmp_path)
    engine = make(f"transformers:{tmp_path}")
    texts = [engine.transcribe([audio])[0] for audio in BATCH]
    assert any(texts)
    assert not any("<" in text for text in texts)
    if kind == "TDT":  # the pipeline does not load the other
        assert texts == by_pipeline(tmp_path, BATCH)
    # The toolkit searches on in an utterance whose frames are through, so that a batch may read differently.
    assert len(engine.transcribe(BATCH)) == 3
    assert engine.info.notes[0].startswith("searched until the whole batch is through")
    assert engine.info.data_dependent
    assert f"ParakeetFor{kind}" in engine.info.model


def test_weights_that_the_file_lacks_are_said_to_be_random(ctc: Path, tmp_path: Path) -> None:
    folder = tmp_path / "headless"
    transformers.AutoProcessor.from_pretrained(ctc).save_pretrained(folder)
    transformers.Wav2Vec2Model.from_pretrained(ctc).save_pretrained(folder)
    info = make(f"transformers:{folder}").info
    assert info.untrained
    assert "2 weights are not in the model's file and random, such as lm_head" in info.notes[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("dtype=int8", "dtype=int8: float32, float16, bfloat16"),
        ("device=tpu", "device=tpu: cpu, cuda or cuda:N"),
        ("compile=maybe", "compile=maybe: true or false"),
        ("max_new_tokens=0", "max_new_tokens=0: a whole number, at least 1"),
        ("max_new_tokens=5", "max_new_tokens is for models that generate"),
        ("language=en", "language is for models that generate"),
        ("beam=5", "it takes dtype, device, compile, max_new_tokens, language"),
    ],
)
def test_an_option_that_cannot_be_is_named(ctc: Path, options: str, said: str) -> None:
    with pytest.raises(StopwavError, match=said):
        make(f"transformers:{ctc},{options}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(ctc: Path) -> None:
    with pytest.raises(StopwavError, match="sees no NVIDIA GPU here; use cpu"):
        make(f"transformers:{ctc},device=cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_on_the_gpu_the_texts_are_the_same(ctc: Path) -> None:
    assert make(f"transformers:{ctc},device=cuda").transcribe(BATCH) == make(f"transformers:{ctc}").transcribe(BATCH)
    with pytest.raises(StopwavError, match="there is no such GPU; the last one is"):
        make(f"transformers:{ctc},device=cuda:999")


@pytest.mark.timeout(20)  # the toolkit alone would ask for 23 s
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "which model"),
        ("./nowhere", r"no folder '\./nowhere'"),
        ("nobody/nothing", r"no folder 'nobody/nothing', and the Hub could not be asked .*; name a folder, or fetch"),
        ("no such name", r"and the Hub could not be asked .*\(Repo id must"),
    ],
)
def test_a_model_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, source: str | None, said: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # where nobody answers
    with pytest.raises(StopwavError, match=said) as caught:
        make(f"transformers:{source}" if source else "transformers")
    assert "\n" not in str(caught.value)


def test_a_folder_that_holds_something_else(ctc: Path, tmp_path: Path) -> None:
    with pytest.raises(StopwavError, match=r"has no config\.json"):
        make(f"transformers:{tmp_path}")
    transformers.AutoModelForCTC.from_pretrained(ctc).save_pretrained(tmp_path)  # without its processor
    with pytest.raises(StopwavError, match=r"must hold a recogniser and its processor|save its processor") as caught:
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
