"""OpenAI's `/v1/audio/transcriptions`: a file in a form, answered as JSON, as text, or as events while it is read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web

from stopwav.servers.serve.engine_stream import EngineStream
from stopwav.servers.serve.failure import StreamFailure, StreamRefused
from stopwav.servers.serve.service import Service, refusal_headers, refusal_status
from stopwav.servers.serve.text_parts import AgreedWords
from stopwav.servers.serve.upload import (
    RecognisedFile,
    gather_blocks,
    recognise_file,
    stream_file,
    uploaded_stream,
)

FORMATS = ("json", "text", "verbose_json")
# Names and prompts; the file has a limit of its own.
LARGEST_FIELD_BYTES = 64 * 2**10
MOST_FIELDS = 64
# OpenAI's names of errors by status; those of 500 and more are the server's.
_CODES = {401: "invalid_api_key", 408: "timeout", 413: "too_large", 503: "overloaded"}


@dataclass(frozen=True)
class TranscriptionForm:
    """The fields of a request that matter here. Any model is accepted: there is one."""

    file: bytes
    response_format: str = "json"
    stream: bool = False
    language: str = ""


def add_routes(application: web.Application, service: Service) -> None:
    """Answer at `/v1/audio/transcriptions` and `/v1/models`."""

    async def transcriptions(request: web.Request) -> web.StreamResponse:
        try:
            with uploaded_stream(request, service, "openai") as stream:
                form = await _read_form(request, service.options.idle_limit_s)
                return await _answer(request, service, stream, form)
        except StreamRefused as refusal:
            return _error(refusal_status(refusal), str(refusal), refusal_headers(refusal))
        except StreamFailure as failure:
            return _error(failure.status, str(failure))

    async def models(request: web.Request) -> web.StreamResponse:
        if not service.is_authorised(request):
            return _error(401, "this server needs its token as API key")
        model = {"id": service.info.name, "object": "model", "created": started_s, "owned_by": "stopwav"}
        return web.json_response({"object": "list", "data": [model]})

    started_s = int(time.time())
    application.router.add_post("/v1/audio/transcriptions", transcriptions)
    application.router.add_get("/v1/models", models)


async def _read_form(request: web.Request, idle_limit_s: float) -> TranscriptionForm:
    """Read the form within its limits; raise StreamFailure where it is not one, or asks for what there is not."""
    if not request.content_type.startswith("multipart/"):
        raise StreamFailure("garbage", "the body is not multipart/form-data with a field `file`")
    fields: dict[str, bytes] = {}
    try:
        parts = await request.multipart()
        while (part := await parts.next()) is not None:
            if not isinstance(part, BodyPartReader) or len(fields) >= MOST_FIELDS:
                raise StreamFailure("garbage", "the form has parts in parts, or too many")
            name = part.name or ""
            limits = {} if name == "file" else {"limit_bytes": LARGEST_FIELD_BYTES}
            fields[name] = await gather_blocks(part.read_chunk, idle_limit_s, **limits)
    except (StreamFailure, ConnectionError):
        raise
    except Exception as error:  # the parser has many errors, and each is about what the client sent
        raise StreamFailure("garbage", "the body is not a complete multipart form") from error
    return _check_form(fields)


def _check_form(fields: dict[str, bytes]) -> TranscriptionForm:
    def text(name: str, otherwise: str) -> str:
        return fields.get(name, otherwise.encode()).decode("utf-8", "replace").strip()

    if not fields.get("file"):
        raise StreamFailure("garbage", "the form has no field `file` with audio")
    response_format = text("response_format", "json")
    if response_format not in FORMATS:
        raise StreamFailure("garbage", f"response_format is one of {', '.join(FORMATS)}")
    stream = text("stream", "false").lower() in ("true", "1")
    return TranscriptionForm(fields["file"], response_format, stream, text("language", ""))


async def _answer(
    request: web.Request, service: Service, stream: EngineStream, form: TranscriptionForm
) -> web.StreamResponse:
    if form.stream:
        return await _answer_events(request, service, stream, form)
    recognised = await recognise_file(request, service, "openai", stream, form.file)
    if form.response_format == "text":
        return web.Response(text=recognised.text + "\n")
    answer: dict[str, Any] = {"text": recognised.text}
    if form.response_format == "verbose_json":
        language = form.language or service.info.language
        # Engines report no times of segments, so there are none.
        details = {"task": "transcribe", "language": language, "duration": recognised.duration_s}
        answer = {**details, **answer, "segments": []}
    answer["usage"] = {"type": "duration", "seconds": round(recognised.duration_s, 3)}
    return web.json_response(answer)


async def _answer_events(
    request: web.Request, service: Service, stream: EngineStream, form: TranscriptionForm
) -> web.StreamResponse:
    """Send the words as they become certain, then the whole text; an error on the way is an event too."""
    begin_s = time.perf_counter()
    duration_s = await stream.load_file(form.file)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    try:
        recognised = await _send_deltas(request, response, service, stream, duration_s)
        service.metrics.hear("openai", duration_s, time.perf_counter() - begin_s)
        await _send_event(response, {"type": "transcript.text.done", "text": recognised.text})
    except StreamFailure as failure:
        service.metrics.fail("openai", failure.reason)
        if failure.reason == "disconnected":
            return response
        await _send_event(response, {"type": "error", **_error_body(failure.status, str(failure))})
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _send_deltas(
    request: web.Request, response: web.StreamResponse, service: Service, stream: EngineStream, duration_s: float
) -> RecognisedFile:
    words, text = AgreedWords(), ""
    if service.engine.streaming:
        async for hypothesis in stream_file(request, stream):
            text = hypothesis.text
            await _send_delta(response, words.add(text))
    else:
        text = await stream.transcribe()
    await _send_delta(response, words.finish(text))
    return RecognisedFile(text, duration_s)


async def _send_delta(response: web.StreamResponse, delta: str) -> None:
    if delta:
        await _send_event(response, {"type": "transcript.text.delta", "delta": delta})


async def _send_event(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(_error_body(status, message), status=status, headers=headers)


def _error_body(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}}
