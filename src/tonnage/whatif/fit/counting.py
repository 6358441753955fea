"""Counting replicas: each is created, decided and assumed as the scheduler would, until one fits nowhere.

The number is that of the scheduler's own choices, one after the other, not the best that a planner could find: it is
what happens when the workload is scaled. Pods that wait already are not placed first; they are said.

`nodes_needed` counts nodes of a kind: with so many from the start all pods of a workload fit, with one less not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.core_v1.node import ZONE
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit import MOST
from tonnage.whatif.node_copies import copy_of
from tonnage.whatif.replay import Replay
from tonnage.whatif.sources import INTERRUPTIONS


@dataclass(frozen=True, slots=True)
class Stop:
    """One reason why the next replica fits nowhere, and how many nodes give it."""

    reason: str
    nodes: int


@dataclass(slots=True)
class Counted:
    """What was counted. `refusal` is the answer for the first replica that fits nowhere; None when none was reached."""

    by_node: Counter[str] = field(default_factory=Counter)
    zone_of: dict[str, str] = field(default_factory=dict)
    refusal: Explanation | None = None
    refused: Replica | None = None
    is_cut: bool = False
    """It was ended before its time, by --max or by somebody: at least so many fit."""
    is_interrupted: bool = False

    @property
    def count(self) -> int:
        return sum(self.by_node.values())

    @property
    def by_zone(self) -> Counter[str]:
        zones: Counter[str] = Counter()
        for node, count in self.by_node.items():
            zones[self.zone_of.get(node, "")] += count
        return zones

    @property
    def stops(self) -> list[Stop]:
        """Why the next one fits nowhere, the most frequent first; each node counts once for each of its reasons."""
        if self.refusal is None:
            return []
        if self.refusal.held_back:
            return [Stop(self.refusal.held_back, len(self.refusal.nodes))]
        reasons: Counter[str] = Counter()
        for answer in self.refusal.nodes:
            reasons.update(set(answer.reasons))
        if not reasons:
            return [Stop(self.refusal.message, len(self.refusal.nodes))]
        return [Stop(reason, nodes) for reason, nodes in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))]

    def document(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "byNode": dict(sorted(self.by_node.items())),
            "byZone": {zone: count for zone, count in sorted(self.by_zone.items()) if zone},
            "stops": [{"reason": each.reason, "nodes": each.nodes} for each in self.stops],
        }


class FitCluster:
    """One cluster that replicas are put into."""

    def __init__(
        self,
        objects: Iterable[Object],
        profiles: Sequence[ResolvedProfile],
        *,
        foreign: ForeignPlugins | None = None,
        takes_any_pod: bool = True,
    ) -> None:
        known = list(objects)
        self.replay = Replay(known, profiles, foreign=foreign, takes_any_pod=takes_any_pod)
        self.counted = Counted()
        for each in known:
            if isinstance(each, Node):
                self.counted.zone_of[each.name] = each.metadata.labels.get(ZONE, "")

    def apply(self, objects: Iterable[Object]) -> None:
        for each in objects:
            self.replay.apply(each)

    def place(self, replica: Replica) -> str:
        """Put one replica in; the node it goes to, empty when it fits nowhere: then it is taken out again."""
        self.apply((*replica.claims, replica.pod))
        attempt = self.replay.attempt(replica.pod.key)
        if attempt.placement is not None:
            self.counted.by_node[attempt.placement.node] += 1
            return attempt.placement.node
        return ""

    def take_out(self, replica: Replica) -> None:
        self.replay.delete("Pod", replica.pod.namespace, replica.pod.name)
        for claim in replica.claims:
            self.replay.delete("PersistentVolumeClaim", claim.namespace, claim.name)

    def explain(self, pod: Pod) -> Explanation:
        """What would be decided about a replica that is not in now."""
        return self.replay.engine.explain(pod)


def count(
    cluster: FitCluster, replicas: Iterator[Replica], most: int = MOST, step: Callable[[float], object] = lambda n: None
) -> Counted:
    """Put replicas in until one fits nowhere, or until there are `most`. Ctrl-C, or a `step` that
    says that nobody waits any longer, leaves what was counted until then."""
    counted = cluster.counted
    try:
        for replica in replicas:
            if counted.count >= most:
                counted.is_cut = True
                break
            if not cluster.place(replica):
                counted.refused = replica
                counted.refusal = cluster.explain(cluster.replay.pod(replica.pod.key))
                break
            step(1)
    except INTERRUPTIONS:
        counted.is_cut = counted.is_interrupted = True
    return counted


MOST_NODES: Final = 5_000
MOST_PODS: Final = 100_000
"""What so many nodes of today hold, and more than anybody waits for."""


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """The answer: so many nodes like the template for so many pods."""

    nodes: int
    pods: int
    template: str

    def document(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "pods": self.pods, "template": self.template}


def nodes_needed(
    make: Callable[[], FitCluster], replicas: Sequence[Replica], template: Sequence[Object]
) -> NodesNeeded:
    """The fewest nodes like `template` with which all of these replicas fit, one after the other.

    A node is added whenever a replica fits nowhere; that number is then tried from the start, for the scheduler spreads
    over what it has. Raises TonnageError when a replica fits on no empty node of that kind either.
    """
    name = next(each.name for each in template if isinstance(each, Node))
    needed = _one_by_one(make(), replicas, template, name)
    while not _all_fit(make(), replicas, template, name, needed):
        needed += 1
        _check(needed, replicas, name)
    while needed and _all_fit(make(), replicas, template, name, needed - 1):
        needed -= 1
    return NodesNeeded(needed, len(replicas), name)


def _one_by_one(cluster: FitCluster, replicas: Sequence[Replica], template: Sequence[Object], name: str) -> int:
    added = 0
    for replica in replicas:
        if cluster.place(replica):
            continue
        cluster.take_out(replica)
        added += 1
        _check(added, replicas, name)
        cluster.apply(copy_of(template, f"{name}-{added}"))
        if not cluster.place(replica):
            told = cluster.explain(cluster.replay.pod(replica.pod.key))
            refused = next((each for each in told.nodes if each.name == f"{name}-{added}"), None)
            reasons = ", ".join(refused.reasons) if refused is not None else told.message
            raise TonnageError(
                f"{replica.pod.key} does not fit on an empty node like {name} either: {reasons}",
                hint="give a larger node with --node-template",
            )
    return added


def _all_fit(
    cluster: FitCluster, replicas: Sequence[Replica], template: Sequence[Object], name: str, nodes: int
) -> bool:
    for number in range(1, nodes + 1):
        cluster.apply(copy_of(template, f"{name}-{number}"))
    return all(cluster.place(replica) for replica in replicas)


def _check(nodes: int, replicas: Sequence[Replica], name: str) -> None:
    if nodes > MOST_NODES:
        raise TonnageError(
            f"{len(replicas)} pods need more than {MOST_NODES} nodes like {name}", hint="give a larger node"
        )
