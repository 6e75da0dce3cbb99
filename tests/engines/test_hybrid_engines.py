"""The two hybrid recognisers as engines, with random weights, on the bundled speech."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from stopwav.engines.hybrid_recogniser import FAMILIES, HybridRecogniser
from stopwav.engines.protocol import Engine, StreamingEngine
from stopwav.engines.registry import available, is_streaming, make
from stopwav.errors import StopwavError
from stopwav.measure.clock import WallClock
from stopwav.models.conformer import ConformerShape
from stopwav.models.lstm import LstmShape
from stopwav.speech.audio import Audio, load
from stopwav.speech.corpus import load_corpus

CHARACTERS = ["<blank>", *"abcdefghijklmnopqrstuvwx", "<space>", "<sos/eos>"]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def small_conformer() -> Iterator[None]:
    """A narrow Conformer of few layers: the published one is counted in the tests of the models."""
    conformer, lstm = FAMILIES
    small = replace(conformer, shape=ConformerShape(width=32, heads=4, feed_forward=64, blocks=2, decoder_blocks=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stopwav.engines.hybrid_recogniser.FAMILIES", (small, lstm))
        yield


@pytest.fixture(scope="module")
def audios() -> list[Audio]:
    """Three short pieces of speech, of lengths that no hop divides."""
    lengths = (20_003, 31_999, 9_777)
    return [
        Audio(load(utterance.path, 16_000).samples[:length], 16_000)
        for utterance, length in zip(load_corpus("bundled").utterances, lengths, strict=False)
    ]


@pytest.fixture(scope="module")
def lstm() -> HybridRecogniser:
    engine = make("lstm-hybrid,beam=3")
    assert isinstance(engine, HybridRecogniser)
    return engine


@pytest.mark.parametrize("options", ["ctc_weight=0", "ctc_weight=0.3", "ctc_weight=1", "ctc_weight=1,beam=1"])
def test_a_batch_has_the_texts_of_one_by_one(options: str, audios: list[Audio]) -> None:
    engine = make(f"lstm-hybrid,beam=3,{options}")
    assert isinstance(engine, HybridRecogniser)
    together = engine.transcribe(audios)
    assert engine.emitted_tokens == [len(text.split()) for text in together]
    assert [engine.transcribe([audio])[0] for audio in audios] == together


def test_random_texts_are_as_long_as_speech(lstm: HybridRecogniser, audios: list[Audio]) -> None:
    # 25 frames a second; an incomplete one counts.
    frames = [-(-(1 + len(audio.samples) // 160) // 4) for audio in audios]
    lstm.transcribe(audios)
    assert lstm.emitted_tokens == [int(15 / 25 * count) for count in frames]
    shorter = make("lstm-hybrid,beam=3,max_len_ratio=0.1")
    assert isinstance(shorter, HybridRecogniser)
    shorter.transcribe(audios)
    assert shorter.emitted_tokens == [int(0.1 * count) for count in frames]


def test_the_engine_says_what_it_is(lstm: HybridRecogniser) -> None:
    info = lstm.info
    assert (info.name, info.model, info.precision, info.device) == ("lstm-hybrid", "random weights", "float32", "cpu")
    assert info.parameters == 8_248_145 == sum(parameter.numel() for parameter in lstm.network.parameters())
    assert [family.shape for family in FAMILIES] == [ConformerShape(), LstmShape()]
    assert info.untrained
    assert info.data_dependent
    assert "random weights" in info.notes[0]
    assert "0.6 tokens per encoder frame" in info.notes[0]
    assert isinstance(lstm, Engine)
    assert not isinstance(lstm, StreamingEngine)
    hybrids = [entry for entry in available() if entry.name.endswith("-hybrid")]
    assert [is_streaming(entry) for entry in hybrids] == [False, False]
    assert not make("lstm-hybrid,ctc_weight=1,beam=1").info.data_dependent


def test_the_stages_are_marked(lstm: HybridRecogniser, audios: list[Audio]) -> None:
    timing = WallClock().time(lambda: lstm.transcribe(audios[2:]))
    assert [span.path for span in timing.spans] == ["features", "encoder", "search", "post"]


def test_the_seed_draws_the_weights(audios: list[Audio]) -> None:
    texts = {seed: make(f"lstm-hybrid,ctc_weight=1,seed={seed}").transcribe(audios[:1]) for seed in (0, 1)}
    assert texts[0] != texts[1]
    assert make("lstm-hybrid,ctc_weight=1,seed=1").transcribe(audios[:1]) == texts[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_fewer_bits_decode_too(dtype: str, audios: list[Audio]) -> None:
    engine = make(f"lstm-hybrid,beam=2,dtype={dtype},max_len_ratio=0.1")
    assert isinstance(engine, HybridRecogniser)
    assert engine.info.precision == dtype
    assert engine.transcribe(audios[2:])
    assert engine.emitted_tokens == [1]


@pytest.mark.parametrize("length", [0, 1, 160, 257])
def test_a_very_short_utterance_does_not_crash(lstm: HybridRecogniser, length: int) -> None:
    lstm.transcribe([Audio(np.zeros(length, np.float32), 16_000)])
    assert len(lstm.emitted_tokens) == 1


def test_the_conformer_decodes_and_names_an_utterance_too_long_for_it(audios: list[Audio]) -> None:
    engine = make("conformer-hybrid,beam=2")
    assert isinstance(engine, HybridRecogniser)
    texts = engine.transcribe([audios[2], Audio(np.zeros(300, np.float32), 16_000)])
    assert engine.emitted_tokens == [int(0.14 * 14), 1]
    assert [len(text.split()) for text in texts] == engine.emitted_tokens
    with pytest.raises(StopwavError) as raised:
        engine.transcribe([audios[2], Audio(np.zeros(3_300_000, np.float32), 16_000)])
    assert str(raised.value) == (
        "conformer-hybrid: an utterance of 206.2 s is 5155 encoder frames, and the maximum is 5000: "
        "cut it into shorter ones"
    )


@pytest.mark.parametrize("name", ["conformer-hybrid", "lstm-hybrid"])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (",ctc_weight=1.5", "ctc_weight=1.5: must be from 0, attention alone, to 1, CTC alone"),
        (",ctc_weight=-0.1", "ctc_weight=-0.1"),
        (",ctc_weight=nan", "ctc_weight=nan"),
        (",ctc_weight=true", "ctc_weight=True"),
        (",ctc_weight=much", "ctc_weight=much"),
        (",beam=0", "beam=0: must be a whole number, at least 1"),
        (",beam=2.5", "beam=2.5"),
        (",beam=true", "beam=True"),
        (",max_len_ratio=0", "max_len_ratio=0: must be above 0 and at most 1 token per frame"),
        (",max_len_ratio=1.01", "max_len_ratio=1.01"),
        (",max_len_ratio=long", "max_len_ratio=long"),
        (",dtype=float64", "dtype=float64: must be one of float32, float16, bfloat16"),
        (",device=tpu", "device=tpu: must be cpu, cuda or cuda:N"),
        (",seed=x", "seed=x: must be a whole number"),
        (",speed=fast", "it takes tokenizer, names, stats, ctc_weight"),
        (":model.pt", "model.pt: no such file; give a checkpoint"),
        (f":{__file__}", "needs the tokens that the checkpoint was trained with"),
        (",names=espnet", "names=espnet needs a checkpoint"),
        (",stats=stats.json", "stats=stats.json needs a checkpoint"),
        (",tokenizer=nowhere.txt", "tokenizer=nowhere.txt: no such file"),
    ],
)
def test_an_invalid_option_is_named(name: str, spec: str, message: str) -> None:
    with pytest.raises(StopwavError) as raised:
        make(f"{name}{spec}")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_an_error() -> None:
    with pytest.raises(StopwavError, match=r"lstm-hybrid: device=cuda: .* finds no NVIDIA GPU here; use cpu"):
        make("lstm-hybrid,device=cuda")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    path.write_text("\n".join(CHARACTERS))
    return path


def test_a_checkpoint_gives_the_texts_of_the_network_it_came_from(
    audios: list[Audio], tokens: Path, tmp_path: Path
) -> None:
    random = make("lstm-hybrid,ctc_weight=1,seed=3")
    assert isinstance(random, HybridRecogniser)
    torch.save(random.network.state_dict(), tmp_path / "model.pt")
    trained = make(f"lstm-hybrid:{tmp_path / 'model.pt'},tokenizer={tokens},ctc_weight=1")
    assert not trained.info.untrained
    assert trained.info.notes == ()
    assert trained.info.model == "model.pt"
    for audio in audios:
        numbers = [int(word.removeprefix("token")) for word in random.transcribe([audio])[0].split()]
        text = "".join(CHARACTERS[number] for number in numbers).replace("<space>", " ")
        assert numbers
        assert trained.transcribe([audio]) == [" ".join(text.split())]


def in_espnets_names(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of an LSTM network as ESPnet would save them."""
    parts = {
        "encoder.layers.": "encoder.enc.0.",
        "decoder.embedding.": "decoder.embed.",
        "decoder.lstm.": "decoder.decoder.0.",
        "decoder.attention.frame": "decoder.att_list.0.mlp_enc",
        "decoder.attention.state": "decoder.att_list.0.mlp_dec",
        "decoder.attention.filter": "decoder.att_list.0.mlp_att",
        "decoder.attention.location": "decoder.att_list.0.loc_conv",
        "decoder.attention.score": "decoder.att_list.0.gvec",
        "ctc.": "ctc.ctc_lo.",
    }
    renamed = {}
    for name, tensor in network.state_dict().items():
        for ours, theirs in parts.items():
            name = name.replace(ours, theirs)
        for number in range(4):
            name = name.replace(f"enc.0.{number}.lstm", f"enc.0.birnn{number}")
            name = name.replace(f"enc.0.{number}.project", f"enc.0.bt{number}")
        renamed[name] = tensor
    return renamed


