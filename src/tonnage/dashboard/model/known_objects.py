"""The objects that rows are made of, by kind and key, with the indexes that rows ask for.

Filled by informers on a live cluster, and by a replay's steps. Objects of other kinds are kept as well, for questions.
Nothing here knows what a row is. An index that is asked for what it has not gives an empty set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tonnage.dashboard.model.selected_labels import labels_of_affinity, labels_of_topology
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment

KINDS: Final[tuple[type[Object], ...]] = (
    Node,
    Pod,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    VolumeAttachment,
    ReplicaSet,
    Job,
)
"""Kinds that rows are made of. Of ReplicaSets and Jobs only who owns them: pods are told by their Deployment."""


class Index:
    """Keys by what they are looked up by."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Any, set[Key]] = {}

    def __getitem__(self, at: Any) -> frozenset[Key] | set[Key]:
        return self._keys.get(at, _NONE)

    def mark(self, at: Any, key: Key, *, is_there: bool) -> None:
        found = self._keys.get(at)
        if is_there:
            if found is None:
                self._keys[at] = {key}
            else:
                found.add(key)
        elif found is not None:
            found.discard(key)
            if not found:
                del self._keys[at]


_NONE: Final[frozenset[Key]] = frozenset()


class KnownObjects:
    """Objects by kind and key."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Object], dict[Key, Any]] = {kind: {} for kind in KINDS}
        self.nodes: dict[Key, Node] = self._by_kind[Node]
        self.pods: dict[Key, Pod] = self._by_kind[Pod]
        self.volumes: dict[Key, PersistentVolume] = self._by_kind[PersistentVolume]
        self.claims: dict[Key, PersistentVolumeClaim] = self._by_kind[PersistentVolumeClaim]
        self.classes: dict[Key, StorageClass] = self._by_kind[StorageClass]
        self.drivers: dict[Key, CSIDriver] = self._by_kind[CSIDriver]
        self.csi_nodes: dict[Key, CSINode] = self._by_kind[CSINode]
        self.capacities: dict[Key, CSIStorageCapacity] = self._by_kind[CSIStorageCapacity]
        self.attachments: dict[Key, VolumeAttachment] = self._by_kind[VolumeAttachment]
        self.owners: dict[str, Object] = {}
        """ReplicaSets and Jobs by uid."""
        self.nodes_by_label = Index()
        self.pods_of_claim = Index()
        self.pods_of_node = Index()
        self.pods_of_owner = Index()
        self.claims_of_class = Index()
        self.claims_of_volume = Index()
        """By the name of the volume that a claim names."""
        self.claims_by_uid = Index()
        self.volumes_of_claim = Index()
        """By the key of the claim that a volume names, whichever that is now."""
        self.volumes_by_label = Index()
        """By labels that say on which node a volume is; zones do not."""
        self.volumes_by_handle = Index()
        self.attachments_of_volume = Index()
        self.attachments_of_node = Index()
        self.capacities_by_label = Index()
        """By one label that a node must have to be reached; those that ask for none stand at None."""
        self.capacities_of_class = Index()
        self.classes_of_driver = Index()

    def put(self, new: Object) -> Object | None:
        """Keep an object; the one that was there before is given back."""
        known = self._by_kind.setdefault(type(new), {})
        old: Object | None = known.get(new.key)
        if old is not None:
            self._index(old, is_there=False)
        known[new.key] = new
        self._index(new, is_there=True)
        return old

    def remove(self, old: Object) -> Object | None:
        known: Object | None = self._by_kind.get(type(old), {}).pop(old.key, None)
        if known is not None:
            self._index(known, is_there=False)
        return known

    def __iter__(self) -> Iterator[Object]:
        for known in self._by_kind.values():
            yield from known.values()

    def _index(self, found: Object, *, is_there: bool) -> None:
        if isinstance(found, ReplicaSet | Job):
            if is_there:
                self.owners[found.uid] = found
            else:
                self.owners.pop(found.uid, None)
        for index, at in self._entries(found):
            index.mark(at, found.key, is_there=is_there)

    def _entries(self, found: Object) -> Iterator[tuple[Index, Any]]:
        """Where an object stands in the indexes."""
        match found:
            case Node():
                yield from ((self.nodes_by_label, label) for label in found.metadata.labels.items())
            case Pod():
                yield from ((self.pods_of_claim, f"{found.namespace}/{claim}") for claim in found.claim_names())
                if found.spec.node_name:
                    yield self.pods_of_node, found.spec.node_name
                owner = found.metadata.controller
                if owner is not None:
                    yield self.pods_of_owner, owner.uid
            case PersistentVolumeClaim():
                yield self.claims_of_class, found.class_name
                yield self.claims_by_uid, found.uid
                if found.spec.volume_name:
                    yield self.claims_of_volume, found.spec.volume_name
            case PersistentVolume():
                if found.spec.claim_ref is not None:
                    yield self.volumes_of_claim, found.spec.claim_ref.key
                if found.spec.csi is not None:
                    yield self.volumes_by_handle, (found.spec.csi.driver, found.spec.csi.volume_handle)
                yield from ((self.volumes_by_label, label) for label in labels_of_affinity(found))
            case VolumeAttachment():
                yield self.attachments_of_volume, found.spec.source.persistent_volume_name
                yield self.attachments_of_node, found.spec.node_name
            case CSIStorageCapacity():
                yield self.capacities_of_class, found.storage_class_name
                if found.node_topology is not None:
                    labels = labels_of_topology(found.node_topology)
                    yield from ((self.capacities_by_label, label) for label in labels or (None,))
            case StorageClass():
                yield self.classes_of_driver, found.provisioner
