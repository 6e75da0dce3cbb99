"""The protocol of sherpa-onnx's online servers: 32-bit floats in, `Done` at the end, results numbered by segment."""

from __future__ import annotations

from aiohttp import web

from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.service import Service
from stopwav.servers.serve.socket_stream import SocketStream, read_rate, serve_socket
from stopwav.servers.serve.text_parts import SegmentCutter

END = "Done"
# The last message of the server.
ENDED = "Done!"


def add_routes(application: web.Application, service: Service) -> None:
    """Answer at `/sherpa`; at `/` too where that is the only protocol, since its clients connect there."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await serve_socket(request, service, "sherpa", _converse)

    application.router.add_get("/sherpa", handle)
    if service.options.protocols == ("sherpa",):
        application.router.add_get("/", handle)


async def _converse(client: SocketStream) -> None:
    # The protocol has no message for the rate: clients send at that of the model, unless the address says another.
    rate_hz = read_rate(client.request.query.get("sample_rate", client.service.info.sample_rate_hz))
    cutter, segment_number = SegmentCutter(), 0
    async for message in client.messages():
        if isinstance(message, bytes):
            for segment in cutter.cut(await client.push(message, "float32", rate_hz)):
                await client.reply({"text": segment.text, "segment": segment_number, "is_final": segment.final})
                segment_number += segment.final
            continue
        if message.strip() != END:
            raise StreamFailure("garbage", f"the only text message is {END}")
        text = cutter.finish(await client.finish())
        client.stream.release()
        await client.reply({"text": text, "segment": segment_number, "is_final": True})
        await client.reply(ENDED)
        return
