"""What a stock kube-apiserver's admission plugins add, as far as storage and scheduling feel it.

Unlike a strategy these rules look at other objects: the namespace (NamespaceLifecycle), the default StorageClass
(DefaultStorageClass), priority classes (Priority), the node a pod is already on (PodTopologyLabels). Each reads the
store's memory and hands what it found to a pure function.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.apiserver import refusals
from tonnage.documents.defaults.persistent_volumes import default_class_for
from tonnage.documents.pod_admission import inherit_topology, refuse_second_default, resolve_priority
from tonnage.documents.validation.claims import resize_refusal
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.store import Store

_NAMESPACES = BY_PLURAL["", "namespaces"]
_NODES = BY_PLURAL["", "nodes"]
_STORAGE_CLASSES = BY_PLURAL["storage.k8s.io", "storageclasses"]
_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]

LASTING_NAMESPACES = ("default", "kube-system", "kube-public")
LASTING_PRIORITY_CLASSES = ("system-cluster-critical", "system-node-critical")
"""What may not be deleted."""


class Admission:
    def __init__(self, store: Store) -> None:
        self._store = store

    def namespace_takes(self, resource: Resource, namespace: str, name: str) -> None:
        """Raise NotFound when there is no such namespace, Forbidden when it is going away."""
        record = self._store.get(_NAMESPACES.key("", namespace))
        if record is None:
            raise refusals.not_found(_NAMESPACES, namespace)
        # Almost every namespace lives: look for the word before reading the document.
        if b"deletionTimestamp" in record.document and "deletionTimestamp" in decode(record.document)["metadata"]:
            raise refusals.namespace_terminating(resource, name, namespace)

    def on_create(self, resource: Resource, doc: Doc) -> None:
        match resource.kind:
            case "Pod":
                resolve_priority(doc, self._docs(_PRIORITY_CLASSES))
                node_name = doc.get("spec", {}).get("nodeName")
                if node_name:
                    inherit_topology(doc, self._doc(_NODES, node_name))
            case "PersistentVolumeClaim":
                chosen = default_class_for(doc, list(self._docs(_STORAGE_CLASSES)))
                if chosen is not None:
                    doc.setdefault("spec", {})["storageClassName"] = chosen
            case "PriorityClass":
                refuse_second_default(doc, self._docs(_PRIORITY_CLASSES), is_update=False)

    def on_update(self, resource: Resource, new: Doc, old: Doc) -> None:
        """Judge a change that the kind's own rules have passed."""
        match resource.kind:
            case "PriorityClass":
                refuse_second_default(new, self._docs(_PRIORITY_CLASSES), is_update=True)
            case "PersistentVolumeClaim":
                storage_class = self._doc(_STORAGE_CLASSES, class_name_in(new) or "")
                refusal = resize_refusal(new, old, storage_class)
                if refusal is not None:
                    raise refusals.forbidden(resource, new["metadata"]["name"], refusal)

    def on_delete(self, resource: Resource, name: str) -> None:
        if resource is _NAMESPACES and name in LASTING_NAMESPACES:
            raise refusals.forbidden(resource, name, "this namespace may not be deleted")
        if resource is _PRIORITY_CLASSES and name in LASTING_PRIORITY_CLASSES:
            raise refusals.forbidden(resource, name, "this is a system priority class and cannot be deleted")

    def _doc(self, resource: Resource, name: str) -> Doc | None:
        record = self._store.get(resource.key("", name))
        return decode(record.document) if record is not None else None

    def _docs(self, resource: Resource) -> Iterator[Doc]:
        for record in self._store.list(resource.store_prefix):
            yield decode(record.document)
