"""Compares what was asked of a server with what the roles allow: calls that are not allowed, rights that nobody used.

    calls = calls_in(path.read_text().splitlines())              # an audit log, audit.k8s.io/v1, one event a line
    found = audit((each for each in calls if each.user == "system:serviceaccount:kube-system:tonnage-node"),
                  rules_of("node", "kube-system"))
    assert not found.refused and not found.unused

Pure. `refused` is what the server's authorizer answered with 403 (a namespace that is going, or a quota, also answers
403, of a call that was allowed); `beyond` is what no rule allows, whatever the server said: on a
server that lets everybody do everything it is what would be refused elsewhere. What the server allows to everybody
(discovery, questions about oneself) is in neither. A right is one verb on one resource, path or named object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.roles import RoleRule

_FOR_EVERYBODY: Final = ("/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version")
"""The role system:discovery, and system:public-info-viewer."""
_ABOUT_ONESELF: Final = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
"""The role system:basic-user."""

_AUTHORITIES: Final = ("kube-system", "configmaps", "extension-apiserver-authentication")
"""The role extension-apiserver-authentication-reader, which Kubernetes has, and our files bind."""


class AuditedCall(NamedTuple):
    """One request, as an authorizer sees it, and the code of the answer."""

    user: str
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    code: int = 200
    agent: str = ""
    was_allowed: bool = False
    """By the authorizer. What is refused all the same was refused by admission."""

    @property
    def is_refused(self) -> bool:
        return self.code == 403 and not self.was_allowed

    @property
    def resource_path(self) -> str:
        """`pods/status`, as rules spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        what = f"{self.resource_path}.{self.group}" if self.group else self.resource_path or self.path
        named = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.user} {self.verb} {what}{f' {named}' if named else ''}: {self.code}"


class Right(NamedTuple):
    """One verb on one resource, path, or object, by one role."""

    role: str
    namespace: str
    verb: str
    what: str

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.role}{where}: {self.verb} {self.what}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What a comparison found."""

    refused: tuple[AuditedCall, ...]
    beyond: tuple[AuditedCall, ...]
    unused: tuple[Right, ...]


def audit(calls: Iterable[AuditedCall], rules: Iterable[RoleRule]) -> Audit:
    """Compare the calls of one program with its rules."""
    rules = tuple(rules)
    left = dict.fromkeys(right for rule in rules for right, _ in _rights(rule))
    refused: dict[AuditedCall, None] = {}
    beyond: dict[AuditedCall, None] = {}
    for call in dict.fromkeys(calls):
        if call.is_refused:
            refused[call] = None
        allowed = False
        for rule in rules:
            if _allows(rule, call):
                allowed = True
                for right, matches in _rights(rule):
                    if right in left and matches.covers(call):
                        del left[right]
        if not allowed and not _is_for_everybody(call):
            beyond[call] = None
    return Audit(tuple(refused), tuple(beyond), tuple(left))


def calls_in(lines: Iterable[str | bytes]) -> Iterator[AuditedCall]:
    """The calls of an audit log; of each, the stage in which it was answered. Raises msgspec.DecodeError."""
    for line in lines:
        if line.strip():
            event = msgspec.json.decode(line)
            if event.get("stage") == "ResponseComplete" or event.get("stage") == "ResponseStarted":
                yield call_of(event)


def call_of(event: dict[str, Any]) -> AuditedCall:
    """One event of an audit log."""
    about, who = event.get("objectRef") or {}, event.get("impersonatedUser") or event.get("user") or {}
    return AuditedCall(
        user=who.get("username", ""),
        verb=event.get("verb", ""),
        group=about.get("apiGroup", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        path="" if about else event.get("requestURI", "").partition("?")[0],
        code=(event.get("responseStatus") or {}).get("code", 0),
        agent=event.get("userAgent", ""),
        was_allowed=(event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow",
    )


class _Part(NamedTuple):
    """What part of a rule a right is."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""

    def covers(self, call: AuditedCall) -> bool:
        """Of a call that the whole rule allows."""
        if self.verb not in ("*", call.verb):
            return False
        if self.url:
            return _is_path(self.url, call.path)
        return self.group in ("*", call.group) and _is_resource(self.resource, call) and self.name in ("", call.name)


def _rights(rule: RoleRule) -> Iterator[tuple[Right, _Part]]:
    for verb in rule.verbs:
        for url in rule.urls:
            yield Right(rule.role, rule.namespace, verb, url), _Part(verb, url=url)
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    what = f"{resource}.{group}" if group else resource
                    named = f" {name}" if name else ""
                    yield (
                        Right(rule.role, rule.namespace, verb, f"{what}{named}"),
                        _Part(verb, group, resource, name),
                    )


def _allows(rule: RoleRule, call: AuditedCall) -> bool:
    """As RBAC's RuleAllows, in the namespace of the rule's role."""
    if not {"*", call.verb} & set(rule.verbs):
        return False
    if not call.resource:
        return any(_is_path(url, call.path) for url in rule.urls)
    return (
        (not rule.namespace or rule.namespace == call.namespace)
        and bool({"*", call.group} & set(rule.groups))
        and any(_is_resource(resource, call) for resource in rule.resources)
        and (not rule.names or call.name in rule.names)
    )


def _is_resource(resource: str, call: AuditedCall) -> bool:
    if resource in ("*", call.resource_path):
        return True
    return bool(call.subresource) and resource == f"*/{call.subresource}"


def _is_path(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))


def _is_for_everybody(call: AuditedCall) -> bool:
    if (call.namespace, call.resource, call.name) == _AUTHORITIES:
        return True
    if call.resource:
        return call.verb == "create" and call.resource in _ABOUT_ONESELF
    return call.verb == "get" and any(call.path == each or call.path.startswith(f"{each}/") for each in _FOR_EVERYBODY)
