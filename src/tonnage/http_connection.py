"""One HTTP connection of our listeners: its time limits, and the answers to bad requests.

aiohttp lets a client take for ever to send a request head or to read an answer, and logs a traceback for every
malformed request. Here each has a limit. The listener checks the deadlines once a second (`check`).
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from tonnage.connection_budget import ConnectionBudget

MAX_URL_BYTES: Final = 64 * 1024
"""The longest URL: room for a label selector with a thousand names. Upstream allows 1 MiB for the whole head; ours is
smaller, because a thousand strangers may each make us keep as much."""
MAX_FIELD_BYTES: Final = 32 * 1024
"""The longest header, name and value: room for any token."""
MAX_HEADERS: Final = 128
MAX_HEAD_BYTES: Final = 128 * 1024
HEAD_S: Final = 10.0
"""From the last answer, or from the accept, to a whole request head. Upstream gives 32 s; but clients send it in one
piece, and until then the connection is unauthenticated."""
IDLE_S: Final = 90.0
"""How long an authenticated connection may be idle: upstream's value."""
SEND_S: Final = 60.0
"""How long a client may take to read an answer, plus a second per MiB: upstream's time for a whole request."""
STRANGER_SEND_S: Final = 10.0
"""The same for an unauthenticated client, whose answers fit into the kernel's buffers."""
CLOSE_S: Final = 15.0
"""How long a client may take to read the last bytes after we close the connection."""
LINGER_S: Final = 1.0
"""How long the rest of a refused body is read and discarded, so that a reset does not lose the refusal."""
MAX_UNREAD_BYTES: Final = 256 * 1024
"""How much of a stranger's refused body is discarded before the connection is cut: Go's value."""
WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Unsent bytes in the process before a writer has to wait; the kernel's buffers come on top."""
_PLAIN: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of answers to unparsable requests: they may repeat what was sent, and must be shown as text."""

_DER: Final = 2
"""ENCODING_DER of Python's _ssl."""

_log = logging.getLogger(__name__)


