"""Cluster events, by which refused pods are tried again.

A plugin registers masks of `ClusterEvent`, each with an optional hint (`framework.Plugin.events`); a seen event is as
specific as possible, and `covers` says whether a mask includes it. `changes_of(old, new)` derives the events from two
versions of an object; none if nothing changed that a scheduler reads.

Names and masks are upstream's (EventResource and ActionType of k8s.io/kube-scheduler/framework), without those of
dynamic resource allocation and pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, Flag, StrEnum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.pod_info import PodInfo, requests_of


class EventResource(StrEnum):
    """What an event is about. `POD`, which plugins register, covers both kinds of pods. Values are metric labels."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    WILDCARD = "*"


class ActionType(Flag):
    """What happened to the resource. `UPDATE` is every kind of update, if kinds are not distinguished."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()  # also of spec.unschedulable
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    )
    ALL = ADD | DELETE | UPDATE

    @property
    def label(self) -> str:
        """`UpdateNodeLabel`; the parts of a mask without a name of its own are joined by `|`."""
        return "|".join("".join(map(str.capitalize, part.split("_"))) for part in (self.name or "None").split("|"))


class ClusterEvent(NamedTuple):
    """A resource and an action: one seen event, or a mask of events."""

    resource: EventResource
    action: ActionType
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The name in metrics and logs: `NodeAdd`, `AssignedPodDelete`, `UnschedulableTimeout`."""
        return self.custom_label or f"{self.resource}{self.action.label}"

    @property
    def is_wildcard(self) -> bool:
        """As a seen event, it moves every pod (or the pod it is about) without asking plugins."""
        return self.resource is EventResource.WILDCARD and self.action is ActionType.ALL

    def covers(self, seen: ClusterEvent) -> bool:
        """As a mask: True if it includes the seen event. Mirrors MatchClusterEvents. The event must be at least as
        specific as the mask: a mask for node labels does not include "some update"."""
        if self.is_wildcard:
            return True
        is_about = (
            self.resource is EventResource.WILDCARD
            or self.resource is seen.resource
            or (self.resource is EventResource.POD and seen.resource in _KINDS_OF_POD)
        )
        return is_about and seen.action in self.action


_KINDS_OF_POD: Final = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)

EVERY_EVENT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)
"""The mask of a plugin without known events: pods that it refused are tried again on every event."""

ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.DELETE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
"""Moves of a pod without an event; used as labels like those of events."""


