"""A program's HTTPS endpoint as its flags want it: TLS, the gate, metrics and pages, served while a block runs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from tonnage.cli.flags import access_flags, metric_flags, serving_flags
from tonnage.cli.flags.access_flags import AccessFlags
from tonnage.cli.flags.metric_flags import MetricFlags
from tonnage.cli.flags.serving_flags import ServingFlags
from tonnage.cli.output import echo
from tonnage.clock import Clock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tonnage.client.config.connection import ServerConnection
    from tonnage.health import Page


class EndpointFlags(ServingFlags, AccessFlags, MetricFlags):
    """What an endpoint is made of."""


def checked(flags: EndpointFlags) -> None:
    """Raises UsageError, TonnageError: before anything has started."""
    serving_flags.checked(flags)
    access_flags.checked(flags, flags)
    metric_flags.allowed_labels(flags)


@asynccontextmanager
async def secure_endpoint(
    flags: EndpointFlags,
    own: ServerConnection,
    *,
    registry: CollectorRegistry,
    is_healthy: Callable[[], bool],
    is_ready: Callable[[], bool],
    debug: Mapping[str, Callable[[], Any]] | None = None,
    pages: Mapping[str, Page] | None = None,
    clock: Clock,
    rng: random.Random,
    user_agent: str,
) -> AsyncIterator[None]:
    """Serve while the block runs, unless the port is 0. `own` is how the program reaches its API server."""
    from tonnage.health import served

    if not flags["secure_port"]:
        yield
        return
    async with AsyncExitStack() as stack:
        access = access_flags.access_of(flags, own, clock=clock, rng=rng, user_agent=user_agent)
        if access is not None:
            await stack.enter_async_context(access)
        authorities = access.client_authorities if access is not None else lambda: b""
        tls = stack.enter_context(serving_flags.tls_of(flags, authorities))
        address = await stack.enter_async_context(
            served(
                host=flags["bind_address"] or "0.0.0.0",
                port=flags["secure_port"],
                tls=tls,
                registry=metric_flags.chosen(flags, registry),
                is_healthy=is_healthy,
                is_ready=is_ready,
                debug=debug,
                pages=pages,
                gate=access.gate if access is not None else None,
                shares_port=flags["permit_port_sharing"],
            )
        )
        echo(f"serving health and metrics at {address}", err=True)
        yield
