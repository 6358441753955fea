"""The scheduler's own door: /healthz, /livez, /readyz and /metrics, for probes and Prometheus.

Health asks nobody for a token, as probes have none; metrics tell names of profiles and plugins, no secrets.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry

from tonnage import metrics
from tonnage.errors import TonnageError


@asynccontextmanager
async def served(
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    measures: CollectorRegistry,
    is_healthy: Callable[[], bool],
    is_ready: Callable[[], bool],
) -> AsyncIterator[str]:
    """Listen while the block runs; the address is given. Raises TonnageError when the port is taken."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics":
            body, content_type = metrics.exposition(measures)
            return web.Response(body=body, headers={"Content-Type": content_type})
        if request.path in ("/healthz", "/livez"):
            return _told(is_healthy())
        if request.path == "/readyz":
            return _told(is_healthy() and is_ready())
        return web.Response(status=404, text="404 page not found\n")

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as exc:
            raise TonnageError(
                f"cannot listen on {host}:{port}: {exc.strerror or exc}",
                hint="choose another --secure-port, or 0 to serve no health endpoint",
            ) from exc
        address = runner.addresses[0]
        yield f"{'https' if tls else 'http'}://{host}:{address[1]}"
    finally:
        await runner.cleanup()


def _told(good: bool) -> web.Response:
    return web.Response(text="ok" if good else "not ok", status=200 if good else 500)
