"""Hugging Face transformers: CTC, encoder-decoder and transducer recognisers by the toolkit's own Auto classes.

A model is a folder written by `save_pretrained`, or a name on the Hub; one that is in the cache already is read from
there without a word to the network. Code that comes with a model is never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.toolkit import check_one_of, check_torch_device, find_model, toolkit_error
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.models.weights import keep_off_tiles
from stopwav.speech.audio import Audio

NAME = "transformers"
PRECISIONS = ("float32", "float16", "bfloat16")
# What nearly every recogniser there was trained on; the feature extractor refuses another rate than its own.
SAMPLE_RATE_HZ = 16_000
# Drawn anew by every load, since only training uses it.
TRAINING_ONLY = "masked_spec_embed"
TRANSDUCERS = ("AutoModelForTDT", "AutoModelForRNNT")  # not in every version
PARAKEET_TRANSDUCERS = ("parakeet_tdt", "parakeet_rnnt")


class Transformers:
    """The engine `transformers:PATH_OR_ID[,dtype=float16][,device=cuda][,compile=true][,max_new_tokens=N]…`."""

    def __init__(
        self,
        source: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        compile: bool = False,
        max_new_tokens: int | None = None,
        language: str | None = None,
    ) -> None:
        check_one_of(NAME, "dtype", dtype, PRECISIONS)
        self._device = check_torch_device(NAME, device)
        _check_switches(compile, max_new_tokens)
        if self._device == "cpu":
            keep_off_tiles()
        model, local = find_model(NAME, source, "config.json")
        config, self._processor, self._model, missing = _load(model, local, getattr(torch, dtype))
        self._is_ctc = type(self._model).__name__.endswith("ForCTC")
        self._generation = {"max_new_tokens": max_new_tokens, "language": language}
        self._generation = {key: value for key, value in self._generation.items() if value is not None}
        if self._is_ctc and self._generation:
            raise StopwavError(f"{NAME}: {next(iter(self._generation))} is for models that generate; {model} is CTC")
        self._model.to(self._device)
        self.network = self._model
        if compile:
            _compile(self._model, self._is_ctc)
        features = self._processor.feature_extractor
        # A model that was trained without a mask says so in its feature extractor; its padding is seen as silence.
        self._masked = getattr(features, "return_attention_mask", True) is not False
        # Whisper always hears this much; what is longer is cut off, unless it is told not to.
        self._window = getattr(features, "n_samples", None) if config.model_type == "whisper" else None
        self.info = EngineInfo(
            name=NAME,
            version=f"{version('transformers')}, torch {torch.__version__}",
            sample_rate_hz=SAMPLE_RATE_HZ,
            parameters=sum(parameter.numel() for parameter in self._model.parameters()),
            device=self._device,
            precision=dtype,
            language=language or "",
            model=f"{Path(model).name} ({type(self._model).__name__})",
            notes=_notes(missing, _why_padding_counts(config, self._is_ctc and not self._masked), compile),
            untrained=bool(missing),
            # One pass and the best label of each frame: no search.
            data_dependent=not self._is_ctc,
        )

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """The text of each utterance; the batch is padded to its longest and goes through the model at once."""
        in_windows = self._window is not None and max(len(audio.samples) for audio in batch) > self._window
        with stage("features"):
            inputs = self._processor(
                [audio.samples for audio in batch],
                sampling_rate=SAMPLE_RATE_HZ,
                return_tensors="pt",
                return_attention_mask=True,
                **self._padding(in_windows),
            )
        with stage("copy"):
            inputs = inputs.to(self._device, self._model.dtype)
        with stage("inference"), torch.inference_mode():
            # Bringing the few numbers back waits for the GPU, so that its work counts here and not as text.
            tokens = (self._label(inputs) if self._is_ctc else self._generate(inputs, in_windows)).cpu()
        with stage("post"):
            texts: list[str] = self._processor.batch_decode(tokens, skip_special_tokens=not self._is_ctc)
            return [text.strip() for text in texts]

    def _padding(self, in_windows: bool) -> dict[str, Any]:
        if in_windows:
            return {"padding": "longest", "truncation": False}
        return {"padding": "longest" if self._window is None else "max_length"}

    def _label(self, inputs: Any) -> Tensor:
        """The best label of each frame, the blank where there is only padding."""
        mask = inputs["attention_mask"]
        given = inputs if self._masked else {key: value for key, value in inputs.items() if key != "attention_mask"}
        labels: Tensor = self._model(**given).logits.argmax(dim=-1)
        return labels.masked_fill(~_frames(self._model, labels.shape[1], mask), self._processor.tokenizer.pad_token_id)

    def _generate(self, inputs: Any, in_windows: bool) -> Tensor:
        # From window to window it goes by the times it writes, which most models are saved not to write.
        more = {"return_timestamps": True} if in_windows else {}
        made = self._model.generate(**inputs, **self._generation, **more)
        tokens: Tensor = made if isinstance(made, Tensor) else made.sequences
        return tokens


def _load(source: str, local: bool, dtype: torch.dtype) -> tuple[Any, Any, Any, list[str]]:
    """The configuration, the processor, the model, and the weights that its file did not have."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    how = {"local_files_only": local, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(source, **how)
        auto = _auto_class(source, config)
        processor = transformers.AutoProcessor.from_pretrained(source, **how)
        model, loaded = auto.from_pretrained(source, dtype=dtype, output_loading_info=True, **how)
    except StopwavError:
        raise
    except Exception as error:  # whatever is wrong with a model folder, the toolkit's first line says it
        way_out = f"{source!r} must hold a recogniser and its processor, as save_pretrained writes them"
        raise toolkit_error(NAME, error, way_out) from error
    if not (hasattr(processor, "feature_extractor") and hasattr(processor, "tokenizer")):
        raise StopwavError(
            f"{NAME}: {source!r} has a {type(processor).__name__} only; a recogniser needs a feature extractor and "
            "a tokenizer: save its processor into the same folder"
        )
    missing = [name for name in loaded["missing_keys"] if not name.endswith(TRAINING_ONLY)]
    return config, processor, model.eval().requires_grad_(False), missing


