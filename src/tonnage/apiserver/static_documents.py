"""The documents that do not change while the server runs: discovery, OpenAPI, version. Path in, response out.

Each is made when first asked for and kept. Clients cache them by ETag; a match is answered 304 without a body.
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.apiserver import discovery, openapi
from tonnage.apiserver.requests import Response
from tonnage.objects.document import encode
from tonnage.objects.resources import group_versions

_OTHER_PATHS = ("/healthz", "/livez", "/metrics", "/readyz")
"""What is served beside documents and resources, for those who ask what there is."""


class StaticDocuments:
    """Responses by path. `address` is host:port, which the oldest discovery document tells its readers."""

    def __init__(self, address: str) -> None:
        self._makers: dict[str, Callable[[], bytes]] = {
            "/api": lambda: encode(discovery.api_versions(address)),
            "/apis": lambda: encode(discovery.api_group_list()),
            "/version": lambda: encode(discovery.version()),
            "/": lambda: encode({"paths": sorted({*self._makers, *_OTHER_PATHS} - {"/"})}),
            "/openapi/v2": openapi.openapi_v2,
            "/openapi/v3": openapi.openapi_v3_index,
        }
        described = set(group_versions())
        for group, version in discovery.group_versions():
            root = f"apis/{group}/{version}" if group else f"api/{version}"
            self._makers[f"/{root}"] = lambda g=group, v=version: encode(discovery.api_resource_list(g, v))  # type: ignore[misc]  # mypy cannot see defaults in a lambda
            if (group, version) in described:
                self._makers[f"/openapi/v3/{root}"] = lambda g=group, v=version: openapi.openapi_v3(g, v)  # type: ignore[misc]  # as above
            if group:
                self._makers[f"/apis/{group}"] = lambda g=group: encode(discovery.api_group(g))  # type: ignore[misc]  # as above
        self._made: dict[str, tuple[bytes, str]] = {}

    def is_group(self, path: str) -> bool:
        """Is this below a group we serve? Then what is missing is a resource, else a page."""
        parts = path.strip("/").split("/")
        return len(parts) > 1 and (parts[0] == "api" or (parts[0] == "apis" and f"/apis/{parts[1]}" in self._makers))

    def find(self, path: str, accept: str, if_none_match: str) -> Response | None:
        path = path.rstrip("/") or "/"
        if path in ("/api", "/apis"):
            form = discovery.negotiates_aggregated(accept)
            if form is not None:
                found = discovery.aggregated(path == "/api", form)
                return _cached(found.body, found.etag, found.content_type, if_none_match)
        if path == "/openapi/v2" and "proto" in accept:
            body = openapi.openapi_v2_protobuf()
            return _cached(
                body,
                f'"{openapi.etag(body)}"',
                "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                if_none_match,
            )
        maker = self._makers.get(path)
        if maker is None:
            return None
        if path not in self._made:
            body = maker()
            self._made[path] = (body, f'"{openapi.etag(body)}"')
        body, etag = self._made[path]
        return _cached(body, etag, "application/json", if_none_match)


def _cached(body: bytes, etag: str, content_type: str, if_none_match: str) -> Response:
    headers = {"ETag": etag, "Vary": "Accept"}
    if etag in if_none_match:
        return Response(b"", 304, content_type, headers)
    return Response(body, content_type=content_type, headers=headers)
