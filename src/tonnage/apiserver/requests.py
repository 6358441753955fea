"""From a URL to what is asked: verb, resource, namespace, name, subresource.

    /api/v1/namespaces/{namespace}/{plural}/{name}/{subresource}
    /apis/{group}/{version}/{plural}/{name}

`locate` reads a path; `Call` is one request as the verbs see it, free of the HTTP library, so a verb can be called by a
test. Paths that are not about resources (discovery, health, metrics) are `app.py`'s.
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
    """What a path points at. `name` and `subresource` are empty for a collection; `watch` is the old /watch/ prefix."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


Find = Callable[[str, str, str], Resource | None]
"""(group, version, plural) -> a resource that is not in the table, if there is one."""


def locate(path: str, find: Find = lambda group, version, plural: None) -> Location | None:
    """Read a resource path; None when it names nothing that is served. `find` is asked for custom resources."""
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
        return Location(_PODS, namespace, subresource="binding")  # an older way to pods/{name}/binding
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
        return None  # a namespaced object is reached through its namespace only
    return Location(resource, namespace, name, subresource, watch)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(method: str, location: Location, watch_asked: bool) -> str:
    """The API verb of a request; empty when this method means nothing there. One object is watched by /watch/ alone."""
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
        return ""  # what changes is changed within one namespace
    verb = _VERBS.get(method, "")
    if verb == "create":
        return "" if one else verb
    if verb == "delete" and not one:
        return "deletecollection"
    return verb if one else ""


def is_about(asked: Attributes, verb: str, at: Location) -> bool:
    """Is what was judged what would be done? Two readers of one URL must not differ, whatever somebody puts into it."""
    if at.resource is _PODS and at.subresource == "binding" and not at.name:
        return (asked.verb, asked.resource, asked.namespace) == (verb, BINDINGS.plural, at.namespace)
    resource = at.resource
    namespace = at.name if resource is _NAMESPACES else at.namespace
    return (
        (asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace)
        == (verb, resource.group, resource.plural, at.subresource, namespace)
    ) and (asked.name == at.name or verb in ("list", "watch"))  # which a field selector may have narrowed to one


@dataclass(slots=True)
class Call:
    """One request about a resource, and whose it is. `warnings` collects what the answer's Warning headers will say."""

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

    @property
    def resource(self) -> Resource:
        return self.at.resource

    @property
    def namespace(self) -> str:
        return self.at.namespace

    @property
    def name(self) -> str:
        return self.at.name

    @property
    def subresource(self) -> str:
        return self.at.subresource


@dataclass(slots=True)
class Response:
    """What a verb gives back: a code, a body, and headers beside the usual ones."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