def test_espnets_checkpoint_brings_its_names_and_its_statistics(
    audios: list[Audio], tokens: Path, tmp_path: Path
) -> None:
    random = make("lstm-hybrid,seed=3")
    assert isinstance(random, HybridRecogniser)
    path = tmp_path / "valid.acc.ave.pth"
    theirs = in_espnets_names(random.network)
    statistics = {"normalize.mean": torch.full((80,), -9.0).double(), "normalize.std": torch.full((80,), 4.0).double()}
    torch.save({"frontend.logmel.melmat": torch.zeros(257, 80), **statistics, **theirs}, path)
    torch.save(random.network.state_dict(), tmp_path / "ours.pt")
    (tmp_path / "stats.json").write_text(f'{{"mean": {[-9.0] * 80}, "invstddev": {[0.25] * 80}}}')
    common = f"tokenizer={tokens},ctc_weight=1"
    espnet = make(f"lstm-hybrid:{path},names=espnet,{common}")
    ours = make(f"lstm-hybrid:{tmp_path / 'ours.pt'},stats={tmp_path / 'stats.json'},{common}")
    own_mean = make(f"lstm-hybrid:{tmp_path / 'ours.pt'},{common}")
    texts = espnet.transcribe(audios)
    assert all(texts)
    assert ours.transcribe(audios) == texts
    assert own_mean.transcribe(audios) != texts
    with pytest.raises(
        StopwavError, match=r"missing .* unexpected .*; expected .*; for one with ESPnet's names add names=espnet"
    ):
        make(f"lstm-hybrid:{path},{common}")


