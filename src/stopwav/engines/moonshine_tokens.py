"""Moonshine's tokenizer file in the form that sherpa-onnx reads."""

from __future__ import annotations

import base64
from collections.abc import Iterator


def sherpa_tokens(tokenizer_bin: bytes) -> str:
    """The lines of `tokens.txt`: each token in base64, and its number."""
    return "".join(f"{base64.b64encode(token).decode()} {at}\n" for at, token in enumerate(_tokens(tokenizer_bin)))


def _tokens(content: bytes) -> Iterator[bytes]:
    """The tokens of the file: each is its length, low seven bits first where one byte is too small, and its bytes."""
    at = 0
    while at < len(content):
        length = content[at]
        at += 1
        if length >= 128:
            length += (content[at] - 1) * 128
            at += 1
        yield content[at : at + length]
        at += length
