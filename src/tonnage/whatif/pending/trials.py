"""Changes of the cluster, tried on the engine: which pods that wait each lets in, and the least size that does.

In a trial the pods that fit already stay where they were sent, the others are tried again in their order, and
afterwards everything is as before. Where no single change helps a pod, what is in the way once the first is gone is
tried beside it: two changes at once, of which each is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tonnage.objects.meta import Key, Object
from tonnage.whatif.explain import DecisionSequence
from tonnage.whatif.knobs import least
from tonnage.whatif.page import any_of, natural
from tonnage.whatif.pending.changes import ANOTHER_NODE, ChangeProposals, ClusterChange, Waiting
from tonnage.whatif.replay import renewed

MOST_PAIRED: Final = 8
"""Pods that pairs are tried for: one of each cause, those that came first."""
MOST_FIRST: Final = 6
MOST_SECOND: Final = 4
"""So many changes are tried first, and so many beside each: 24 decisions a pod."""
MOST_REFINED: Final = 200
PAIR: Final = 100
"""A pair is dearer than any single change."""


@dataclass(frozen=True, slots=True)
class Help:
    """A change that was tried, and the pods it lets in."""

    pattern: str
    """In words, with `{node}` where its nodes are named."""
    pods: tuple[Key, ...]
    rank: int
    nodes: tuple[str, ...] = ()
    """Any one of them does."""
    size: int = 0

    @property
    def change(self) -> str:
        return self.pattern.replace("{node}", any_of(self.nodes))

    def document(self) -> dict[str, Any]:
        return {"change": self.change, "pods": len(self.pods)}


def merged(helps: Iterable[Help]) -> list[Help]:
    """Those that let the same pods in, in the same words, are one, on any of their nodes."""
    found: dict[tuple[int, str, tuple[Key, ...]], Help] = {}
    for each in helps:
        key = (each.rank, each.pattern, tuple(sorted(each.pods)))
        nodes = {*(found[key].nodes if key in found else ()), *each.nodes}
        found[key] = replace(found.get(key, each), nodes=tuple(sorted(nodes, key=natural)))
    return list(found.values())


class Trials:
    """Tries changes on a sequence whose pods have been decided on."""

    def __init__(
        self, sequence: DecisionSequence, waiting: Sequence[Key], step: Callable[[float], object] = lambda amount: None
    ) -> None:
        self._sequence = sequence
        self._replay = sequence.replay
        self._waiting = waiting
        self._step = step

    def tried(self, change: ClusterChange) -> Help | None:
        """What a change helps, at the smallest size that does it; None when it helps nobody."""
        placed = self._placed(change, change.size, self._waiting)
        for objects in change.or_else if placed else ():
            case = replace(change, objects=lambda size, objects=objects: objects)  # type: ignore[misc]
            also = self._placed(case, change.size, list(placed))
            placed = {key: node for key, node in placed.items() if key in also}
        if not placed:
            return None
        size = self._least_size(change, placed)
        return Help(change.told(size), tuple(placed), change.rank, (change.node,) if change.node else (), size)

    def _least_size(self, change: ClusterChange, placed: Mapping[Key, str]) -> int:
        """The smallest that lets all of these in; for very many pods the first: each size tries them all."""
        if change.size <= change.unit or len(placed) > MOST_REFINED:
            return change.size
        keys = list(placed)

        def does(units: int) -> bool:
            return len(self._placed(change, units * change.unit, keys)) == len(keys)

        return (least(-(-change.size // change.unit), does) or 0) * change.unit or change.size

    def tried_in_pairs(self, each: Waiting) -> Help | None:
        """Two changes that let a pod in which no single one does: the first pair, of the cheapest kinds, that does."""
        alone = ChangeProposals([each], self._replay.objects).of_cluster()
        for first in [change for change in alone if change.rank != ANOTHER_NODE][:MOST_FIRST]:
            with self._changed(first.objects(first.size), first.deleted):
                attempt = self._replay.attempt(each.key, explains=True)
                if attempt.placement is not None:  # by itself after all
                    self._replay.withdraw(each.key)
                    continue
                if attempt.explanation is None:
                    continue
                left = Waiting(each.pod, attempt.explanation)
                for second in ChangeProposals([left], self._replay.objects).of_cluster()[:MOST_SECOND]:
                    if second.rank == ANOTHER_NODE:
                        continue
                    placed = self._placed(second, second.size, self._waiting)
                    if each.key in placed:
                        break
                else:
                    continue
            return self._pair(first, second, tuple(placed))
        return None

    def _pair(self, first: ClusterChange, second: ClusterChange, placed: tuple[Key, ...]) -> Help:
        """Both, or the second alone where that does: it may be about a place that was not among those tried."""
        of_first = {(type(each), each.key) for each in first.objects(first.size)}
        if of_first.isdisjoint((type(each), each.key) for each in second.objects(second.size)):
            alone = self._placed(second, second.size, self._waiting)
            if alone:
                return Help(second.text(second.size), tuple(alone), second.rank)
        told = f"{first.text(first.size)}, and {second.text(second.size)}"
        return Help(told, placed, PAIR + first.rank + second.rank)

    def _placed(self, change: ClusterChange, size: int, keys: Sequence[Key]) -> dict[Key, str]:
        """By pod of these that fits with the change, its node."""
        placed: dict[Key, str] = {}
        with self._changed(change.objects(size), change.deleted):
            try:
                for key in keys:
                    self._step(0)  # a try of thousands of pods takes long: whoever asked may end it here
                    if self._sequence.held_back(self._replay.pod(key)):
                        continue
                    attempt = self._replay.attempt(key)
                    if attempt.placement is not None:
                        placed[key] = attempt.placement.node
            finally:
                for key in reversed(placed):
                    self._replay.withdraw(key)
        return placed

    @contextmanager
    def _changed(self, objects: Sequence[Object], deleted: Sequence[Object]) -> Iterator[None]:
        replay = self._replay
        holds = replay.engine.held.holds()
        before = [(each, replay.objects.get(type(each).__name__, each.key)) for each in objects]
        try:
            for gone in deleted:
                replay.delete(type(gone).__name__, gone.namespace, gone.name)
            for each in objects:
                replay.apply(renewed(each))
            replay.hold(holds)
            yield
        finally:
            for each, old in reversed(before):
                if old is None:
                    replay.delete(type(each).__name__, each.namespace, each.name)
                else:
                    replay.apply(renewed(old))
            for gone in deleted:
                replay.apply(gone)
            replay.hold(holds)
