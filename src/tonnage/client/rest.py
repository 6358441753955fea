"""Paths, queries, bodies and pages of the Kubernetes API, as `Client` sends and reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from tonnage.objects import codec
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, split_key
from tonnage.objects.resources import Resource

T = TypeVar("T", bound=Object)
_is_plain = re.compile("[a-z0-9.-]*").fullmatch
Kind = type[Object] | Resource
"""A class, or a resource that has no class or whose class is not wanted."""


def resource_of(kind: Kind) -> Resource:
    return kind if isinstance(kind, Resource) else codec.resource_of(kind)


def collection_path(resource: Resource, namespace: str, query: Mapping[str, str] | None = None) -> str:
    return resource.path(in_path(namespace)) + query_text(query or {})


def object_path(resource: Resource, key: Key, subresource: str = "", query: Mapping[str, str] | None = None) -> str:
    namespace, name = split_key(key)
    if not name or bool(namespace) != resource.namespaced:
        form = "namespace/name" if resource.namespaced else "name"
        raise ValueError(f'a {resource.kind} is named by a key of the form "{form}", not "{key}"')
    path = resource.path(in_path(namespace), in_path(name))
    return (f"{path}/{subresource}" if subresource else path) + query_text(query or {})


def query_text(query: Mapping[str, str]) -> str:
    """`?a=b&c=d`, without empty values."""
    given = {name: value for name, value in query.items() if value}
    return f"?{urlencode(given, quote_via=quote)}" if given else ""


def in_path(name: str) -> str:
    """A name quoted for a path; most names need no quoting, and the check costs a tenth of it."""
    return name if _is_plain(name) else quote(name, safe="")


class Selection(TypedDict, total=False):
    """Which objects of a resource; without a namespace, those of all namespaces."""

    namespace: str
    label_selector: str
    field_selector: str


def selectors_of(selection: Selection) -> dict[str, str]:
    return {
        "labelSelector": selection.get("label_selector", ""),
        "fieldSelector": selection.get("field_selector", ""),
    }


def watch_query(
    selection: Selection, *, resource_version: str, send_initial_events: bool, timeout_s: int
) -> dict[str, str]:
    return {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        **selectors_of(selection),
        "sendInitialEvents": "true" if send_initial_events else "",
        "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
        "timeoutSeconds": str(timeout_s) if timeout_s else "",
    }


def delete_options(uid: str, resource_version: str, grace_s: int | None, propagation: str) -> Doc:
    """A DeleteOptions document; empty when no option is set."""
    options: Doc = {}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if any(preconditions.values()):
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if propagation:
        options["propagationPolicy"] = propagation
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else {}


def binding(key: Key, node: str, uid: str) -> Doc:
    """A Binding; with a `uid` it holds only for the pod of this uid."""
    namespace, name = split_key(key)
    metadata = {"namespace": namespace, "name": name} | ({"uid": uid} if uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def eviction(key: Key) -> Doc:
    namespace, name = split_key(key)
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name}}


def read_object(resource: Resource, body: bytes, subresource: str = "") -> Doc:
    """The document of one object. Raises Unreadable for another kind, or without a name."""
    doc = codec.read_doc(resource.kind, body)
    metadata = doc.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise Unreadable(resource.kind, "", "metadata.name", "metadata.name is missing; it is required")
    if subresource:
        return doc  # of a kind of its own, such as Scale
    found = (doc.get("apiVersion", resource.api_version), doc.get("kind", resource.kind))
    if found != (resource.api_version, resource.kind):
        raise Unreadable(resource.kind, metadata["name"], "kind", f"the answer is of another kind: {found}")
    if resource.namespaced and not isinstance(metadata.get("namespace"), str):
        raise Unreadable(resource.kind, metadata["name"], "metadata.namespace", "metadata.namespace is missing")
    return {"apiVersion": resource.api_version, "kind": resource.kind, **doc}


def read_page(cls: type[T], body: bytes, on_unreadable: Callable[[Unreadable], None] | None) -> codec.ObjectList[T]:
    """A page of a list. An unreadable item raises Unreadable, or goes to `on_unreadable` and is left out."""
    try:
        return codec.decode_list(cls, body)
    except Unreadable:
        if on_unreadable is None:
            raise
    found, version, token = _page(f"{cls.__name__}List", body, resource_of(cls))
    items = []
    for item in found:
        try:
            items.append(codec.convert(cls, item))
        except Unreadable as exc:
            on_unreadable(exc)
    return codec.ObjectList(tuple(items), version, token)


def read_docs(resource: Resource, body: bytes) -> tuple[list[Doc], str, str]:
    """The documents of a page, with apiVersion and kind added; its resourceVersion; the next token."""
    found, version, token = _page(resource.list_kind, body, resource)
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [head | item for item in found if isinstance(item, dict)], version, token


def _page(kind: str, body: bytes, resource: Resource | None = None) -> tuple[list[Any], str, str]:
    """Items, resourceVersion and next token of a page of any kind. Raises Unreadable for what is no list."""
    page = codec.read_doc(kind, body)
    items, metadata = page.get("items") or [], page.get("metadata") or {}
    found_kind = page.get("kind") or kind
    is_other = found_kind != kind and not (resource is not None and resource.is_list_kind(found_kind))
    if is_other or not isinstance(items, list) or not isinstance(metadata, dict):
        raise Unreadable(kind, "", "", f"the answer is not a {kind}", value=found_kind)
    version, token = metadata.get("resourceVersion") or "", metadata.get("continue") or ""
    if not isinstance(version, str) or not isinstance(token, str):
        raise Unreadable(kind, "", "metadata", "resourceVersion and continue are strings")
    return items, version, token
