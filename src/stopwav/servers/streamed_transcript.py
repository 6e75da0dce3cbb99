"""The text of an upload that is answered by events: OpenAI's, and those of servers that write them differently."""

from __future__ import annotations

from typing import Any

from stopwav.servers.openai_error import stated_message
from stopwav.servers.protocol import ServerError
from stopwav.servers.segments import SegmentedText
from stopwav.servers.websocket import garbage, parse_object

# The last event of servers that follow OpenAI's chat interface.
_END = "[DONE]"


class StreamedTranscript:
    """The text so far, and whether the server has said everything."""

    def __init__(self, name: str, plain: bool = False) -> None:
        """`plain` is for `response_format=text`, with which events of some servers are texts instead of JSON."""
        self._name, self._plain = name, plain
        self._segments, self._delta = SegmentedText(), ""
        self.is_complete = self.has_text = False

    def push(self, data: str) -> str | None:
        """Return the whole text after an event; None where it brings none."""
        if data.strip() == _END:
            self.is_complete = True
            return None
        try:
            text = self._event(parse_object(self._name, data), data)
        except ServerError as error:
            if not self._plain or error.reason != "garbage":
                raise
            text = self._segment(data)
        self.has_text = self.has_text or text is not None
        return text

    def _event(self, event: dict[str, Any], data: str) -> str | None:
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            raise ServerError("error", f"{self._name}: the server says: {stated_message(event)}")
        delta = event.get("delta") if kind == "transcript.text.delta" else _chunk_delta(event)
        text = event.get("text")
        if isinstance(delta, str):
            self._delta += delta
            return self._segments.change(self._delta)
        if kind == "transcript.text.done":
            self.is_complete = True
            return text.strip() if isinstance(text, str) else self._segments.text
        if isinstance(text, str) and kind in (None, "transcript.text.segment"):
            return self._segment(text)
        if kind in (None, "transcript.text.delta", "transcript.text.segment") and "choices" not in event:
            raise garbage(self._name, data)
        return None  # an event of a newer version, or the last chunk with counts

    def _segment(self, text: str) -> str:
        self._delta = ""
        return self._segments.commit(text)


def _chunk_delta(event: dict[str, Any]) -> str | None:
    """The text of a chunk as vLLM streams transcriptions: in the shape of its chat."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    content = delta.get("content") if isinstance(delta, dict) else None
    return content if isinstance(content, str) else None
