"""Query parameters, read as upstream reads CreateOptions, ListOptions and their kin.

An unknown parameter is ignored, as upstream; a wrong value is a 400 or a 422 that names the parameter. DeleteOptions,
which may also come as a body, are in `verbs/writing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tonnage.apiserver import status
from tonnage.apiserver.requests import Call
from tonnage.documents.api_errors import UnknownReason
from tonnage.documents.validation.metadata import FIELD_MANAGER_MAX_BYTES, validate_field_manager
from tonnage.errors import BadRequest, Conflict
from tonnage.objects import field_errors
from tonnage.objects.codec import resource_of
from tonnage.objects.document import decode, dig
from tonnage.objects.field_errors import unsupported
from tonnage.objects.meta import InvalidRevision, parse_revision
from tonnage.objects.selectors import FieldSelector, InvalidSelector, LabelMatcher, label_matcher
from tonnage.objects.small_groups import LEASE_HEADER, Lease
from tonnage.objects.users import User
from tonnage.store.records import StoreRecord
from tonnage.store.writes import Fence

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
        raise status.invalid_options(_OPTIONS_KIND[call.verb], errors)
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
        raise status.invalid_options("ListOptions", errors)
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
            errors.append(unsupported(field, options.match, ("Exact", "NotOlderThan", "")))
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
            errors.append(unsupported(field, options.match, ("NotOlderThan",)))
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
        return parse_revision(text)
    except InvalidRevision as exc:
        problem = f'resourceVersion: Invalid value: "{text}": {exc}'
        error = BadRequest(f"invalid resource version: {problem}") if of == "list" else UnknownReason(problem)
        raise error from exc


def fence_of(header: str | None) -> Fence | None:
    """The fence of a request's header, if any. Raises BadRequest."""
    if header is None:
        return None
    lease, _, identity = header.partition(" ")
    namespace, _, name = lease.partition("/")
    if not (namespace and name and identity):
        told = f'the header {LEASE_HEADER} names no lease and holder: "{header}"'
        raise BadRequest(f'{told}; write it like "kube-system/name holder"')
    return Fence(resource_of(Lease).key(namespace, name), lambda record: holder_of(record) in (None, identity))


def holder_of(record: StoreRecord | None) -> str | None:
    """The holder of a lease: empty when released, None when there is no lease."""
    if record is None:
        return None
    return str(dig(decode(record.document), "spec", "holderIdentity") or "")


def broken(header: str, record: StoreRecord | None) -> Conflict:
    """The error for a write of a former lease holder."""
    lease, _, identity = header.partition(" ")
    return Conflict(
        f'the write was made by "{identity}" as holder of the lease "{lease}", which "{holder_of(record) or ""}" '
        "holds by now: it is not carried out"
    )
