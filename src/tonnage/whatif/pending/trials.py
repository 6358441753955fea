"""Changes tried on the engine: how many of the pods that wait would be placed, were the cluster so.

The pods that fit as it is stay where they were sent. The others are tried again in their order, and afterwards
everything is as before: decisions are taken back, objects put back, and capacity is kept back for whom it was.

A node refuses a pod by the first thing that is in the way. Where no single change helps a pod, what is in the way once
the first is gone is looked at, and tried beside it: two changes at once, of which each is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.whatif.decision_sequence import DecisionSequence
from tonnage.whatif.pending.changes import ANOTHER_NODE, ChangeProposals, ClusterChange, Waiting

MOST_PAIRED: Final = 8
"""Pods that pairs are tried for: one of each cause, those that came first."""
MOST_FIRST: Final = 6
MOST_SECOND: Final = 4
"""So many changes are tried first, and so many beside each: 24 decisions a pod."""
PAIR: Final = 100
"""A pair is dearer than any single change."""


@dataclass(frozen=True, slots=True)
class Help:
    """A change that was tried, and the pods it lets in."""

    change: str
    pods: tuple[Key, ...]
    rank: int

    def document(self) -> dict[str, Any]:
        return {"change": self.change, "pods": len(self.pods)}


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
        """What a change helps, at the size that is enough for that; None when it helps nobody."""
        size, placed = change.size, self._placed(change, change.size)
        if not placed:
            return None
        taken = sum(change.sizes.get(key, 0) for key, node in placed.items() if node in change.nodes)
        if 0 < taken < size:
            again = self._placed(change, taken)
            if len(again) >= len(placed):
                size, placed = taken, again
        return Help(change.told(size), tuple(placed), change.rank)

    def tried_in_pairs(self, each: Waiting) -> Help | None:
        """Two changes that let a pod in which no single one does: the first pair, of the cheapest kinds, that does."""
        alone = ChangeProposals([each], self._replay.objects).all()
        for first in [change for change in alone if change.rank != ANOTHER_NODE][:MOST_FIRST]:
            with self._changed(first.objects(first.size), first.deleted):
                attempt = self._replay.attempt(each.key, explains=True)
                if attempt.placement is not None:  # by itself after all
                    self._replay.withdraw(each.key)
                    continue
                if attempt.explanation is None:
                    continue
                left = Waiting(each.pod, attempt.explanation)
                for second in ChangeProposals([left], self._replay.objects).all()[:MOST_SECOND]:
                    if second.rank == ANOTHER_NODE:
                        continue
                    placed = self._placed(second, second.size)
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
            alone = self._placed(second, second.size)
            if alone:
                return Help(second.told(second.size), tuple(alone), second.rank)
        told = f"{first.told(first.size)}, and {second.told(second.size)}"
        return Help(told, placed, PAIR + first.rank + second.rank)

    def _placed(self, change: ClusterChange, size: int) -> dict[Key, str]:
        """By pod that fits with the change, its node."""
        placed: dict[Key, str] = {}
        with self._changed(change.objects(size), change.deleted):
            try:
                for key in self._waiting:
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
    def _changed(self, objects: Sequence[Object], deleted: Sequence[Pod]) -> Iterator[None]:
        replay = self._replay
        held = replay.engine.held
        holds = {mode: view.holds() for mode, view in held.modes.items()}
        pods = {each.key: PodInfo(each) for each in replay.objects if isinstance(each, Pod)}
        before = [(each, replay.objects.get(type(each).__name__, each.key)) for each in objects]
        try:
            for pod in deleted:
                replay.delete("Pod", pod.namespace, pod.name)
            for each in objects:
                replay.apply(_renewed(each))
            held.agree_with(holds, pods)  # news of an object may end a hold; here it is our own doing
            yield
        finally:
            for each, old in reversed(before):
                if old is None:
                    replay.delete(type(each).__name__, each.namespace, each.name)
                else:
                    replay.apply(_renewed(old))
            for pod in deleted:
                replay.apply(pod)
            held.agree_with(holds, pods)


def _renewed(found: Object) -> Object:
    """The same object as a newer version of itself: whoever keeps it numbers it."""
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version=""))
