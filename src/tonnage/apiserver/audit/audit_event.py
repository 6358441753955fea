"""One request as an event of an audit log, as kube-apiserver writes it at level Metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Any, Final

from tonnage.clock import rfc3339_micro
from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.objects.document import Doc
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
