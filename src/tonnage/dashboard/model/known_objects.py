"""The objects that rows are made of, by kind and key, with the few indexes that rows ask for.

Filled by informers on a live cluster, and by a replay's steps. Nothing here knows what a row is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

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
)
"""Kinds that rows are made of."""


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
        self.pods_of_claim: dict[Key, set[Key]] = defaultdict(set)
        self.pods_of_node: dict[str, set[Key]] = defaultdict(set)
        self.attachments_of_volume: dict[str, set[Key]] = defaultdict(set)
        self.attachments_of_node: dict[str, set[Key]] = defaultdict(set)
        self.nodes_by_label: dict[tuple[str, str], set[str]] = defaultdict(set)

    def put(self, new: Object) -> Object | None:
        """Keep an object; the one that was there before is given back."""
        known = self._by_kind[type(new)]
        old: Object | None = known.get(new.key)
        if old is not None:
            self._index(old, is_there=False)
        known[new.key] = new
        self._index(new, is_there=True)
        return old

    def remove(self, old: Object) -> Object | None:
        known: Object | None = self._by_kind[type(old)].pop(old.key, None)
        if known is not None:
            self._index(known, is_there=False)
        return known

    def __iter__(self) -> Iterator[Object]:
        for known in self._by_kind.values():
            yield from known.values()

    def _index(self, found: Object, *, is_there: bool) -> None:
        if isinstance(found, Pod):
            for claim in found.claim_names():
                _mark(self.pods_of_claim, f"{found.namespace}/{claim}", found.key, is_there)
            if found.spec.node_name:
                _mark(self.pods_of_node, found.spec.node_name, found.key, is_there)
        elif isinstance(found, VolumeAttachment):
            _mark(self.attachments_of_volume, found.spec.source.persistent_volume_name, found.key, is_there)
            _mark(self.attachments_of_node, found.spec.node_name, found.key, is_there)
        elif isinstance(found, Node):
            for label in found.metadata.labels.items():
                _mark(self.nodes_by_label, label, found.key, is_there)


def _mark(index: dict[Any, set[Key]], at: Any, key: Key, is_there: bool) -> None:
    if is_there:
        index[at].add(key)
        return
    index[at].discard(key)
    if not index[at]:
        del index[at]
