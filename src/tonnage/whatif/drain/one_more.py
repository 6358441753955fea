"""Whether the cluster holds if one more node fails while others are drained: each that is left is taken away, in turn.

A node that fails is gone for good here: its pods are replaced, and volumes that were on it are rebuilt elsewhere if
their driver does that. Others are out of reach, and so are their pods. A node that nobody but daemons runs on is not
tried, for nobody would have to go. Of a large cluster the nodes with the most pods are tried, and it is said how many
were not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tonnage.objects.core_v1 import Node
from tonnage.whatif.drain.outcome import Stuck, documents
from tonnage.whatif.drain.rehearsal import Rehearsal, Scene
from tonnage.whatif.simulate.node_events import stays

MOST_WORK: Final = 50_000
"""Failures tried times nodes of the cluster: a minute's work or a few."""
LEAST_TRIED: Final = 10

Step = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that must not fail meanwhile, and who would be stuck if it did."""

    node: str
    drained: tuple[str, ...]
    stuck: tuple[Stuck, ...]

    def document(self) -> dict[str, Any]:
        return {"node": self.node, "during": list(self.drained), "stuck": documents(self.stuck)}


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


def stages(nodes: Sequence[str], *, is_one_by_one: bool) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """When one more may fail: (those that were drained and are back, those that are drained now)."""
    if not is_one_by_one:
        return [((), tuple(nodes))]
    return [(tuple(nodes[:number]), (name,)) for number, name in enumerate(nodes)]


def at_stage(scene: Scene, back: Sequence[str], out: Sequence[str]) -> Rehearsal:
    """The cluster at such a time."""
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


def try_all(
    scene: Scene,
    nodes: Sequence[str],
    found: OneMore,
    *,
    is_one_by_one: bool,
    step: Step = lambda amount: None,
) -> None:
    """Take each node away at each time; `found` has what is known so far at any time."""
    count = sum(isinstance(each, Node) for each in scene.state.objects)
    most = max(LEAST_TRIED, MOST_WORK // max(count, 1))
    for back, out in stages(nodes, is_one_by_one=is_one_by_one):
        if found.tried >= most:
            found.not_tried += count - len(out)
            continue
        fresh: Rehearsal | None = at_stage(scene, back, out)
        names = candidates(fresh, out) if fresh is not None else []
        for name in names:
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