def test_a_checkpoint_that_does_not_fit_is_refused(tokens: Path, tmp_path: Path) -> None:
    random = make("lstm-hybrid")
    assert isinstance(random, HybridRecogniser)
    path = tmp_path / "model.pt"
    tensors = random.network.state_dict()
    torch.save(tensors, path)
    pieces = tmp_path / "pieces.txt"
    pieces.write_text("\n".join(map(str, range(5000))))
    with pytest.raises(StopwavError) as raised:
        make(f"conformer-hybrid:{path},tokenizer={pieces}")
    message = str(raised.value)
    assert message == f"{path}: a checkpoint of lstm-hybrid, not of conformer-hybrid; write lstm-hybrid:{path},…"
    del tensors["ctc.bias"]
    tensors |= {"ctc.weight": torch.zeros(28, 320), "lm.weight": torch.zeros(1)}
    torch.save(tensors, path)
    with pytest.raises(StopwavError) as raised:
        make(f"lstm-hybrid:{path},tokenizer={tokens}")
    assert "1 missing (ctc.bias), 1 unexpected (lm.weight), 1 of the wrong shape (ctc.weight is 28×320" in str(
        raised.value
    )
    torch.save(
        random.network.state_dict() | {"statistics.mean": torch.zeros(3), "statistics.deviation": torch.ones(3)}, path
    )
    with pytest.raises(StopwavError, match="its statistics are 3 and 3 values, but there are 80 mel bands"):
        make(f"lstm-hybrid:{path},tokenizer={tokens}")
