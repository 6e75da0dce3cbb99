"""What an engine returned to a call, as a part of a trace; what no engine may return is an error."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.errors import StopwavError
from stopwav.measure.clock import PacedCall
from stopwav.speech.events import Chunk, Hypothesis, Stage


def chunk_of(call: PacedCall) -> Chunk:
    """Return a call of a session as a chunk of its trace; raise StopwavError where it returned what no session does."""
    stages = tuple(Stage(span.path, span.start_s, span.duration_s) for span in call.spans)
    endpoint = any(item.endpoint is True for item in _items(call.result) if isinstance(item, Hypothesis))
    return Chunk(call.due_s, call.start_s, call.done_s, stages, returned_texts(call.result), endpoint)


def _items(returned: object) -> Sequence[object]:
    return returned if isinstance(returned, (list, tuple)) else [returned]


def returned_texts(returned: object) -> tuple[str, ...]:
    """Return the texts that an engine returned; raise StopwavError where it returned something else."""
    texts = []
    for item in _items(returned):
        if not isinstance(item, Hypothesis) or not isinstance(item.text, str):
            raise StopwavError(f"the engine returned {_brief(item)} where a list of Hypothesis(text) is expected")
        # Also of a type of another's, which could not be read outside this process.
        texts.append(str.__str__(item.text))
    return tuple(texts)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
