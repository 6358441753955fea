"""VolumeZone: a volume that is labelled with zones or a region is used there only.

A node passes when it has, for each zone or region label of the pod's volumes, one of the label's values; `a__b` is a
list of them, and a malformed one is ignored. An old label (`failure-domain.beta.kubernetes.io/…`) on a volume may be
answered by the new one on a node. A node without any such label passes. Only bound claims that pods mount by name are
looked at. The words of the refusals are upstream's (VolumeZone.getPVbyPod).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.core_v1.node import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.storage_v1 import StorageClass
from tonnage.scheduling.cluster.cluster import Cluster, row_about
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.events import QUEUE, ActionType, ClusterEvent, EventResource, Hint
from tonnage.scheduling.events import SKIP as NO_HELP
from tonnage.scheduling.framework import (
    SKIP,
    Cycle,
    EventHint,
    FilterPlugin,
    Judgement,
    PreFilterPlugin,
    RowAccount,
    Status,
    refuse,
    unresolvable,
)
from tonnage.scheduling.volumes.demand import new_claims_of, volume_sign
from tonnage.scheduling.volumes.explain.nearest_miss import Miss, elsewhere
from tonnage.scheduling.volumes.hints import after_named_claim_change

_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_NEW_NAMES: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_DELIMITER: Final = "__"
Place = tuple[str, frozenset[str]]
"""(label key, the values a node may have)"""


class VolumeZone(PreFilterPlugin, FilterPlugin):
    name = "VolumeZone"
    reason = "node(s) had no available volume zone"

    def events(self) -> Iterable[EventHint]:
        add_or_update = ActionType.ADD | ActionType.UPDATE
        return (
            (ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), _class_waits),
            (ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), None),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, add_or_update), after_named_claim_change),
            (ClusterEvent(EventResource.PERSISTENT_VOLUME, add_or_update), _place_changed),
        )

    def sign(self, pod: PodInfo, cluster: Cluster) -> Hashable | None:
        return volume_sign(pod, cluster)

    def reach(self, cluster: Cluster, event: ClusterEvent, changed: Any) -> Rows | None:
        return row_about(cluster, changed)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Find out where the pod's volumes are. SKIP when none is labelled."""
        if not cycle.pod.has_claims or new_claims_of(cycle):
            return SKIP
        places: dict[Place, None] = {}
        for name, key in cycle.pod.named_claims:
            found = _volume_of(key, name, cycle.cluster.storage)
            if isinstance(found, Status):
                return found
            if found is not None:
                places.update(dict.fromkeys(_places_of(found)))
        if not places:
            return SKIP
        cycle.state[self.name] = tuple(places)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Judgement | None:
        places: tuple[Place, ...] = cycle.state[self.name]
        is_elsewhere = np.zeros(row_count(rows), dtype=np.bool_)
        for key, values in places:
            is_elsewhere |= ~_has_any(cycle.cluster, key, values, rows)
        if not is_elsewhere.any():
            return None
        is_elsewhere &= _speaks_of_zones(cycle.cluster, rows)
        return refuse(is_elsewhere, self.reason, unresolvable=True)

    def passes_with_fewer_pods(self, cycle: Cycle) -> bool:
        return True

    def nearest_miss(self, cycle: Cycle, row: int, account: RowAccount | None) -> Miss | None:
        """Which volumes are in another zone or region than the row, and where each of the two is."""
        if self.name not in cycle.state:  # PreFilter refused the pod for a claim that is missing
            return None
        here, told = slice(row, row + 1), []
        for name, key in cycle.pod.named_claims:
            volume = _volume_of(key, name, cycle.cluster.storage)
            if not isinstance(volume, PersistentVolume):
                continue
            for label, values in _places_of(volume):
                if not _has_any(cycle.cluster, label, values, here)[0]:
                    kind = "zone" if label in (ZONE, BETA_ZONE) else "region"
                    where = f"{kind} {' or '.join(sorted(values))}"
                    told.append(
                        f"volume {volume.name} is in {where}, this node in {_label_at(cycle, label, kind, row)}"
                    )
        return elsewhere("; ".join(dict.fromkeys(told))) if told else None


def _volume_of(key: str, name: str, storage: Storage) -> PersistentVolume | Status | None:
    """The volume a claim is bound to, or is meant to be; None while it waits for this decision."""
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    claim = storage.claims.get(key)
    if claim is None:
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    volume_name = claim.spec.volume_name
    if volume_name:
        return storage.volumes.get(volume_name) or unresolvable(f'persistentvolume "{volume_name}" not found')
    class_name = claim.class_name
    if not class_name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    found = storage.classes.get(class_name)
    if found is None:
        return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    return None if found.waits_for_consumer else unresolvable("PersistentVolume had no name")


def _places_of(volume: PersistentVolume) -> list[Place]:
    """Where a volume's labels say it is."""
    places = []
    for key in _LABELS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            values = frozenset(value.strip() for value in text.split(_DELIMITER))
            if "" not in values:
                places.append((key, values))
    return places


def _has_any(cluster: Cluster, key: str, values: frozenset[str], rows: Rows) -> Mask:
    """Which rows have the label with one of the values; for an old name the new one may answer, where it is missing."""
    has_it, is_right = _matching(cluster, key, values, rows)
    if key in _NEW_NAMES:
        is_right |= ~has_it & _matching(cluster, _NEW_NAMES[key], values, rows)[1]
    return is_right


def _label_at(cycle: Cycle, label: str, kind: str, row: int) -> str:
    """What a row says of its zone or region."""
    for key in (label, _NEW_NAMES.get(label, label)):
        column = cycle.cluster.labels.get(key)
        if column is not None and column.ids[row]:
            return f"{kind} {column.texts[column.ids[row]]}"
    return f"no {kind}"


def _matching(cluster: Cluster, key: str, values: frozenset[str], rows: Rows) -> tuple[Mask, Mask]:
    """(the row has the label, and with one of the values)"""
    column = cluster.labels.get(key)
    if column is None:
        nobody = np.zeros(row_count(rows), dtype=np.bool_)
        return nobody, nobody.copy()
    ids = column.ids[rows]
    is_wanted = np.zeros(len(column.texts), dtype=np.bool_)
    is_wanted[[column.id_of(value) for value in values]] = True
    is_wanted[0] = False  # the number of a value that no node has, and of having none
    return ids != 0, is_wanted[ids]


def _speaks_of_zones(cluster: Cluster, rows: Rows) -> Mask:
    found: Mask = np.zeros(row_count(rows), dtype=np.bool_)
    for key in _LABELS:
        column = cluster.labels.get(key)
        if column is not None:
            found |= column.ids[rows] != 0
    return found


def _class_waits(pod: PodInfo, event: ClusterEvent, old: None, new: StorageClass) -> Hint:
    """Only a class whose volumes wait for their pods lets a pod go on without one."""
    return QUEUE if new.waits_for_consumer else NO_HELP


def _place_changed(pod: PodInfo, event: ClusterEvent, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    return QUEUE if old is None or _places_of(old) != _places_of(new) else NO_HELP
