"""How a request's body comes in: within a time, within a size, plain or gzip.

The slots of requests under way (`app.MAX_MUTATING`) are taken afterwards, so that whoever sends slowly holds a
connection and nothing else. What has come of all bodies together is bounded too, until their requests are answered.
gzip is undone away from the event loop, piece by piece, and never beyond the size a plain body may have.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from tonnage.apiserver.bodies import MAX_BODY_BYTES
from tonnage.apiserver.status import ExpectationFailed, RequestTimeout
from tonnage.errors import BadRequest, RequestEntityTooLarge, TooManyRequests, UnsupportedMediaType
from tonnage.http_connection import BadBody

MAX_BODIES_BYTES: Final = 128 * 1024 * 1024
"""All bodies at once, those that are coming in and those whose requests are under way."""
BODY_S: Final = 60.0
"""From the first to the last byte of a body: upstream's time for a whole request."""
PAUSE_S: Final = 10.0
"""How long nothing may come of a body."""
_MAX_GZIP_MEMBERS: Final = 64
"""A gzip file may be several, one behind the other. Nobody sends many; each costs, also one that holds nothing."""
_INFLATE_BYTES: Final = 256 * 1024


class Bodies:
    """Reads bodies and keeps count of their bytes."""

    def __init__(self) -> None:
        self.held_bytes = 0

    async def read(self, request: web.BaseRequest) -> bytes:
        """The body, with gzip undone. Whoever gets it gives it back with `release`. Raises what the client is told."""
        encoding = encoding_of(request.headers.get("Content-Encoding", ""))
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        await _continue(request)
        body = await self._read(request)
        if encoding == "gzip":
            held = len(body)
            try:
                body = await asyncio.to_thread(inflate, body)
                self.held_bytes += len(body)
            finally:
                self.held_bytes -= held
        return body

    def release(self, body: bytes) -> None:
        self.held_bytes -= len(body)

    async def _read(self, request: web.BaseRequest) -> bytes:
        content, size = request.content, 0
        chunks: list[bytes] = []
        loop = asyncio.get_running_loop()
        done_by = loop.time() + BODY_S
        try:
            while True:
                if content.is_eof():
                    chunk = content.read_nowait()  # most bodies come with their head, and need no timer
                else:
                    async with asyncio.timeout_at(min(loop.time() + PAUSE_S, done_by)):
                        chunk = await content.readany()
                if not chunk and content.is_eof():
                    break
                size += len(chunk)
                self.held_bytes += len(chunk)
                if size > MAX_BODY_BYTES:
                    raise too_large()
                if self.held_bytes > MAX_BODIES_BYTES:
                    raise TooManyRequests("Too many requests, please try again later.", retry_after_s=1)
                chunks.append(chunk)
            return b"".join(chunks)
        except BaseException as exc:
            self.held_bytes -= size
            if isinstance(exc, TimeoutError):
                told = f"of its body {size} bytes came, and then nothing for {PAUSE_S:.0f} s"
                if loop.time() >= done_by:
                    told = f"its body was not complete after {BODY_S:.0f} s: {size} bytes had come"
                raise RequestTimeout(f"the request was given up: {told}") from exc
            if isinstance(exc, (BadBody, web.RequestPayloadError)):
                raise BadRequest(f"the body of the request cannot be read: {str(exc)[:200]}") from exc
            raise


def encoding_of(header: str) -> str:
    """`gzip` or `identity`, the two that are undone here, once. Raises UnsupportedMediaType."""
    encoding = header.strip().lower() or "identity"
    if encoding == "x-gzip":
        encoding = "gzip"
    if encoding not in ("gzip", "identity"):
        raise UnsupportedMediaType(
            f"the body of the request has the Content-Encoding {header[:100]!r}: send it plain, or as gzip"
        )
    return encoding


def inflate(body: bytes, limit: int = MAX_BODY_BYTES) -> bytes:
    """Undo gzip, up to `limit` bytes. Raises BadRequest for what is no gzip, RequestEntityTooLarge for more."""
    pieces: list[bytes] = []
    size = members = 0
    rest = body
    while rest:
        members += 1
        if members > _MAX_GZIP_MEMBERS:
            raise BadRequest(f"the body of the request is more than {_MAX_GZIP_MEMBERS} gzip members: send one")
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not inflater.eof:
            try:
                piece = inflater.decompress(rest, _INFLATE_BYTES)
            except zlib.error as exc:
                raise BadRequest(f"the body of the request is not gzip, as its Content-Encoding says: {exc}") from exc
            rest = inflater.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            pieces.append(piece)
            if not piece and not rest and not inflater.eof:
                raise BadRequest("the body of the request is gzip that breaks off before its end")
        rest = inflater.unused_data.lstrip(b"\0")  # padding is allowed behind a member
    return b"".join(pieces)


def too_large(limit: int = MAX_BODY_BYTES) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: limit is {limit}")


async def _continue(request: web.BaseRequest) -> None:
    """Say that the body may come, to a client that waits for the word."""
    expected = request.headers.get("Expect", "")
    if not expected or request.version < (1, 1):
        return
    if expected.lower() != "100-continue":
        raise ExpectationFailed(f"nothing is known of the expectation {expected[:100]!r}")
    if not request.content.is_eof():
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun
