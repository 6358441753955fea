"""What a stock kube-apiserver's admission plugins add, as far as storage and scheduling feel it.

Unlike a strategy these rules look at other objects: priority classes (Priority), the default StorageClass
(DefaultStorageClass), the node a pod is already on (PodTopologyLabels), the namespace (NamespaceLifecycle). A `Lister`
hands those in; what is done with them are pure functions.

As upstream, a new object is first changed (`mutate_create`) and everything is judged apart from that (`validate_…`):
what a person writes in a file is changed in the same way, and is not judged by what else the files hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tonnage.documents import api_errors
from tonnage.documents.defaults.persistent_volumes import default_class_for
from tonnage.documents.pod_admission import inherit_topology, refuse_second_default, resolve_priority
from tonnage.documents.system_objects import SYSTEM_PRIORITY_CLASSES, UNDELETABLE_NAMESPACES
from tonnage.documents.validation.claims import resize_refusal
from tonnage.errors import Cause
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource

_NAMESPACES = BY_PLURAL["", "namespaces"]
_NODES = BY_PLURAL["", "nodes"]
_STORAGE_CLASSES = BY_PLURAL["storage.k8s.io", "storageclasses"]
_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]
_SYSTEM_PRIORITY_CLASS_NAMES = frozenset(each["metadata"]["name"] for each in SYSTEM_PRIORITY_CLASSES)


class Lister(Protocol):
    """The objects there are, of kinds without a namespace."""

    def get(self, resource: Resource, name: str) -> Doc | None: ...

    def list(self, resource: Resource) -> Iterable[Doc]: ...


class Admission:
    """The admission plugins of one server, or of one set of manifests."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    def mutate_create(self, resource: Resource, doc: Doc, *, keep_priority: bool = False) -> None:
        """Fill in what depends on other objects, in place. Raises Forbidden for a priority that cannot be resolved.

        With `keep_priority` a pod's spec.priority stands as it is, and its PriorityClass is not looked up.
        """
        match resource.kind:
            case "Pod":
                if not (keep_priority and "priority" in doc["spec"]):
                    resolve_priority(doc, self._lister.list(_PRIORITY_CLASSES))
                if node_name := doc["spec"].get("nodeName"):
                    inherit_topology(doc, self._lister.get(_NODES, node_name))
            case "PersistentVolumeClaim":
                chosen = default_class_for(doc, list(self._lister.list(_STORAGE_CLASSES)))
                if chosen is not None:
                    doc.setdefault("spec", {})["storageClassName"] = chosen

    def validate_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Raise NotFound for an object of a namespace that does not exist, Forbidden when it is going away."""
        found = self._lister.get(_NAMESPACES, namespace)
        if found is None:
            raise api_errors.not_found(_NAMESPACES, namespace)
        if "deletionTimestamp" in found["metadata"]:
            raise api_errors.forbidden(
                resource,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),
            )

    def validate_create(self, resource: Resource, doc: Doc) -> None:
        """Raise Forbidden for a second global default among priority classes."""
        if resource is _PRIORITY_CLASSES:
            refuse_second_default(doc, self._lister.list(_PRIORITY_CLASSES), is_update=False)

    def validate_update(self, resource: Resource, new: Doc, old: Doc) -> None:
        """Judge a change that the kind's own rules have passed. Raises Forbidden."""
        match resource.kind:
            case "PriorityClass":
                refuse_second_default(new, self._lister.list(_PRIORITY_CLASSES), is_update=True)
            case "PersistentVolumeClaim":
                storage_class = self._lister.get(_STORAGE_CLASSES, class_name_in(new) or "")
                refusal = resize_refusal(new, old, storage_class)
                if refusal is not None:
                    raise api_errors.forbidden(resource, new["metadata"]["name"], refusal)

    def validate_delete(self, resource: Resource, name: str) -> None:
        """Raise Forbidden for what Kubernetes itself brings and needs."""
        if resource is _NAMESPACES and name in UNDELETABLE_NAMESPACES:
            raise api_errors.forbidden(resource, name, "this namespace may not be deleted")
        if resource is _PRIORITY_CLASSES and name in _SYSTEM_PRIORITY_CLASS_NAMES:
            raise api_errors.forbidden(resource, name, "this is a system priority class and cannot be deleted")
