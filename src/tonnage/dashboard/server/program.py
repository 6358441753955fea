"""The program `tonnage dashboard`: a live cluster, its routes, and a listener."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.dashboard.follow.driver_records import following_folder
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.dashboard.questions.asking import Asking
from tonnage.dashboard.server.access import Access
from tonnage.dashboard.server.app import App
from tonnage.dashboard.server.routes import Routes
from tonnage.dashboard.status.keeper import StatusKeeper
from tonnage.errors import TonnageError
from tonnage.listener import listening
from tonnage.serving.request_host import WILDCARDS, is_loopback
from tonnage.serving.server_tls import ServerTls

_GRACE_S: Final = 0.4
"""How long requests may still take at shutdown. Streams are cut off after half of it."""


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    host: str = "127.0.0.1"
    port: int = 8080
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    data_dir: Path | None = None
    """The folder of a `tonnage up` cluster, with its driver's records and its faults."""
    tls: ServerTls | None = None
    """Set if other machines can reach the address."""
    allowed_hosts: tuple[str, ...] = ()
    command_flags: str = ""
    """What kubectl and tonnage need to reach the cluster from this machine: `--kubeconfig FILE`."""
    asking: Asking = field(default_factory=Asking)
    """The configuration for questions."""


@asynccontextmanager
async def shown(
    cluster: ShownCluster, settings: DashboardSettings, status: StatusKeeper | None = None
) -> AsyncIterator[str]:
    """Serve a cluster while the block runs. Yields its address. Raises TonnageError when the port is taken."""
    host, tls = settings.host, settings.tls
    if tls is None and not (is_loopback(host) and await _leads_to_loopback(host)):
        raise TonnageError(f"{host} is not this machine alone: a dashboard is served there with TLS only")
    access = Access(settings.token, hosts=(host, *settings.allowed_hosts), is_secure=tls is not None)
    status = status or StatusKeeper(cluster, flags=settings.command_flags)
    routes = Routes(cluster, settings.data_dir, settings.asking, settings.command_flags, status)
    app = App(routes.router(), access)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(following_folder(cluster, settings.data_dir))
        await stack.enter_async_context(status.looking())
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
    """True if a loopback name resolves only to loopback addresses: the resolver may say otherwise."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True  # unresolvable: listening on it reports the error
    return all(is_loopback(str(address[0])) for *_, address in found)
