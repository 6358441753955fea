"""Every operation of the API: path, method, parameters, what goes in and what comes out.

kubectl reads three things here. `explain` finds a resource's kind through `x-kubernetes-group-version-kind` of its
path; `--validate` and `--dry-run=server` look for `fieldValidation` and `dryRun` among the parameters of PATCH; `apply`
looks for the strategic merge patch among the content types PATCH takes. Verbs come from `objects/resources.py`, as
those of discovery do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.apiserver.openapi import types
from tonnage.documents.schema import ShapedResource, Struct, schema_of, schema_of_resource
from tonnage.objects.resources import Resource, returns_deleted, subresource_named, verbs_of

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def patch_types(resource: Resource) -> tuple[str, ...]:
    """The forms of PATCH a resource takes; a custom one has no strategic merge."""
    return tuple(each for each in PATCH_TYPES if not (isinstance(resource, ShapedResource) and "strategic" in each))


# Query parameters: JSON type and what they do.
QUERY = {
    "allowWatchBookmarks": ("boolean", "Send BOOKMARK events now and then, so that a watch can be resumed cheaply."),
    "continue": ("string", "Where the previous page of this list ended."),
    "dryRun": ("string", "With All, do everything but write."),
    "fieldManager": ("string", "Who makes this change, for metadata.managedFields."),
    "fieldSelector": ("string", "Only objects whose fields match, such as metadata.name=web-0."),
    "fieldValidation": ("string", "What to do about unknown and duplicate fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Take fields over from other managers in a server-side apply."),
    "gracePeriodSeconds": ("integer", "How long the object may take to stop; 0 removes it at once."),
    "labelSelector": ("string", "Only objects whose labels match."),
    "limit": ("integer", "At most so many objects in one answer."),
    "orphanDependents": ("boolean", "Leave the objects it owns alone. Older form of propagationPolicy."),
    "propagationPolicy": ("string", "What becomes of the objects it owns: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "The revision to read at or to watch from."),
    "resourceVersionMatch": ("string", "How to read resourceVersion in a list: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with one ADDED event for each object there is."),
    "timeoutSeconds": ("integer", "End a list or a watch after so long."),
    "watch": ("boolean", "Stay and report changes instead of listing."),
}
_SELECTION = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
)
_LISTING = ("allowWatchBookmarks", *_SELECTION, "sendInitialEvents", "watch")
_DELETION = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path. `body` is None for reads and for PATCH, whose body is its content type's affair."""

    path: str
    method: str
    action: str
    id: str
    summary: str
    kind: Struct
    result: Struct
    codes: tuple[int, ...] = (200,)
    parameters: tuple[str, ...] = ()
    body: Struct | None = None


@dataclass(frozen=True, slots=True)
class _Verb:
    method: str
    action: str
    word: str
    does: str
    parameters: tuple[str, ...] = ()
    codes: tuple[int, ...] = (200,)


_VERBS = {
    "list": _Verb("get", "list", "list", "list or watch objects of kind", _LISTING),
    "create": _Verb("post", "post", "create", "create a", _WRITING, (200, 201, 202)),
    "deletecollection": _Verb(
        "delete", "deletecollection", "deleteCollection", "delete a collection of", _SELECTION + _DELETION
    ),
    "get": _Verb("get", "get", "read", "read one"),
    "update": _Verb("put", "put", "replace", "replace one", _WRITING, (200, 201)),
    "patch": _Verb("patch", "patch", "patch", "change part of one", (*_WRITING, "force"), (200, 201)),
    "delete": _Verb("delete", "delete", "delete", "delete one", _DELETION, (200, 202)),
}
_OF_COLLECTION = ("list", "create", "deletecollection")
_OF_OBJECT = ("get", "update", "patch", "delete")


def operations(resource: Resource) -> Iterator[Operation]:
    """Those on the collection, on one object and on its subresources, path by path."""
    collection = resource.path(namespace="{namespace}")
    offered = verbs_of(resource)
    if resource.namespaced and "list" in offered:
        yield _operation(resource, "list", resource.path(), everywhere=True)
    for verb in _OF_COLLECTION:
        if verb in offered:
            yield _operation(resource, verb, collection)
    for verb in _OF_OBJECT:
        if verb in offered:
            yield _operation(resource, verb, f"{collection}/{{name}}")
    for name in resource.subresources:
        for verb in verbs_of(resource, name):
            yield _operation(resource, verb, f"{collection}/{{name}}/{name}", subresource=name)


def kind_of(resource: Resource, subresource: str = "") -> Struct:
    """What is exchanged with a resource or one of its subresources."""
    return schema_of_resource(subresource_named(subresource).body or resource)


def _operation(
    resource: Resource, verb: str, path: str, *, subresource: str = "", everywhere: bool = False
) -> Operation:
    described = _VERBS[verb]
    kind = kind_of(resource, subresource)
    result = kind
    if verb == "list":
        result = types.list_of(resource)
    elif verb == "deletecollection" or (verb == "delete" and not returns_deleted(resource)):
        result = schema_of("meta", "v1", "Status")
    return Operation(
        path,
        described.method,
        described.action,
        id=_id(resource, described.word, subresource, everywhere),
        summary=f"{described.does} {kind.name}"
        if not subresource
        else f"{described.does} {resource.kind}'s {subresource}",
        kind=kind,
        result=result,
        codes=described.codes,
        parameters=described.parameters,
        body=_body(verb, kind),
    )


def _body(verb: str, kind: Struct) -> Struct | None:
    if verb in ("create", "update"):
        return kind
    return schema_of("meta", "v1", "DeleteOptions") if verb in ("delete", "deletecollection") else None


def _id(resource: Resource, word: str, subresource: str, everywhere: bool) -> str:
    """`listStorageV1CSINode`, `patchCoreV1NamespacedPodStatus`: generated clients name their methods so."""
    word, collection = ("delete", "Collection") if word == "deleteCollection" else (word, "")
    group = (resource.group or "core").partition(".")[0].capitalize()
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    suffix = "ForAllNamespaces" if everywhere else subresource.capitalize()
    return f"{word}{group}{resource.version.capitalize()}{collection}{scope}{resource.kind}{suffix}"
