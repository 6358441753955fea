"""A drain preview: what the drain would do, the best order, and whether one more node may fail; partial if interrupted.

The text begins with the answer in a sentence, then lists pods that move, pods that are stuck, and the data. Pods of a
StatefulSet keep their names and have their own rows; others are grouped by workload. Long lists are cut; JSON has all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import msgspec
from rich.text import Text

from tonnage.errors import TonnageError, closest
from tonnage.objects.core_v1 import Node
from tonnage.printable import assembled, text
from tonnage.quantity import Quantity
from tonnage.whatif.drain.outcome import DrainOutcome, Move, Stuck, VolumeMove, documents
from tonnage.whatif.drain.rehearsal import Rehearsal, Scene
from tonnage.whatif.page import Axis, FittedTable, Page, byte_ticks, bytes_text, count_text, named
from tonnage.whatif.simulate.nodes import stays
from tonnage.whatif.sources import ClusterState, Step, unheard

ALL_UP_TO: Final = 5
"""Up to this many nodes all orders are tried: 120 for five."""
GREEDY_UP_TO: Final = 12
"""Up to this many nodes the order is built greedily."""

MOST_WORK: Final = 50_000
"""Limit of tried failures times nodes of the cluster: a few minutes of work."""
LEAST_TRIED: Final = 10

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
    """Look for a better order than the given one; `found` always holds the best so far.

    Up to five nodes all orders are tried; with more, the node with the lowest cost comes next; with very many, a few
    fixed orders are tried. An order is abandoned once it is no better than the best, because costs only add up.
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
    """The order that always drains the node with the lowest cost next."""
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
    """Reversed; fewest pods first; most pods first."""
    count = Counter(pod.spec.node_name for pod in scene.state.pods.values())
    by_pods = sorted(nodes, key=lambda name: (count[name], nodes.index(name)))
    yield from dict.fromkeys((tuple(reversed(nodes)), tuple(by_pods), tuple(reversed(by_pods))))


class Failure(msgspec.Struct, frozen=True, rename={"drained": "during"}):
    """A node that must not fail meanwhile, and the pods that would be stuck."""

    node: str
    drained: tuple[str, ...]
    stuck: tuple[Stuck, ...]


class OneMore(msgspec.Struct, rename={"not_tried": "notTried", "is_complete": "complete"}):
    """The nodes that were removed one at a time, and those whose failure leaves pods stuck."""

    tried: int = 0
    not_tried: int = 0
    is_complete: bool = False
    failures: list[Failure] = []

    @property
    def holds(self) -> bool | None:
        """None while unknown."""
        if self.failures:
            return False
        return True if self.is_complete else None

    def document(self) -> dict[str, Any]:
        return {"holds": self.holds, **documents([self])[0]}


def at_stage(scene: Scene, back: Sequence[str], out: Sequence[str]) -> Rehearsal:
    """The cluster after the nodes `back` were drained and returned, with the nodes `out` drained."""
    rehearsal = Rehearsal(scene)
    rehearsal.drain_one_by_one(back)
    rehearsal.drain_together(out, out[0] if len(out) == 1 and back else "")
    return rehearsal


def candidates(rehearsal: Rehearsal, out: Sequence[str]) -> list[str]:
    """Nodes in use with pods that would have to move, those with the most pods first."""
    world = rehearsal.world
    busy = Counter(pod.spec.node_name for pod in world.pods() if not stays(pod))
    found = (node.name for node in world.all(Node) if busy[node.name] and node.name not in out)
    return sorted(found, key=lambda name: (-busy[name], name))


def try_all(scene: Scene, nodes: Sequence[str], found: OneMore, step: Step, *, is_one_by_one: bool) -> None:
    """At every stage of the drain, let each node with pods fail for good.

    In a large cluster only the nodes with the most pods are tried. `found` holds the results so far.
    """
    count = len(scene.state.by_kind.of(Node))
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
            fresh = None  # the next failure needs a new cluster
            found.tried += 1
            step(1)
            if stuck:
                found.failures.append(Failure(name, tuple(out), tuple(stuck)))
    found.is_complete = not found.not_tried


def known_nodes(names: Sequence[str], state: ClusterState) -> tuple[str, ...]:
    """The named nodes without duplicates. Raises TonnageError for an unknown node."""
    known = sorted(state.by_kind.of(Node))
    for name in names:
        if name in known:
            continue
        guesses = closest(name, known, most=3)
        hint = f"did you mean {' or '.join(guesses)}?" if guesses else None
        if hint is None and known:
            hint = f"the nodes are {', '.join(known[:5])}{' …' if len(known) > 5 else ''}"
        raise TonnageError(f'there is no node "{name}" among the {len(known)} nodes of {state.source}', hint=hint)
    return tuple(dict.fromkeys(names))


