"""Shapes: the frames and tokens of each utterance of a corpus, which determine the cost of a loss."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech.corpus import FORMATS, Corpus, Utterance, load_corpus
from stopwav.speech.utterance import read_lines

LIBRISPEECH = "librispeech"

# Frames of features per second: a hop of 10 ms, as in all recipes of the field.
FRAMES_PER_S = 100

# A joint histogram of frames and tokens, with the shortest and longest utterance: the outermost bins reach beyond them.
_HISTOGRAM = Path(__file__).parent / "data" / "librispeech_shapes.npz"
_HISTOGRAM_FRAMES = (31, 680)
_HISTOGRAM_TOKENS = (2, 151)

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Shapes:
    """Frames T after subsampling and tokens U of each utterance, and the name and digest of their source."""

    name: str
    frames: Counts
    tokens: Counts
    digest: str
    # How frames and tokens were obtained from the source.
    note: str = ""

    def __post_init__(self) -> None:
        if not len(self.frames) or len(self.frames) != len(self.tokens):
            raise StopwavError(f"shapes {self.name}: {len(self.frames)} T and {len(self.tokens)} U; give pairs of both")
        if self.frames.min() < 1 or self.tokens.min() < 0:
            raise StopwavError(
                f"shapes {self.name}: an utterance has {self.frames.min()} frames or {self.tokens.min()} tokens; "
                "each needs 1 frame and 0 tokens at least"
            )

    def __len__(self) -> int:
        return len(self.frames)


def load_shapes(
    source: str | Path = LIBRISPEECH, *, tokenizer: str | None = None, subsampling: int = 4, seed: int = 0
) -> Shapes:
    """Load the shapes of `source`: `librispeech`, a file of shapes, or a corpus, whose texts need a tokenizer."""
    if str(source) == LIBRISPEECH:
        return _draw_librispeech(seed)
    path = Path(source)
    if path.suffix in _READERS and os.path.isfile(path):
        return _read(path)
    if tokenizer is None:
        raise StopwavError(
            f"shapes {source}: neither `librispeech` nor a .csv, .npz or .pt file of shapes; for a corpus, choose "
            "how texts become tokens with --tokenizer chars, words, or a SentencePiece model"
        )
    return corpus_shapes(path, tokenizer, subsampling)


def corpus_shapes(path: Path, tokenizer: str, subsampling: int = 4) -> Shapes:
    """Return the shapes of a NeMo manifest, Lhotse cuts, a Kaldi data folder, or any other corpus."""
    count = token_counter(tokenizer)
    digest, spoken = spoken_texts(path)
    pairs = [(subsampled(round(duration_s * FRAMES_PER_S), subsampling), count(text)) for duration_s, text in spoken]
    if not pairs:
        raise StopwavError(f"{path}: no utterance with a duration and a text; check the file")
    usable = [pair for pair in pairs if pair[0] >= 1]
    if not usable:
        raise StopwavError(f"{path}: no utterance has a frame left after --subsampling {subsampling}")
    dropped = f", {len(pairs) - len(usable)} too short for a frame left out" if len(usable) < len(pairs) else ""
    frames, tokens = np.array(usable, np.int64).T
    note = f"tokenizer {Path(tokenizer).name}, subsampling {subsampling}{dropped}"
    return Shapes(path.resolve().name, frames, tokens, digest, note)


def subsampled(frames: int, factor: int) -> int:
    """Return the frames after subsampling: convolutions of stride 2 and kernel 3 for a power of 2, else division."""
    if factor < 1:
        raise StopwavError(f"--subsampling {factor}: give 1 or more, such as 4")
    if factor & (factor - 1):
        return frames // factor
    # Two of them, the front end of most recipes, leave ((n - 1) // 2 - 1) // 2 frames.
    for _ in range(factor.bit_length() - 1):
        frames = (frames - 1) // 2
    return max(0, frames)


def token_counter(tokenizer: str) -> Callable[[str], int]:
    """Return the function that counts a text's tokens: by `chars` (spaces too), `words`, or a SentencePiece model."""
    if tokenizer == "chars":
        return lambda text: len(" ".join(text.split()))
    if tokenizer == "words":
        return lambda text: len(text.split())
    if not os.path.isfile(tokenizer):
        raise StopwavError(f"tokenizer {tokenizer!r}: no such file; give chars, words, or a SentencePiece model")
    return _sentencepiece(tokenizer)


