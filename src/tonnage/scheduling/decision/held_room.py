"""Who holds the room that a pod was refused: pods nominated to a node, named beside the reason and not instead of it.

    0/2 nodes are available: 2 Insufficient cpu. Room on a is held for default/job (nominated by kueue since …).

A node is told of only where a nomination is what refused it: without the pods that are expected there it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from tonnage.clock import rfc3339
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.diagnosis import Diagnosis

_MAX_NODES: Final = 3
_MAX_PODS: Final = 3
"""Of more than so many only these are named: an event has little room, and a condition is to stay the same."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that is expected on a node. `since` and `by` are empty where nobody knows."""

    pod: str
    since: datetime | None = None
    by: str = ""

    @property
    def told(self) -> str:
        by = f" by {self.by}" if self.by else ""
        since = f" since {rfc3339(self.since)}" if self.since is not None else ""
        return f"{self.pod} (nominated{by}{since})"

    def document(self) -> dict[str, Any]:
        return {"pod": self.pod, "since": rfc3339(self.since) if self.since is not None else "", "by": self.by}


HolderOf: TypeAlias = Callable[[PodInfo], Holder]


def by_name_alone(pod: PodInfo) -> Holder:
    """All that is known of a holder where nobody keeps nominations."""
    return Holder(pod.key)


def holders_by_node(diagnosis: Diagnosis | None, holder_of: HolderOf) -> dict[str, tuple[Holder, ...]]:
    """By name of the node, who holds the room that was missing there."""
    if diagnosis is None:
        return {}
    name = diagnosis.cluster.name
    found = {name(row): tuple(map(holder_of, pods)) for row, pods in diagnosis.held_by.items()}
    return dict(sorted(found.items()))


def held_sentence(holders: Mapping[str, Sequence[Holder]]) -> str:
    """One sentence; empty when nothing is held."""
    if not holders:
        return ""
    parts = [f"on {node_name} is held for {_listed(pods)}" for node_name, pods in list(holders.items())[:_MAX_NODES]]
    more = len(holders) - len(parts)
    return f"Room {', '.join(parts)}{f', and on {more} more' if more else ''}."


def _listed(pods: Sequence[Holder]) -> str:
    named = " and ".join(each.told for each in pods[:_MAX_PODS])
    more = len(pods) - _MAX_PODS
    return f"{named} and {more} more" if more > 0 else named
