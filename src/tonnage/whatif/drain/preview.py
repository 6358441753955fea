"""A drain, previewed: what it would do, the best order, and whether one more node may fail; as far as it got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

import msgspec

from tonnage.errors import TonnageError, closest
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.whatif.drain.outcome import DrainOutcome, Stuck, documents
from tonnage.whatif.drain.rehearsal import Rehearsal, Scene
from tonnage.whatif.simulate.node_events import stays

ALL_UP_TO: Final = 5
"""Nodes of which all orders are tried: 120 of five."""
GREEDY_UP_TO: Final = 12
"""Nodes of which the next is chosen by trying each."""

MOST_WORK: Final = 50_000
"""Failures tried times nodes of the cluster: a minute's work or a few."""
LEAST_TRIED: Final = 10

Step = Callable[[float], object]
Cost = tuple[int, int]
"""(pods stuck, bytes rebuilt)."""


@dataclass(slots=True)
class OrderSearch:
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


def search(scene: Scene, given: DrainOutcome, found: OrderSearch, step: Step) -> None:
    """Look for an order that is better than the given one; `found` has the best at any time.

    Up to five nodes all orders are tried; of more, the next node is always the one that does the least harm; of very
    many, a few orders by rule. An order is given up as soon as it is no better than the best, for harm only adds up.
    """
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


class Failure(msgspec.Struct, frozen=True, rename={"drained": "during"}):
    """A node that must not fail meanwhile, and who would be stuck if it did."""

    node: str
    drained: tuple[str, ...]
    stuck: tuple[Stuck, ...]


@dataclass(slots=True)
class OneMore:
    """The nodes that were taken away, one at a time, and those without which the cluster does not hold."""

    tried: int = 0
    not_tried: int = 0
    failures: list[Failure] = field(default_factory=list)
    is_complete: bool = False

    @property
    def holds(self) -> bool | None:
        """None while nobody knows."""
        if self.failures:
            return False
        return True if self.is_complete else None

    def document(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "tried": self.tried,
            "notTried": self.not_tried,
            "complete": self.is_complete,
            "failures": documents(self.failures),
        }


def at_stage(scene: Scene, back: Sequence[str], out: Sequence[str]) -> Rehearsal:
    """The cluster when some nodes were drained and are back, and others are drained now."""
    rehearsal = Rehearsal(scene)
    rehearsal.drain_one_by_one(back)
    if len(out) == 1 and back:
        rehearsal.drain_next(out[0])
    else:
        rehearsal.drain_together(out)
    return rehearsal


def candidates(rehearsal: Rehearsal, out: Sequence[str]) -> list[str]:
    """The nodes in use that somebody would have to leave, those with the most pods first."""
    world = rehearsal.world
    busy = Counter(pod.spec.node_name for pod in world.pods() if not stays(pod))
    found = (each.name for each in world.all(Node) if busy[each.name] and each.name not in out)
    return sorted(found, key=lambda name: (-busy[name], name))


def try_all(scene: Scene, nodes: Sequence[str], found: OneMore, step: Step, *, is_one_by_one: bool) -> None:
    """Take each node that pods would have to leave away, at each stage of the drain; it is gone for good then.

    Of a large cluster the nodes with the most pods are tried. `found` has what is known so far at any time.
    """
    count = sum(isinstance(each, Node) for each in scene.state.objects)
    most = max(LEAST_TRIED, MOST_WORK // max(count, 1))
    one_by_one = [(nodes[:number], nodes[number : number + 1]) for number in range(len(nodes))]
    for back, out in one_by_one if is_one_by_one else [((), nodes)]:
        if found.tried >= most:
            found.not_tried += count - len(out)
            continue
        first = at_stage(scene, back, out)
        fresh: Rehearsal | None = first
        for name in candidates(first, out):
            if found.tried >= most:
                found.not_tried += 1
                continue
            stuck = (fresh or at_stage(scene, back, out)).lose(name)
            fresh = None  # the next one fails in a cluster of its own
            found.tried += 1
            step(1)
            if stuck:
                found.failures.append(Failure(name, tuple(out), tuple(stuck)))
    found.is_complete = not found.not_tried


def known_nodes(names: Sequence[str], objects: Iterable[Object], source: str) -> tuple[str, ...]:
    """The nodes that are meant, each once. Raises TonnageError for one that is not there."""
    known = sorted(each.name for each in objects if isinstance(each, Node))
    for name in names:
        if name in known:
            continue
        guesses = closest(name, known, most=3)
        hint = f"is {' or '.join(guesses)} meant?" if guesses else None
        if hint is None and known:
            hint = f"there are {', '.join(known[:5])}{' …' if len(known) > 5 else ''}"
        raise TonnageError(f'there is no node "{name}" among the {len(known)} nodes of {source}', hint=hint)
    return tuple(dict.fromkeys(names))


class Preview:
    """What is known of a drain. `is_partial` until all of it is."""

    def __init__(self, scene: Scene, nodes: Sequence[str], *, is_one_by_one: bool = False) -> None:
        self.scene = scene
        self.nodes = tuple(nodes)
        self.is_one_by_one = is_one_by_one
        self.outcome = DrainOutcome(self.nodes)
        self.order: OrderSearch | None = None
        self.one_more = OneMore()
        self.disks_before: list[dict[str, Any]] = []
        self.disks_after: list[dict[str, Any]] = []
        self.is_partial = True
        self.is_drained = False
        """What the drain itself does is known."""

    def run(self, step: Step = lambda amount: None) -> None:
        """Find out everything. A KeyboardInterrupt leaves what is known."""
        rehearsal = Rehearsal(self.scene, explains=True)
        self.outcome = rehearsal.outcome
        self.disks_before = rehearsal.disks()
        (rehearsal.drain_one_by_one if self.is_one_by_one else rehearsal.drain_together)(self.nodes)
        self.disks_after = rehearsal.disks()
        self.is_drained = True
        step(1)
        if self.is_one_by_one:
            self.order = OrderSearch(self.nodes, self.outcome.cost)
            search(self.scene, self.outcome, self.order, step)
        try_all(self.scene, self.nodes, self.one_more, step, is_one_by_one=self.is_one_by_one)
        self.is_partial = False

    def document(self) -> dict[str, Any]:
        found = self.outcome.document()
        found["drained"] = list(self.nodes)
        found["holds"] = self.outcome.holds if self.is_drained else None
        if self.order is not None:
            found["order"] = self.order.document(self.outcome.cost)
        found["oneByOne"] = self.is_one_by_one
        found["survivesOneMore"] = self.one_more.document()
        found["disksBefore"] = self.disks_before
        found["disksAfter"] = self.disks_after
        found["partial"] = self.is_partial
        return found
