"""Models made for the tests: real architectures of a few thousand random weights, saved as the toolkits save them."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from string import ascii_lowercase

import pytest

with contextlib.suppress(ImportError):
    from stopwav.models.checkpoint import disable_amx_in_vm

    # oneDNN reads its settings when it is first used, which may be in any test.
    disable_amx_in_vm()

# The tokens that a Whisper tokenizer has beside its letters; those for times follow them.
WHISPER_TOKENS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small models are faster on one thread, and much faster on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def small_emformer() -> Iterator[None]:
    """Let the Emformer engine have 2 narrow layers instead of 20 wide ones, and calibrate it on 5 s of speech."""
    from stopwav.models.emformer import EmformerShape

    small = partial(EmformerShape, layers=2, reduced=32, feed_forward=128, encoding=128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stopwav.engines.emformer_rnnt.EmformerShape", small)
        patch.setattr("stopwav.engines.emformer_rnnt.CALIBRATION_UTTERANCES", 1)
        yield


@pytest.fixture(scope="session")
def moonshine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Moonshine of two layers that writes letters."""
    pytest.importorskip("transformers")
    from tiny_transformers import save_moonshine

    return save_moonshine(tmp_path_factory.mktemp("moonshine") / "tiny-moonshine")


@pytest.fixture(scope="session")
def whisper_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Whisper of two layers that writes letters and knows English only."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from tokenizers.pre_tokenizers import ByteLevel

    folder = tmp_path_factory.mktemp("whisper") / "tiny-whisper"
    others = sorted(set(ByteLevel.alphabet()) - set(ascii_lowercase))
    letters = {letter: at for at, letter in enumerate([*ascii_lowercase, *others])}
    marks = dict.fromkeys(("unk_token", "bos_token", "eos_token", "pad_token"), WHISPER_TOKENS[0])
    tokenizer = transformers.WhisperTokenizer(vocab=letters, merges=[], **marks)
    tokenizer.add_tokens([*WHISPER_TOKENS, *(f"<|{at * 0.02:.2f}|>" for at in range(1501))], special_tokens=True)
    extractor = transformers.WhisperFeatureExtractor(feature_size=16)
    transformers.WhisperProcessor(extractor, tokenizer).save_pretrained(folder)
    extractor.to_json_file(folder / "preprocessor_config.json")  # where faster-whisper looks for it
    end, start, *_, no_times = (tokenizer.convert_tokens_to_ids(token) for token in WHISPER_TOKENS)
    ends = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": start}
    sides = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=len(tokenizer), num_mel_bins=16, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32,
            init_std=0.5, **sides, **ends,
        )
    )  # fmt: skip
    with torch.no_grad():
        model.get_input_embeddings().weight[: len(ascii_lowercase)] *= (
            4  # so that it writes letters, and few of the 1501 times
        )
    model.generation_config = transformers.GenerationConfig(
        max_length=40, no_timestamps_token_id=no_times, is_multilingual=False, suppress_tokens=[end],
        begin_suppress_tokens=[end], **ends,
    )  # fmt: skip
    model.save_pretrained(folder)
    return folder
