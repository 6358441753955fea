"""A drain, previewed: what it would do, the best order, and whether one more node may fail; as far as it got.

preview = Preview(scene, nodes, is_one_by_one=False)
preview.run(step)          # a KeyboardInterrupt leaves what is known so far
preview.document()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tonnage.errors import TonnageError, closest
from tonnage.objects.core_v1 import Node
from tonnage.objects.meta import Object
from tonnage.whatif.drain import one_more, orders
from tonnage.whatif.drain.one_more import OneMore
from tonnage.whatif.drain.orders import OrderSearch
from tonnage.whatif.drain.outcome import DrainOutcome
from tonnage.whatif.drain.rehearsal import Rehearsal, Scene

Step = Callable[[float], object]


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

    @property
    def trials(self) -> int:
        """About how many clusters are made, for a bar."""
        return 1 + (orders.trials(len(self.nodes)) if self.is_one_by_one else 0)

    def run(self, step: Step = lambda amount: None) -> None:
        """Find out everything. A KeyboardInterrupt leaves what is known."""
        rehearsal = Rehearsal(self.scene, explains=True)
        self.outcome = rehearsal.outcome
        self.disks_before = rehearsal.disks()
        if self.is_one_by_one:
            rehearsal.drain_one_by_one(self.nodes)
            self.disks_after = rehearsal.disks()
            self.is_drained = True
            step(1)
            self.order = OrderSearch(self.nodes, self.outcome.cost)
            orders.search(self.scene, self.outcome, self.order, step)
        else:
            rehearsal.drain_together(self.nodes)
            self.disks_after = rehearsal.disks()
            self.is_drained = True
            step(1)
        one_more.try_all(self.scene, self.nodes, self.one_more, is_one_by_one=self.is_one_by_one, step=step)
        self.is_partial = False

    def document(self) -> dict[str, Any]:
        """The answer as JSON."""
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
