"""What `app` talks to: a record is begun with each request, told what is learned of it, and written when it is over.

    response = await audit_log.audited(request, handle)   # a server without an audit log calls `handle` alone
    note(request, user=user)                              # in `handle`: who asks, what for, what the authorizer said

A watch has two lines of the same auditID, when it began and when it was over; everything else has one.

One request as an event of an audit log, as kube-apiserver writes it at level Metadata.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

import msgspec
from aiohttp import web

from tonnage.apiserver.audit.audit_log_file import AuditLogFile
from tonnage.clock import Clock, rfc3339_micro
from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.objects.document import Doc, encode
from tonnage.objects.users import User

API_VERSION: Final = "audit.k8s.io/v1"
MAX_USER_AGENT: Final = 1024
"""Bytes of a User-Agent that are kept: upstream's maxUserAgentLength."""
_SECRET_IN_QUERY: Final = re.compile(r"([?&]access_token=)[^&]*")
"""No server of Kubernetes has taken tokens there for years; a client that still sends one must not find it written."""


@dataclass(frozen=True, slots=True)
class AuditedAnswer:
    """How a request was answered; `reason` and `message` are those of a Status, for what was refused or failed."""

    code: int
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class AuditedRequest:
    """What is known of a request; more as it goes through the server."""

    audit_id: str
    method: str
    uri: str
    user_agent: str
    source_ips: tuple[str, ...]
    received_at: datetime
    user: User | None = None
    """Who proved to be; whoever he speaks for is in `attributes`."""
    attributes: Attributes | None = None
    decision: AccessDecision | None = None


def event_of(asked: AuditedRequest, stage: str, outcome: AuditedAnswer, at: datetime) -> Doc:
    """The event of one stage; fields in upstream's order."""
    attributes = asked.attributes
    event: Doc = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "level": "Metadata",
        "auditID": asked.audit_id,
        "stage": stage,
        "requestURI": _SECRET_IN_QUERY.sub(r"\1REDACTED", asked.uri),
        "verb": attributes.verb if attributes is not None else asked.method.lower(),
        "user": _user_info(asked.user or (attributes.user if attributes is not None else None)),
    }
    if attributes is not None and asked.user is not None and attributes.user != asked.user:
        event["impersonatedUser"] = _user_info(attributes.user)
    if asked.source_ips:
        event["sourceIPs"] = list(asked.source_ips)
    if asked.user_agent:
        event["userAgent"] = cut(asked.user_agent)
    if attributes is not None and attributes.resource:
        event["objectRef"] = _object_reference(attributes)
    event["responseStatus"] = _status(outcome)
    event["requestReceivedTimestamp"] = rfc3339_micro(asked.received_at)
    event["stageTimestamp"] = rfc3339_micro(at)
    if asked.decision is not None:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if asked.decision.allowed else "forbid",
            "authorization.k8s.io/reason": asked.decision.reason,
        }
    return event


def cut(user_agent: str) -> str:
    """A User-Agent of bounded length, with upstream's sign that there was more."""
    return user_agent if len(user_agent) <= MAX_USER_AGENT else f"{user_agent[:MAX_USER_AGENT]}...TRUNCATED"


def source_ips(headers: Mapping[str, str], remote: str | None) -> tuple[str, ...]:
    """Where a request came from, and by whom it was handed on. All but the last can be made up by a client.

    Mirrors apimachinery's net.SourceIPs.
    """
    found = [ip for part in headers.get("X-Forwarded-For", "").split(",") if (ip := _ip(part))]
    real = _ip(headers.get("X-Real-Ip", ""))
    if real and real not in found:
        found.append(real)
    peer = _ip((remote or "").partition("%")[0])
    if peer and found[-1:] != [peer]:
        found.append(peer)
    return tuple(found)


def _ip(text: str) -> str:
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""


def _user_info(user: User | None) -> Doc:
    if user is None:
        return {}
    info: Doc = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _object_reference(attributes: Attributes) -> Doc:
    fields = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name,
        "apiGroup": attributes.group,
        "apiVersion": attributes.version,
        "subresource": attributes.subresource,
    }
    return {name: value for name, value in fields.items() if value}


def _status(outcome: AuditedAnswer) -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}}
    if outcome.code >= 400:
        status["status"] = "Failure"
    if outcome.message:
        status["message"] = outcome.message
    if outcome.reason:
        status["reason"] = outcome.reason
    return {**status, "code": outcome.code}


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