class HttpConnection(web.RequestHandler):
    """aiohttp's connection with time limits. The listener owns `budget` and `sending`."""

    def __init__(
        self,
        manager: web.Server,
        *,
        loop: AbstractEventLoop,
        budget: ConnectionBudget[Any],
        sending: set[HttpConnection],
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,  # the reader of the body knows the sender and the size limit
            keepalive_timeout=IDLE_S,
            lingering_time=LINGER_S,
            max_line_size=MAX_URL_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADERS,
            logger=_log,
        )
        self._budget = budget
        self._sending = sending
        self.send_by = 0.0
        self._head_bytes = 0
        self._unread_bytes: int | None = None  # reading of a refused body; None while there is none
        self._wire: asyncio.WriteTransport | None = None  # aiohttp forgets its own as soon as it closes
        self.closing_since = 0.0
        self.certificates: tuple[bytes, ...] = ()
        """The peer's TLS certificate, and those that it sent beside it, in DER form, not verified yet."""

    # -- for handlers -------------------------------------------------------------------------------------------------

    def let_in(self) -> bool:
        """The client is authenticated. False when too many such connections exist and none is idle."""
        budget = self._budget
        if budget.is_known(self):
            return True
        if not budget.has_room_for_known:
            oldest = budget.longest_idle()
            if oldest is None:
                return False
            oldest.abort()
        budget.showed_token(self)
        return True

    def sends(self, until: float) -> None:
        """Bytes are about to be written that the peer must have read by `until`, on the loop's clock."""
        self.send_by = until
        self._sending.add(self)

    def sent(self) -> None:
        self._sending.discard(self)

    # -- for the listener ---------------------------------------------------------------------------------------------

    @property
    def waits_for_peer(self) -> bool:
        """True if a body is still to arrive, or an answer to be read."""
        current = self._current_request
        return self in self._sending or (current is not None and not current.content.is_eof())

    @property
    def is_closing(self) -> bool:
        return self._wire is not None and self._wire.is_closing()

    def abort(self) -> None:
        self._budget.closed(self)
        self._sending.discard(self)
        if self._wire is not None:
            self._wire.abort()

    # -- what aiohttp and the loop call -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        wire = cast(asyncio.WriteTransport, transport)  # other loops have transports of their own
        wire.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._wire = wire
        tls = transport.get_extra_info("ssl_object")
        self.certificates = _sent_over(tls) if tls is not None else ()
        self._budget.shook_hands(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire = None
        self._budget.closed(self)
        self._sending.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unread_bytes is not None:
            self._unread_bytes += len(data)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self.abort()
                return
        heads = self._request_count
        super().data_received(data)
        if self._request_count != heads:
            self._head_bytes = 0
            if self._current_request is not None:
                self._tell_reader_of_body()
        elif self._waiter is not None:  # no request is running, so this is part of a head
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_head()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        size = resp.content_length or 0 if isinstance(resp, web.Response) else 0
        base_s = SEND_S if self._budget.is_known(self) else STRANGER_SEND_S
        self.sends(self._loop.time() + base_s + size / (1 << 20))
        if not request.content.is_eof() and not self._budget.is_known(self):
            self._unread_bytes = 0
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._sending.discard(self)
            self._budget.ended(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and close. It is the peer's fault, so one log line is enough."""
        if status == 500:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            limit = exc.args[1] if len(exc.args) > 1 else ""
            status = 414 if limit == MAX_URL_BYTES else 431
            message = f"the {'URL' if status == 414 else 'header'} is longer than {limit} bytes"
        elif message and message.startswith("Too many headers"):
            status, message = 431, f"there are more than {MAX_HEADERS} headers"
        shown = (message or "not HTTP").splitlines()[0][:200]
        _log.info("Refused a malformed request from %s: %d %s", request.remote, status, shown)
        response = web.Response(status=status, text=shown + "\n", headers=_PLAIN)
        response.force_close()
        return response

    def _refuse_head(self) -> None:
        """Write the refusal as raw bytes: there is no request to answer yet."""
        _log.info("Refused a request head of more than %d bytes", MAX_HEAD_BYTES)
        if self.transport is not None:
            told = f"the URL and the headers are longer than {MAX_HEAD_BYTES} bytes\n".encode()
            head = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in _PLAIN.items())
            self.transport.write(f"{head}Content-Length: {len(told)}\r\nConnection: close\r\n\r\n".encode() + told)
        self.force_close()

    def _tell_reader_of_body(self) -> None:
        """Pass on a body's parse error, which aiohttp queues as the next request, to whoever reads the body."""
        found = self._messages[-1][0] if self._messages else None
        current = self._current_request
        if not hasattr(found, "exc") or current is None:
            return
        if not current.content.is_eof() and current.content.exception() is None:
            current.content.set_exception(BadBody(getattr(found, "message", "") or "not HTTP"))


class BadBody(Exception):
    """A request's body breaks off, or is not in the form that its headers say."""


class LargeResponse(web.Response):
    """An answer written piece by piece, as the peer reads it. `hold` gets its size, and afterwards minus its size."""

    def __init__(self, hold: Callable[[int], None], *, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(body=body, status=status, headers=headers)
        self._hold = hold
        self._whole = body

    async def write_eof(self, data: bytes = b"") -> None:
        if self._must_be_empty_body:  # HEAD
            await super().write_eof(data)
            return
        size = len(self._whole)
        self._hold(size)
        try:
            with memoryview(self._whole) as view:
                for start in range(0, size, WRITE_BUFFER_BYTES):
                    await self.write(bytes(view[start : start + WRITE_BUFFER_BYTES]))
            await web.StreamResponse.write_eof(self)
        finally:
            self._hold(-size)


def _sent_over(tls: Any) -> tuple[bytes, ...]:
    """The certificates that a TLS peer sent, its own first, and only that if this Python cannot say more."""
    own = tls.getpeercert(binary_form=True)
    if own is None:
        return ()
    if hasattr(tls, "get_unverified_chain"):
        return tuple(tls.get_unverified_chain())
    chain = getattr(getattr(tls, "_sslobj", None), "get_unverified_chain", None)
    return (own,) if chain is None else tuple(each.public_bytes(_DER) for each in chain())


def connection_of(request: web.BaseRequest) -> HttpConnection:
    return cast(HttpConnection, request.protocol)
