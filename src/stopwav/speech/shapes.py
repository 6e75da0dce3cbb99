"""Shapes: the frames and tokens of each utterance of a corpus, which determine the cost of a loss."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech.spoken_texts import file_digest, spoken_texts

LIBRISPEECH = "librispeech"

# Frames of features per second: a hop of 10 ms, as in all recipes of the field.
FRAMES_PER_S = 100
# Input frames per encoder frame, in most recipes and in the histogram of LibriSpeech.
SUBSAMPLING = 4
# Recipes train on utterances of up to 15 to 30 s. If frames of the encoder would make the longest one longer than this,
# they are input frames; if they are input frames below it, no utterance of the file is longer than a fourth of this.
LONGEST_S = 40.0

# What the frames of a file are: those that go into an encoder, 10 ms each, or those that come out of it.
FrameKind = Literal["input", "encoder"]

# A joint histogram of frames and tokens, with the shortest and longest utterance: the outermost bins reach beyond them.
_HISTOGRAM = Path(__file__).parent / "data" / "librispeech_shapes.npz"
_HISTOGRAM_FRAMES = (31, 680)
_HISTOGRAM_TOKENS = (2, 151)
# The columns of a histogram: the ends of each bin, both included, and its utterances.
_BINS = ["t_low", "t_high", "u_low", "u_high", "count"]
# What `stopwav shapes` writes into a file besides T and U.
_ABOUT = ("name", "digest", "note", "subsampling")

# Beyond 115 days of frames, and as many tokens, a number is a mistake, and their product no number at all.
MOST = 10**9
# No encoder joins more frames.
MOST_SUBSAMPLING = 1000

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
    subsampling: int = SUBSAMPLING
    # The frames before subsampling, where the source has them.
    input_frames: Counts | None = None
    # What the frames of the source are; and why they are taken as such, where nothing says so.
    frame_kind: FrameKind = "encoder"
    guess: str = ""

    def __post_init__(self) -> None:
        if not len(self.frames) or len(self.frames) != len(self.tokens):
            raise StopwavError(f"shapes {self.name}: {len(self.frames)} T and {len(self.tokens)} U; give pairs of both")
        if self.frames.min() < 1 or self.tokens.min() < 0:
            raise StopwavError(
                f"shapes {self.name}: an utterance has {self.frames.min()} frames or {self.tokens.min()} tokens; "
                "each needs 1 frame and 0 tokens at least"
            )
        if max(self.frames.max(), self.tokens.max()) > MOST:
            raise StopwavError(
                f"shapes {self.name}: an utterance has {self.frames.max()} frames or {self.tokens.max()} tokens; "
                f"correct what is over {MOST:.0e}"
            )
        if not 1 <= self.subsampling <= MOST_SUBSAMPLING:
            raise StopwavError(f"shapes {self.name}: subsampling by {self.subsampling}; give 1 to {MOST_SUBSAMPLING}")

    def __len__(self) -> int:
        return len(self.frames)


def load_shapes(
    source: str | Path = LIBRISPEECH,
    *,
    tokenizer: str | None = None,
    frames: FrameKind | None = None,
    subsampling: int = SUBSAMPLING,
    seed: int = 0,
) -> Shapes:
    """Load the shapes of `source`: `librispeech`, a file of shapes, or a corpus, whose texts need a tokenizer.

    `frames` says what the frames of a file are; without it the file says so, or its longest utterance does.
    """
    _check_subsampling(subsampling)
    path = Path(source)
    is_file = path.suffix in _READERS and os.path.isfile(path)
    if frames is not None and not is_file:
        raise StopwavError(f"--frames {frames}: only for a .csv, .npz or .pt file of shapes, and not for {source}")
    if str(source) == LIBRISPEECH:
        return _draw_librispeech(subsampling, seed)
    if is_file:
        return _read(path, frames, subsampling, seed)
    if tokenizer is None:
        raise StopwavError(
            f"shapes {source}: neither `librispeech` nor a .csv, .npz or .pt file of shapes; for a corpus, choose "
            "how texts become tokens with --tokenizer chars, words, or a SentencePiece model"
        )
    return corpus_shapes(source, tokenizer, subsampling)


def frame_kind(text: str | None) -> FrameKind | None:
    """Return the kind of frames that an option names; raise where there is no such kind."""
    if text is not None and text not in get_args(FrameKind):
        raise StopwavError(f"--frames {text}: give {' or '.join(get_args(FrameKind))}")
    return cast("FrameKind | None", text)


def shapes_to_json(shapes: Shapes) -> dict[str, Any]:
    """Return what the header of a run holds of its shapes; a guess is a warning of the run."""
    warning = {"code": "frames-guessed", "message": f"{shapes.name}: {shapes.guess}"}
    return {
        "name": shapes.name,
        "digest": shapes.digest,
        "note": shapes.note,
        "frames": shapes.frame_kind,
        "subsampling": shapes.subsampling,
        "count": len(shapes),
        "cautions": [warning] if shapes.guess else [],
    }


def corpus_shapes(source: str | Path, tokenizer: str, subsampling: int = SUBSAMPLING) -> Shapes:
    """Return the shapes of a NeMo manifest, Lhotse cuts, a Kaldi data folder, or any other corpus."""
    count = token_counter(tokenizer)
    digest, spoken, problems = spoken_texts(str(source))
    pairs = [(round(duration_s * FRAMES_PER_S), count(text)) for duration_s, text in spoken]
    first = f"{problems[0].where}: {problems[0].message}" if problems else "check the file"
    if not pairs:
        raise StopwavError(f"{source}: no utterance with a duration and a text; {first}")
    left_out = f", {len(problems)} unusable left out ({first})" if problems else ""
    note = f"tokenizer {Path(tokenizer).name}{left_out}"
    return _subsampled_shapes(Path(source).resolve().name, np.array(pairs, np.int64), digest, note, subsampling)


def subsampled(frames: int, factor: int) -> int:
    """Return the frames after subsampling: convolutions of stride 2 and kernel 3 for a power of 2, else division."""
    _check_subsampling(factor)
    if factor & (factor - 1):
        return frames // factor
    # Two of them, the front end of most recipes, leave ((n - 1) // 2 - 1) // 2 frames.
    for _ in range(factor.bit_length() - 1):
        frames = (frames - 1) // 2
    return max(0, frames)


def before_subsampling(shapes: Shapes) -> Shapes:
    """Return the shapes with input frames: those of the source, or the fewest that leave T frames."""
    factor = shapes.subsampling
    fewest = factor * shapes.frames + (0 if factor & (factor - 1) else factor - 1)
    return replace(shapes, frames=fewest if shapes.input_frames is None else shapes.input_frames)


def _check_subsampling(factor: int) -> None:
    if not 1 <= factor <= MOST_SUBSAMPLING:
        raise StopwavError(f"--subsampling {factor}: give 1 to {MOST_SUBSAMPLING}, such as {SUBSAMPLING}")


def _subsampled_shapes(name: str, pairs: NDArray[np.int64], digest: str, note: str, factor: int) -> Shapes:
    """The shapes of pairs of input frames and tokens; an utterance that no frame is left of is left out."""
    frames = np.array([subsampled(int(length), factor) for length in pairs[:, 0]], np.int64)
    usable = frames >= 1
    if not usable.any():
        raise StopwavError(f"{name}: no utterance has a frame left after --subsampling {factor}")
    dropped = int((~usable).sum())
    left_out = f", {dropped} too short for a frame left out" if dropped else ""
    return Shapes(
        name=name,
        frames=frames[usable],
        tokens=pairs[usable, 1],
        digest=digest,
        note=f"{note}, subsampling {factor}{left_out}",
        subsampling=factor,
        input_frames=pairs[usable, 0],
    )


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
    about = {"name": shapes.name, "digest": shapes.digest, "note": shapes.note, "subsampling": str(shapes.subsampling)}
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


def _draw_librispeech(subsampling: int, seed: int) -> Shapes:
    """Draw as many utterances as LibriSpeech train-clean-100 with speed perturbation has."""
    with np.load(_HISTOGRAM, allow_pickle=False) as table:
        counts = table["count"].astype(np.int64)
        widths = table["widths"].astype(np.int64)
        lowest = np.stack([table["frames_bin"], table["tokens_bin"]], axis=1).astype(np.int64) * widths
    pairs = _draw_from_bins(lowest, np.broadcast_to(widths, lowest.shape), counts, seed)
    shapes = Shapes(
        name=LIBRISPEECH,
        frames=np.clip(pairs[:, 0], *_HISTOGRAM_FRAMES),
        tokens=np.clip(pairs[:, 1], *_HISTOGRAM_TOKENS),
        digest=file_digest(_HISTOGRAM),
    )
    note = "drawn from the histogram of train-clean-100, BPE 500"
    if subsampling == SUBSAMPLING:
        return replace(shapes, note=f"{note}, subsampling {SUBSAMPLING}, seed {seed}")
    inputs = np.stack([before_subsampling(shapes).frames, shapes.tokens], axis=1)
    return _subsampled_shapes(LIBRISPEECH, inputs, shapes.digest, f"{note}, seed {seed}", subsampling)


def _draw_from_bins(lowest: Counts, widths: Counts, counts: Counts, seed: int) -> Counts:
    """Draw as many pairs as a histogram counts, uniformly inside its bins."""
    if not counts.sum() > 0 or counts.min() < 0:
        raise ValueError("the counts of its bins must be 0 or more, and some of them more")
    random = np.random.default_rng(seed)
    bins = random.choice(len(counts), size=int(counts.sum()), p=counts / counts.sum())
    drawn: Counts = lowest[bins] + random.integers(0, widths[bins])
    return drawn


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


def _read(path: Path, frames: FrameKind | None, subsampling: int, seed: int) -> Shapes:
    try:
        pairs, about = _READERS[path.suffix](path, seed)
        factor = int(about.get("subsampling", subsampling))
    except StopwavError:
        raise
    except Exception as error:  # NumPy and PyTorch raise many kinds of errors for a wrong file
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise StopwavError(f"{path}: not a file of shapes ({reason}); write one with `stopwav shapes`") from error
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise StopwavError(f"{path}: holds {pairs.dtype} of shape {pairs.shape}, not integers T, U in two columns")
    integers = pairs.astype(np.int64)
    name, digest, note = about.get("name") or path.name, about.get("digest") or file_digest(path), about.get("note", "")
    # `stopwav shapes` writes encoder frames, and a digest; since there is --frames, also what they were subsampled by.
    kind, guess = (frames, "") if frames or "digest" not in about else ("encoder", "")
    if kind is None:
        kind, guess = _guess(integers[:, 0], subsampling)
    if kind == "input":
        shapes = _subsampled_shapes(name, integers, digest, note or "input frames", subsampling)
        return replace(shapes, frame_kind="input", guess=guess)
    return Shapes(name, integers[:, 0], integers[:, 1], digest, note, factor, guess=guess)


def _guess(frames: Counts, subsampling: int) -> tuple[FrameKind, str]:
    """The kind of frames of a file, by how long its longest utterance would be; and that reason in words."""
    longest = int(frames.max(initial=0))
    input_s = longest / FRAMES_PER_S
    encoder_s = subsampling * input_s
    kind: FrameKind = "input" if encoder_s > LONGEST_S else "encoder"
    taken_s, other, other_s = (input_s, "encoder", encoder_s) if kind == "input" else (encoder_s, "input", input_s)
    return kind, (
        f"T taken as {kind} frames: the longest utterance has {longest}, which is {taken_s:.1f} s of audio; "
        f"if they are {other} frames ({other_s:.1f} s), give --frames {other}"
    )


def _read_csv(path: Path, seed: int) -> tuple[NDArray[Any], dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line[1:].partition(":") for line in lines if line.startswith("#")]
    head, *rows = [line for line in lines if line and not line.startswith("#")]
    columns = [name.strip() for name in head.split(",")]
    if columns not in (["T", "U"], _BINS):
        raise StopwavError(
            f"{path}: its columns are {head[:60]!r}; they must be T,U, or of a histogram {','.join(_BINS)}"
        )
    table = np.array([[int(part) for part in row.split(",")] for row in rows], np.int64)
    if columns == _BINS:
        table = _draw_from_bins(table[:, [0, 2]], table[:, [1, 3]] - table[:, [0, 2]] + 1, table[:, 4], seed)
    return table, {key.strip(): value.strip() for key, _, value in comments}


def _read_npz(path: Path, seed: int) -> tuple[NDArray[Any], dict[str, str]]:
    with np.load(path, allow_pickle=False) as arrays:
        pairs = np.stack([arrays["T"], arrays["U"]], axis=1)
        return pairs, {key: str(arrays[key]) for key in _ABOUT if key in arrays}


def _read_pt(path: Path, seed: int) -> tuple[NDArray[Any], dict[str, str]]:
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