class Preview:
    """What is known about a drain. `is_partial` until everything is."""

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
        """True once the result of the drain itself is known."""

    def run(self, step: Step = unheard) -> None:
        """Compute everything. A KeyboardInterrupt leaves a partial answer."""
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


MAX_ROWS: Final = 50


def show(preview: Preview, page: Page) -> None:
    outcome, steps = preview.outcome, preview.is_one_by_one
    page.title(f"Draining {', '.join(preview.nodes)}", is_partial=preview.is_partial)
    for line in _headline(preview):
        page.say(line)
    page.section("disks", "Before and after")
    if page.has_room:
        _show_disks(preview, page)
    page.section("moves", "Who moves where")
    for head, moves in (("MOVES", outcome.moves), ("PREEMPTED", outcome.preempted)):
        _pods((head, "FROM", "TO", "VOLUMES"), [(move, _target(move)) for move in moves], page, has_steps=steps)
    page.section("stuck", "Who is stuck, and why")
    stuck = [(each, _why(each)) for each in outcome.stuck]
    _pods(("STUCK", "FROM", "WHY", "VOLUMES"), stuck, page, has_steps=steps, style="red")
    _table(("BUDGET", "KEEPS", "WHY"), [(each.name, page.named(each.pods), each.why) for each in outcome.budgets], page)
    page.section("rebuilt", "Bytes rebuilt")
    rebuilt = [(size(size_bytes), *places, f"{count:,}") for *places, size_bytes, count in outcome.rebuilt()]
    if rebuilt:
        bars = [(f"{source} → {target}", size_bytes) for source, target, size_bytes, _ in outcome.rebuilt()]
        axis = Axis("bytes rebuilt", byte_ticks, bytes_text)
        page.bar_chart("rebuilt-chart", "Bytes rebuilt, by source and target", bars, axis)
    _table(("REBUILT", "FROM", "TO", "VOLUMES"), rebuilt, page, numbers=("REBUILT", "VOLUMES"))
    page.section("behind", "Data that stays behind or is lost")
    left_behind = [
        (
            behind.claim or behind.volume or "-",
            behind.node,
            size(behind.size_bytes) if behind.size_bytes is not None else "-",
            behind.what,
            page.named(behind.pods) or "nobody",
        )
        for behind in outcome.left_behind
    ]
    _table(("STAYS BEHIND", "ON", "SIZE", "WHAT", "USED BY"), left_behind, page)
    if page.has_room:
        lost = [(each.pod, each.volume, each.what, size(each.size_bytes)) for each in outcome.lost_data]
        _table(("POD", "VOLUME", "WHAT IS LOST", "SIZE"), lost, page)
    _lines(_notes(outcome, page), page)
    page.section("order", "The best order found")
    _lines(_order(preview), page)
    page.section("one-more", "If one more node fails meanwhile")
    _lines(_one_more(preview, page), page)


def _lines(lines: Iterable[Text], page: Page) -> None:
    for number, line in enumerate(lines):
        (page.say if number else page.part)(line)


def _show_disks(preview: Preview, page: Page) -> None:
    """The disks before and after; the volumes that are rebuilt stand out in both."""
    rebuilt = {
        f"{each.pod.rpartition('/')[0]}/{volume.claim}"
        for each in (*preview.outcome.moves, *preview.outcome.preempted)
        for volume in each.volumes
        if volume.action == "rebuild"
    }
    before, after = ("disks-before", "Before", preview.disks_before), ("disks-after", "After", preview.disks_after)
    page.disks(before, after, marked=rebuilt, note="Volumes that are rebuilt stand out in both.")


def size(size_bytes: int | None) -> str:
    return str(Quantity.from_bytes(size_bytes)) if size_bytes is not None else "unknown"


def _headline(preview: Preview) -> Iterable[Text]:
    outcome, how = preview.outcome, ", one after the other" if preview.is_one_by_one else ""
    yield assembled("draining ", (named(preview.nodes), "bold"), how)
    if preview.is_partial:
        yield text("interrupted: this is what is known so far", style="bold yellow")
    if not preview.is_drained:
        return
    told = [count_text(len(outcome.moves), "pod moves", "pods move")]
    if outcome.preempted:
        told.append(f"{len(outcome.preempted)} elsewhere {'makes' if len(outcome.preempted) == 1 else 'make'} room")
    if outcome.lost:
        told.append(f"{len(outcome.lost)} {'is' if len(outcome.lost) == 1 else 'are'} lost")
    told.append(f"{size(outcome.bytes_rebuilt)} rebuilt" if outcome.bytes_rebuilt else "nothing is rebuilt")
    if outcome.holds:
        yield assembled(("no pod is stuck", "bold green"), f": {', '.join(told)}")
    else:
        stuck = count_text(len(outcome.stuck), "pod is stuck", "pods are stuck")
        yield assembled((stuck, "bold red"), f"; {', '.join(told)}")


