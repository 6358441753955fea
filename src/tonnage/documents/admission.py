"""The admission plugins of a stock kube-apiserver, as far as they concern storage and scheduling.

Unlike a strategy, these rules read other objects, by a `Lister`: LimitRanger, ServiceAccount, Priority, RuntimeClass,
DefaultStorageClass, PodTopologyLabels, NamespaceLifecycle. `mutate_create` and `validate_…` are separate because
objects from files are mutated alike, but not validated against the other objects in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tonnage.documents import api_errors
from tonnage.documents.kinds.limit_range import broken_limits, give_defaults
from tonnage.documents.kinds.runtime_class import obey_runtime_class, refuse_foreign_overhead, refuse_unknown_class
from tonnage.documents.kinds.scheduling_kinds import SYSTEM_PRIORITIES
from tonnage.documents.kinds.storage.persistent_volume_claim import resize_refusal
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.documents.pod_admission import (
    give_account,
    inherit_topology,
    obey_account,
    refuse_second_default,
    resolve_priority,
    tolerate_node_trouble,
)
from tonnage.errors import Cause
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE_NAMESPACES = ("default", "kube-system", "kube-public")
SYSTEM_PRIORITY_CLASSES: tuple[Doc, ...] = tuple(
    {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name], "description": description}
    for name, description in (
        ("system-cluster-critical", "For what the cluster cannot do without, on whichever node."),
        ("system-node-critical", "For what a node cannot do without; nothing has a higher priority."),
    )
)


def kubernetes_service(port: int) -> Doc:
    """The Service `default/kubernetes` for the API server on `port`, with an address because clients read it."""
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


_NAMESPACES = BY_PLURAL["", "namespaces"]
_NODES = BY_PLURAL["", "nodes"]
_LIMIT_RANGES = BY_PLURAL["", "limitranges"]
_PODS = BY_PLURAL["", "pods"]
_SERVICE_ACCOUNTS = BY_PLURAL["", "serviceaccounts"]
_CLAIMS = BY_PLURAL["", "persistentvolumeclaims"]
_RUNTIME_CLASSES = BY_PLURAL["node.k8s.io", "runtimeclasses"]
_STORAGE_CLASSES = BY_PLURAL["storage.k8s.io", "storageclasses"]
_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]
_READ_FOR = {
    _PODS: (_PRIORITY_CLASSES, _LIMIT_RANGES),
    _CLAIMS: (_STORAGE_CLASSES, _LIMIT_RANGES),
    _PRIORITY_CLASSES: (_PRIORITY_CLASSES,),
}


def objects_read_for(resource: Resource) -> tuple[Resource, ...]:
    """The kinds whose objects admission lists, in the namespace or in the whole cluster, for a new object."""
    return _READ_FOR.get(resource, ())


class Lister(Protocol):
    """Reads the current objects: one by name, all of a kind, or a kind in one namespace."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None: ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Doc]: ...


class Admission:
    """The admission plugins of one server.

    `is_whole`: an object that the lister lacks does not exist (manifests may leave out objects that they name).
    `generate_name` names the volumes that admission adds to pods.
    """

    def __init__(
        self, lister: Lister, *, is_whole: bool = True, generate_name: Callable[[str], str] = lambda base: base
    ) -> None:
        self._lister = lister
        self._is_whole = is_whole
        self._generate_name = generate_name

    def mutate_create(self, resource: Resource, doc: Doc, *, keep_priority: bool = False) -> None:
        """Fill in, in place, what depends on other objects. `keep_priority` keeps spec.priority. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "pods":
                for limit_range in self._limit_ranges(doc):
                    give_defaults(doc, limit_range)
                give_account(doc)
                if self._is_whole:
                    name = doc["spec"].get("serviceAccountName")
                    account = self._lister.get(_SERVICE_ACCOUNTS, name, doc["metadata"]["namespace"]) if name else None
                    obey_account(doc, account, self._generate_name)
                if not (keep_priority and "priority" in doc["spec"]):
                    resolve_priority(doc, self._lister.list(_PRIORITY_CLASSES))
                if node_name := doc["spec"].get("nodeName"):
                    inherit_topology(doc, self._lister.get(_NODES, node_name))
                runtime_class = self._runtime_class(doc)
                if runtime_class is not None:
                    tolerate_node_trouble(doc)  # comes first upstream: the order of tolerations is visible
                    obey_runtime_class(doc, runtime_class)
            case "persistentvolumeclaims":
                chosen = default_class_for(doc, list(self._lister.list(_STORAGE_CLASSES)))
                if chosen is not None:
                    doc.setdefault("spec", {})["storageClassName"] = chosen

    def validate_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Raise NotFound if the object's namespace does not exist, Forbidden if it is being deleted."""
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
        """Judge a new object that passed the validation of its kind. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "priorityclasses.scheduling.k8s.io":
                refuse_second_default(doc, self._lister.list(_PRIORITY_CLASSES), is_update=False)
            case "pods":
                self._refuse_beyond_limits(resource, doc)
                refuse_foreign_overhead(doc, self._runtime_class(doc))
            case "persistentvolumeclaims":
                self._refuse_beyond_limits(resource, doc)

    def validate_update(self, resource: Resource, new: Doc, old: Doc) -> None:
        """Judge an update that passed the validation of its kind. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "priorityclasses.scheduling.k8s.io":
                refuse_second_default(new, self._lister.list(_PRIORITY_CLASSES), is_update=True)
            case "persistentvolumeclaims":
                if "deletionTimestamp" not in old["metadata"]:
                    self._refuse_beyond_limits(resource, new)
                storage_class = self._lister.get(_STORAGE_CLASSES, class_name_in(new) or "")
                refusal = resize_refusal(new, old, storage_class)
                if refusal is not None:
                    raise api_errors.forbidden(resource, new["metadata"]["name"], refusal)

    def _limit_ranges(self, doc: Doc) -> Iterable[Doc]:
        return self._lister.list(_LIMIT_RANGES, doc["metadata"].get("namespace", ""))

    def _refuse_beyond_limits(self, resource: Resource, doc: Doc) -> None:
        for limit_range in self._limit_ranges(doc):
            if why := broken_limits(resource.kind, doc, limit_range):
                raise api_errors.forbidden(resource, doc["metadata"].get("name", ""), why)

    def _runtime_class(self, pod: Doc) -> Doc | None:
        if "runtimeClassName" not in pod["spec"]:
            return None
        found = self._lister.get(_RUNTIME_CLASSES, pod["spec"]["runtimeClassName"])
        if found is None and self._is_whole:
            raise refuse_unknown_class(pod)
        return found

    def validate_delete(self, resource: Resource, name: str) -> None:
        """Raise Forbidden for namespaces and priority classes that Kubernetes itself needs."""
        if resource is _NAMESPACES and name in UNDELETABLE_NAMESPACES:
            raise api_errors.forbidden(resource, name, "this namespace may not be deleted")
        if resource is _PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
            raise api_errors.forbidden(resource, name, "this is a system priority class and cannot be deleted")
