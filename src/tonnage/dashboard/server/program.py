"""`tonnage dashboard` put together: a live cluster, its routes, and a listener."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.client.config.connection import KubeconfigUser
from tonnage.client.http import Client
from tonnage.dashboard.follow.driver_records import following_pools
from tonnage.dashboard.follow.live_cluster import LiveCluster
from tonnage.dashboard.model.shown_cluster import ShownCluster, following_faults
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.server.access import Access
from tonnage.dashboard.server.app import App
from tonnage.dashboard.server.routes import routes_of
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving.request_host import WILDCARDS, is_loopback
from tonnage.serving.server_tls import ServerTls

_GRACE_S: Final = 0.4
"""How long requests may still take when it ends. Streams never end by themselves, and are cut off after half of it."""


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    host: str = "127.0.0.1"
    port: int = 8080
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    scheduler: Endpoint | None = None
    scheduler_user: KubeconfigUser | None = None
    namespace: str = ""
    """Pods and claims of this one alone are read; empty for all."""
    data_dir: Path | None = None
    """The folder of a `tonnage up` cluster: its driver's records and its faults can be seen there."""
    tls: ServerTls | None = None
    """How it is served where others than this machine's can reach it."""
    allowed_hosts: tuple[str, ...] = ()
    asking: Asking | None = None
    """How the cluster's scheduler is configured that questions are decided by; None for the default."""


@asynccontextmanager
async def served(client: Client, settings: DashboardSettings) -> AsyncIterator[str]:
    """Serve a live cluster while the block runs; the address with its token is given."""
    cluster = LiveCluster(
        client, scheduler=settings.scheduler, scheduler_user=settings.scheduler_user, namespace=settings.namespace
    )
    async with cluster, shown(cluster, settings) as address:  # first of all: a port that is taken is told at once
        await cluster.wait_first()
        yield address


@asynccontextmanager
async def shown(cluster: ShownCluster, settings: DashboardSettings) -> AsyncIterator[str]:
    """Serve a cluster while the block runs. Raises TonnageError when the port is taken."""
    host, tls = settings.host, settings.tls
    if tls is None and not (is_loopback(host) and await _leads_to_loopback(host)):
        raise TonnageError(f"{host} is not this machine alone: a dashboard is served there with TLS only")
    access = Access(settings.token, hosts=(host, *settings.allowed_hosts), is_secure=tls is not None)
    app = App(routes_of(cluster, settings.data_dir, settings.asking), access)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(following_faults(cluster, settings.data_dir))
        await stack.enter_async_context(following_pools(cluster, settings.data_dir))
        if tls is not None:
            await stack.enter_async_context(tls.renewed())
        try:
            listener = await stack.enter_async_context(
                listening(
                    app.handle,
                    host=host,
                    port=settings.port,
                    tls=tls.context if tls is not None else None,
                    grace_s=_GRACE_S,
                )
            )
        except OSError as exc:
            raise TonnageError(
                f"cannot listen on {host}:{settings.port}: {exc.strerror or exc}",
                hint="choose another --port, or 0 for a free one; --bind is an address of this machine",
            ) from exc
        name = settings.allowed_hosts[0] if host in WILDCARDS and settings.allowed_hosts else host
        shown_as = f"[{name}]" if ":" in name else name
        yield f"{'http' if tls is None else 'https'}://{shown_as}:{listener.port}/#token={settings.token}"


async def _leads_to_loopback(host: str) -> bool:
    """Whether a name of loopback leads nowhere else on this machine: its resolver may have been told otherwise."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True  # it leads nowhere, which is told when it is listened on
    return all(is_loopback(str(address[0])) for *_, address in found)
