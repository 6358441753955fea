"""From a URL to verb, resource, namespace, name and subresource.

    /api/v1/namespaces/{namespace}/{plural}/{name}/{subresource}
    /apis/{group}/{version}/{plural}/{name}

`locate` parses a path; `Call` is a request without the HTTP library, so that tests can call a verb. Other paths
(discovery, health, metrics) are handled by `app.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tonnage.documents.access.attributes import Attributes
from tonnage.objects.resources import BINDINGS, BY_PATH, REVIEWS_BY_PATH, Resource, verbs_of
from tonnage.objects.users import NOBODY, User

_PODS = BY_PATH["", "v1", "pods"]
_NAMESPACES = BY_PATH["", "v1", "namespaces"]


@dataclass(frozen=True, slots=True)
class Location:
    """What a path names. `name` and `subresource` are empty for a collection; `watch` is the old /watch/ prefix."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return self.resource.key(self.namespace, self.name)


Find = Callable[[str, str, str], Resource | None]
"""(group, version, plural) -> a resource outside the table, or None."""


def locate(path: str, find: Find = lambda group, version, plural: None) -> Location | None:
    """Parse a resource path; None when nothing is served there. `find` looks up custom resources."""
    parts = path.removeprefix("/").rstrip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (rest[2] in _NAMESPACES.subresources and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if (group, version, rest) == ("", "v1", ["bindings"]) and namespace:
        return Location(_PODS, namespace, subresource="binding")  # an older path of pods/{name}/binding
    asked = (group, version, rest[0])
    review = REVIEWS_BY_PATH.get(asked) if len(rest) == 1 else None
    if review is not None and review.namespaced is not bool(namespace):
        return None
    resource = BY_PATH.get(asked) or review or find(*asked)
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if (subresource and subresource not in resource.subresources) or (len(rest) > 1 and not name):
        return None
    if name and resource.namespaced and not namespace:
        return None  # a namespaced object is reached only through its namespace
    return Location(resource, namespace, name, subresource, watch)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(method: str, location: Location, watch_asked: bool) -> str:
    """The API verb of a request; empty when the method is not supported. Only /watch/ watches a single object."""
    resource = location.resource
    one = bool(location.name)
    if location.subresource:
        verb = "watch" if location.watch else "get" if method == "GET" else _VERBS.get(method, "")
        return verb if verb in verbs_of(resource, location.subresource) else ""
    if location.watch and method != "GET":
        return ""
    if method == "GET":
        if location.watch or (watch_asked and not one):
            return "watch"
        return "get" if one else "list"
    if resource.namespaced and not location.namespace:
        return ""  # writes stay within one namespace
    verb = _VERBS.get(method, "")
    if verb == "create":
        return "" if one else verb
    if verb == "delete" and not one:
        return "deletecollection"
    return verb if one else ""


def is_about(asked: Attributes, verb: str, at: Location) -> bool:
    """True if the authorized request is what would be done: two parsers of one URL must not differ."""
    if at.resource is _PODS and at.subresource == "binding" and not at.name:
        return (asked.verb, asked.resource, asked.namespace) == (verb, BINDINGS.plural, at.namespace)
    resource = at.resource
    namespace = at.name if resource is _NAMESPACES else at.namespace
    return (
        (asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace)
        == (verb, resource.group, resource.plural, at.subresource, namespace)
    ) and (asked.name == at.name or verb in ("list", "watch"))  # a field selector may have narrowed it to one


@dataclass(slots=True)
class Call:
    """One request about a resource, and its user. `warnings` collects the answer's Warning headers."""

    verb: str
    at: Location
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    user: User = NOBODY

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")


@dataclass(slots=True)
class Response:
    """A verb's result: a code, a body, and additional headers."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
