"""A program's own endpoints: /healthz, /livez, /readyz, /metrics and /debug/…, for probes, Prometheus and people.

The `gate` decides about every request (`client.delegated_access` asks the API server). Without a gate, everyone who
reaches the address may read every page; no page shows secrets. Over plain HTTP the Host header is checked first, so
that a web page elsewhere cannot read these pages through a browser on this machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from tonnage import metrics
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving.request_host import wrong_host

if TYPE_CHECKING:
    from tonnage.serving.server_tls import ServerTls

Gate = Callable[[web.BaseRequest], Awaitable[web.Response | None]]
"""Called for every request: a response refuses it, None admits it."""
Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(
    *,
    host: str,
    port: int,
    tls: ServerTls | None,
    registry: CollectorRegistry,
    is_healthy: Callable[[], bool],
    is_ready: Callable[[], bool],
    debug: Mapping[str, Callable[[], Any]] | None = None,
    pages: Mapping[str, Page] | None = None,
    gate: Gate | None = None,
    shares_port: bool = False,
) -> AsyncIterator[str]:
    """Serve while the block runs; yields the address. `debug` pages are shown as JSON. Raises TonnageError."""
    shown, own = debug or {}, pages or {}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if tls is None and (refused := wrong_host(request, host)) is not None:
            return refused
        if gate is not None:
            refused = await gate(request)
            if refused is not None:
                return refused
        if request.path in own:
            return await own[request.path](request)
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
            opened = listening(
                handle, host=host, port=port, tls=None if tls is None else tls.context, shares_port=shares_port
            )
            listener = await stack.enter_async_context(opened)
        except OSError as exc:
            raise TonnageError(
                f"cannot listen on {host}:{port}: {exc.strerror or exc}",
                hint="choose another port, or 0 to serve no health endpoint",
            ) from exc
        if tls is not None:
            await stack.enter_async_context(tls.renewed())
        shown_host = f"[{host}]" if ":" in host else host
        yield f"{'https' if tls else 'http'}://{shown_host}:{listener.port}"


def _probe_answer(good: bool) -> web.Response:
    return web.Response(text="ok" if good else "not ok", status=200 if good else 500)
