"""Discovery: what this server serves, as clients read it before their first request.

The Accept header chooses one of two forms. The old one is a walk: `/api` and `/apis` name groups and versions, then one
request for each lists its resources. The aggregated one (apidiscovery.k8s.io) needs two requests. Both are pure
functions of the table of resources and the custom ones. Order: groups as in the table, resources and subresources by
name, as upstream. `StaticDocuments` serves discovery, OpenAPI and version: each is built on first use and kept until a
CustomResourceDefinition changes it.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence

from tonnage import KUBERNETES_VERSION
from tonnage.apiserver import custom_definitions, openapi, responses
from tonnage.apiserver.requests import Response
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.custom.definition_rules import version_preference
from tonnage.documents.schema import ShapedResource
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import NOT_STORED, RESOURCES, Resource, subresource_named, verbs_of

Custom = Sequence[Resource]
"""Resources that are served beside the table's."""

API_DISCOVERY_VERSIONS = ("v2", "v2beta1")


def _document(body: bytes, content_type: str = "application/json") -> Response:
    """A document as it is sent. The tag includes its quotes, as If-None-Match does."""
    return Response(body, 200, content_type, {"ETag": f'"{openapi.etag(body)}"', "Vary": "Accept"})


# -- the walk --------------------------------------------------------------------------------------------------------


def api_versions(server_address: str) -> Doc:
    """`/api`: versions of the core group, and the address of this server (`host:port`) for clients of any network."""
    return {
        "kind": "APIVersions",
        "versions": list(_table(())[""]),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(custom: Custom = ()) -> Doc:
    """`/apis`: every group but core."""
    groups = [_group(name, versions) for name, versions in _table(custom).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(group: str, custom: Custom = ()) -> Doc:
    """`/apis/<group>`. KeyError for an unknown group."""
    if not group:
        raise KeyError(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, _table(custom)[group])}


def api_resource_list(group: str, version: str, custom: Custom = ()) -> Doc:
    """`/api/v1` or `/apis/<group>/<version>`: resources and subresources. KeyError for an unknown version."""
    rows: list[Doc] = []
    for resource in _table(custom)[group][version]:
        rows.append(_resource(resource))
        rows.extend(_subresource(resource, name) for name in sorted(resource.subresources))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": rows,
    }


def _group(name: str, served: Iterable[str]) -> Doc:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource(resource: Resource) -> Doc:
    row: Doc = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(verbs_of(resource)),
        **_names(resource),
    }
    return row if resource in NOT_STORED else row | {"storageVersionHash": _storage_version_hash(resource)}


def _subresource(resource: Resource, name: str) -> Doc:
    kind = _subresource_kind(resource, name)
    row: Doc = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if kind["group"]:
        row |= {"group": kind["group"], "version": kind["version"]}
    return row | {"kind": kind["kind"], "verbs": list(verbs_of(resource, name))}


def _subresource_kind(resource: Resource, name: str) -> Doc:
    """Group and version are given only where they differ from the resource's."""
    body = subresource_named(name).body or resource
    group, version = (body.group, body.version) if body.group != resource.group else ("", "")
    return {"group": group, "version": version, "kind": body.kind}


def _names(resource: Resource) -> Doc:
    named = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: names for key, names in named.items() if names}


def _storage_version_hash(resource: Resource) -> str:
    """Changes when the stored version does."""
    stored = resource.stored
    digest = hashlib.sha256(f"{stored.group}/{stored.version}/{stored.kind}".encode()).digest()
    return b64encode(digest[:8]).decode()


# -- the aggregated form ---------------------------------------------------------------------------------------------


def negotiates_aggregated(accept: str) -> str | None:
    """The version of apidiscovery.k8s.io that an Accept header prefers among ours; None for the walk."""
    for media_type, parameters in responses.accepted(accept):
        if media_type not in ("application/json", "application/*", "*/*") or not responses.quality(parameters):
            continue
        if "as" not in parameters:
            return None
        asked = (parameters["as"], parameters.get("g"))
        if asked == ("APIGroupDiscoveryList", "apidiscovery.k8s.io") and parameters.get("v") in API_DISCOVERY_VERSIONS:
            return parameters["v"]
    return None


def aggregated(core: bool, version: str = "v2", custom: Custom = ()) -> Response:
    """`/api` (core) or `/apis` (all other groups) in one answer, with the content of the whole walk."""
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {"version": each, "resources": [*map(_aggregated_resource, resources)], "freshness": "Current"}
                for each, resources in versions.items()
            ],
        }
        for name, versions in _table(custom).items()
        if (name == "") is core
    ]
    kind, api_version = "APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}"
    body = encode({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items})
    return _document(body, f"application/json;g=apidiscovery.k8s.io;v={version};as={kind}")


def _aggregated_resource(resource: Resource) -> Doc:
    row: Doc = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(verbs_of(resource)),
        **_names(resource),
    }
    if resource.subresources:
        row["subresources"] = [_aggregated_subresource(resource, name) for name in sorted(resource.subresources)]
    return row


