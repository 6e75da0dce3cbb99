"""The addresses of the server: those of the protocols, `/healthz` and `/metrics`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from stopwav.servers.serve import deepgram, openai, sherpa, vosk
from stopwav.servers.serve.options import ServedProtocol
from stopwav.servers.serve.service import Service
from stopwav.servers.serve.upload import LARGEST_FILE_BYTES

_ROUTES: dict[ServedProtocol, Callable[[web.Application, Service], None]] = {
    "vosk": vosk.add_routes,
    "deepgram": deepgram.add_routes,
    "openai": openai.add_routes,
    "sherpa": sherpa.add_routes,
}
# The version of Prometheus's text format that its library writes.
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_application(service: Service) -> web.Application:
    """Return the application with the addresses of the protocols that are asked for."""
    # Uploads are read with limits of their own; this one is for bodies that nothing here reads.
    application = web.Application(middlewares=[_catch], client_max_size=LARGEST_FILE_BYTES)
    for protocol in service.options.protocols:
        _ROUTES[protocol](application, service)

    async def healthz(request: web.Request) -> web.StreamResponse:
        """Say whether streams are accepted; no token is needed, and nothing else is said."""
        healthy = service.pool.workers_up > 0 and not service.pool.draining
        state = {
            "status": "ok" if healthy else "draining" if service.pool.draining else "restarting",
            "workers": service.pool.workers_up,
            "streams": service.pool.open_streams,
        }
        return web.json_response(state, status=200 if healthy else 503)

    async def metrics(request: web.Request) -> web.StreamResponse:
        if not service.is_authorised(request):
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        return web.Response(body=service.metrics.page(), headers={"Content-Type": _METRICS_TYPE})

    application.router.add_get("/healthz", healthz)
    application.router.add_get("/metrics", metrics)
    return application


@web.middleware
async def _catch(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer an error of the server itself with a status; a client must not be able to print anything here."""
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception:
        return web.json_response({"error": {"message": "the server failed", "type": "server_error"}}, status=500)
