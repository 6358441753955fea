"""Every kind of object that a decision reads, in one table.

The live scheduler's informers, `explain` on a live cluster, manifests, replays and the node scaler all read these
kinds and no others, so that none of them decides on less than another. `EventHandlers` knows what each of them means.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Event, Namespace, Node, Pod, ReplicationController, Service
from tonnage.objects.core_v1.persistent_volume import PROVISIONING_FAILED
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.scheduling.cluster.storage import STORAGE_KINDS

LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that have ended are invisible to decisions; a server need not send them."""


PROVISIONING_FAILURES: Final = f"reason={PROVISIONING_FAILED},involvedObject.kind=PersistentVolumeClaim"
"""Events that say why a claim has no volume; all others are invisible to decisions."""


class ReadKind(NamedTuple):
    """One kind that decisions read."""

    cls: type[Object]
    is_needed: bool = False
    """Without objects of this kind there is nothing to decide; without others a decision is right for most pods."""
    field_selector: str = ""
    """Which of its objects a decision can see; empty for all."""
    is_told: bool = False
    """Its objects are told to people first: a role may leave them out, and an API server may keep them in a store of
    their own, so that their resourceVersions do not compare with those of other kinds."""


READ_KINDS: Final[tuple[ReadKind, ...]] = (
    # Nodes first, so that pods find their rows; order is a courtesy, orphans are adopted either way.
    ReadKind(Node, is_needed=True),
    ReadKind(Pod, is_needed=True, field_selector=LIVE_PODS),
    *(
        ReadKind(cls)
        for cls in (Namespace, PodDisruptionBudget, Service, ReplicaSet, StatefulSet, ReplicationController)
    ),
    *(ReadKind(cls) for cls in STORAGE_KINDS),
    ReadKind(Event, field_selector=PROVISIONING_FAILURES, is_told=True),
)
