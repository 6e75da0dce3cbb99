"""Deepgram's `/v1/listen`: a stream with options in the query and controls in JSON, or a whole file by POST."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from stopwav.servers.serve.failure import StreamFailure, StreamRefused
from stopwav.servers.serve.intake import SAMPLE_BYTES, SampleFormat
from stopwav.servers.serve.service import Service, refusal_headers, refusal_status
from stopwav.servers.serve.socket_stream import SocketStream, read_rate, serve_socket
from stopwav.servers.serve.text_parts import SegmentCutter
from stopwav.servers.serve.upload import read_body, recognise_file, uploaded_stream

DEFAULT_RATE_HZ = 16_000
# Their names for 16-bit integers and 32-bit floats.
FORMATS: dict[str, SampleFormat] = {"linear16": "int16", "linear32": "float32"}
# Characters of a client's message that an error repeats.
SHOWN = 200


@dataclass(frozen=True)
class ListenQuery:
    """The options of a stream that matter here; others are ignored, as their clients set many."""

    sample_format: SampleFormat
    rate_hz: int
    interim: bool

    @classmethod
    def parse(cls, request: web.Request) -> ListenQuery:
        """Return the options in the query; raise StreamFailure where one is not supported."""
        query = request.query
        encoding = query.get("encoding", "linear16")
        if encoding not in FORMATS:
            raise StreamFailure("garbage", f"encoding is not supported; send {' or '.join(FORMATS)}")
        if query.get("channels", "1") != "1":
            raise StreamFailure("garbage", "channels other than 1 are not supported")
        rate_hz = read_rate(query.get("sample_rate", DEFAULT_RATE_HZ))
        return cls(FORMATS[encoding], rate_hz, query.get("interim_results", "false").lower() == "true")


@dataclass
class _Talk:
    """The state of one stream: how much was heard, where the current segment began, and the segments."""

    client: SocketStream
    query: ListenQuery
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    heard_s: float = 0.0
    begin_s: float = 0.0
    cutter: SegmentCutter = field(default_factory=SegmentCutter)

    async def hear(self, data: bytes) -> None:
        """Have audio recognised; send finals, and partials where they are asked for."""
        if self.heard_s == 0.0 and data[:4] == b"RIFF":
            raise StreamFailure("garbage", "containers are not supported in a stream; send raw linear16 samples")
        hypotheses = await self.client.push(data, self.query.sample_format, self.query.rate_hz)
        self.heard_s += len(data) / SAMPLE_BYTES[self.query.sample_format] / self.query.rate_hz
        for segment in self.cutter.cut(hypotheses):
            if segment.final or self.query.interim:
                await self.send_results(segment.text, final=segment.final, speech_final=segment.final)

    async def finalize(self, from_finalize: bool) -> None:
        """Send the final text of what was heard so far. The engine then begins a new session."""
        text = self.cutter.finish(await self.client.finish())
        if not from_finalize:
            self.client.stream.release()
        await self.send_results(text, final=True, speech_final=True, from_finalize=from_finalize)

    async def send_results(
        self, text: str, final: bool, speech_final: bool = False, from_finalize: bool = False
    ) -> None:
        """Send the text of the current segment."""
        info = self.client.service.info
        await self.client.reply(
            {
                "type": "Results",
                "channel_index": [0, 1],
                "duration": round(self.heard_s - self.begin_s, 6),
                "start": round(self.begin_s, 6),
                "is_final": final,
                "speech_final": speech_final,
                "from_finalize": from_finalize,
                "channel": {"alternatives": [_alternative(text)]},
                "metadata": {
                    "request_id": self.request_id,
                    "model_info": {"name": info.name, "version": info.version, "arch": info.model or info.name},
                    "model_uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{info.name} {info.version}")),
                },
            }
        )
        if final:
            self.begin_s = self.heard_s

    async def send_metadata(self) -> None:
        """Send the last message of a stream."""
        await self.client.reply({"type": "Metadata", **_metadata(self.request_id, self.heard_s)})


def add_routes(application: web.Application, service: Service) -> None:
    """Answer at `/v1/listen`."""

    async def listen(request: web.Request) -> web.StreamResponse:
        try:
            ListenQuery.parse(request)
        except StreamFailure as failure:
            return _error(400, "INVALID_QUERY_PARAMETER", str(failure))
        return await serve_socket(request, service, "deepgram", _converse, _say_error)

    async def transcribe(request: web.Request) -> web.StreamResponse:
        return await _transcribe(request, service)

    application.router.add_get("/v1/listen", listen)
    application.router.add_post("/v1/listen", transcribe)


async def _converse(client: SocketStream) -> None:
    talk = _Talk(client, ListenQuery.parse(client.request))
    async for message in client.messages():
        if isinstance(message, bytes):
            await talk.hear(message)
            continue
        kind = _kind(message)
        if kind == "Finalize":
            await talk.finalize(from_finalize=True)
        elif kind == "CloseStream":
            await talk.finalize(from_finalize=False)
            await talk.send_metadata()
            return
        elif kind != "KeepAlive":
            await client.reply(
                {
                    "type": "Error",
                    "variant": "SchemaError",
                    "description": "a text message is JSON with type KeepAlive, Finalize or CloseStream",
                    "message": message[:SHOWN],
                }
            )


async def _say_error(client: SocketStream, failure: StreamFailure) -> None:
    await client.reply({"type": "Error", "variant": failure.reason, "description": str(failure)})


async def _transcribe(request: web.Request, service: Service) -> web.StreamResponse:
    try:
        with uploaded_stream(request, service, "deepgram") as stream:
            data = await read_body(request, service.options.idle_limit_s)
            recognised = await recognise_file(request, service, "deepgram", stream, data)
    except StreamRefused as refusal:
        return _error(refusal_status(refusal), refusal.reason.upper(), str(refusal), refusal_headers(refusal))
    except StreamFailure as failure:
        return _error(failure.status, failure.reason.upper(), str(failure))
    alternative = _alternative(recognised.text)
    return web.json_response(
        {
            "metadata": {**_metadata(str(uuid.uuid4()), recognised.duration_s), "models": [service.info.name]},
            "results": {"channels": [{"alternatives": [alternative]}]},
        }
    )


def _alternative(text: str) -> dict[str, Any]:
    # Engines report neither: 0 is Deepgram's own value where it has none.
    return {"transcript": text, "confidence": 0, "words": []}


def _metadata(request_id: str, duration_s: float) -> dict[str, Any]:
    return {
        "transaction_key": "deprecated",
        "request_id": request_id,
        "sha256": "",
        "created": datetime.now(UTC).isoformat(),
        "duration": round(duration_s, 6),
        "channels": 1,
    }


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"err_code": code, "err_msg": message, "request_id": str(uuid.uuid4())}
    return web.json_response(body, status=status, headers=headers)


def _kind(message: str) -> object:
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(message)
        return parsed.get("type") if isinstance(parsed, dict) else None
    return None
