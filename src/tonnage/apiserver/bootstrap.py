"""What every fresh cluster has: the namespaces and the two priority classes that Kubernetes itself brings."""

from __future__ import annotations

from tonnage.apiserver.options import WriteOptions
from tonnage.apiserver.registry import Registry
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_KIND

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITY_CLASSES: tuple[Doc, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2000000000,
        "description": "For what the cluster cannot do without, on whichever node.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
        "description": "For what a node cannot do without; nothing has a higher priority.",
    },
)


async def bootstrap(registry: Registry) -> None:
    """Create what is missing. Safe to run at every start."""
    options = WriteOptions(manager="tonnage-apiserver")
    for name in _NAMESPACES:
        await _ensure(registry, "v1", "Namespace", {"metadata": {"name": name}}, options)
    for doc in _PRIORITY_CLASSES:
        await _ensure(registry, "scheduling.k8s.io/v1", "PriorityClass", doc, options)


async def _ensure(registry: Registry, api_version: str, kind: str, doc: Doc, options: WriteOptions) -> None:
    resource = BY_KIND[api_version, kind]
    if registry.store.get(resource.key("", doc["metadata"]["name"])) is None:
        whole = {"kind": kind, "apiVersion": api_version, **doc, "metadata": dict(doc["metadata"])}
        await registry.create(resource, "", whole, options)
