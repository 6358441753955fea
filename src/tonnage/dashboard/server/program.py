"""`tonnage dashboard` put together: a live cluster, its routes, and a listener.

async with served(client, settings) as address:        # http://127.0.0.1:8080/#token=…
    await forever
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tonnage.client.config.connection import User
from tonnage.client.http import Client
from tonnage.dashboard.follow.driver_records import following_pools
from tonnage.dashboard.follow.followed_faults import following_faults
from tonnage.dashboard.follow.live_cluster import LiveCluster
from tonnage.dashboard.follow.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.server.access import Access
from tonnage.dashboard.server.app import App
from tonnage.dashboard.server.routes import routes_of
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError
from tonnage.listener import listening


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How a dashboard is served, and what it knows of its cluster besides the API server."""

    host: str = "127.0.0.1"
    port: int = 8080
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    scheduler: Endpoint | None = None
    scheduler_user: User | None = None
    data_dir: Path | None = None
    """The folder of a `tonnage up` cluster: its driver's records and its faults can be seen there."""
    asking: Asking | None = None
    """How the cluster's scheduler is configured that questions are decided by; None for the default."""


@asynccontextmanager
async def served(client: Client, settings: DashboardSettings) -> AsyncIterator[str]:
    """Serve a live cluster while the block runs; the address with its token is given."""
    cluster = LiveCluster(client, scheduler=settings.scheduler, scheduler_user=settings.scheduler_user)
    async with cluster:
        await cluster.wait_first()
        async with shown(cluster, settings) as address:
            yield address


@asynccontextmanager
async def shown(cluster: ShownCluster, settings: DashboardSettings) -> AsyncIterator[str]:
    """Serve a cluster while the block runs. Raises TonnageError when the port is taken."""
    app = App(routes_of(cluster, settings.data_dir, settings.asking), Access(settings.token))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(following_faults(cluster, settings.data_dir))
        await stack.enter_async_context(following_pools(cluster, settings.data_dir))
        try:
            listener = await stack.enter_async_context(
                listening(app.handle, host=settings.host, port=settings.port, tls=None, grace_s=0.4)
            )
        except OSError as exc:
            raise TonnageError(
                f"cannot listen on {settings.host}:{settings.port}: {exc.strerror or exc}",
                hint="choose another --port, or 0 for a free one",
            ) from exc
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield f"http://{host}:{listener.port}/#token={settings.token}"
