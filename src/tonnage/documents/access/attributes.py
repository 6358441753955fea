"""The attributes of a request, which an authorizer judges, and the 403 that names them.

`Attributes` is upstream's attributes record, read from the URL alone, as upstream's RequestInfo:

    GET /api/v1/namespaces/shop/pods/db-1/status     ->  get pods/status, named db-1, in namespace shop
    GET /apis/storage.k8s.io/v1/csinodes?watch=true  ->  watch csinodes in storage.k8s.io
    GET /metrics                                     ->  get the path /metrics

Every URL has attributes, served or not. The body is never read, so a create request has no name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tonnage.documents.go_text import quoted
from tonnage.errors import Forbidden
from tonnage.objects import names
from tonnage.objects.selectors import FieldSelector, InvalidSelector
from tonnage.objects.users import User

_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""A message must not look like HTML, whatever name a user has."""
_VERBS: Final = {
    "POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"
}  # fmt: skip
_VERBS_IN_PATHS: Final = ("proxy", "watch")
_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of a namespace: they follow its name and are no resources inside it."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path that is no resource (then `path` is set and `resource` is empty)."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource_request(self) -> bool:
        return bool(self.resource) or not self.path

    @property
    def resource_path(self) -> str:
        """`pods/status`, as rules spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether a request is allowed, which rule allowed it, and why rules could not be evaluated."""

    allowed: bool
    reason: str = ""
    evaluation_error: str = ""


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> AccessDecision: ...


class AllowAll:
    """The authorizer of a server without rules: everybody may do everything."""

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return AccessDecision(True)


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 for these attributes, with the authorizer's reason if there is one."""
    why = cannot(attributes).translate(_SANITIZED)
    if reason:
        why = f"{why}: {reason}"
    resource = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    if resource and attributes.name:
        told = f"{resource} {quoted(attributes.name)} is forbidden: {why}"
    else:
        told = f"{resource} is forbidden: {why}" if resource else f"forbidden: {why}"
    return Forbidden(told, group=attributes.group, kind=attributes.resource, name=attributes.name)


def cannot(attributes: Attributes) -> str:
    """`User "x" cannot list resource "pods" in API group "" in the namespace "default"`."""
    user, verb = quoted(attributes.user.name), attributes.verb
    if not attributes.is_resource_request:
        return f"User {user} cannot {verb} path {quoted(attributes.path)}"
    where = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    resource = quoted(attributes.resource_path)
    return f"User {user} cannot {verb} resource {resource} in API group {quoted(attributes.group)} {where}"


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """The attributes of one request. Mirrors RequestInfoFactory.NewRequestInfo."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Attributes(user, method.lower(), path=path)
    verb = _VERBS.get(method, "")
    if rest[0] in _VERBS_IN_PATHS and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    name = rest[1] if len(rest) > 1 else ""
    asked = Attributes(user, verb, group, version, rest[0], subresource, namespace, name)
    if asked.name:
        return asked
    if verb == "get":
        # As query parameters are read: a value other than false and 0 means yes, an empty value too.
        is_watch = query.get("watch", "false").lower() not in ("false", "0")
        return replace(asked, verb="watch" if is_watch else "list", name=_name_in(query))
    return replace(asked, verb="deletecollection") if verb == "delete" else asked


def _name_in(query: Mapping[str, str]) -> str:
    """The one name that the field selector asks for: with a rule about one object, its user can watch that object."""
    selector = query.get("fieldSelector", "")
    if "metadata.name" not in selector:
        return ""
    try:
        name = FieldSelector.parse(selector).required("metadata.name") or ""
    except InvalidSelector:
        return ""
    return "" if names.path_segment(name) else name
