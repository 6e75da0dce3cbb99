"""Hugging Face transformers: CTC, encoder-decoder and transducer recognisers, loaded by the toolkit's Auto classes.

A model is a folder written by `save_pretrained`, or a name on the Hub; one that is already in the cache is read from
there without any use of the network. Code that comes with a model is never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stopwav.engines.protocol import EngineInfo
from stopwav.engines.toolkit import check_choice, check_torch_device, check_whole_number, find_model, toolkit_error
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.models.checkpoint import disable_amx_in_vm
from stopwav.speech.audio import Audio

NAME = "transformers"
PRECISIONS = ("float32", "float16", "bfloat16")
# The rate of nearly every recogniser there; a feature extractor refuses any other rate than its own.
SAMPLE_RATE_HZ = 16_000
# Random at every load, since only training uses it.
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
        check_choice(NAME, "dtype", dtype, PRECISIONS)
        self._device = check_torch_device(NAME, device)
        if not isinstance(compile, bool):
            raise StopwavError(f"{NAME}: compile={compile}: must be true or false")
        if max_new_tokens is not None:
            check_whole_number(NAME, "max_new_tokens", max_new_tokens, 1)
        if self._device == "cpu":
            disable_amx_in_vm()
        model, local = find_model(NAME, source, "config.json")
        config, self._processor, self._model, missing = _load(model, local, getattr(torch, dtype))
        self._is_ctc = type(self._model).__name__.endswith("ForCTC")
        options = {"max_new_tokens": max_new_tokens, "language": language}
        self._generation = {key: value for key, value in options.items() if value is not None}
        if self._is_ctc and self._generation:
            raise StopwavError(f"{NAME}: {next(iter(self._generation))} is for models that generate; {model} is CTC")
        self._model.to(self._device)
        self.network = self._model
        if compile:
            _compile(self._model, self._is_ctc)
        features = self._processor.feature_extractor
        # The feature extractor says whether the model was trained without a mask; then padding is seen as silence.
        self._masked = getattr(features, "return_attention_mask", True) is not False
        # Whisper's input always has this length; longer audio is cut off by default.
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
            notes=_notes(missing, _padding_effect(config, self._is_ctc and not self._masked), compile),
            untrained=bool(missing),
            # One pass and the best label of each frame: no search.
            data_dependent=not self._is_ctc,
        )

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance; the model processes the whole batch, padded to its longest, at once."""
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
            # Copying the few tokens back waits for the GPU, so that its work counts here and not in the next stage.
            tokens = (self._label(inputs) if self._is_ctc else self._generate(inputs, in_windows)).cpu()
        with stage("post"):
            texts: list[str] = self._processor.batch_decode(tokens, skip_special_tokens=not self._is_ctc)
            return [text.strip() for text in texts]

    def _padding(self, in_windows: bool) -> dict[str, Any]:
        if in_windows:
            return {"padding": "longest", "truncation": False}
        return {"padding": "longest" if self._window is None else "max_length"}

    def _label(self, inputs: Any) -> Tensor:
        """Return the best label of each frame, and the blank in the padding."""
        mask = inputs["attention_mask"]
        used = inputs if self._masked else {key: value for key, value in inputs.items() if key != "attention_mask"}
        labels: Tensor = self._model(**used).logits.argmax(dim=-1)
        is_audio = _audio_frames(self._model, labels.shape[1], mask)
        return labels.masked_fill(~is_audio, self._processor.tokenizer.pad_token_id)

    def _generate(self, inputs: Any, in_windows: bool) -> Tensor:
        # Whisper finds the next window by the times it writes, which most models are saved not to write.
        timestamps = {"return_timestamps": True} if in_windows else {}
        output = self._model.generate(**inputs, **self._generation, **timestamps)
        tokens: Tensor = output if isinstance(output, Tensor) else output.sequences
        return tokens


def _load(source: str, local: bool, dtype: torch.dtype) -> tuple[Any, Any, Any, list[str]]:
    """Return the configuration, the processor, the model, and the weights that are missing in its file."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options = {"local_files_only": local, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
        auto = _auto_class(source, config)
        processor = transformers.AutoProcessor.from_pretrained(source, **options)
        model, loading = auto.from_pretrained(source, dtype=dtype, output_loading_info=True, **options)
    except StopwavError:
        raise
    except Exception as error:  # whatever is wrong with a model folder, the toolkit's first line says it
        hint = f"{source!r} must contain a recogniser and its processor, as save_pretrained writes them"
        raise toolkit_error(NAME, error, hint) from error
    if not (hasattr(processor, "feature_extractor") and hasattr(processor, "tokenizer")):
        raise StopwavError(
            f"{NAME}: {source!r} has only a {type(processor).__name__}; a recogniser needs a feature extractor and "
            "a tokenizer: save its processor in the same folder"
        )
    missing = [name for name in loading["missing_keys"] if not name.endswith(TRAINING_ONLY)]
    return config, processor, model.eval().requires_grad_(False), missing


def _auto_class(source: str, config: Any) -> Any:
    """Return the toolkit's class for this kind of recogniser."""
    import transformers

    names = ("AutoModelForCTC", *(name for name in TRANSDUCERS if hasattr(transformers, name)))
    for auto in (getattr(transformers, name) for name in names):
        if type(config) in auto._model_mapping:
            return auto
    # Recognisers that are language models over sounds need a prompt, which is not given here.
    if type(config) in transformers.AutoModelForSpeechSeq2Seq._model_mapping and config.is_encoder_decoder:
        return transformers.AutoModelForSpeechSeq2Seq
    raise StopwavError(
        f"{NAME}: {source!r} is a {config.model_type} model; CTC, encoder-decoder and transducer recognisers are "
        "supported, such as wav2vec2, hubert, whisper, moonshine or parakeet"
    )


def _audio_frames(model: Any, count: int, mask: Tensor) -> Tensor:
    """Return which frames of the output are audio and not padding."""
    if hasattr(model, "_get_output_attention_mask"):
        is_audio: Tensor = model._get_output_attention_mask(mask, target_length=count)
    else:
        is_audio = model._get_feature_vector_attention_mask(count, mask)
    return is_audio.bool()


def _compile(model: Any, is_ctc: bool) -> None:
    """Compile in place, with dynamic shapes for a generating model, whose text grows by a token each step."""
    if is_ctc:
        model.forward = torch.compile(model.forward)
        return
    encoder = model.get_encoder()
    encoder.forward = torch.compile(encoder.forward)
    model.forward = torch.compile(model.forward, dynamic=True)


def _padding_effect(config: Any, without_mask: bool) -> str | None:
    """Return why the text of an utterance may differ between a batch and alone, `None` if it does not."""
    if without_mask:
        return "trained without an attention mask"
    if config.model_type in PARAKEET_TRANSDUCERS:
        return "every utterance is searched until the whole batch is done"
    # Its encoder begins with a norm over time, and no mask excludes the padding from it.
    return "normalised over the padding too" if config.model_type == "moonshine" else None


def _notes(missing: list[str], padding_effect: str | None, compile: bool) -> tuple[str, ...]:
    notes = []
    if missing:
        notes.append(f"{len(missing)} weights are missing in the model's file and random, such as {missing[0]}")
    if padding_effect:
        notes.append(f"{padding_effect}: texts in a batch may differ from those of its utterances one by one")
    if compile:
        notes.append("torch.compile: the first batch of each new shape includes compilation")
    return tuple(notes)
