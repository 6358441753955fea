"""One object as YAML, as the API server has it now: with all fields, without managedFields.

The dashboard may list and not get: the object is listed by its name.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from tonnage.clock import rfc3339
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object

KINDS: Final[dict[str, type[Object]]] = {
    "nodes": Node,
    "persistentvolumes": PersistentVolume,
    "persistentvolumeclaims": PersistentVolumeClaim,
    "pods": Pod,
}
"""The kinds that may be asked for, by their resource: those of which the dashboard lists every object."""


async def object_text(cluster: ShownCluster, resource: str, key: Key) -> dict[str, Any]:
    """{"yaml", "at"}. Raises TonnageError for an object that is not there, or that may not be read."""
    doc = await cluster.document(KINDS[resource], key)
    return {"yaml": as_yaml(doc), "at": rfc3339(cluster.clock.now())}


def as_yaml(doc: Doc) -> str:
    """A document as `kubectl get -o yaml` writes it, without managedFields."""
    metadata = {name: value for name, value in doc.get("metadata", {}).items() if name != "managedFields"}
    first = ("apiVersion", "kind", "metadata")
    rest = {name: value for name, value in sorted(doc.items()) if name not in first}
    whole: Doc = {"apiVersion": doc.get("apiVersion", ""), "kind": doc.get("kind", ""), "metadata": metadata, **rest}
    dumped: str = yaml.dump(
        whole,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        width=1000,
    )
    return dumped
