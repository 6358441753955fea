"""What pods whose claims are all to be made need of an event, and what events have of it: room of a class.

    needs of a pod     {fast: 20Gi}    the smallest of its claims of each class: one at least has to find its room anew
    offer of an event  {fast: 35Gi}    the most that a volume can have on a node which the changed object reaches

Room is taken as the objects tell it, with nothing held of it: what is held moves from object to object. A pod that goes
from its node leaves its volumes, and a volume that is somebody's is for the pods that mount it, which the queue asks
about by name (queue/waking.py). A node's label has something to offer only if somebody asks for labels of that key, and
its CSINode only if another plugin was taken over there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from tonnage.objects.core_v1 import Node, PersistentVolume, Pod
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ActionType, ClusterEvent
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.scheduling.volumes.hints import plugins_taken_over
from tonnage.scheduling.volumes.topology_keys import TopologyKeys
from tonnage.scheduling.volumes.volume_sign import volume_sign

_ANY_SIZE: Final = 1 << 100
_FEW_ROWS: Final = 4


def needs_of_new_claims(pod: PodInfo, cluster: Cluster) -> Mapping[Hashable, int] | None:
    """By class, the smallest claim; None when some claim is not there, is somebody's already, or has no class."""
    if volume_sign(pod, cluster) is None:
        return None
    found: dict[Hashable, int] = {}
    for key in pod.claim_keys:
        claim = cluster.storage.claims.get(key)
        if claim is None or not claim.class_name:
            return None
        size = claim.spec.resources.requests.get("storage")
        asked = size.value() if size is not None else 0
        found[claim.class_name] = min(asked, found.get(claim.class_name, asked))
    return found or None


def offer_to_new_claims(cluster: Cluster, event: ClusterEvent, old: Any, new: Any) -> Mapping[Hashable, int] | None:
    """What there is where something changed; None when it may help any pod with claims."""
    changed = old if new is None else new
    if isinstance(old, Node) and isinstance(new, Node) and event.action is ActionType.UPDATE_NODE_LABEL:
        if not cluster.has_index(TopologyKeys):
            return None
        keys = cluster.index(TopologyKeys)
        return None if keys.may_tell_apart(old.metadata.labels, new.metadata.labels) else {}
    if isinstance(old, CSINode) and isinstance(new, CSINode) and plugins_taken_over(old) == plugins_taken_over(new):
        return {}
    if isinstance(changed, Pod) and changed.spec.node_name:
        return {}
    if isinstance(changed, PersistentVolume) and changed.spec.claim_ref is not None:
        return {}
    if not isinstance(changed, CSIStorageCapacity) or not cluster.has_index(CapacityIndex):
        return None
    index = cluster.index(CapacityIndex)
    rows = index.rows_of(changed.key)
    names = index.groups.classes_with(changed.storage_class_name)
    if len(rows) > _FEW_ROWS:
        return dict.fromkeys(names, _ANY_SIZE)
    nodes = [node.name for row in rows if (node := cluster.nodes[row]) is not None]
    return {
        name: max((_most(each) for node in nodes for each in index.objects_at(name, node)), default=0) for name in names
    }


def _most(capacity: CSIStorageCapacity) -> int:
    """No volume that is made of this is larger."""
    if listed_pools(capacity):
        return _ANY_SIZE
    said = (capacity.capacity, capacity.maximum_volume_size)
    return max((each.value() for each in said if each is not None), default=0)
