"""From a URL to verb, resource, namespace, name, subresource and options.

    /api/v1/namespaces/{namespace}/{plural}/{name}/{subresource}
    /apis/{group}/{version}/{plural}/{name}

`locate` parses a path; `Call` is a request without the HTTP library, so that tests can call a verb. Other paths
(discovery, health, metrics) are handled by `app.py`. Query parameters are read as upstream reads CreateOptions,
ListOptions and their kin: an unknown one is ignored, a wrong value is a 400 or a 422 that names it. DeleteOptions,
which may also come as a body, are in `verbs/writing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tonnage.documents.access.attributes import api_path
from tonnage.documents.api_errors import UnknownReason
from tonnage.documents.validation.metadata import FIELD_MANAGER_MAX_BYTES, validate_field_manager
from tonnage.errors import BadRequest, Cause, Conflict, Invalid, Timeout
from tonnage.objects import codec, document, field_errors, meta
from tonnage.objects.resources import BY_PATH, REVIEWS_BY_PATH, Resource
from tonnage.objects.selectors import FieldSelector, InvalidSelector, LabelMatcher, label_matcher
from tonnage.objects.small_groups import LEASE_HEADER, Lease
from tonnage.objects.users import NOBODY, User
from tonnage.store.records import StoreRecord
from tonnage.store.writes import Fence

_PODS = BY_PATH["", "v1", "pods"]


@dataclass(frozen=True, slots=True)
class Location:
    """What a path names. `name` and `subresource` are empty for a collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return self.resource.key(self.namespace, self.name)


Find = Callable[[str, str, str], Resource | None]
"""(group, version, plural) -> a resource outside the table, or None."""


def locate(path: str, find: Find = lambda group, version, plural: None) -> Location | None:
    """Parse a resource path; None when nothing is served there. `find` looks up custom resources."""
    said = api_path(path)
    if said is None or said.prefix == "proxy":
        return None
    group, version, _, namespace, steps = said
    if (group, version, steps) == ("", "v1", ("bindings",)) and namespace:
        return Location(_PODS, namespace, subresource="binding")  # an older path of pods/{name}/binding
    asked = (group, version, steps[0])
    review = REVIEWS_BY_PATH.get(asked) if len(steps) == 1 else None
    if review is not None and review.namespaced is not bool(namespace):
        return None
    resource = BY_PATH.get(asked) or review or find(*asked)
    if resource is None or len(steps) > 3 or (namespace and not resource.namespaced):
        return None
    _, name, subresource, *_ = (*steps, "", "")
    if (subresource and subresource not in resource.subresources) or (len(steps) > 1 and not name):
        return None
    if name and resource.namespaced and not namespace:
        return None  # a namespaced object is reached only through its namespace
    return Location(resource, namespace, name, subresource)


def is_possible(method: str, verb: str, at: Location) -> bool:
    """True if a request by this method can mean the verb there. Writes stay within one namespace."""
    if method == "HEAD" or (verb == "watch" and method != "GET"):
        return False
    if at.subresource or verb in ("get", "list", "watch"):
        return True
    is_one = verb not in ("create", "deletecollection")
    return bool(at.name) is is_one and (bool(at.namespace) or not at.resource.namespaced)


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


_OPTIONS_KIND = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_POLICIES = ("Ignore", "Strict", "Warn")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NO_INT64 = 1 << 63
_MAX_INT64_DIGITS = 64
"""Including leading zeros and a sign; a longer text is not parsed."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write. `manager` owns the fields it sets; `field_validation` is Ignore, Warn or Strict.

    `requester` must not grant rights that they do not have; None is the server itself.
    """

    dry_run: bool = False
    manager: str = "unknown"
    field_validation: str = "Warn"
    force: bool = False
    requester: User | None = None


def write_options(call: Call, *, is_apply: bool = False) -> WriteOptions:
    """The options of a create, update or patch. Raises Invalid, BadRequest."""
    query = call.query
    dry_run = values(query, "dryRun")
    errors = dry_run_errors(dry_run)
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in _POLICIES:
        errors.append(field_errors.unsupported("fieldValidation", validation, sorted(("", *_POLICIES))))
    manager = query.get("fieldManager", "")
    errors += validate_field_manager(manager, "fieldManager")
    force = boolean(query, "force")
    if is_apply and not manager:
        errors.append(field_errors.required("fieldManager", "is required for apply patch"))
    if force is not None and not is_apply and call.verb == "patch":
        errors.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid_options(_OPTIONS_KIND[call.verb], errors)
    manager = manager or _manager_of(call.headers.get("User-Agent", "")) or "unknown"
    return WriteOptions(bool(dry_run), manager, validation, bool(force), call.user)


def _manager_of(user_agent: str) -> str:
    """The program's name, "kubectl" of "kubectl/v1.32.4 (linux…)", as upstream's prefixFromUserAgent cuts it.

    Bytes that are no text, which the HTTP library passes on as lone surrogates, become U+FFFD as in Go.
    """
    program = user_agent.partition("/")[0].encode(errors="surrogateescape").decode(errors="replace")
    printable = "".join(filter(str.isprintable, program))
    return printable.encode()[:FIELD_MANAGER_MAX_BYTES].decode(errors="ignore")