class Hint(Enum):
    """A plugin's answer whether an event may help a pod that it refused."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


QUEUE: Final = Hint.QUEUE
SKIP: Final = Hint.SKIP

HintFn: TypeAlias = Callable[[PodInfo, ClusterEvent, Any, Any], Hint]
"""(waiting pod, event, old object, new object) -> may it help? For an Add the old object is None, for a Delete the
new."""


FOR_MOUNTED_CLAIMS: Final[set[HintFn]] = set()


def for_mounted_claims(hint: HintFn) -> HintFn:
    """Mark a hint as only for pods that mount a claim of the event (`claims_named`): other pods are not asked."""
    FOR_MOUNTED_CLAIMS.add(hint)
    return hint


class Change(NamedTuple):
    """An event and its object, before and after."""

    event: ClusterEvent
    old: Any
    new: Any


# -- reading events off objects ---------------------------------------------------------------------------------------

_RESOURCES: Final[Mapping[type[Object], EventResource]] = {
    Node: EventResource.NODE,
    PersistentVolume: EventResource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: EventResource.PERSISTENT_VOLUME_CLAIM,
    CSINode: EventResource.CSI_NODE,
    CSIDriver: EventResource.CSI_DRIVER,
    CSIStorageCapacity: EventResource.CSI_STORAGE_CAPACITY,
    StorageClass: EventResource.STORAGE_CLASS,
    VolumeAttachment: EventResource.VOLUME_ATTACHMENT,
}


def changes_of(old: Object | None, new: Object | None) -> tuple[Change, ...]:
    """The changes in an informer's step from `old` to `new`; None: it does not exist. An ended pod counts as deleted, a
    pod that got a node as a new assigned pod, and an object created again under its name is two changes."""
    if old is not None and new is not None and old.uid != new.uid:
        return changes_of(old, None) + changes_of(None, new)
    if isinstance(old, Pod) or isinstance(new, Pod):
        return _pod_changes(old if _is_live(old) else None, new if _is_live(new) else None)
    return tuple(Change(event, old, new) for event in _object_events(old, new))


def _object_events(old: Object | None, new: Object | None) -> Iterator[ClusterEvent]:
    if isinstance(old, Node) and isinstance(new, Node):
        yield from node_events(old, new)
        return
    known = new if new is not None else old
    resource = _RESOURCES.get(type(known)) if known is not None else None
    if resource is not None:
        action = ActionType.ADD if old is None else ActionType.DELETE if new is None else ActionType.UPDATE
        yield ClusterEvent(resource, action)


def claims_named(old: Any, new: Any) -> tuple[Key, ...]:
    """The claims that a change is about: the claim itself, the claim of a volume, or the claims that a pod mounts."""
    found: dict[Key, None] = {}
    for each in (old, new):
        if isinstance(each, PersistentVolumeClaim):
            found[each.key] = None
        elif isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
            found[each.spec.claim_ref.key] = None
        elif isinstance(each, Pod) and each.spec.volumes:
            found.update(dict.fromkeys(each.claim_keys()))
    return tuple(found)


def node_events(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """The changed parts of a node that pods may wait for; none for a heartbeat. Unlike NodeSchedulingPropertiesChange,
    it includes cordoning: a volume may be rebuilt elsewhere then (KEP-5925)."""
    changed = {
        ActionType.UPDATE_NODE_TAINT: (
            old.spec.unschedulable != new.spec.unschedulable or old.spec.taints != new.spec.taints
        ),
        ActionType.UPDATE_NODE_ALLOCATABLE: old.status.allocatable != new.status.allocatable,
        ActionType.UPDATE_NODE_LABEL: old.metadata.labels != new.metadata.labels,
        ActionType.UPDATE_NODE_CONDITION: _condition_statuses(old) != _condition_statuses(new),
        ActionType.UPDATE_NODE_ANNOTATION: old.metadata.annotations != new.metadata.annotations,
        ActionType.UPDATE_NODE_DECLARED_FEATURE: old.status.declared_features != new.status.declared_features,
    }
    return tuple(ClusterEvent(EventResource.NODE, action) for action, is_changed in changed.items() if is_changed)


def _condition_statuses(node: Node) -> dict[str, str]:
    """Conditions without heartbeats and transition times."""
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_events(old: Pod, new: Pod) -> tuple[ClusterEvent, ...]:
    """The changed parts of a pod; `UPDATE` if none that is distinguished. Mirrors PodSchedulingPropertiesChange."""
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.UNSCHEDULED_POD
    before, after = requests_of(old), requests_of(new)
    changed = {
        ActionType.UPDATE_POD_LABEL: old.metadata.labels != new.metadata.labels,
        ActionType.UPDATE_POD_SCALE_DOWN: any(asked > after.get(name, -1) for name, asked in before.items()),
        ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: bool(
            old.spec.scheduling_gates and not new.spec.scheduling_gates
        ),
        # Tolerations can only be added, so their number is enough.
        ActionType.UPDATE_POD_TOLERATION: len(old.spec.tolerations) != len(new.spec.tolerations),
    }
    found = tuple(ClusterEvent(resource, action) for action, is_changed in changed.items() if is_changed)
    return found or (ClusterEvent(resource, ActionType.UPDATE),)


def _is_live(pod: Object | None) -> bool:
    return isinstance(pod, Pod) and not pod.is_terminal


def _pod_changes(old: Object | None, new: Object | None) -> tuple[Change, ...]:
    if isinstance(old, Pod) and isinstance(new, Pod):
        if new.spec.node_name and not old.spec.node_name:
            return (Change(ASSIGNED_POD_ADD, None, new),)
        return tuple(Change(event, old, new) for event in pod_events(old, new))
    if isinstance(new, Pod):
        return (Change(ASSIGNED_POD_ADD if new.spec.node_name else UNSCHEDULED_POD_ADD, None, new),)
    if isinstance(old, Pod):
        return (Change(ASSIGNED_POD_DELETE if old.spec.node_name else UNSCHEDULED_POD_DELETE, old, None),)
    return ()
