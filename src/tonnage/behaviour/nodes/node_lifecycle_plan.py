"""The health of nodes, and which pods leave lost ones: heartbeats, conditions, taints, and eviction rates.

A heartbeat is a renewed lease or a new time in the Ready condition; it counts when our clock saw it change, because
clocks disagree. After the grace period without one, Ready and the pressure conditions turn Unknown. Taints follow
conditions: NoSchedule at once, NoExecute (`not-ready` or `unreachable`, never both) at the zone's rate. Taints of
others stay. Mirrors tryUpdateNodeHealth, processPodOnNode, handleDisruption and ComputeZoneState.

| a zone is          | when                               | nodes tainted a second                                |
| ------------------ | ---------------------------------- | ----------------------------------------------------- |
| normal             | enough nodes are ready             | `--node-eviction-rate`                                |
| partly disrupted   | 3 or more, and 55 %, are not ready | `--secondary-node-eviction-rate`; none in small zones |
| fully disrupted    | no node is ready                   | `--node-eviction-rate`                                |
| all zones are that | no node is ready: we cannot hear   | none, and NoExecute taints are removed                |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from tonnage.clock import rfc3339
from tonnage.objects import core_v1, meta, requirements, small_groups
from tonnage.objects.core_v1.pod import BETA_REGION, BETA_ZONE, REGION, ZONE
from tonnage.objects.document import Doc
from tonnage.objects.requirements import Taint, Toleration, tolerates

READY: Final = "Ready"
_MONITORED_CONDITIONS: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that turn Unknown without heartbeats. NetworkUnavailable is not one: others set it."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of one node; `last_seen_at` by our clock."""

    uid: str
    last_seen_at: datetime
    has_ready: bool
    heartbeat: datetime | None = None
    renewed: datetime | None = None


def observe(before: Heartbeat | None, node: core_v1.Node, lease: small_groups.Lease | None, now: datetime) -> Heartbeat:
    ready = node.condition(READY)
    heartbeat = None if ready is None else ready.last_heartbeat_time
    if before is not None and before.uid != node.uid:
        before = None  # another machine of the same name
    if before is None and ready is None:
        # The node has never posted a status: its life begins with the object.
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
        renewed = at  # also an earlier one: if clocks were set back, the next renewal counts
    return Heartbeat(node.uid, last_seen_at, ready is not None, heartbeat, renewed)


def is_overdue(health: Heartbeat, now: datetime, *, grace_s: float, startup_grace_s: float) -> bool:
    """True if the grace period is over; it is longer for a node that never posted a status."""
    allowed_s = grace_s if health.has_ready else startup_grace_s
    return (now - health.last_seen_at).total_seconds() > allowed_s


def unknown_conditions(node: core_v1.Node, now: datetime) -> list[Doc]:
    """The conditions to write after the grace period; empty if they are already Unknown."""
    known = {condition.type: condition for condition in node.status.conditions}
    return [
        {
            "type": type_,
            "status": "Unknown",
            "lastHeartbeatTime": rfc3339((was and was.last_heartbeat_time) or node.metadata.creation_timestamp or now),
            "lastTransitionTime": rfc3339(now),
            "reason": "NodeStatusNeverUpdated" if was is None else "NodeStatusUnknown",
            "message": "Kubelet never posted node status." if was is None else "Kubelet stopped posting node status.",
        }
        for type_, was in ((type_, known.get(type_)) for type_ in _MONITORED_CONDITIONS)
        if was is None or was.status != "Unknown"
    ]


