"""The health of a node: its last heartbeat, when it was seen, and its conditions when none comes any more.

A heartbeat comes in two ways: a node renews its lease every few seconds, and it repeats the time of its Ready
condition. Times on its side do not count, since clocks disagree: what counts is when either was seen to change. When
neither has for the grace period, Ready and the pressure conditions turn Unknown. Mirrors tryUpdateNodeHealth.

Taints follow from conditions. *NoSchedule* taints keep new pods away: one for each condition that is not as it should
be, and one while the node is cordoned. They are set at once. *NoExecute* taints evict the pods
that are there: `not-ready` or `unreachable`, never both; how fast they may be set in a zone is decided in `zones`, and
which pods leave in `taint_eviction_plan`. Taints that others set are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.clock import rfc3339
from tonnage.objects.core_v1 import Node
from tonnage.objects.core_v1.node import NodeCondition
from tonnage.objects.document import Doc
from tonnage.objects.node_selectors import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE
from tonnage.objects.small_groups import Lease

READY: Final = "Ready"
_MONITORED_CONDITIONS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""What becomes Unknown without heartbeats. NetworkUnavailable is not among them: others set it."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of one node: `last_seen_at` is when it was seen, by our clock."""

    uid: str
    last_seen_at: datetime
    has_ready: bool
    heartbeat: datetime | None = None
    renewed: datetime | None = None


def observe(before: Heartbeat | None, node: Node, lease: Lease | None, now: datetime) -> Heartbeat:
    """What is known after a look at the node and its lease."""
    ready = node.condition(READY)
    heartbeat = None if ready is None else ready.last_heartbeat_time
    if before is not None and before.uid != node.uid:
        before = None  # another machine of the same name
    if before is None and ready is None:
        # Nobody has ever posted a status: its life begins with the object.
        last_seen_at = node.metadata.creation_timestamp or now
    elif before is None or before.has_ready != (ready is not None) or before.heartbeat != heartbeat:
        last_seen_at = now
    else:
        last_seen_at = before.last_seen_at
    renewed = None if before is None else before.renewed
    at = None if lease is None else lease.spec.renew_time
    if at is not None:
        if renewed is None or at > renewed:
            last_seen_at = now
        renewed = at  # also an earlier one: when clocks were set back, the next renewal counts
    return Heartbeat(node.uid, last_seen_at, ready is not None, heartbeat, renewed)


def is_overdue(health: Heartbeat, now: datetime, *, grace_s: float, startup_grace_s: float) -> bool:
    """Whether the grace period is over; a node that never posted a status has a longer one."""
    allowed_s = grace_s if health.has_ready else startup_grace_s
    return (now - health.last_seen_at).total_seconds() > allowed_s


def unknown_conditions(node: Node, now: datetime) -> list[Doc]:
    """The conditions to write when the grace period is over; none when they are Unknown already."""
    known = {each.type: each for each in node.status.conditions}
    return [
        {
            "type": type_,
            "status": "Unknown",
            "lastHeartbeatTime": _written(None if was is None else was.last_heartbeat_time, node, now),
            "lastTransitionTime": rfc3339(now),
            "reason": "NodeStatusNeverUpdated" if was is None else "NodeStatusUnknown",
            "message": "Kubelet never posted node status." if was is None else "Kubelet stopped posting node status.",
        }
        for type_, was in ((type_, known.get(type_)) for type_ in _MONITORED_CONDITIONS)
        if was is None or was.status != "Unknown"
    ]


def _written(heartbeat: datetime | None, node: Node, now: datetime) -> str:
    return rfc3339(heartbeat or node.metadata.creation_timestamp or now)


_CONDITION_TAINTS: Final = {
    (READY, "False"): NOT_READY,
    (READY, "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset((*_CONDITION_TAINTS.values(), UNSCHEDULABLE))
"""Keys whose NoSchedule taints follow the node's conditions: one that no condition asks for is taken away."""


def no_schedule_keys(node: Node) -> frozenset[str]:
    """The NoSchedule taints that a node's conditions, and its being cordoned, ask for."""
    keys = {_CONDITION_TAINTS.get((each.type, each.status), "") for each in node.status.conditions}
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE)
    return frozenset(keys - {""})


def with_no_schedule(taints: Iterable[Doc], keys: frozenset[str], now: datetime) -> list[Doc]:
    """The taints with just these among the NoSchedule ones that are ours; all others stay as they are."""
    kept = [each for each in taints if each["effect"] != NO_SCHEDULE or each["key"] not in _OURS or each["key"] in keys]
    present = {each["key"] for each in kept if each["effect"] == NO_SCHEDULE}
    return kept + [_taint(key, NO_SCHEDULE, now) for key in sorted(keys - present)]


def no_execute_key(ready: NodeCondition | None) -> str:
    """The taint by which pods are evicted from a node in this state; empty for one that is ready, or not known yet."""
    return _CONDITION_TAINTS.get((READY, ready.status), "") if ready is not None else ""


def with_no_execute(taints: Iterable[Doc], key: str, now: datetime) -> list[Doc]:
    """The taints with `key` as the only one of the two that evict pods from lost nodes; empty removes both."""
    kept = [
        each
        for each in taints
        if each["effect"] != NO_EXECUTE or each["key"] not in (NOT_READY, UNREACHABLE) or each["key"] == key
    ]
    is_there = any(each["effect"] == NO_EXECUTE and each["key"] == key for each in kept)
    return kept if is_there or not key else [*kept, _taint(key, NO_EXECUTE, now)]


def _taint(key: str, effect: str, now: datetime) -> Doc:
    return {"key": key, "effect": effect, "timeAdded": rfc3339(now)}
