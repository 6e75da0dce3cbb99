"""What every protocol is given: the settings, the workers, the metrics, and the gate that each stream passes."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from aiohttp import web

from stopwav.engines.protocol import EngineInfo
from stopwav.servers.serve.engine_stream import EngineStream
from stopwav.servers.serve.failure import StreamRefused
from stopwav.servers.serve.host import EngineFacts
from stopwav.servers.serve.metrics import ServeMetrics
from stopwav.servers.serve.options import ServedProtocol, ServeOptions
from stopwav.servers.serve.pool import WorkerPool

# How an `Authorization` header begins: OpenAI's clients and Prometheus write Bearer, Deepgram's Token.
_SCHEMES = ("bearer", "token")


@dataclass(frozen=True)
class Service:
    """A running server without its routes."""

    options: ServeOptions
    pool: WorkerPool
    metrics: ServeMetrics
    engine: EngineFacts

    @property
    def info(self) -> EngineInfo:
        """The description of the engine."""
        return self.engine.info

    def admit(self, request: web.BaseRequest, protocol: ServedProtocol) -> EngineStream:
        """Return a stream for a request; raise StreamRefused where the token is wrong or there is no place."""
        try:
            if not self.is_authorised(request):
                raise StreamRefused("token", "this server needs its token, as `Authorization: Bearer TOKEN`")
            stream = self.pool.reserve()
        except StreamRefused as refusal:
            self.metrics.refuse(protocol, refusal.reason)
            raise
        self.metrics.accept(protocol)
        return stream

    def is_authorised(self, request: web.BaseRequest) -> bool:
        """Whether a request has the token, if there is one."""
        if self.options.token is None:
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        # Compared in constant time: how long it takes must not tell how much of a guess was right.
        same = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.options.token.encode())
        return same and scheme.lower() in _SCHEMES


def refusal_status(refusal: StreamRefused) -> int:
    """Return the HTTP status of a refusal."""
    return 401 if refusal.reason == "token" else 503


def refusal_headers(refusal: StreamRefused) -> dict[str, str]:
    """Return the HTTP headers of a refusal: how to sign in, or when to come back."""
    # A second: places are freed when utterances end.
    return {"WWW-Authenticate": "Bearer"} if refusal.reason == "token" else {"Retry-After": "1"}
