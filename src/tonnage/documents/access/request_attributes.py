"""From a request line to what an authorizer judges: upstream's RequestInfo, read off the URL alone.

    GET /api/v1/namespaces/shop/pods/db-1/status     ->  get pods/status, named db-1, in namespace shop
    GET /apis/storage.k8s.io/v1/csinodes?watch=true  ->  watch csinodes in storage.k8s.io
    GET /metrics                                     ->  get the path /metrics

It is asked of every URL, whether somebody serves it or not: who may not is told so before anybody says what there is.
The body is never looked at, so a creation has no name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.documents.access.attributes import Attributes
from tonnage.objects import names
from tonnage.objects.selectors import FieldSelector, InvalidSelector
from tonnage.objects.users import User

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_VERBS_IN_PATHS: Final = ("proxy", "watch")
_OF_NAMESPACES: Final = ("status", "finalize")
"""What may follow a namespace's name and is no resource within it."""


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """What one request wants. Mirrors RequestInfoFactory.NewRequestInfo."""
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
    asked = Attributes(
        user,
        verb,
        group,
        version,
        rest[0],
        rest[2] if len(rest) > 2 and verb != "proxy" else "",
        namespace,
        rest[1] if len(rest) > 1 else "",
    )
    if asked.name:
        return asked
    if verb == "get":
        return replace(asked, verb="watch" if _is_true(query.get("watch")) else "list", name=_name_in(query))
    return replace(asked, verb="deletecollection") if verb == "delete" else asked


def _is_true(value: str | None) -> bool:
    """As query parameters are read: everything but false and 0 means yes, nothing at all too."""
    return value is not None and value.lower() not in ("false", "0")


def _name_in(query: Mapping[str, str]) -> str:
    """The one name that a field selector leaves, so that a rule about one object lets its user watch it."""
    selector = query.get("fieldSelector", "")
    if "metadata.name" not in selector:
        return ""
    try:
        name = FieldSelector.parse(selector).required("metadata.name") or ""
    except InvalidSelector:
        return ""
    return "" if names.path_segment(name) else name
