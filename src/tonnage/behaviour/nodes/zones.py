"""How fast pods may be evicted from lost nodes, zone by zone. Pure: states and a rate, on a clock that is handed in.

| a zone is          | when                               | nodes tainted a second                                |
| ------------------ | ---------------------------------- | ----------------------------------------------------- |
| normal             | enough nodes are ready             | `--node-eviction-rate`                                |
| partly disrupted   | 3 or more, and 55 %, are not ready | `--secondary-node-eviction-rate`; none in small zones |
| fully disrupted    | no node is ready                   | `--node-eviction-rate`                                |
| all zones are that | nobody is ready: we cannot hear    | none, and those tainted are freed                     |

Mirrors handleDisruption and ComputeZoneState of upstream's node lifecycle controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.objects.core_v1 import Node
from tonnage.objects.core_v1.node import BETA_REGION, BETA_ZONE, REGION, ZONE

EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
"""A label: nodes that have it do not count when a zone is judged."""
_MIN_LOST: Final = 3
"""Fewer lost nodes are never a disruption, however small the zone."""


class ZoneState(StrEnum):
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


class DisruptionChange(StrEnum):
    """What changed for the cluster as a whole."""

    ENTERED = "entered"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class EvictionRates:
    """The settings, by the names of kube-controller-manager's flags."""

    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55


def zone_of(node: Node) -> str:
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
    """One node at a time, `rate` a second; a rate that changes does not give a turn away that was taken."""

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
    """The state of every zone, and its turn to taint one more node."""

    def __init__(self, rates: EvictionRates) -> None:
        self._rates = rates
        self.states: dict[str, ZoneState] = {}
        self.are_all_lost = False
        self._buckets: dict[str, _Bucket] = {}

    def update(self, is_ready: Mapping[str, Sequence[bool]], now_s: float) -> DisruptionChange | None:
        """Take note of who is ready in each zone; one of which no node counts is normal, and is not asked."""
        states = {zone: state_of(each, self._rates.unhealthy_zone_threshold) for zone, each in is_ready.items()}
        counted = [zone for zone, each in is_ready.items() if each]
        were_all_lost = bool(counted) and all(self.states.get(zone) is ZoneState.FULL for zone in counted)
        self.are_all_lost = bool(counted) and all(states[zone] is ZoneState.FULL for zone in counted)
        self.states = states
        self._buckets = {zone: self._buckets.get(zone) or _Bucket() for zone in states}
        for zone, state in states.items():
            rate = 0.0 if self.are_all_lost else self._rate(state, len(is_ready[zone]))
            self._buckets[zone].change(rate, now_s)
        if self.are_all_lost == were_all_lost:
            return None
        return DisruptionChange.ENTERED if self.are_all_lost else DisruptionChange.LEFT

    def may_taint(self, zone: str, now_s: float) -> bool:
        """Whether one more node of the zone may be tainted now; yes takes the turn. Not before it has been judged."""
        bucket = self._buckets.get(zone)
        return bucket is not None and bucket.take(now_s)

    def _rate(self, state: ZoneState, size: int) -> float:
        if state is not ZoneState.PARTIAL:
            return self._rates.node_eviction_rate
        is_large = size > self._rates.large_cluster_size_threshold
        return self._rates.secondary_node_eviction_rate if is_large else 0.0
