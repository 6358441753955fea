"""The whole state, packed once for all who ask for it: twenty windows that come back together cost as much as one."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from tonnage.dashboard.wire.collections import Collections

_LEVEL: Final = 1
"""Rows repeat so much that the fastest level packs them into a tenth; the next ones take twice the time for little."""


class PackedState:
    """Packs in a thread, so that nobody else waits for it."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._at = ""
        self._packed: asyncio.Future[bytes] | None = None

    async def packed(self) -> bytes:
        """The state as it is now, as gzip."""
        if self._packed is None or self._at != self._collections.at:
            self._at = self._collections.at
            self._packed = asyncio.ensure_future(asyncio.to_thread(_gzip, self._collections.state()))
        return await asyncio.shield(self._packed)  # one who goes away does not take it from the others


def takes_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=31)
    return packer.compress(data) + packer.flush()
