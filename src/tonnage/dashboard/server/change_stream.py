"""Server-sent events: the whole state first, then what changes, until the browser goes.

    event: change
    id: 17
    data: {"revision": 17, "set": {"nodes": {"node-1": {…}}}, "gone": {"pods": ["shop/db-0"]}}

A browser that lost its connection asks again by itself, and gets the whole state again. Between changes a comment is
sent now and then, so that both sides notice when the other is gone. A browser that takes nothing for long is cut off,
and there are only so many streams at once: each keeps a connection, and what changed since it last took.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from tonnage.dashboard.server.access import Refused
from tonnage.dashboard.server.router import Answer, Asked
from tonnage.dashboard.wire.collections import Collections, Follower

GATHER_S: Final = 0.1
"""Between two messages to one browser: ten changes a second are as many as anybody sees."""
ALIVE_S: Final = 15.0
SEND_S: Final = 30.0
"""How long a message may take to be taken."""
MAX_STREAMS: Final = 100
"""Windows at once."""


def change_stream(collections: Collections) -> Answer:
    """The handler of /api/v1/changes."""
    open_streams: set[Follower] = set()

    async def answer(asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        gzip = "gzip" in asked.request.headers.get("Accept-Encoding", "")
        if gzip:
            response.headers["Content-Encoding"] = "gzip"
        packer = zlib.compressobj(4, wbits=31) if gzip else None
        if asked.request.method == "HEAD":
            return response
        if len(open_streams) >= MAX_STREAMS:
            raise Refused(503, f"{MAX_STREAMS} windows are open already: close one", retry_after_s=5)
        follower = collections.follow()
        open_streams.add(follower)
        try:
            await asked.prepare(response)
            while True:
                try:
                    await asyncio.wait_for(follower.changed(), ALIVE_S)
                    text = b"event: change\nid: %d\ndata: %s\n\n" % (collections.revision, follower.take())
                except TimeoutError:
                    text = b": still here\n\n"
                data = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH) if packer is not None else text
                await asyncio.wait_for(response.write(data), SEND_S)
                await asyncio.sleep(GATHER_S)
        except (ConnectionError, TimeoutError):
            return response
        finally:
            open_streams.discard(follower)
            follower.close()

    return answer
