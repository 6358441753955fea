"""A driver's socket: gRPC services on one address, taken over from a dead predecessor, closed in order.

A socket is bound beside its name and moved there once it answers: a successor takes over without a gap, and a
predecessor that ends later leaves the successor's socket alone.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from tonnage import errors, private_files
from tonnage.csi.address import socket_path, target_of

Register = Callable[[grpc.aio.Server], None]
"""Adds a service: `lambda server: add_NodeServicer_to_server(node, server)`."""

_GRACE_S = 2.0
_HINT = "is another driver there, or the folder not writable?"


@asynccontextmanager
async def served(
    address: str, services: Sequence[Register], *, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
) -> AsyncIterator[str]:
    """Listen while the block runs; yields the address. Replaces only a dead process's socket. Raises TonnageError."""
    path = socket_path(address)
    beside = None if path is None else _beside(path)
    server = grpc.aio.server(interceptors=list(interceptors))
    for register in services:
        register(server)
    ours = None
    try:
        if path is not None and beside is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            for place in (path, beside):
                private_files.require_place_for_socket(place)
        if not server.add_insecure_port(target_of(address if beside is None else f"unix:{beside}")):
            raise RuntimeError("no port")
        await server.start()
        if path is not None and beside is not None:
            beside.chmod(0o600)
            ours = _identity(beside)
            beside.replace(path)
    except private_files.NotOurs as exc:
        await server.stop(None)
        raise errors.TonnageError(f"cannot listen on {address}: {exc.message}", hint=exc.hint) from exc
    except (RuntimeError, OSError) as exc:
        await server.stop(None)
        raise errors.TonnageError(f"cannot listen on {address}: {exc}", hint=_HINT) from exc
    try:
        yield address
    finally:
        if path is not None and _identity(path) == ours:
            path.unlink(missing_ok=True)  # first of all: callers that come now must wait for the next driver
        await server.stop(_GRACE_S)


def _beside(path: Path) -> Path:
    """Where the socket is bound: the same at every start, so that none are left over, and short."""
    return path.with_name(f".{zlib.adler32(path.name.encode()) & 0xFFFFFF:06x}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
