"""What `app` talks to: a record is begun with each request, told what is learned of it, and written when it is over.

    response = await audit_log.audited(request, handle)   # a server without an audit log calls `handle` alone
    note(request, user=user)                              # in `handle`: who asks, what for, what the authorizer said

A watch has two lines of the same auditID, when it began and when it was over; everything else has one.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from tonnage.apiserver.audit.audit_event import AuditedAnswer, AuditedRequest, event_of, source_ips
from tonnage.apiserver.audit.audit_log_file import AuditLogFile
from tonnage.clock import Clock
from tonnage.objects.document import encode

HEADER: Final = "Audit-Id"
"""Of requests, where a client has a name of its own for one; of all answers."""
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
_KEY: Final = "audit"
_GONE: Final = AuditedAnswer(200, message="Connection closed early")
"""Upstream's, for a request whose client went away before there was an answer."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class AuditLog:
    """The audit log of one server."""

    def __init__(self, file: AuditLogFile, *, clock: Clock, rng: random.Random) -> None:
        self._file = file
        self._clock = clock
        self._rng = rng
        self.events = self.requests = 0
        """Lines and requests that were to be written down."""

    @property
    def lost(self) -> int:
        """Lines that the disk did not take."""
        return self._file.lost

    async def audited(self, request: web.BaseRequest, handle: Handler) -> web.StreamResponse:
        """Have a request answered, and write down what became of it."""
        asked = request[_KEY] = self._begin(request)
        self.requests += 1
        outcome = _GONE
        try:
            response = await handle(request)
            outcome = _outcome_of(response)
            if not response.prepared:
                response.headers[HEADER] = asked.audit_id
            return response
        finally:
            self._write(asked, RESPONSE_COMPLETE, outcome)

    def started(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """An answer that takes long is about to begin."""
        asked: AuditedRequest = request[_KEY]
        response.headers[HEADER] = asked.audit_id
        self._write(asked, RESPONSE_STARTED, AuditedAnswer(response.status))

    def _begin(self, request: web.BaseRequest) -> AuditedRequest:
        """What is known of a request when it comes."""
        headers = request.headers
        return AuditedRequest(
            audit_id=_printable(headers.get(HEADER, "")) or str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            method=request.method,
            uri=request.raw_path,
            user_agent=_printable(headers.get("User-Agent", "")),
            source_ips=source_ips(headers, request.remote),
            received_at=self._clock.now(),
        )

    def _write(self, asked: AuditedRequest, stage: str, outcome: AuditedAnswer) -> None:
        """Add the line of one stage."""
        now = self._clock.now()
        self.events += 1
        self._file.write(encode(event_of(asked, stage, outcome, now)), now)


def note(request: web.BaseRequest, **learned: Any) -> None:
    """Remember what was learned of a request, by the names of `AuditedRequest`; nothing happens where nobody audits."""
    asked = request.get(_KEY)
    if asked is not None:
        for name, value in learned.items():
            setattr(asked, name, value)


def _outcome_of(response: web.StreamResponse) -> AuditedAnswer:
    """The code, and of a refusal what its Status says."""
    if response.status >= 400 and isinstance(response, web.Response) and isinstance(response.body, bytes):
        try:
            told = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            return AuditedAnswer(response.status)
        if isinstance(told, dict):
            return AuditedAnswer(response.status, str(told.get("reason", "")), str(told.get("message", "")))
    return AuditedAnswer(response.status)


def _printable(text: str) -> str:
    """Headers may hold any bytes; those that are no text are told as U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
