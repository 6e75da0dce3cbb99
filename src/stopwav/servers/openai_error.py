"""The error that a server of OpenAI's interfaces states: an object, a text or a list, depending on who wrote it."""

from __future__ import annotations

import json

from stopwav.servers.websocket import brief

# Where the message is, in this order: OpenAI's own, FastAPI's, and what others use.
_KEYS = ("error", "message", "detail", "msg", "code", "type")
# Objects in objects that are looked into: FastAPI with OpenAI's error in its detail has three.
_DEEPEST = 4


def stated_message(value: object) -> str:
    """Return the message in an error, as deep as it may be, cut to one short line; "" where there is none."""
    return brief(_message(value, 0))


def message_of_body(body: str) -> str:
    """Return the message in the body of an answer, or else the beginning of the body itself."""
    try:
        return stated_message(json.loads(body)) or stated_message(body)
    except (ValueError, RecursionError):
        return stated_message(body)


def _message(value: object, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth == _DEEPEST:
        return ""
    if isinstance(value, list):
        return _message(value[0], depth + 1) if value else ""
    if isinstance(value, dict):
        messages = (_message(value[key], depth + 1) for key in _KEYS if key in value)
        return next(filter(None, messages), "")
    return ""
