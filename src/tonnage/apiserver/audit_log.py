"""The audit log: who asked for what, and the outcome, one line of audit.k8s.io/v1 per request at level Metadata.

    response = await audit_log.audited(request, handle)   # a server without an audit log calls `handle` alone
    note(request, user=user)                              # in `handle`: who asks, what for, what the authorizer said

Bodies and credentials are not written. A watch has two lines of the same auditID, at its start and its end; other
requests have one. The file has mode 0600; a full one is renamed as upstream does, by time
(`audit-2026-11-15T02-29-13.000.log`). A full disk stops the log, not the server.
"""

from __future__ import annotations

import logging
import os
import random
import re
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from tonnage.apiserver.settings import AuditSettings
from tonnage.clock import Clock, rfc3339_micro
from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, encode
from tonnage.objects.users import User
from tonnage.private_files import open_own

_WHEN: Final = r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}"

_log = logging.getLogger(__name__)


class AuditLogFile:
    """The log file. Use it as a context manager."""

    def __init__(self, settings: AuditSettings) -> None:
        """Raises TonnageError."""
        self._path = None if settings.path == "-" else Path(settings.path)
        self._settings = settings
        self.lost = 0
        """Lines that could not be written."""
        self._fd = sys.stdout.fileno() if self._path is None else self._open(self._path)
        self._bytes = 0 if self._path is None else os.fstat(self._fd).st_size

    def __enter__(self) -> AuditLogFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            os.close(self._fd)

    def write(self, line: bytes, now: datetime) -> None:
        """Add a line, given without its line end."""
        data = line + b"\n"
        try:
            limit = self._settings.max_bytes if self._bytes else 0  # an empty file takes a line of any length
            if self._path is not None and limit and self._bytes + len(data) > limit:
                self._put_aside(self._path, now)
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            self._bytes += len(data)
        except (OSError, TonnageError) as exc:
            self.lost += 1
            _log.error("The audit log takes no more: %s", exc)

    def _put_aside(self, path: Path, now: datetime) -> None:
        when = now.strftime("%Y-%m-%dT%H-%M-%S.") + f"{now.microsecond // 1000:03d}"
        path.rename(path.with_name(f"{path.stem}-{when}{path.suffix}"))
        fresh = self._open(path)
        os.close(self._fd)
        self._fd, self._bytes = fresh, 0
        if self._settings.max_backups:
            mine = re.compile(re.escape(path.stem) + _WHEN + re.escape(path.suffix))
            backups = sorted(each for each in path.parent.iterdir() if mine.fullmatch(each.name))
            for backup in backups[: -self._settings.max_backups]:
                with suppress(OSError):
                    backup.unlink()

    @staticmethod
    def _open(path: Path) -> int:
        try:
            fd = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.fchmod(fd, 0o600)  # others must not read the log, whoever created the file
            return fd
        except OSError as exc:
            raise TonnageError(
                f"--audit-log-path {path}: cannot be written: {exc.strerror or exc}",
                hint="name a file in a folder that is there and yours",
            ) from exc


API_VERSION: Final = "audit.k8s.io/v1"
MAX_USER_AGENT: Final = 1024
"""Bytes kept of a User-Agent: upstream's maxUserAgentLength."""
_SECRET_IN_QUERY: Final = re.compile(r"([?&]access_token=)[^&]*")
"""Kubernetes has not accepted tokens there for years; a client that still sends one must not find it in the log."""


@dataclass(slots=True)
class AuditedRequest:
    """What is known of a request; the fields fill as it goes through the server."""

    audit_id: str
    method: str
    uri: str
    user_agent: str
    source_ips: tuple[str, ...]
    received_at: datetime
    user: User | None = None
    """The authenticated user; an impersonated one is in `attributes`."""
    attributes: Attributes | None = None
    decision: AccessDecision | None = None