def _pods(
    heads: Sequence[str], pods: Iterable[tuple[Move | Stuck, str]], page: Page, *, has_steps: bool, style: str = ""
) -> None:
    """Rows of pods with their target or the reason why they stay. Pods of one workload with equal text share a row."""
    groups: dict[tuple[str, str, str, str, str], int] = {}
    for each, told in pods:
        is_named = not each.workload or each.workload.startswith("StatefulSet/")
        label = each.pod if is_named else f"{each.pod} of {each.workload}" if page.has_room else each.workload
        row = (label, each.source, told, _volumes(each.volumes), each.step)
        groups[row] = groups.get(row, 0) + 1
    rows: list[list[str | Text]] = []
    for (label, source, told, volumes, step), number in groups.items():
        during: list[str | Text] = [step] if has_steps else []
        rows.append([*during, label if number == 1 else f"{label} ×{number}", source, text(told, style), volumes])
    _table((*(["DURING"] if has_steps else []), *heads), rows, page)


def _volumes(volumes: Sequence[VolumeMove]) -> str:
    words = {"rebuild": "rebuilt", "reattach": "reattached", "stays": "stays"}
    return ", ".join(f"{volume.claim} {size(volume.size_bytes)} {words[volume.action]}" for volume in volumes) or "-"


def _target(move: Move) -> str:
    return f"{move.target} (or {named(move.equally_good)})" if move.equally_good else move.target


def _why(stuck: Stuck) -> str:
    return (
        f"{stuck.message.rstrip('.')}; it runs again when {stuck.step} is back" if stuck.comes_back else stuck.message
    )


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str | Text]], page: Page, *, numbers: Sequence[str] = ()
) -> None:
    if not rows:
        return
    kinds = "".join("1" if head in numbers else "w" for head in heads)
    page.blank()
    shown = page.first(rows, MAX_ROWS)
    page.table(FittedTable(heads, kinds, shown))
    page.more(len(rows) - len(shown), "more (-o json has all)")


def _notes(outcome: DrainOutcome, page: Page) -> Iterable[Text]:
    for lost_pod in page.first(outcome.lost, MAX_ROWS):
        yield assembled((lost_pod.pod, "bold"), f" on {lost_pod.source}: {lost_pod.message}")
    if outcome.lost_data:
        ends = [f"{lost_data.pod} ({lost_data.what} {lost_data.volume})" for lost_data in outcome.lost_data]
        yield text(f"data that is lost with its pod: {page.named(ends)}", style="yellow")
    if outcome.daemons:
        pods = [f"{pod} on {node}" if page.has_room else pod for pod, node in outcome.daemons]
        told = "1 pod stays on its node" if len(pods) == 1 else f"{len(pods):,} pods stay on their nodes"
        yield text(f"{told}: {page.named(pods)}", style="dim")
    if outcome.waiting_before:
        waiting = count_text(len(outcome.waiting_before), "pod had", "pods had")
        yield text(f"{waiting} no node before: {page.named(outcome.waiting_before)}", style="dim")
    if flags := outcome.flags():
        yield text(f"kubectl drain needs {' '.join(flags)}", style="dim")


def _order(preview: Preview) -> Iterable[Text]:
    found = preview.order
    if found is None or len(preview.nodes) < 2:
        return
    tried = f"{count_text(found.tried, 'order')} tried" + ("" if found.is_complete else ", not all")
    if found.cost == preview.outcome.cost:
        yield text(f"no better order was found ({tried})")
        return
    stuck, size_bytes = found.cost
    best = (" ".join(found.best), "bold green")
    yield assembled("a better order: ", best, f", {stuck} stuck and {size(size_bytes)} rebuilt ({tried})")


def _one_more(preview: Preview, page: Page) -> Iterable[Text]:
    more = preview.one_more
    tried = f"{count_text(more.tried, 'failure')} tried" + (f", {more.not_tried:,} not" if more.not_tried else "")
    if more.failures:
        yield assembled(("if one more node fails meanwhile, pods are stuck", "bold red"), f" ({tried}):")
        for failure in page.first(more.failures, MAX_ROWS):
            when = f" while {named(failure.drained)} is drained" if preview.is_one_by_one else ""
            pods = [pod.pod for pod in failure.stuck]
            yield text(f"  without {failure.node}{when}: {page.named(pods)} stuck: {failure.stuck[0].message}")
    elif more.is_complete and more.tried:
        yield assembled(("if any one more node fails meanwhile, every pod still finds a node", "green"), f" ({tried})")
    elif more.tried:
        yield text(f"if one of the nodes with the most pods fails meanwhile, every pod still finds a node ({tried})")
