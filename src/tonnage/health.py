"""A program's own endpoints: /healthz, /livez, /readyz, /metrics and /debug/…, for probes, Prometheus and people.

They ask for no token, as probes have none. Metrics show names of profiles and plugins, the debug pages names of pods
and claims; neither shows secrets. Where names are to be kept, it listens on loopback (the default), or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from tonnage import metrics
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving_certificate import ServingCertificate


@asynccontextmanager
async def served(
    *,
    host: str,
    port: int,
    tls: ServingCertificate | None,
    registry: CollectorRegistry,
    is_healthy: Callable[[], bool],
    is_ready: Callable[[], bool],
    debug: Mapping[str, Callable[[], Any]] | None = None,
) -> AsyncIterator[str]:
    """Listen while the block runs; the address is given. Raises TonnageError when the port is taken.

    `debug` are paths and what they show, as JSON, when somebody looks.
    """
    shown = debug or {}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics":
            body, content_type = metrics.exposition(registry)
            return web.Response(body=body, headers={"Content-Type": content_type})
        if request.path in ("/healthz", "/livez"):
            return _probe_answer(is_healthy())
        if request.path == "/readyz":
            return _probe_answer(is_healthy() and is_ready())
        if request.path in shown:
            return web.json_response(shown[request.path]())
        return web.Response(status=404, text="404 page not found\n")

    async with AsyncExitStack() as stack:
        try:
            opened = listening(handle, host=host, port=port, tls=None if tls is None else tls.context)
            listener = await stack.enter_async_context(opened)
        except OSError as exc:
            raise TonnageError(
                f"cannot listen on {host}:{port}: {exc.strerror or exc}",
                hint="choose another port, or 0 to serve no health endpoint",
            ) from exc
        if tls is not None:
            await stack.enter_async_context(tls.renewed())
        yield f"{'https' if tls else 'http'}://{host}:{listener.port}"


def _probe_answer(good: bool) -> web.Response:
    return web.Response(text="ok" if good else "not ok", status=200 if good else 500)
