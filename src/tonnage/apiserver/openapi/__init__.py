"""OpenAPI: what kubectl reads to explain a kind, to check a manifest and to compute a patch.

kubectl asks for version 3: an index at `/openapi/v3`, then one document per group and version, addressed with its
content's hash, so that it is cached. Version 2 is one document, for clients older than kubectl 1.27, in protobuf
(`gnostic`), and for curl in JSON.

kubectl reads three things in the operations. `explain` finds a resource's kind by `x-kubernetes-group-version-kind` of
its path; `--validate` and `--dry-run=server` look for `fieldValidation` and `dryRun` among PATCH's parameters; `apply`
looks for the strategic merge patch among PATCH's content types.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tonnage import KUBERNETES_VERSION
from tonnage.apiserver.openapi import gnostic, types
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.schema import ShapedResource, Struct, schema_of, schema_of_resource
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import NOT_STORED, RESOURCES, Resource, returns_deleted, subresource_named, verbs_of

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def patch_types(resource: Resource) -> tuple[str, ...]:
    """The patch types of a resource; custom ones have no strategic merge."""
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
_PAGE = ("continue", "fieldSelector", "labelSelector", "limit")
_SELECTION = (*_PAGE, "resourceVersion", "resourceVersionMatch", "timeoutSeconds")
_LISTING = ("allowWatchBookmarks", *_SELECTION, "sendInitialEvents", "watch")
_DELETION = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path. `body` is None for reads and for PATCH, whose body depends on its content type."""

    path: str
    verb: _Verb
    id: str
    summary: str
    kind: Struct
    result: Struct
    body: Struct | None


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
    """The operations on the collection, on one object and on its subresources, path by path."""
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
    """The type that a resource or its subresource exchanges."""
    return schema_of_resource(subresource_named(subresource).body or resource)


def _operation(
    resource: Resource, verb: str, path: str, *, subresource: str = "", everywhere: bool = False
) -> Operation:
    described, kind = _VERBS[verb], kind_of(resource, subresource)
    result, body = kind, None
    if verb == "list":
        result = types.list_of(resource)
    elif verb in ("create", "update"):
        body = kind
    elif verb in ("delete", "deletecollection"):
        body = schema_of("meta", "v1", "DeleteOptions")
        if verb == "deletecollection" or not returns_deleted(resource):
            result = schema_of("meta", "v1", "Status")
    about = f"{resource.kind}'s {subresource}" if subresource else kind.name
    name = _id(resource, described.word, subresource, everywhere)
    return Operation(path, described, name, f"{described.does} {about}", kind, result, body)


def _id(resource: Resource, word: str, subresource: str, everywhere: bool) -> str:
    """`listStorageV1CSINode`, `patchCoreV1NamespacedPodStatus`: generated clients name their methods so."""
    word, collection = ("delete", "Collection") if word == "deleteCollection" else (word, "")
    group = (resource.group or "core").partition(".")[0].capitalize()
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    suffix = "ForAllNamespaces" if everywhere else subresource.capitalize()
    return f"{word}{group}{resource.version.capitalize()}{collection}{scope}{resource.kind}{suffix}"


_INFO = {"title": "Kubernetes", "version": KUBERNETES_VERSION.rpartition(".")[0]}
_TOKEN = {"type": "apiKey", "name": "authorization", "in": "header", "description": "A bearer token."}


Custom = Sequence[CustomResource]
"""Resources that are served beside the table's."""
_SERVED = (*RESOURCES, *NOT_STORED)


def openapi_v3_index(custom: Custom = ()) -> bytes:
    """`/openapi/v3`: the address of every document, by the path of its group and version."""
    paths = {}
    for group, version in dict.fromkeys((row.group, row.version) for row in (*_SERVED, *custom)):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={etag(openapi_v3(group, version, custom))}"}
    return encode({"paths": paths})


def openapi_v3(group: str, version: str, custom: Custom = ()) -> bytes:
    """One group and version: its paths, and all types they use. KeyError when it is not served."""
    return _openapi_v3(group, version, tuple(row for row in custom if (row.group, row.version) == (group, version)))


@lru_cache(maxsize=256)
def _openapi_v3(group: str, version: str, custom: tuple[CustomResource, ...]) -> bytes:
    resources: list[Resource] = [row for row in _SERVED if (row.group, row.version) == (group, version)]
    resources += custom
    if not resources:
        raise KeyError((group, version))
    paths = _paths(resources, _operation_v3, {"schema": {"type": "string", "uniqueItems": True}})
    for item in paths.values():
        if not item["parameters"]:  # Go does not preserve an empty list
            del item["parameters"]
    return encode(
        {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": paths,
            "components": {
                "schemas": types.definitions(_roots(resources), types.V3, _given(custom, types.V3)),
                "securitySchemes": {"BearerToken": _TOKEN},
            },
        }
    )


