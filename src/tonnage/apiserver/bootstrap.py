"""What a fresh cluster begins with: see `documents/system_objects.py`."""

from __future__ import annotations

from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.documents.system_objects import SYSTEM_NAMESPACES, SYSTEM_PRIORITY_CLASSES, kubernetes_service
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_KIND

_OPTIONS = WriteOptions(manager="tonnage-apiserver")


async def bootstrap(registry: Registry) -> None:
    """Create what is missing. Safe to run at every start."""
    for name in SYSTEM_NAMESPACES:
        await _ensure(registry, "v1", "Namespace", {"metadata": {"name": name}})
    for doc in SYSTEM_PRIORITY_CLASSES:
        await _ensure(registry, "scheduling.k8s.io/v1", "PriorityClass", doc)


async def publish_address(registry: Registry, port: int) -> None:
    """Make Service `default/kubernetes`, or put right the port it names: a server may listen on another each time."""
    services, wanted = BY_KIND["v1", "Service"], kubernetes_service(port)
    name = wanted["metadata"]["name"]
    await _ensure(registry, "v1", "Service", wanted, namespace="default")

    def readdressed(doc: Doc) -> Doc:
        doc["spec"]["ports"] = wanted["spec"]["ports"]
        return doc

    await registry.change(services, "default", name, readdressed, _OPTIONS)


async def _ensure(registry: Registry, api_version: str, kind: str, doc: Doc, *, namespace: str = "") -> None:
    resource = BY_KIND[api_version, kind]
    if registry.store.get(resource.key(namespace, doc["metadata"]["name"])) is None:
        whole = {"kind": kind, "apiVersion": api_version, **doc, "metadata": dict(doc["metadata"])}
        await registry.create(resource, namespace, whole, _OPTIONS)
