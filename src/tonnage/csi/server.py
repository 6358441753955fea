"""A driver's socket: gRPC services on one address, taken over from a dead predecessor, closed in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import grpc.aio

from tonnage.csi.address import socket_path, target_of
from tonnage.errors import TonnageError

Register = Callable[[grpc.aio.Server], None]
"""Adds a service: `lambda server: add_NodeServicer_to_server(node, server)`."""

_GRACE_S = 2.0
"""How long calls under way may take once the server stops."""


@asynccontextmanager
async def served(
    address: str, services: Sequence[Register], *, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
) -> AsyncIterator[str]:
    """Listen while the block runs. Raises TonnageError when the address cannot be had.

    A socket file that is left over from a process that was killed is replaced, as every CSI driver does. The new one is
    for its owner alone.
    """
    path = socket_path(address)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
    server = grpc.aio.server(interceptors=list(interceptors))
    for register in services:
        register(server)
    try:
        if not server.add_insecure_port(target_of(address)):
            raise RuntimeError("no port")
        await server.start()
    except RuntimeError as exc:
        raise TonnageError(
            f"cannot listen on {address}: {exc}", hint="is another driver there, or the folder not writable?"
        ) from exc
    if path is not None:
        path.chmod(0o600)
    try:
        yield address
    finally:
        await server.stop(_GRACE_S)
        if path is not None:
            path.unlink(missing_ok=True)