def save_shapes(shapes: Shapes, path: Path) -> None:
    """Write the shapes: as NPZ where the name ends in .npz, else as CSV with the source in comments on top."""
    about = {"name": shapes.name, "digest": shapes.digest, "note": shapes.note}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            texts: dict[str, Any] = {key: np.array(value) for key, value in about.items()}
            np.savez_compressed(path, T=shapes.frames, U=shapes.tokens, **texts)
            return
        head = "".join(f"# {key}: {' '.join(value.split())}\n" for key, value in about.items())
        rows = "".join(f"{t},{u}\n" for t, u in zip(shapes.frames, shapes.tokens, strict=True))
        path.write_text(f"{head}T,U\n{rows}", encoding="utf-8")
    except OSError as error:
        raise StopwavError(f"{path}: cannot be written ({error.strerror}); choose another file with -o") from error


def _draw_librispeech(seed: int) -> Shapes:
    """Draw as many utterances as LibriSpeech train-clean-100 with speed perturbation has; uniformly inside a bin."""
    with np.load(_HISTOGRAM, allow_pickle=False) as table:
        counts = table["count"].astype(np.int64)
        corners = np.stack([table["frames_bin"], table["tokens_bin"]], axis=1).astype(np.int64)
        widths = table["widths"].astype(np.int64)
    random = np.random.default_rng(seed)
    bins = random.choice(len(counts), size=int(counts.sum()), p=counts / counts.sum())
    pairs = corners[bins] * widths + random.integers(0, widths, size=(len(bins), 2))
    return Shapes(
        name=LIBRISPEECH,
        frames=np.clip(pairs[:, 0], *_HISTOGRAM_FRAMES),
        tokens=np.clip(pairs[:, 1], *_HISTOGRAM_TOKENS),
        digest=file_digest(_HISTOGRAM),
        note=f"drawn from the histogram of train-clean-100, BPE 500, subsampling 4, seed {seed}",
    )


def _sentencepiece(path: str) -> Callable[[str], int]:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise StopwavError(
            f"tokenizer {path!r}: a SentencePiece model needs sentencepiece: pip install sentencepiece"
        ) from error
    try:
        model = SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise StopwavError(f"tokenizer {path!r}: not a SentencePiece model ({reason}); give a .model file") from error
    return lambda text: len(model.encode(text))


def _read(path: Path) -> Shapes:
    try:
        pairs, about = _READERS[path.suffix](path)
    except StopwavError:
        raise
    except Exception as error:  # NumPy and PyTorch raise many kinds of errors for a wrong file
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise StopwavError(f"{path}: not a file of shapes ({reason}); write one with `stopwav shapes`") from error
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise StopwavError(f"{path}: holds {pairs.dtype} of shape {pairs.shape}, not integers T, U in two columns")
    integers = pairs.astype(np.int64)
    return Shapes(
        name=about.get("name") or path.name,
        frames=integers[:, 0],
        tokens=integers[:, 1],
        digest=about.get("digest") or file_digest(path),
        note=about.get("note", ""),
    )


def _read_csv(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line[1:].partition(":") for line in lines if line.startswith("#")]
    head, *rows = [line for line in lines if line and not line.startswith("#")]
    if [name.strip() for name in head.split(",")] != ["T", "U"]:
        raise StopwavError(f"{path}: its columns are {head[:60]!r}; they must be T,U")
    pairs = np.array([[int(part) for part in row.split(",")] for row in rows], np.int64)
    return pairs, {key.strip(): value.strip() for key, _, value in comments}