def openapi_v2(custom: Custom = ()) -> bytes:
    """`/openapi/v2` as JSON: everything in one document."""
    return encode(_document_v2(custom))


def openapi_v2_protobuf(custom: Custom = ()) -> bytes:
    """`/openapi/v2` as protobuf, the only form that client-go reads."""
    return gnostic.encode_document(_document_v2(custom))


def _given(custom: Custom, dialect: types.Dialect) -> dict[str, Doc]:
    return {row.struct.full_name: row.openapi_definition(is_v3=dialect is types.V3) for row in custom}


def etag(body: bytes) -> str:
    """The hash of a document, without quotes: upstream's form, SHA-512 in capitals."""
    return hashlib.sha512(body).hexdigest().upper()


def _roots(resources: list[Resource]) -> list[Struct]:
    roots = [schema_of("meta", "v1", "Status"), schema_of("meta", "v1", "DeleteOptions")]
    for resource in resources:
        roots += [schema_of_resource(resource)]
        if resource not in NOT_STORED:
            roots += [types.list_of(resource)]
        roots += [kind_of(resource, name) for name in resource.subresources]
    return roots


def _paths(
    resources: Iterable[Resource], described: Callable[[Operation, Resource], Doc], type_of_parameters: Doc
) -> dict[str, Doc]:
    about = {"name": "Name of the object.", "namespace": "Namespace of the objects."}
    paths: dict[str, Doc] = defaultdict(dict)
    for resource in resources:
        for operation in operations(resource):
            item = paths[operation.path]
            item[operation.verb.method] = described(operation, resource)
            item["parameters"] = [
                {"name": name, "in": "path", "required": True, "description": text, **type_of_parameters}
                for name, text in about.items()
                if f"{{{name}}}" in operation.path
            ]
    return paths


def _common(operation: Operation, resource: Resource) -> Doc:
    """The part of an operation that both versions share."""
    group = (resource.group or "core").partition(".")[0]
    return {
        "tags": [f"{group}_{resource.version}"],
        "description": operation.summary,
        "operationId": operation.id,
        "x-kubernetes-action": operation.verb.action,
        "x-kubernetes-group-version-kind": types.group_version_kind(operation.kind),
    }


_PHRASES = {200: "OK", 201: "Created", 202: "Accepted"}


def _operation_v3(operation: Operation, resource: Resource) -> Doc:
    answer = types.V3.ref(operation.result.full_name)
    made = _common(operation, resource)
    if operation.verb.parameters:
        made["parameters"] = [
            {"name": name, "in": "query", "description": QUERY[name][1], "schema": {"type": QUERY[name][0]}}
            for name in operation.verb.parameters
        ]
    if operation.verb.method == "patch":
        body = types.V3.ref(types.PATCH)
        content = {kind: {"schema": body} for kind in patch_types(resource)}
        made["requestBody"] = {"content": content, "required": True}
    elif operation.body is not None:
        body = types.V3.ref(operation.body.full_name)
        made["requestBody"] = {"content": {"*/*": {"schema": body}}, "required": operation.verb.method != "delete"}
    made["responses"] = {
        str(code): {"description": _PHRASES[code], "content": {"application/json": {"schema": answer}}}
        for code in operation.verb.codes
    } | {"401": {"description": "Unauthorized"}}
    return made


def _document_v2(custom: Custom) -> Doc:
    resources: list[Resource] = [*_SERVED, *custom]
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(resources, _operation_v2, {"type": "string"}),
        "definitions": types.definitions(_roots(resources), types.V2, _given(custom, types.V2)),
        "securityDefinitions": {"BearerToken": _TOKEN},
        "security": [{"BearerToken": []}],
    }


def _operation_v2(operation: Operation, resource: Resource) -> Doc:
    made = _common(operation, resource)
    is_patch = operation.verb.method == "patch"
    made |= {"consumes": list(patch_types(resource)) if is_patch else ["*/*"], "produces": ["application/json"]}
    parameters: list[Doc] = [
        {"name": name, "in": "query", "description": QUERY[name][1], "type": QUERY[name][0]}
        for name in operation.verb.parameters
    ]
    if is_patch or operation.body is not None:
        schema = types.V2.ref(types.PATCH if operation.body is None else operation.body.full_name)
        parameters.append(
            {"name": "body", "in": "body", "required": operation.verb.method != "delete", "schema": schema}
        )
    made["parameters"] = parameters
    made["responses"] = {
        str(code): {"description": _PHRASES[code], "schema": types.V2.ref(operation.result.full_name)}
        for code in operation.verb.codes
    } | {"401": {"description": "Unauthorized"}}
    return made
