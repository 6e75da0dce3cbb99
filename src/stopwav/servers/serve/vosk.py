"""Vosk's protocol: every binary message is answered by exactly one JSON text, and so is the end of the audio."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.service import Service
from stopwav.servers.serve.socket_stream import SocketStream, read_rate, serve_socket
from stopwav.servers.serve.text_parts import SegmentCutter

# What vosk-server takes where the client says nothing of it.
DEFAULT_RATE_HZ = 16_000


def add_routes(application: web.Application, service: Service) -> None:
    """Answer at `/`, where Vosk's clients connect, and at `/vosk`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await serve_socket(request, service, "vosk", _converse)

    application.router.add_get("/", handle)
    application.router.add_get("/vosk", handle)


async def _converse(client: SocketStream) -> None:
    rate_hz, cutter, heard = DEFAULT_RATE_HZ, SegmentCutter(), False
    async for message in client.messages():
        if isinstance(message, bytes):
            heard = True
            segments = cutter.cut(await client.push(message, "int16", rate_hz))
            final = " ".join(segment.text for segment in segments if segment.final and segment.text)
            await client.reply({"text": final} if final else {"partial": cutter.partial})
            continue
        control = _parse(message)
        if "eof" in control:
            text = cutter.finish(await client.finish())
            client.stream.release()
            await client.reply({"text": text})
            return
        config = control.get("config")
        if not isinstance(config, dict):
            raise StreamFailure("garbage", 'a text message is {"config": {…}} or {"eof": 1}')
        if "sample_rate" in config:
            asked_hz = read_rate(config["sample_rate"])
            if heard and asked_hz != rate_hz:
                raise StreamFailure("garbage", "sample_rate cannot change after the first audio")
            rate_hz = asked_hz


def _parse(message: str) -> dict[str, Any]:
    try:
        parsed = json.loads(message)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise StreamFailure("garbage", "a text message is a JSON object")
    return parsed
