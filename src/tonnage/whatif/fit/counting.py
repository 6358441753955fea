"""Counting replicas: each is created and lives until it runs, as in the cluster, until one does not.

The number is that of the scheduler's own choices, one after the other, not the best that a planner could find: it is
what happens when the workload is scaled. Pods that wait already are tried first.

`nodes_needed` counts nodes of a kind: with so many from the start all pods of a workload fit, with one less not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tonnage.behaviour.workloads.daemon_set_plan import target_node
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import ZONE, Node, Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.whatif import creation, node_copies, page, sources
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit import MOST
from tonnage.whatif.simulate.played_cluster import PlayedCluster

MOST_STUCK: Final = 20
"""So many replicas may get stuck half-made before counting ends."""


class Stop(msgspec.Struct, frozen=True):
    """One reason why the next replica fits nowhere, and how many nodes give it."""

    reason: str
    nodes: int


class PreemptingReplica(msgspec.Struct, frozen=True):
    """A replica that runs in the place of others."""

    pod: Key
    node: str
    victims: list[Key]


@dataclass(slots=True)
class Counted:
    """What was counted. `refusal` is the answer for the first replica that does not run; None when none was reached."""

    by_node: Counter[str] = field(default_factory=Counter)
    zone_of: dict[str, str] = field(default_factory=dict)
    refusal: Explanation | None = None
    refused: Pod | None = None
    waits_for: Key = ""
    """The pod that has to run before the StatefulSet makes another."""
    not_made: str = ""
    """Why the server would refuse to create another."""
    preempting: list[PreemptingReplica] = field(default_factory=list)
    own_nodes: list[NodeAnswer] = field(default_factory=list)
    """What the own nodes of a DaemonSet's refused pods answer."""
    stuck: list[Key] = field(default_factory=list)
    """Replicas that have some of their volumes and find no room for the others."""
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
        if self.not_made:
            return [Stop(self.not_made, 0)]
        waits = f"its StatefulSet makes it once {self.waits_for} runs, and {self.waits_for} does not run"
        return [*([Stop(waits, 0)] if self.waits_for else []), *self._refusals()]

    def _refusals(self) -> list[Stop]:
        if self.refusal is None:
            return []
        if self.refusal.held_back:
            return [Stop(self.refusal.held_back, len(self.refusal.nodes))]
        reasons: Counter[str] = Counter()
        for answer in self.own_nodes or self.refusal.nodes:
            reasons.update(set(answer.reasons))
        if not reasons:
            return [Stop(self.refusal.message, len(self.refusal.nodes))]
        return [Stop(reason, nodes) for reason, nodes in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))]

    def document(self) -> dict[str, Any]:
        return {
            "byNode": {node: self.by_node[node] for node in sorted(self.by_node, key=page.natural)},
            "byZone": {zone: self.by_zone[zone] for zone in sorted(self.by_zone, key=page.natural) if zone},
            "stops": msgspec.to_builtins(self.stops),
            "preempting": msgspec.to_builtins(self.preempting),
            "stuck": list(self.stuck),
        }


def count(
    cluster: PlayedCluster,
    replicas: Iterator[Replica],
    most: int = MOST,
    step: sources.Step = sources.unheard,
    *,
    is_ordered: bool = False,
    has_own_nodes: bool = False,
) -> Counted:
    """Put replicas in until one does not run, or until `most` do. One that is stuck half-made does not end it, unless
    each waits for the one before (`is_ordered`); nor does any where each has a node of its own (`has_own_nodes`).
    Ctrl-C, or a `step` that says that nobody waits any longer, leaves what was counted until then."""
    nodes = cluster.world.all(Node)
    counted = Counted(zone_of={node.name: node.metadata.labels.get(ZONE, "") for node in nodes})
    try:
        for replica in replicas:
            if counted.count >= most:
                counted.is_cut = True
                break
            if is_ordered and (key := cluster.world.controllers.waits_for(replica.pod)):
                counted.waits_for, counted.refused = key, cluster.world.get(Pod, key)
                if counted.refused is not None and not counted.refused.spec.node_name:
                    counted.refusal = cluster.explain(counted.refused)
                break
            played = cluster.place(replica)
            if played.node:
                counted.by_node[played.node] += 1
                if played.victims:
                    counted.preempting.append(PreemptingReplica(played.pod.key, played.node, [*played.victims]))
                step(1)
                continue
            if played.is_half_made:
                counted.stuck.append(played.pod.key)
            explained = cluster.explain(played.pod)
            if counted.refused is None or not (played.is_half_made or has_own_nodes):
                counted.refused, counted.refusal = played.pod, explained
            if has_own_nodes:
                counted.own_nodes += [answer for answer in explained.nodes if answer.name == target_node(played.pod)]
            elif is_ordered or not played.is_half_made or len(counted.stuck) >= MOST_STUCK:
                break
    except creation.QuotaExceeded as exc:
        counted.not_made = exc.message
    except sources.INTERRUPTIONS:
        counted.is_cut = counted.is_interrupted = True
    return counted


MOST_NODES: Final = 5_000
MOST_PODS: Final = 100_000
"""What so many nodes of today hold, and more than anybody waits for."""


class NodesNeeded(msgspec.Struct, frozen=True):
    """The answer: so many nodes like the template for so many pods."""

    nodes: int
    pods: int
    template: str


def nodes_needed(
    make: Callable[[], PlayedCluster], replicas: Sequence[Replica], template: Sequence[Object]
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


def _one_by_one(cluster: PlayedCluster, replicas: Sequence[Replica], template: Sequence[Object], name: str) -> int:
    added = 0
    for replica in replicas:
        if cluster.place(replica).node:
            continue
        added += 1
        _check(added, replicas, name)
        cluster.apply(node_copies.copy_of(template, f"{name}-{added}"))
        cluster.settle()
        played = cluster.found(replica)
        if not played.node:
            explained = cluster.explain(played.pod)
            refused = next((answer for answer in explained.nodes if answer.name == f"{name}-{added}"), None)
            reasons = ", ".join(refused.reasons) if refused is not None else explained.message
            raise TonnageError(
                f"{replica.pod.key} does not fit on an empty node like {name} either: {reasons}",
                hint="give a larger node with --node-template",
            )
    return added


def _all_fit(
    cluster: PlayedCluster, replicas: Sequence[Replica], template: Sequence[Object], name: str, nodes: int
) -> bool:
    for number in range(1, nodes + 1):
        cluster.apply(node_copies.copy_of(template, f"{name}-{number}"))
    return all(cluster.place(replica).node for replica in replicas)


def _check(nodes: int, replicas: Sequence[Replica], name: str) -> None:
    if nodes > MOST_NODES:
        raise TonnageError(
            f"{len(replicas)} pods need more than {MOST_NODES} nodes like {name}", hint="give a larger node"
        )