def _auto_class(source: str, config: Any) -> Any:
    """The toolkit's class for this kind of recogniser."""
    import transformers

    names = ("AutoModelForCTC", *(name for name in TRANSDUCERS if hasattr(transformers, name)))
    for auto in (getattr(transformers, name) for name in names):
        if type(config) in auto._model_mapping:
            return auto
    # Recognisers that are language models over sounds need a prompt, which nobody gives here.
    if type(config) in transformers.AutoModelForSpeechSeq2Seq._model_mapping and config.is_encoder_decoder:
        return transformers.AutoModelForSpeechSeq2Seq
    raise StopwavError(
        f"{NAME}: {source!r} is a {config.model_type} model; CTC, encoder-decoder and transducer recognisers can be "
        "measured, such as wav2vec2, hubert, whisper, moonshine or parakeet"
    )


def _frames(model: Any, count: int, mask: Tensor) -> Tensor:
    """Which of the output's frames are of the audio and not of the padding."""
    if hasattr(model, "_get_output_attention_mask"):
        real: Tensor = model._get_output_attention_mask(mask, target_length=count)
    else:
        real = model._get_feature_vector_attention_mask(count, mask)
    return real.bool()


def _compile(model: Any, is_ctc: bool) -> None:
    """Compile in place; the text of a generating model grows by a token each step, so its shapes are left open."""
    if is_ctc:
        model.forward = torch.compile(model.forward)
        return
    encoder = model.get_encoder()
    encoder.forward = torch.compile(encoder.forward)
    model.forward = torch.compile(model.forward, dynamic=True)


def _why_padding_counts(config: Any, without_mask: bool) -> str | None:
    """Why an utterance may read differently in a batch than alone, where it may."""
    if without_mask:
        return "trained without an attention mask"
    if config.model_type in PARAKEET_TRANSDUCERS:
        return "searched until the whole batch is through"
    # Its encoder begins with a norm over time, which no mask keeps from the padding.
    return "normalised over its padding as well" if config.model_type == "moonshine" else None


def _notes(missing: list[str], padding_counts: str | None, compile: bool) -> tuple[str, ...]:
    notes = []
    if missing:
        notes.append(f"{len(missing)} weights are not in the model's file and random, such as {missing[0]}")
    if padding_counts:
        notes.append(f"{padding_counts}: a batch may read differently than its utterances one by one")
    if compile:
        notes.append("torch.compile: the first batch of a new shape compiles")
    return tuple(notes)


def _check_switches(compile: object, max_new_tokens: object) -> None:
    if not isinstance(compile, bool):
        raise StopwavError(f"{NAME}: compile={compile}: true or false")
    whole = isinstance(max_new_tokens, int) and not isinstance(max_new_tokens, bool)
    if max_new_tokens is not None and not (whole and max_new_tokens >= 1):  # type: ignore[operator]
        raise StopwavError(f"{NAME}: max_new_tokens={max_new_tokens}: a whole number, at least 1")