def _response_kind(resource: Resource) -> Doc:
    """Only custom resources give group and version: those of built-in groups are in the path."""
    is_custom = isinstance(resource, ShapedResource)
    group, version = (resource.group, resource.version) if is_custom else ("", "")
    return {"group": group, "version": version, "kind": resource.kind}


def _aggregated_subresource(resource: Resource, name: str) -> Doc:
    kind = _subresource_kind(resource, name)
    if not kind["group"]:
        kind = {**_response_kind(resource), "kind": kind["kind"]}
    return {"subresource": name, "responseKind": kind, "verbs": list(verbs_of(resource, name))}


# -- the table, by group ---------------------------------------------------------------------------------------------


_EVERY = tuple(sorted((*NOT_STORED, *RESOURCES), key=lambda resource: resource.group))
"""All resources in discovery: stored ones, and those that only answer."""


def group_versions(custom: Custom = ()) -> list[tuple[str, str]]:
    """Every (group, version) with resources, core first."""
    return [(group, version) for group, versions in _table(custom).items() for version in versions]


def _table(custom: Custom) -> dict[str, dict[str, list[Resource]]]:
    """Resources by name, by version (the preferred first, the custom resources' last), by group."""
    every = [*_EVERY, *sorted(custom, key=lambda resource: version_preference(resource.version))]
    table: dict[str, dict[str, list[Resource]]] = {resource.group: {} for resource in (*_EVERY, *custom)}
    for resource in every:
        table[resource.group].setdefault(resource.version, []).append(resource)
        table[resource.group][resource.version].sort(key=lambda each: each.plural)
    return table


# -- the version -----------------------------------------------------------------------------------------------------


def version_info() -> Doc:
    """`/version`: the Kubernetes version whose behaviour is served. The fields about Go describe our Python."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+tonnage",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }


_OTHER_PATHS = ("/healthz", "/livez", "/metrics", "/readyz")
"""Paths beside documents and resources, for the index at `/`."""
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class StaticDocuments:
    def __init__(self, definitions: custom_definitions.Definitions) -> None:
        self._definitions = definitions
        self._state: object = None
        self._present = _Documents([])

    def present(self) -> _Documents:
        if self._definitions.state != self._state:
            self._state = self._definitions.state
            custom = self._definitions.all()
            if self._present.custom != custom:  # not only their conditions have changed
                self._present = _Documents(custom)
        return self._present


class _Documents:
    """The documents while the same resources are served. Also used by threads: some take long to build."""

    def __init__(self, custom: list[CustomResource]) -> None:
        self.custom = custom
        self._made: dict[str, Response] = {}
        self._makers: dict[str, Callable[[], bytes]] = {
            "/api": lambda: encode(api_versions("")),
            "/apis": lambda: encode(api_group_list(custom)),
            "/version": lambda: encode(version_info()),
            "/": lambda: encode({"paths": sorted({*self._makers, *_OTHER_PATHS} - {"/"})}),
            "/openapi/v2": lambda: openapi.openapi_v2(custom),
            "/openapi/v3": lambda: openapi.openapi_v3_index(custom),
        }
        for group, version in group_versions(custom):
            root = f"apis/{group}/{version}" if group else f"api/{version}"
            self._makers[f"/{root}"] = lambda g=group, v=version: encode(api_resource_list(g, v, custom))  # type: ignore[misc]  # mypy cannot see defaults in a lambda
            self._makers[f"/openapi/v3/{root}"] = lambda g=group, v=version: openapi.openapi_v3(g, v, custom)  # type: ignore[misc]  # as above
            if group:
                self._makers[f"/apis/{group}"] = lambda g=group: encode(api_group(g, custom))  # type: ignore[misc]  # as above

    def is_group(self, path: str) -> bool:
        """True below a group of the table: what is missing there is a resource; elsewhere, as upstream, a page."""
        parts = path.strip("/").split("/")
        if len(parts) < 2 or (parts[0] == "apis" and any(parts[1] == row.group for row in self.custom)):
            return False
        return parts[0] == "api" or (parts[0] == "apis" and f"/apis/{parts[1]}" in self._makers)

    def find(self, path: str, accept: str, if_none_match: str) -> Response | None:
        """The answer at a path: 304 without a body if the client has the document, None if there is no document."""
        path = path.rstrip("/") or "/"
        form = negotiates_aggregated(accept) if path in ("/api", "/apis") else None
        if path == "/openapi/v2" and "proto" in accept:
            form = "protobuf"
        if form is None and path not in self._makers:
            return None
        name = f"{path} {form}"
        if name not in self._made:
            self._made[name] = self._make(path, form)
        answer = self._made[name]
        is_known = answer.headers["ETag"] in if_none_match
        return Response(b"", 304, answer.content_type, answer.headers) if is_known else answer

    def _make(self, path: str, form: str | None) -> Response:
        if form is None:
            return _document(self._makers[path]())
        if form == "protobuf":
            return _document(openapi.openapi_v2_protobuf(self.custom), _PROTOBUF)
        return aggregated(path == "/api", form, self.custom)