def _read_npz(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    with np.load(path, allow_pickle=False) as arrays:
        pairs = np.stack([arrays["T"], arrays["U"]], axis=1)
        return pairs, {key: str(arrays[key]) for key in ("name", "digest", "note") if key in arrays}


def _read_pt(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    """Read the older two-column tensor; `weights_only` prevents a file from running code."""
    try:
        import torch
    except ImportError as error:
        raise StopwavError(f"{path}: reading it requires PyTorch: pip install 'stopwav[torch]'") from error
    tensor = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise StopwavError(f"{path}: holds a {type(tensor).__name__}, not a tensor with the columns T and U")
    return tensor.numpy(), {}


_READERS = {".csv": _read_csv, ".npz": _read_npz, ".pt": _read_pt}


Spoken = tuple[float, str]  # duration in seconds, and text


def spoken_texts(path: Path) -> tuple[str, list[Spoken]]:
    """Return the source's digest, and the duration and text of each utterance."""
    if os.path.isfile(path):
        return file_digest(path), list(_entries(path))
    if os.path.isfile(path / "utt2dur") and os.path.isfile(path / "text"):
        return _kaldi(path)
    if not os.path.exists(path):
        raise StopwavError(f"{path} does not exist; shapes are read from Lhotse cuts (.jsonl.gz, .json.gz), {FORMATS}")
    corpus = load_corpus(path)
    return corpus.digest, list(_utterances(corpus))


def file_digest(path: Path) -> str:
    """Return 16 hex digits that identify a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _kaldi(folder: Path) -> tuple[str, list[Spoken]]:
    """Read a data folder with utt2dur: no audio is opened, and no command is run."""
    texts = dict(line.split_first() for line in read_lines(folder / "text")[0])
    durations = dict(line.split_first() for line in read_lines(folder / "utt2dur")[0])
    try:
        spoken = [(float(durations[name]), text) for name, text in texts.items() if name in durations]
    except ValueError as error:
        raise StopwavError(f"{folder / 'utt2dur'}: {error}; its lines must be `id seconds`") from error
    return file_digest(folder / "utt2dur"), spoken


def _utterances(corpus: Corpus) -> Iterator[Spoken]:
    for utterance in corpus.utterances:
        if utterance.text is not None:
            yield _duration_s(utterance), utterance.text


def _duration_s(utterance: Utterance) -> float:
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError) as error:
        raise StopwavError(f"{utterance.path}: cannot read its duration ({error}); repair or remove it") from error


def _entries(path: Path) -> Iterator[Spoken]:
    """Yield the utterances of a NeMo manifest or of Lhotse cuts, as lines or as one list, plain or compressed."""
    open_text = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(path, "rt", encoding="utf-8") as file:
            text = file.read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StopwavError(f"cannot read {path} ({error}); give a manifest, cuts or a folder") from error
    for where, entry in _objects(path, text):
        try:
            yield _entry_duration_s(entry), " ".join(_texts(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StopwavError(f"{where}: neither a NeMo entry nor a Lhotse cut ({reason}); correct it") from error


def _objects(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        if text.lstrip().startswith("["):
            yield from ((f"{path}, entry {number}", entry) for number, entry in enumerate(json.loads(text), start=1))
            return
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"{path}:{number}", json.loads(line)
    except ValueError as error:
        raise StopwavError(f"{path}: not JSON ({error}); give a NeMo manifest or Lhotse cuts") from error


def _entry_duration_s(entry: Mapping[str, Any]) -> float:
    """Return the duration of a cut or an entry; a mixed cut ends with the last of its tracks."""
    if "tracks" in entry:
        return max(float(track.get("offset", 0.0)) + _entry_duration_s(track["cut"]) for track in entry["tracks"])
    return float(entry["duration"])


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an entry: its own, or those of a cut's supervisions in order."""
    if "tracks" in entry:
        for track in entry["tracks"]:
            # Padding and noise are cuts without words.
            yield from _texts({"supervisions": [], **track["cut"]})
    elif "supervisions" in entry:
        yield from (str(part["text"]) for part in entry["supervisions"] if part.get("text"))
    else:
        yield str(entry["text"])
