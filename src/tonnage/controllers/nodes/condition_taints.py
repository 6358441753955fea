"""Which taints follow from a node's conditions. Pure: documents in, documents out.

*NoSchedule* taints keep new pods away: one for each condition that is not as it should be, and one while the node is
cordoned. They are set at once. *NoExecute* taints evict the pods that are there: `not-ready` or `unreachable`, never
both; how fast they may be set in a zone is decided in `zones`, and which pods leave in `taint_eviction`.
Taints that others set are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from tonnage.clock import rfc3339
from tonnage.controllers.nodes.node_health import READY
from tonnage.objects.core_v1 import Node
from tonnage.objects.core_v1.node import NodeCondition
from tonnage.objects.document import Doc
from tonnage.objects.taints import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE

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
