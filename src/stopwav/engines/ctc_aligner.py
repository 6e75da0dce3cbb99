"""Word times in any language by CTC forced alignment, with a model of Hugging Face Transformers that the user names."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.toolkit import find_model, toolkit_error
from stopwav.errors import StopwavError
from stopwav.speech.align import Aligner
from stopwav.speech.alignment_cache import AlignedWords
from stopwav.speech.audio import Audio
from stopwav.speech.ctc import forced_path, spans
from stopwav.speech.pocketsphinx_aligner import SAMPLE_RATE_HZ, PocketsphinxAligner, no_alignment
from stopwav.speech.utterance import Word

POCKETSPHINX, TRANSFORMERS = "pocketsphinx", "transformers"
# To be raised whenever other times would be found from the same output of a model.
CTC_VERSION = 1
# Seconds of audio that a model sees at once: attention over a longer input takes the square of its memory, and most
# models were trained on less. Of the output, the seconds at both ends where there is more audio are left out.
WINDOW_S, CONTEXT_S = 30.0, 3.0
# Frames of speech models are 10 ms or a multiple of that apart. The last window of an utterance is not filled, so that
# of half a second a frame is missing.
_STEP, _STEP_TOLERANCE = SAMPLE_RATE_HZ // 100, 0.06
# Bytes of a model's files that are read at once.
_BLOCK_BYTES = 1 << 20


def check_aligner(name: str) -> str:
    """Return the name of an aligner; an error where there can be none of that name."""
    toolkit, _, source = name.partition(":")
    if name == POCKETSPHINX or (toolkit == TRANSFORMERS and source):
        return name
    raise StopwavError(
        f"{name[:60]!r} is not an aligner; give {POCKETSPHINX}, or {TRANSFORMERS}:FOLDER-OR-HUB with a CTC model"
    )


@cache
def make_aligner(name: str | None) -> Aligner | None:
    """Return the aligner that a user names, in this process always the same one; None for the default."""
    if name is None:
        return None
    source = check_aligner(name).partition(":")[2]
    return CtcAligner(source) if source else PocketsphinxAligner()


class CtcAligner:
    """The aligner `transformers:FOLDER-OR-HUB`; the model is loaded when the first word is aligned."""

    guess = "the model has no letter of {words}, whose time was put between its neighbours"

    def __init__(self, source: str) -> None:
        self._source = source
        self._model_name, self._local = find_model(f"--aligner {TRANSFORMERS}", source, "config.json")

    @property
    def name(self) -> str:
        """The name, and the beginning of the digest of the model."""
        return f"{TRANSFORMERS}:{Path(self._source).name} {self._digest[:8]}"

    @property
    def identity(self) -> Sequence[str | int]:
        """The model, whatever its folder is called."""
        return "ctc", CTC_VERSION, self._digest

    def aligns(self, language: str) -> bool:
        """Whatever the user has named it for."""
        return True

    def align(self, audio: Audio, words: Sequence[str]) -> AlignedWords:
        """Return the time of each word: from the first frame of its first letter to the last one of its last."""
        model = self._loaded
        labels, places = model.labels(words)
        borders_s, log_probs = model.output(audio)
        path = forced_path(log_probs, labels, model.blank) if labels and len(log_probs) else None
        if path is None:
            raise StopwavError(no_alignment(words, audio.duration_s))
        own = spans(path, len(labels))
        times: list[tuple[float, float] | None] = [
            (float(borders_s[own[first][0]]), float(borders_s[own[after - 1][1]])) if after > first else None
            for first, after in places
        ]
        guessed = dict.fromkeys(word for word, time in zip(words, times, strict=True) if time is None)
        filled = _filled(times, audio.duration_s)
        aligned = (Word(word, *time) for word, time in zip(words, filled, strict=True))
        return AlignedWords(tuple(aligned), tuple(guessed))

    @cached_property
    def _digest(self) -> str:
        """What identifies the model: the commit of one from the Hub, else the content of its folder."""
        commit = None if Path(self._model_name).is_dir() else self._loaded.commit
        return commit or _folder_digest(Path(self._model_name))

    @cached_property
    def _loaded(self) -> _Model:
        return _Model(self._model_name, self._local)


class _Model:
    """A CTC model with its letters, in this process."""

    def __init__(self, source: str, local: bool) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise StopwavError(
                f"--aligner {TRANSFORMERS}: {error.name or 'a package'} is not installed; "
                "pip install 'stopwav[transformers]'"
            ) from error
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        options: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
        try:
            self._processor = transformers.AutoProcessor.from_pretrained(source, **options)
            model, loading = transformers.AutoModelForCTC.from_pretrained(source, output_loading_info=True, **options)
            tokenizer = self._processor.tokenizer
        except Exception as error:  # whatever is wrong with a model folder, the toolkit's first line says it
            hint = f"{source!r} must contain a CTC model and its processor, as save_pretrained writes them"
            raise toolkit_error(f"--aligner {TRANSFORMERS}", error, hint) from error
        if loading["missing_keys"]:
            missing = sorted(loading["missing_keys"])
            raise StopwavError(
                f"--aligner {TRANSFORMERS}: {len(missing)} weights are missing in {source!r}, such as {missing[0]}; "
                "random ones align nothing: give a trained CTC model"
            )
        self._torch, self._model = torch, model.eval().requires_grad_(False)
        self._tokenizer, self._vocabulary = tokenizer, dict(tokenizer.get_vocab())
        self.blank = int(model.config.pad_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
        self._delimiter = self._vocabulary.get(getattr(tokenizer, "word_delimiter_token", None))
        self.commit: str | None = getattr(model.config, "_commit_hash", None)

    def labels(self, words: Sequence[str]) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the labels of the words one after the other, and from where to where are those of each word."""
        labels: list[int] = []
        places = []
        for word in words:
            own = list(self._spelled(word))
            if own and labels and self._delimiter is not None:
                labels.append(self._delimiter)
            places.append((len(labels), len(labels) + len(own)))
            labels += own
        return labels, places

    def _spelled(self, word: str) -> Iterator[int]:
        """Yield the labels of a word: its letters as the model has them, or its pieces where it has more than letters.

        A letter that it lacks is replaced by those that it is made of, and left out where it lacks these as well.
        """
        if self._delimiter is None and any(len(token) > 1 for token in self._pieces):
            ids = self._tokenizer(word, add_special_tokens=False).input_ids
            yield from (int(number) for number in ids if number != self._tokenizer.unk_token_id)
            return
        for letter in word:
            found = self._label_of(letter)
            yield from [found] if found is not None else filter(None, map(self._label_of, _parts(letter)))

    @cached_property
    def _pieces(self) -> list[str]:
        special = set(self._tokenizer.all_special_tokens)
        return [token for token in self._vocabulary if token not in special]

    def _label_of(self, letter: str) -> int | None:
        spellings = (letter, letter.upper(), letter.lower())
        known = (self._vocabulary[spelling] for spelling in spellings if spelling in self._vocabulary)
        return next((int(label) for label in known if label != self.blank), None)

    def output(self, audio: Audio) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return the borders between frames in seconds, one more than frames, and the log probabilities of each."""
        borders, outputs = [np.zeros(1)], []
        for start, end, first, last in _windows(len(audio.samples)):
            log_probs = self._frames(audio.samples[start:end])
            edges = start + self._edges(end - start, len(log_probs))
            middle = (edges[1:] + edges[:-1]) / 2
            kept = (middle >= first) & (middle < last)
            borders.append(edges[1:][kept])
            outputs.append(log_probs[kept])
        borders_s: NDArray[np.float64] = np.concatenate(borders) / SAMPLE_RATE_HZ
        frames = np.concatenate(outputs) if outputs else np.zeros((0, 0), np.float32)
        return np.minimum(borders_s, audio.duration_s), frames

    def _edges(self, samples: int, frames: int) -> NDArray[np.float64]:
        """The borders between frames, in samples: by the model's own step where it states one."""
        step = getattr(self._model.config, "inputs_to_logits_ratio", None) or _step(samples, frames)
        edges: NDArray[np.float64] = np.arange(frames + 1, dtype=np.float64) * float(step)
        return edges

    def _frames(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        inputs = self._processor(samples, sampling_rate=SAMPLE_RATE_HZ, return_tensors="pt")
        try:
            with self._torch.inference_mode():
                logits = self._model(**inputs).logits[0]
        except RuntimeError:  # audio shorter than the model's first window
            return np.zeros((0, 0), np.float32)
        log_probs: NDArray[np.float32] = self._torch.log_softmax(logits.float(), dim=-1).numpy()
        return log_probs


def _step(samples: int, frames: int) -> float:
    """The samples from one frame to the next: a multiple of 10 ms wherever the number of frames allows that."""
    step = samples / max(1, frames)
    whole = round(step / _STEP) * _STEP
    return whole if whole and abs(step / whole - 1) <= _STEP_TOLERANCE else step


def _parts(letter: str) -> str:
    """What a letter is made of: its base without marks, or the letters of a ligature."""
    return {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l"}.get(letter) or "".join(
        part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)
    )


def _windows(samples: int) -> Iterator[tuple[int, int, float, float]]:
    """Yield what a model sees at once, from and to, and the part of it whose output is used."""
    window, context = round(WINDOW_S * SAMPLE_RATE_HZ), round(CONTEXT_S * SAMPLE_RATE_HZ)
    start = 0
    while start < samples:
        end = min(start + window, samples)
        if samples - end < context:
            end = samples
        yield start, end, start + context if start else 0.0, end - context if end < samples else float(samples + window)
        if end == samples:
            return
        start = end - 2 * context


def _filled(times: Sequence[tuple[float, float] | None], duration_s: float) -> Iterator[tuple[float, float]]:
    """Yield the times, those that are missing from the end of the word before to the beginning of the word after."""
    before_s = 0.0
    for place, time in enumerate(times):
        after_s = next((other[0] for other in times[place + 1 :] if other is not None), duration_s)
        start_s, end_s = time or (before_s, max(before_s, after_s))
        before_s = end_s
        yield round(start_s, 4), round(end_s, 4)


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(f"{path.name}\n{path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()