_CONDITION_TAINTS: Final = {
    (READY, "False"): requirements.NOT_READY,
    (READY, "Unknown"): requirements.UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset((*_CONDITION_TAINTS.values(), requirements.UNSCHEDULABLE))
"""Keys whose NoSchedule taints follow the node's conditions: without such a condition the taint is removed."""


def no_schedule_keys(node: core_v1.Node) -> frozenset[str]:
    """The NoSchedule taints for a node's conditions and its cordon."""
    keys = {_CONDITION_TAINTS.get((condition.type, condition.status), "") for condition in node.status.conditions}
    if node.spec.unschedulable:
        keys.add(requirements.UNSCHEDULABLE)
    return frozenset(keys - {""})


def with_no_schedule(taints: Iterable[Doc], keys: frozenset[str], now: datetime) -> list[Doc]:
    """The taints with exactly `keys` as our NoSchedule taints; all others stay."""
    kept = [
        each
        for each in taints
        if each["effect"] != requirements.NO_SCHEDULE or each["key"] not in _OURS or each["key"] in keys
    ]
    present = {each["key"] for each in kept if each["effect"] == requirements.NO_SCHEDULE}
    return kept + [_taint(key, requirements.NO_SCHEDULE, now) for key in sorted(keys - present)]


def no_execute_key(ready: meta.Condition | None) -> str:
    """The taint that evicts pods from a node in this state; empty if it is ready, or not known yet."""
    return _CONDITION_TAINTS.get((READY, ready.status), "") if ready is not None else ""


def with_no_execute(taints: Iterable[Doc], key: str, now: datetime) -> list[Doc]:
    """The taints with `key` as the only one of the two that evict pods from lost nodes; empty removes both."""
    kept = [
        taint
        for taint in taints
        if taint["effect"] != requirements.NO_EXECUTE
        or taint["key"] not in (requirements.NOT_READY, requirements.UNREACHABLE)
        or taint["key"] == key
    ]
    is_there = any(each["effect"] == requirements.NO_EXECUTE and each["key"] == key for each in kept)
    return kept if is_there or not key else [*kept, _taint(key, requirements.NO_EXECUTE, now)]


def _taint(key: str, effect: str, now: datetime) -> Doc:
    return {"key": key, "effect": effect, "timeAdded": rfc3339(now)}


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod's eviction: planned since `since_s`, due at `due_s`."""

    uid: str
    since_s: float
    due_s: float


def no_execute(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.effect == requirements.NO_EXECUTE)


def stay_s(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float:
    """Seconds that a pod may stay with these taints: 0 is not at all, infinity for ever."""
    stays = [math.inf]
    for taint in taints:
        used = next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            stays.append(max(float(used.toleration_seconds), 0.0))
    return min(stays)


def plan(
    uid: str, planned: Eviction | None, taints: Sequence[Taint], tolerations: Sequence[Toleration], now_s: float
) -> Eviction | None:
    """The eviction to plan for a pod now; None if it may stay for ever.

    The time counts from when taints were first seen, also if they or the tolerations change meanwhile.
    """
    if planned is not None and planned.uid != uid:
        planned = None  # another pod of the same name
    allowed_s = stay_s(taints, tolerations)
    if math.isinf(allowed_s):
        return None
    if allowed_s == 0:
        return Eviction(uid, now_s, now_s)
    since_s = now_s if planned is None else planned.since_s
    return Eviction(uid, since_s, since_s + allowed_s)


EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
"""Label: its nodes do not count when a zone is judged."""
_MIN_LOST: Final = 3
"""Fewer lost nodes are never a disruption, however small the zone."""


class ZoneState(StrEnum):
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


@dataclass(frozen=True, slots=True)
class EvictionRates:
    """The settings, named as kube-controller-manager's flags."""

    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55


def zone_of(node: core_v1.Node) -> str:
    """Region and zone as one name; empty for a node that names neither."""
    labels = node.metadata.labels
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    return f"{region}:\0:{zone}" if region or zone else ""


def state_of(is_ready: Sequence[bool], unhealthy_zone_threshold: float) -> ZoneState:
    lost = is_ready.count(False)
    if lost and lost == len(is_ready):
        return ZoneState.FULL
    if lost >= _MIN_LOST and lost / len(is_ready) >= unhealthy_zone_threshold:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


class _Bucket:
    """A rate limit: one node at a time, `rate` per second. A changed rate does not cancel the current pause."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._next_s = 0.0

    def take(self, now_s: float) -> bool:
        if self.rate <= 0 or now_s < self._next_s:
            return False
        self._next_s = now_s + 1 / self.rate
        return True

    def change(self, rate: float, now_s: float) -> None:
        if rate > 0 and rate != self.rate and now_s < self._next_s:
            self._next_s = now_s + 1 / rate
        self.rate = rate


class Zones:
    """The state of every zone, and its rate limit for taints."""

    def __init__(self, rates: EvictionRates) -> None:
        self._rates = rates
        self.states: dict[str, ZoneState] = {}
        self.are_all_lost = False
        self._buckets: dict[str, _Bucket] = {}

    def update(self, is_ready: Mapping[str, Sequence[bool]], now_s: float) -> bool:
        """Note which nodes are ready, by zone; True if `are_all_lost` changed.

        A zone without counted nodes is normal, and is ignored for the whole.
        """
        states = {zone: state_of(each, self._rates.unhealthy_zone_threshold) for zone, each in is_ready.items()}
        counted = [zone for zone, each in is_ready.items() if each]
        were_all_lost = bool(counted) and all(self.states.get(zone) is ZoneState.FULL for zone in counted)
        self.are_all_lost = bool(counted) and all(states[zone] is ZoneState.FULL for zone in counted)
        self.states = states
        self._buckets = {zone: self._buckets.get(zone) or _Bucket() for zone in states}
        for zone, state in states.items():
            rate = 0.0 if self.are_all_lost else self._rate(state, len(is_ready[zone]))
            self._buckets[zone].change(rate, now_s)
        return self.are_all_lost != were_all_lost

    def may_taint(self, zone: str, now_s: float) -> bool:
        """True if one more node of the zone may be tainted now; that uses the turn. False before the first `update`."""
        bucket = self._buckets.get(zone)
        return bucket is not None and bucket.take(now_s)

    def _rate(self, state: ZoneState, size: int) -> float:
        if state is not ZoneState.PARTIAL:
            return self._rates.node_eviction_rate
        is_large = size > self._rates.large_cluster_size_threshold
        return self._rates.secondary_node_eviction_rate if is_large else 0.0
