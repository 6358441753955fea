"""Server-sent events: the whole state first, then changes, until the browser disconnects.

    event: change
    id: 3f2a09c1-17
    data: {"revision": 17, "at": "3f2a09c1-17", "set": {"nodes": {"node-1": {…}}}, "gone": {"pods": ["shop/db-0"]}}

A client that knows a state sends it (`?since=3f2a09c1-17`) and gets only later changes; if that state is too old, the
only event is `anew`. An EventSource that reconnects sends `Last-Event-ID` and gets the whole state. The event `alive`
between changes lets both sides detect a dead connection. Slow browsers are cut off, and the number of streams is
limited. The compressed state is shared by all streams.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import suppress
from typing import Final

from aiohttp import web

from tonnage.dashboard.server.access import RequestRefused
from tonnage.dashboard.server.app import Answer, RoutedRequest
from tonnage.dashboard.wire import CollectionFollower, Collections

_LEVEL: Final = 1
"""Rows repeat so much that the fastest level packs them to a tenth; the next ones take twice the time for little."""


class PackedState:
    """Compresses the state in a thread, so that the event loop can serve others."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._at = ""
        self._packed: asyncio.Future[bytes] | None = None

    async def packed(self) -> bytes:
        if self._packed is None or self._at != self._collections.at:
            self._at = self._collections.at
            self._packed = asyncio.ensure_future(asyncio.to_thread(gzip.compress, self._collections.state(), _LEVEL))
        return await asyncio.shield(self._packed)  # a client that disconnects must not cancel it for the others


def takes_gzip(request: web.BaseRequest) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


GATHER_S: Final = 0.1
"""Minimum time between two messages to one browser: nobody sees more than ten changes a second."""
ALIVE_S: Final = 5.0
SEND_S: Final = 30.0
"""Time limit for one chunk of a message. A slow connection may need many chunks, and is not cut off."""
PIECE_BYTES: Final = 64 * 1024
MAX_STREAMS: Final = 100
_ALIVE: Final = b"event: alive\ndata: {}\n\n"


def change_stream(collections: Collections) -> Answer:
    """The handler of /api/v1/changes."""
    open_streams: set[CollectionFollower] = set()

    async def answer(asked: RoutedRequest) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        packer = zlib.compressobj(4, wbits=31) if takes_gzip(asked.request) else None
        if packer is not None:
            response.headers["Content-Encoding"] = "gzip"
        if asked.request.method == "HEAD":
            return response
        if len(open_streams) >= MAX_STREAMS:
            raise RequestRefused(503, f"{MAX_STREAMS} windows are open already: close one", retry_after_s=5)
        since, heard = asked.request.query.get("since"), asked.request.headers.get("Last-Event-ID")
        follower = collections.follow_since(heard or since or "") if heard or since is not None else None
        if follower is None and (heard or since is None):
            follower = collections.follow()

        async def send(text: bytes) -> None:
            data = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH) if packer is not None else text
            for begin in range(0, len(data), PIECE_BYTES):
                await asyncio.wait_for(response.write(data[begin : begin + PIECE_BYTES]), SEND_S)

        if follower is None:
            await asked.prepare(response)
            with suppress(ConnectionError, TimeoutError):
                await send(b"event: anew\ndata: {}\n\n")
            return response
        open_streams.add(follower)
        try:
            await asked.prepare(response)
            if since is not None:
                await send(_ALIVE)  # the first byte opens the connection through proxies, even if nothing changes
            while True:
                try:
                    await asyncio.wait_for(follower.is_changed.wait(), ALIVE_S)
                    text = b"event: change\nid: %s\ndata: %s\n\n" % (collections.at.encode(), follower.take())
                except TimeoutError:
                    text = _ALIVE
                await send(text)
                await asyncio.sleep(GATHER_S)
        except (ConnectionError, TimeoutError):
            return response
        finally:
            open_streams.discard(follower)
            follower.close()

    return answer
