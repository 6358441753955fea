"""The health of a node: its last heartbeat, when it was seen, and its conditions when none comes any more. Pure.

A heartbeat comes in two ways: a node renews its lease every few seconds, and it repeats the time of its Ready
condition. Times on its side do not count, since clocks disagree: what counts is when either was seen to change. When
neither has for the grace period, Ready and the pressure conditions turn Unknown. Mirrors tryUpdateNodeHealth. What
taints follow from conditions is in `condition_taints`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.clock import rfc3339
from tonnage.objects.coordination_v1 import Lease
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc

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
