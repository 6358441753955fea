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
from collections.abc import Iterable, Iterator, Sequence
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


def _endpoints(resource: Resource) -> Iterator[tuple[str, str, str]]:
    """Path, verb and subresource of every operation: on the collection, on one object and on its subresources."""
    collection, offered = resource.path(namespace="{namespace}"), verbs_of(resource)
    if resource.namespaced and "list" in offered:
        yield resource.path(), "list", ""
    for verb in _VERBS:
        if verb in offered:
            yield collection if verb in _OF_COLLECTION else f"{collection}/{{name}}", verb, ""
    for name in resource.subresources:
        for verb in verbs_of(resource, name):
            yield f"{collection}/{{name}}/{name}", verb, name


def kind_of(resource: Resource, subresource: str = "") -> Struct:
    """The type that a resource or its subresource exchanges."""
    return schema_of_resource(subresource_named(subresource).body or resource)


def _operation(resource: Resource, path: str, verb: str, subresource: str, dialect: types.Dialect) -> Doc:
    said, kind = _VERBS[verb], kind_of(resource, subresource)
    result, body = kind, ""
    if verb == "list":
        result = types.list_of(resource)
    elif verb == "patch":
        body = types.PATCH
    elif verb in ("create", "update"):
        body = kind.full_name
    elif verb in ("delete", "deletecollection"):
        body = schema_of("meta", "v1", "DeleteOptions").full_name
        if verb == "deletecollection" or not returns_deleted(resource):
            result = schema_of("meta", "v1", "Status")
    about = f"{resource.kind}'s {subresource}" if subresource else kind.name
    everywhere = resource.namespaced and "{namespace}" not in path
    made: Doc = {
        "tags": [f"{(resource.group or 'core').partition('.')[0]}_{resource.version}"],
        "description": f"{said.does} {about}",
        "operationId": _id(resource, said.word, subresource, everywhere),
        "x-kubernetes-action": said.action,
        "x-kubernetes-group-version-kind": types.group_version_kind(kind),
    }
    parameters: list[Doc] = []
    for name in said.parameters:
        type_, told = QUERY[name]
        form = {"schema": {"type": type_}} if dialect is types.V3 else {"type": type_}
        parameters.append({"name": name, "in": "query", "description": told, **form})
    has_strategic = not isinstance(resource, ShapedResource)  # custom resources have no strategic merge
    patches = tuple(each for each in PATCH_TYPES if has_strategic or "strategic" not in each)
    media = patches if verb == "patch" else ("*/*",)
    body_type, is_required = {"schema": {"$ref": dialect + body}}, said.method != "delete"
    answer: Doc = {"schema": {"$ref": dialect + result.full_name}}
    if dialect is types.V3:
        if parameters:
            made["parameters"] = parameters
        if body:
            made["requestBody"] = {"content": dict.fromkeys(media, body_type), "required": is_required}
        answer = {"content": {"application/json": answer}}
    else:
        if body:
            parameters.append({"name": "body", "in": "body", "required": is_required, **body_type})
        made |= {"consumes": list(media), "produces": ["application/json"], "parameters": parameters}
    made["responses"] = {str(code): {"description": _PHRASES[code], **answer} for code in said.codes}
    made["responses"]["401"] = {"description": "Unauthorized"}
    return made


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
    paths = _paths(resources, types.V3)
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


def _paths(resources: Iterable[Resource], dialect: types.Dialect) -> dict[str, Doc]:
    about = {"name": "Name of the object.", "namespace": "Namespace of the objects."}
    form: Doc = {"schema": {"type": "string", "uniqueItems": True}} if dialect is types.V3 else {"type": "string"}
    paths: dict[str, Doc] = defaultdict(dict)
    for resource in resources:
        for path, verb, subresource in _endpoints(resource):
            paths[path][_VERBS[verb].method] = _operation(resource, path, verb, subresource, dialect)
            paths[path]["parameters"] = [
                {"name": name, "in": "path", "required": True, "description": text, **form}
                for name, text in about.items()
                if f"{{{name}}}" in path
            ]
    return paths


_PHRASES = {200: "OK", 201: "Created", 202: "Accepted"}


def _document_v2(custom: Custom) -> Doc:
    resources: list[Resource] = [*_SERVED, *custom]
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(resources, types.V2),
        "definitions": types.definitions(_roots(resources), types.V2, _given(custom, types.V2)),
        "securityDefinitions": {"BearerToken": _TOKEN},
        "security": [{"BearerToken": []}],
    }
