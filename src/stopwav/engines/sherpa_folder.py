"""A folder with a model for sherpa-onnx: which kind it is, which files it has, and whether it streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stopwav.engines.moonshine_tokens import sherpa_tokens
from stopwav.engines.toolkit import check_one_of
from stopwav.errors import StopwavError

NAME = "sherpa-onnx"
PRECISIONS = ("float32", "float16", "int8")
# The toolkit's features have a frame every 10 ms.
FRAME_S = 0.01
# The end of an ONNX file, where its metadata are.
METADATA_BYTES = 65_536

# Each kind's files, by the arguments of the recogniser's own `from_KIND`. The files of these tell what they are ...
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
# ... and those of these do not: they all have a model.onnx, and must be named.
BY_NAME = {
    "nemo_ctc": {"model": "model*.onnx"},
    "paraformer": {"paraformer": "model*.onnx"},
    "sense_voice": {"model": "model*.onnx"},
    "zipformer_ctc": {"model": "model*.onnx"},
}
KINDS = {**BY_FILES, **BY_NAME}


@dataclass(frozen=True)
class Shape:
    """How much audio a streaming model takes at a time, and how much it must hear beyond that."""

    chunk_s: float
    lookahead_s: float


def find_kind(folder: Path, wanted: str | None) -> str:
    """What the folder holds: as its files tell, or as the user does."""
    if wanted is not None:
        check_one_of(NAME, "type", wanted, tuple(KINDS))
        return wanted
    for kind, patterns in BY_FILES.items():
        if all(any(folder.glob(pattern)) for pattern in patterns.values()):
            return kind
    found = ", ".join(sorted(path.name for path in folder.iterdir())[:4])
    raise StopwavError(
        f"{NAME}: the files of {folder} ({found}) do not tell what it is; those of {', '.join(BY_FILES)} do, "
        f"any of {', '.join(BY_NAME)} must be named: type=nemo_ctc"
    )


def find_files(folder: Path, kind: str, dtype: str | None) -> dict[str, Path]:
    """The files of a model, by the arguments that they are for.

    Of several precisions it takes the one asked for; small parts are often left in float32 beside an int8 encoder.
    """
    files = {argument: _find_file(folder, pattern, dtype) for argument, pattern in KINDS[kind].items()}
    there = {precision(path) for path in files.values() if path.suffix == ".onnx"}
    if dtype is not None and dtype not in there:
        raise StopwavError(f"{NAME}: dtype={dtype}: {folder} has its model in {', '.join(there) or 'one form'} only")
    return files


def _find_file(folder: Path, pattern: str, dtype: str | None) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise StopwavError(f"{NAME}: {folder} has no {pattern}; unpack the whole model there, or name another type=")
    there = {precision(path) for path in found}
    chosen = dtype if dtype in there else next(one for one in PRECISIONS if one in there)
    found = [path for path in found if precision(path) == chosen]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise StopwavError(f"{NAME}: {folder} has several files for {pattern} ({names}); leave one of them there")
    return found[0]


def precision(path: Path) -> str:
    """The precision of an ONNX file's weights, by the toolkit's habit of naming them."""
    marks = {".int8.": "int8", ".fp16.": "float16"}
    return next((name for mark, name in marks.items() if mark in path.name), "float32")


def find_tokens(folder: Path, scratch: Path) -> Path:
    """The token table: the folder's, or Moonshine's own tokenizer written in that form."""
    if (folder / "tokens.txt").is_file():
        return folder / "tokens.txt"
    if not (folder / "tokenizer.bin").is_file():
        raise StopwavError(f"{NAME}: {folder} has no tokens.txt; unpack the whole model there")
    made = scratch / "tokens.txt"
    made.write_text(sherpa_tokens((folder / "tokenizer.bin").read_bytes()))
    return made


def streaming_shape(encoder: Path) -> Shape | None:
    """What a transducer's encoder takes at a time; `None` for one that is not streaming.

    The toolkit ends the process when it is given the one kind for the other, so it is found out before.
    """
    with encoder.open("rb") as file:
        file.seek(max(0, encoder.stat().st_size - METADATA_BYTES))
        end = file.read()
    for keys in (("decode_chunk_len", "T"), ("chunk_shift", "window_size")):  # the latter are NeMo's names
        chunk, whole = (_metadatum(end, key) for key in keys)
        if chunk is not None and whole is not None:
            return Shape(int(chunk) * FRAME_S, max(0, int(whole) - int(chunk)) * FRAME_S)
    return None


def _metadatum(end: bytes, key: str) -> str | None:
    """The value of a key: an entry is the key (field 1) and the value (field 2), each after its length in one byte."""
    entry = b"\x0a" + bytes([len(key)]) + key.encode() + b"\x12"
    at = end.rfind(entry)
    if at < 0:
        return None
    start = at + len(entry) + 1
    return end[start : start + end[start - 1]].decode()
