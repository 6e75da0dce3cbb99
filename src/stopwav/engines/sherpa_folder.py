"""A folder with a model for sherpa-onnx: its kind, its files, and whether it streams."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stopwav.engines.toolkit import check_choice
from stopwav.errors import StopwavError

NAME = "sherpa-onnx"
PRECISIONS = ("float32", "float16", "int8")
# The toolkit's features have a frame every 10 ms.
FRAME_S = 0.01
# The size of the end of an ONNX file, where its metadata are.
METADATA_BYTES = 65_536

# Each kind's files, by the arguments of the recogniser's own `from_KIND`. These kinds are recognised by their files ...
BY_FILES = {
    "moonshine_v2": {"encoder": "encoder_model.ort", "decoder": "decoder_model_merged.ort"},
    "moonshine": {
        "preprocessor": "preprocess*.onnx",
        "encoder": "encode*.onnx",
        "uncached_decoder": "uncached_decode*.onnx",
        "cached_decoder": "cached_decode*.onnx",
    },
    "transducer": {"encoder": "encoder*.onnx", "decoder": "decoder*.onnx", "joiner": "joiner*.onnx"},
    "whisper": {"encoder": "*-encoder*.onnx", "decoder": "*-decoder*.onnx", "tokens": "*-tokens.txt"},
}
# ... and these are not: they all have a model.onnx, so the user must give the kind.
BY_NAME = {
    "nemo_ctc": {"model": "model*.onnx"},
    "paraformer": {"paraformer": "model*.onnx"},
    "sense_voice": {"model": "model*.onnx"},
    "zipformer_ctc": {"model": "model*.onnx"},
}
KINDS = {**BY_FILES, **BY_NAME}


@dataclass(frozen=True)
class Shape:
    """How much audio a streaming model takes at a time, and how much more it needs ahead."""

    chunk_s: float
    lookahead_s: float


def find_kind(folder: Path, given: str | None) -> str:
    """Return the kind of the model: the one that the user gave, or the one that its files show."""
    if given is not None:
        check_choice(NAME, "type", given, tuple(KINDS))
        return given
    for kind, patterns in BY_FILES.items():
        if all(any(folder.glob(pattern)) for pattern in patterns.values()):
            return kind
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:4])
    raise StopwavError(
        f"{NAME}: the files of {folder} ({names}) do not show the kind of the model, as those of "
        f"{', '.join(BY_FILES)} do; for {', '.join(BY_NAME)} give it: type=nemo_ctc"
    )


def find_files(folder: Path, kind: str, dtype: str | None) -> dict[str, Path]:
    """Return the files of a model, by the arguments that they are for, in the given precision where there is one.

    Small parts are often left in float32 next to an int8 encoder.
    """
    files = {argument: _find_file(folder, pattern, dtype) for argument, pattern in KINDS[kind].items()}
    precisions = {precision(path) for path in files.values() if path.suffix == ".onnx"}
    if dtype is not None and dtype not in precisions:
        raise StopwavError(f"{NAME}: dtype={dtype}: {folder} has only {', '.join(precisions) or 'one precision'}")
    return files


def _find_file(folder: Path, pattern: str, dtype: str | None) -> Path:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise StopwavError(f"{NAME}: {folder} has no {pattern}; unpack the whole model there, or give another type=")
    precisions = {precision(path) for path in paths}
    chosen = dtype if dtype in precisions else next(name for name in PRECISIONS if name in precisions)
    paths = [path for path in paths if precision(path) == chosen]
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise StopwavError(f"{NAME}: {folder} has several files for {pattern} ({names}); keep only one of them")
    return paths[0]


def precision(path: Path) -> str:
    """Return the precision of an ONNX file's weights, by the toolkit's naming convention."""
    parts = {".int8.": "int8", ".fp16.": "float16"}
    return next((name for part, name in parts.items() if part in path.name), "float32")


def find_tokens(folder: Path, scratch: Path) -> Path:
    """Return the token table: the folder's own, or Moonshine's tokenizer converted to that form."""
    if (folder / "tokens.txt").is_file():
        return folder / "tokens.txt"
    if not (folder / "tokenizer.bin").is_file():
        raise StopwavError(f"{NAME}: {folder} has no tokens.txt; unpack the whole model there")
    path = scratch / "tokens.txt"
    path.write_text(token_table((folder / "tokenizer.bin").read_bytes()))
    return path


def token_table(tokenizer_bin: bytes) -> str:
    """Return Moonshine's tokenizer file as the lines of `tokens.txt`: each token in base64, and its number."""
    tokens = enumerate(_moonshine_tokens(tokenizer_bin))
    return "".join(f"{base64.b64encode(token).decode()} {number}\n" for number, token in tokens)


def _moonshine_tokens(content: bytes) -> Iterator[bytes]:
    """Yield the tokens: each is its length, in two bytes from 128 on, low seven bits first, and then its bytes."""
    position = 0
    while position < len(content):
        length = content[position]
        position += 1
        if length >= 128:
            length += (content[position] - 1) * 128
            position += 1
        yield content[position : position + length]
        position += length


def streaming_shape(encoder: Path) -> Shape | None:
    """Return how much audio a transducer's encoder takes at a time; `None` for one that is not streaming.

    The toolkit ends the process when a model is loaded as the wrong kind, so this is checked before.
    """
    with encoder.open("rb") as file:
        file.seek(max(0, encoder.stat().st_size - METADATA_BYTES))
        end = file.read()
    for keys in (("decode_chunk_len", "T"), ("chunk_shift", "window_size")):  # the second pair are NeMo's names
        chunk, window = (_metadata_value(end, key) for key in keys)
        if chunk is not None and window is not None:
            return Shape(int(chunk) * FRAME_S, max(0, int(window) - int(chunk)) * FRAME_S)
    return None


def _metadata_value(end: bytes, key: str) -> str | None:
    """Return the value of a key: an entry is the key (field 1) and the value (field 2), each after its length."""
    entry = b"\x0a" + bytes([len(key)]) + key.encode() + b"\x12"
    position = end.rfind(entry)
    if position < 0:
        return None
    start = position + len(entry) + 1
    return end[start : start + end[start - 1]].decode()
