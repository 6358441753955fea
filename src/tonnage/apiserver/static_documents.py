"""The documents that describe what is served: discovery, OpenAPI, version. Path in, response out.

Each is made when first asked for and kept, until a CustomResourceDefinition changes what is served. Clients cache them
by ETag; a match is answered 304 without a body.
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.apiserver import discovery, openapi
from tonnage.apiserver.custom.definitions import Definitions
from tonnage.apiserver.requests import Response
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.objects.document import encode

_OTHER_PATHS = ("/healthz", "/livez", "/metrics", "/readyz")
"""What is served beside documents and resources, for those who ask what there is."""
_Made = tuple[bytes, str, str]
"""Body, ETag with its quotes, content type."""


class StaticDocuments:
    """Responses by path. `address` is host:port, which the oldest discovery document tells its readers."""

    def __init__(self, address: str, definitions: Definitions | None = None) -> None:
        self._address = address
        self._definitions = definitions
        self._state: object = None
        self._present = _Documents(address, [])

    def present(self) -> _Documents:
        """The documents of what is served now: others than before if the definitions are."""
        if self._definitions is not None and self._definitions.state != self._state:
            self._state = self._definitions.state
            custom = self._definitions.all()
            if self._present.custom != custom:  # and not their conditions alone
                self._present = _Documents(self._address, custom)
        return self._present


class _Documents:
    """The documents while the same resources are served. May be asked by a thread: some take long to make."""

    def __init__(self, address: str, custom: list[CustomResource]) -> None:
        self.custom = custom
        self._made: dict[str, _Made] = {}
        self._makers: dict[str, Callable[[], bytes]] = {
            "/api": lambda: encode(discovery.api_versions(address)),
            "/apis": lambda: encode(discovery.api_group_list(custom)),
            "/version": lambda: encode(discovery.version()),
            "/": lambda: encode({"paths": sorted({*self._makers, *_OTHER_PATHS} - {"/"})}),
            "/openapi/v2": lambda: openapi.openapi_v2(custom),
            "/openapi/v3": lambda: openapi.openapi_v3_index(custom),
        }
        for group, version in discovery.group_versions(custom):
            root = f"apis/{group}/{version}" if group else f"api/{version}"
            self._makers[f"/{root}"] = lambda g=group, v=version: encode(discovery.api_resource_list(g, v, custom))  # type: ignore[misc]  # mypy cannot see defaults in a lambda
            self._makers[f"/openapi/v3/{root}"] = lambda g=group, v=version: openapi.openapi_v3(g, v, custom)  # type: ignore[misc]  # as above
            if group:
                self._makers[f"/apis/{group}"] = lambda g=group: encode(discovery.api_group(g, custom))  # type: ignore[misc]  # as above

    def is_group(self, path: str) -> bool:
        """Is this below a group of the table? Then what is missing is a resource; elsewhere, as upstream, a page."""
        parts = path.strip("/").split("/")
        if len(parts) < 2 or (parts[0] == "apis" and any(parts[1] == row.group for row in self.custom)):
            return False
        return parts[0] == "api" or (parts[0] == "apis" and f"/apis/{parts[1]}" in self._makers)

    def takes_long(self, path: str) -> bool:
        """Is this made of all schemas, of which custom resources may bring many?"""
        return bool(self.custom) and path.startswith("/openapi/")

    def find(self, path: str, accept: str, if_none_match: str) -> Response | None:
        path = path.rstrip("/") or "/"
        form = discovery.negotiates_aggregated(accept) if path in ("/api", "/apis") else None
        name = path
        if form is not None:
            name = f"{path} {form}"
        elif path == "/openapi/v2" and "proto" in accept:
            name = f"{path} protobuf"
        made = self._made.get(name) or self._make(path, form, name)
        if made is None:
            return None
        self._made[name] = made
        return _cached(*made, if_none_match)

    def _make(self, path: str, form: str | None, name: str) -> _Made | None:
        if form is not None:
            found = discovery.aggregated(path == "/api", form, self.custom)
            return found.body, found.etag, found.content_type
        if name == "/openapi/v2 protobuf":
            body = openapi.openapi_v2_protobuf(self.custom)
            return body, f'"{openapi.etag(body)}"', "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        maker = self._makers.get(path)
        if maker is None:
            return None
        body = maker()
        return body, f'"{openapi.etag(body)}"', "application/json"


def _cached(body: bytes, etag: str, content_type: str, if_none_match: str) -> Response:
    headers = {"ETag": etag, "Vary": "Accept"}
    if etag in if_none_match:
        return Response(b"", 304, content_type, headers)
    return Response(body, content_type=content_type, headers=headers)
