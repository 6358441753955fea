"""What a fresh cluster begins with: see `documents/system_objects.py`."""

from __future__ import annotations

from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.documents.system_objects import SYSTEM_NAMESPACES, SYSTEM_PRIORITY_CLASSES
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_KIND


async def bootstrap(registry: Registry) -> None:
    """Create what is missing. Safe to run at every start."""
    options = WriteOptions(manager="tonnage-apiserver")
    for name in SYSTEM_NAMESPACES:
        await _ensure(registry, "v1", "Namespace", {"metadata": {"name": name}}, options)
    for doc in SYSTEM_PRIORITY_CLASSES:
        await _ensure(registry, "scheduling.k8s.io/v1", "PriorityClass", doc, options)


async def _ensure(registry: Registry, api_version: str, kind: str, doc: Doc, options: WriteOptions) -> None:
    resource = BY_KIND[api_version, kind]
    if registry.store.get(resource.key("", doc["metadata"]["name"])) is None:
        whole = {"kind": kind, "apiVersion": api_version, **doc, "metadata": dict(doc["metadata"])}
        await registry.create(resource, "", whole, options)