def event_of(asked: AuditedRequest, stage: str, outcome: Doc, at: datetime) -> Doc:
    """The event of one stage; fields in upstream's order."""
    attributes, user, decision = asked.attributes, asked.user, asked.decision
    spoken_for = attributes.user if attributes is not None else None
    event: Doc = {
        "kind": "Event",
        "apiVersion": API_VERSION,
        "level": "Metadata",
        "auditID": asked.audit_id,
        "stage": stage,
        "requestURI": _SECRET_IN_QUERY.sub(r"\1REDACTED", asked.uri),
        "verb": attributes.verb if attributes is not None else asked.method.lower(),
        "user": known.info() if (known := user or spoken_for) is not None else {},
        "impersonatedUser": spoken_for.info() if spoken_for and user and spoken_for != user else None,
        "sourceIPs": list(asked.source_ips) or None,
        "userAgent": cut(asked.user_agent) or None,
        "objectRef": _object_reference(attributes) if attributes is not None and attributes.resource else None,
        "responseStatus": outcome,
        "requestReceivedTimestamp": rfc3339_micro(asked.received_at),
        "stageTimestamp": rfc3339_micro(at),
    }
    if decision is not None:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if decision.allowed else "forbid",
            "authorization.k8s.io/reason": decision.reason,
        }
    return {field: value for field, value in event.items() if value is not None}


def cut(user_agent: str) -> str:
    """A User-Agent of bounded length, with upstream's mark if it was cut."""
    return user_agent if len(user_agent) <= MAX_USER_AGENT else f"{user_agent[:MAX_USER_AGENT]}...TRUNCATED"


def source_ips(headers: Mapping[str, str], remote: str | None) -> tuple[str, ...]:
    """The addresses of a request, as apimachinery's net.SourceIPs. A client can forge all but the last."""
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


def outcome_of(code: int, *, reason: str = "", message: str = "") -> Doc:
    """The answer to a request; `reason` and `message` are those of the Status of a refusal or failure."""
    given = {"status": "Failure" if code >= 400 else "", "message": message, "reason": reason}
    return {"metadata": {}, **{name: value for name, value in given.items() if value}, "code": code}


HEADER: Final = "Audit-Id"
"""Sent by a client that names its request itself; present on all answers."""
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
_KEY: Final = "audit"
_GONE: Final = outcome_of(200, message="Connection closed early")
"""Upstream's outcome of a request whose client went away before the answer."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class AuditLog:
    def __init__(self, file: AuditLogFile, *, clock: Clock, rng: random.Random) -> None:
        self._file = file
        self._clock = clock
        self._rng = rng
        self.events = self.requests = 0
        """Lines and requests to be logged."""

    @property
    def lost(self) -> int:
        return self._file.lost

    async def audited(self, request: web.BaseRequest, handle: Handler) -> web.StreamResponse:
        """Answer a request with `handle`, and log its outcome."""
        asked = request[_KEY] = self._begin(request)
        self.requests += 1
        outcome = _GONE
        try:
            response = await handle(request)
            outcome = _answered(response)
            if not response.prepared:
                response.headers[HEADER] = asked.audit_id
            return response
        finally:
            self._write(asked, RESPONSE_COMPLETE, outcome)

    def started(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """A long-running answer is about to start."""
        asked: AuditedRequest = request[_KEY]
        response.headers[HEADER] = asked.audit_id
        self._write(asked, RESPONSE_STARTED, outcome_of(response.status))

    def _begin(self, request: web.BaseRequest) -> AuditedRequest:
        headers = request.headers
        return AuditedRequest(
            audit_id=_printable(headers.get(HEADER, "")) or str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            method=request.method,
            uri=request.raw_path,
            user_agent=_printable(headers.get("User-Agent", "")),
            source_ips=source_ips(headers, request.remote),
            received_at=self._clock.now(),
        )

    def _write(self, asked: AuditedRequest, stage: str, outcome: Doc) -> None:
        now = self._clock.now()
        self.events += 1
        self._file.write(encode(event_of(asked, stage, outcome, now)), now)


def note(request: web.BaseRequest, **learned: Any) -> None:
    """Set fields of the request's `AuditedRequest`; does nothing without an audit log."""
    asked = request.get(_KEY)
    if asked is not None:
        for name, value in learned.items():
            setattr(asked, name, value)


def _answered(response: web.StreamResponse) -> Doc:
    """The code, and the Status of a refusal."""
    told: Any = {}
    if response.status >= 400 and isinstance(response, web.Response) and isinstance(response.body, bytes):
        with suppress(msgspec.DecodeError):
            told = msgspec.json.decode(response.body)
    said = {name: str(told.get(name, "")) for name in ("reason", "message")} if isinstance(told, dict) else {}
    return outcome_of(response.status, **said)


def _printable(text: str) -> str:
    """Headers may hold any bytes; those that are no text become U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")
