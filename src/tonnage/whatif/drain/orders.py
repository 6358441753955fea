"""One node after the other: the order that leaves the fewest pods stuck, and of those the one that rebuilds least.

Up to five nodes all orders are tried, each on a cluster of its own. Of more, the next node is always the one that does
the least harm after those before it; of very many, a few orders by rule. An order is given up as soon as it is no
better than the best one so far, for harm only adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from tonnage.objects.core_v1 import Pod
from tonnage.whatif.drain.outcome import DrainOutcome
from tonnage.whatif.drain.rehearsal import Rehearsal, Scene

ALL_UP_TO: Final = 5
"""Nodes of which all orders are tried: 120 of five."""
GREEDY_UP_TO: Final = 12
"""Nodes of which the next is chosen by trying each."""

Cost = tuple[int, int]
"""(pods stuck, bytes rebuilt)."""
Step = Callable[[float], object]


@dataclass(slots=True)
class OrderSearch:
    """The best order so far, and how much was tried."""

    best: tuple[str, ...]
    cost: Cost
    tried: int = 1
    is_complete: bool = False
    """All orders were tried, or none can be better."""

    def document(self, given: Cost) -> dict[str, Any]:
        return {
            "best": list(self.best),
            "stuck": self.cost[0],
            "bytesRebuilt": self.cost[1],
            "given": {"stuck": given[0], "bytesRebuilt": given[1]},
            "tried": self.tried,
            "complete": self.is_complete,
        }


def trials(count: int) -> int:
    """How many orders may have to be tried."""
    if count <= ALL_UP_TO:
        total = 1
        for each in range(2, count + 1):
            total *= each
        return total - 1
    return count * (count + 1) // 2 if count <= GREEDY_UP_TO else 3


def search(scene: Scene, given: DrainOutcome, found: OrderSearch, step: Step = lambda amount: None) -> None:
    """Look for an order that is better than the given one; `found` has the best at any time."""
    nodes = given.drained
    if found.cost == (0, 0) or len(nodes) < 2:
        found.is_complete = True
        return
    if len(nodes) <= ALL_UP_TO:
        for order in permutations(nodes):
            if order != nodes:
                _try(scene, order, found, step)
            if found.cost == (0, 0):
                break
        found.is_complete = True
        return
    for order in _greedy(scene, nodes, found, step) if len(nodes) <= GREEDY_UP_TO else _by_rule(scene, nodes):
        _try(scene, order, found, step)
    found.is_complete = found.cost == (0, 0)


def _try(scene: Scene, order: Sequence[str], found: OrderSearch, step: Step) -> None:
    outcome = Rehearsal(scene).drain_one_by_one(order, gives_up=lambda so_far: so_far.cost >= found.cost)
    found.tried += 1
    step(1)
    if len(outcome.drained) == len(order) and outcome.cost < found.cost:
        found.best, found.cost = tuple(order), outcome.cost


def _greedy(scene: Scene, nodes: Sequence[str], found: OrderSearch, step: Step) -> Iterator[tuple[str, ...]]:
    """The order in which each node is the one that does the least harm next."""
    chosen: list[str] = []
    while len(chosen) < len(nodes) - 1:
        costs = {}
        for name in nodes:
            if name not in chosen:
                costs[name] = Rehearsal(scene).drain_one_by_one((*chosen, name)).cost
                found.tried += 1
                step(1)
        chosen.append(min(costs, key=lambda name: (costs[name], nodes.index(name))))
    yield (*chosen, *(name for name in nodes if name not in chosen))


def _by_rule(scene: Scene, nodes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The other way round; those with the fewest pods first; those with the most first."""
    count = dict.fromkeys(nodes, 0)
    for each in scene.state.objects:
        if isinstance(each, Pod) and each.spec.node_name in count:
            count[each.spec.node_name] += 1
    by_pods = sorted(nodes, key=lambda name: (count[name], nodes.index(name)))
    yield from dict.fromkeys((tuple(reversed(nodes)), tuple(by_pods), tuple(reversed(by_pods))))
