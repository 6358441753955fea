"""A driver for tests of the protocol: it answers as it was told, over a real socket, and counts what it was asked."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from tonnage.csi import csi_pb2 as csi
from tonnage.csi import csi_pb2_grpc as rpc
from tonnage.csi.errors import Code


class Peer(rpc.IdentityServicer):
    """Answers GetPluginInfo by the next of `answers` (a code to refuse with, or a name), then by `name` for ever.

    While it `is_held`, every answer waits for `go`. Methods of other services are Unimplemented.
    """

    def __init__(self, *answers: Code | str, name: str = "peer") -> None:
        self.answers = list(answers)
        self.name = name
        self.asked = 0
        self.is_held = False
        self.go = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def GetPluginInfo(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        self.asked += 1
        self.is_asked.set()
        if self.is_held:
            await self.go.wait()
        answer = self.answers.pop(0) if self.answers else self.name
        if not isinstance(answer, str):
            await context.abort(answer, "as told")
        return csi.GetPluginInfoResponse(name=answer)

    def register(self, server: grpc.aio.Server) -> None:
        rpc.add_IdentityServicer_to_server(self, server)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder near the root: a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)
