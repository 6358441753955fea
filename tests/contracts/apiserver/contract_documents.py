"""Builders of the documents that contract tests send, and the media types they ask for.

The servers and the HTTP client are in `support.api_servers` and `support.http`.
"""

from __future__ import annotations

from typing import Any

from support.http import Doc

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer of a subresource that did its work elsewhere."""


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Doc:
    doc: Doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return doc if data is None else {**doc, "data": data}


def pod(name: str, *, metadata: Doc | None = None, **spec: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def deployment(name: str, **spec: Any) -> Doc:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def binding(name: str, node: str = "node-1", **metadata: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def owners_of(doc: Doc) -> list[tuple[str, str, str]]:
    """(manager, operation, subresource) of every managedFields entry, sorted: their order follows the clock."""
    entries = doc["metadata"].get("managedFields", [])
    return sorted((entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries)


def owned_by(doc: Doc, manager: str, subresource: str = "") -> Doc:
    """What a manager owns, as fieldsV1."""
    for entry in doc["metadata"].get("managedFields", []):
        if (entry["manager"], entry.get("subresource", "")) == (manager, subresource):
            return dict(entry["fieldsV1"])
    return {}