def dry_run_errors(asked: list[str]) -> field_errors.Errors:
    return [] if set(asked) <= {"All"} else [field_errors.unsupported("dryRun", asked, ("All",))]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or watch. An empty `resource_version` means the newest."""

    labels: LabelMatcher | None = None
    fields: FieldSelector | None = None
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    timeout_s: int | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None

    @property
    def is_exact(self) -> bool:
        """True if exactly this version is meant. A paged list at a version has always meant that."""
        if self.match or self.token:
            return self.match == "Exact"
        return self.limit > 0 and self.resource_version not in ("", "0")


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    resource_version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    send_initial_events = boolean(query, "sendInitialEvents")
    if watch and send_initial_events is None and not match and resource_version in ("", "0"):
        send_initial_events, match = True, "NotOlderThan"  # such a watch meant this before the parameter existed
    # Upstream answers "any version" from its cache, whole, whatever page was asked for.
    limit = 0 if resource_version == "0" else max(integer(query, "limit") or 0, 0)
    options = ListOptions(
        labels=label_matcher(labels) if labels else None,
        fields=FieldSelector.parse(fields) if fields else None,
        resource_version=resource_version,
        match=match,
        limit=limit,
        token=query.get("continue", ""),
        timeout_s=integer(query, "timeoutSeconds"),
        bookmarks=boolean(query, "allowWatchBookmarks") or False,
        send_initial_events=send_initial_events,
    )
    errors = _watch_errors(options) if watch else _list_errors(options)
    if errors:
        raise invalid_options("ListOptions", errors)
    return options


LONG_QUERY_CHARS: Final = 4_096
"""Selectors of longer queries are parsed in a thread."""


def read_selectors(query: Mapping[str, str]) -> None:
    """Parse a query's selectors, so that the next reader gets the cached result; that reader reports a mistake."""
    for name, read in (
        ("labelSelector", label_matcher),
        ("fieldSelector", lambda text: FieldSelector.parse(text).matcher),
    ):
        with suppress(InvalidSelector):
            read(query.get(name, ""))


def _list_errors(options: ListOptions) -> field_errors.Errors:
    errors: field_errors.Errors = []
    field, forbid = "resourceVersionMatch", field_errors.forbidden
    if options.match:
        if not options.resource_version:
            errors.append(forbid(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.token:
            errors.append(forbid(field, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            errors.append(field_errors.unsupported(field, options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.resource_version == "0":
            errors.append(forbid(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(forbid("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> field_errors.Errors:
    errors: field_errors.Errors = []
    field, forbid = "resourceVersionMatch", field_errors.forbidden
    if options.send_initial_events is not None and options.match != "NotOlderThan":
        errors.append(forbid(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if options.match:
        if options.send_initial_events is None:
            told = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(forbid(field, told))
        if options.match != "NotOlderThan":
            errors.append(field_errors.unsupported(field, options.match, ("NotOlderThan",)))
        if options.token:
            errors.append(forbid(field, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


def integer(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = int(text) if len(text) <= _MAX_INT64_DIGITS else _NO_INT64
    if not -_NO_INT64 <= number < _NO_INT64:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def boolean(query: Mapping[str, str], name: str) -> bool | None:
    """As upstream's converter: "false" and "0" are false, an empty value and everything else is true."""
    if name not in query:
        return None
    return query[name].lower() not in ("false", "0")


def values(query: Mapping[str, str], name: str) -> list[str]:
    """All values of a parameter that may be repeated."""
    every = getattr(query, "getall", None)  # of the HTTP library's multi-dictionary
    return list(every(name, ())) if every is not None else [query[name]] if name in query else []


def revision(text: str, *, of: str) -> int:
    """A resourceVersion as our integer; empty is 0. Only a list has a proper error for one that is no number."""
    try:
        return meta.parse_revision(text)
    except meta.InvalidRevision as exc:
        problem = f'resourceVersion: Invalid value: "{text}": {exc}'
        error = BadRequest(f"invalid resource version: {problem}") if of == "list" else UnknownReason(problem)
        raise error from exc


def invalid_options(kind: str, errors: field_errors.Errors) -> Invalid:
    """Wrong query parameters are reported as an object of kind CreateOptions, ListOptions, …"""
    return field_errors.invalid_object("meta.k8s.io", kind, "", errors)


def resource_version_too_large(asked: int, current: int, *, may_come: bool = True) -> Timeout:
    """The error of a list or get. `may_come`: tell the client to retry, because a later version would do."""
    return Timeout(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
        retry_after_s=1 if may_come else 0,
    )


def wrong_namespace() -> BadRequest:
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def fence_of(header: str | None) -> Fence | None:
    """The fence of a request's header, if any. Raises BadRequest."""
    if header is None:
        return None
    lease, _, identity = header.partition(" ")
    namespace, _, name = lease.partition("/")
    if not (namespace and name and identity):
        told = f'the header {LEASE_HEADER} names no lease and holder: "{header}"'
        raise BadRequest(f'{told}; write it like "kube-system/name holder"')
    return Fence(codec.resource_of(Lease).key(namespace, name), lambda record: holder_of(record) in (None, identity))


def holder_of(record: StoreRecord | None) -> str | None:
    """The holder of a lease: empty when released, None when there is no lease."""
    if record is None:
        return None
    return str(document.dig(document.decode(record.document), "spec", "holderIdentity") or "")


def fence_broken(header: str, record: StoreRecord | None) -> Conflict:
    """The error for a write of a former lease holder."""
    lease, _, identity = header.partition(" ")
    return Conflict(
        f'the write was made by "{identity}" as holder of the lease "{lease}", which "{holder_of(record) or ""}" '
        "holds by now: it is not carried out"
    )
