"""The labels of nodes that decide about volumes: those that capacity objects, volumes and classes ask for.

    CSIStorageCapacity   nodeTopology          kubernetes.io/hostname
    PersistentVolume     nodeAffinity          topology.kubernetes.io/zone       any other label of a node says nothing
    StorageClass         allowedTopologies     topology.kubernetes.io/zone       about where a volume can be made

Nodes are labelled for many reasons, and each time every pod that waits for a volume would be tried again. Keys are
counted as objects come and go, of all volumes, also those in use: where a volume that moves has come to shows what it
still takes elsewhere. Volumes of in-tree plugins are counted as they stand; in other words they are read for claims
that are bound to them, and pods that have such claims are asked about each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster


class TopologyKeys:
    """The keys that somebody asks for: `cluster.index(TopologyKeys)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._counts: Counter[str] = Counter()
        storage = cluster.storage
        for each in (*storage.capacities.values(), *storage.volumes, *storage.classes.values()):
            self._changed(None, each)
        for kind in (CSIStorageCapacity, PersistentVolume, StorageClass):
            storage.on_change(kind, self._changed)

    def may_tell_apart(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Whether a node with these labels instead of those may be judged otherwise."""
        return any(before.get(key) != after.get(key) for key in self._counts)

    def _changed(self, old: Any, new: Any) -> None:
        asked_before, asks = _asked(old), _asked(new)
        if asked_before == asks:
            return
        self._counts.update(_keys(asks))
        for key in _keys(asked_before):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]


def _asked(found: Any) -> Any:
    """The part of an object that asks for labels."""
    match found:
        case CSIStorageCapacity():
            return found.node_topology
        case PersistentVolume():
            return found.spec.node_affinity.required
        case StorageClass():
            return found.allowed_topologies
    return None


def _keys(asked: Any) -> Iterator[str]:
    if asked is None:
        return
    if isinstance(asked, tuple):
        yield from (each.key for term in asked for each in term.match_label_expressions)
    elif isinstance(asked, LabelSelector):
        yield from asked.match_labels
        yield from (each.key for each in asked.match_expressions)
    else:
        yield from (each.key for term in asked.node_selector_terms for each in term.match_expressions)
