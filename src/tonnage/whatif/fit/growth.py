"""How many nodes of a kind a workload asks for: with so many from the start all of its pods fit, with one less not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Object
from tonnage.whatif.expansion import Replica
from tonnage.whatif.fit.counting import FitCluster
from tonnage.whatif.node_copies import copy_of

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
