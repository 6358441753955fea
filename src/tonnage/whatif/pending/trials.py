"""Changes of the cluster, tried on the engine: which pods that wait each lets in, and the least size that does.

In a trial the pods that fit already stay where they were sent, the others are tried again in their order, and
afterwards everything is as before. Where no single change helps a pod, what is in the way once the first is gone is
tried beside it: two changes at once, of which each is needed.

Pods by the thousand on nodes by the thousand: only whom a change concerns is tried (`_Concerned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np

from tonnage.objects import core_v1, storage_v1
from tonnage.objects.meta import Key, Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import Assembled, refused_rows
from tonnage.scheduling.framework import Cycle, FilterPlugin
from tonnage.whatif import explain, sources
from tonnage.whatif.knobs import NODE, Knob, Remedy, least
from tonnage.whatif.pending.changes import ChangeProposals, Waiting

MOST_PAIRED: Final = 8
"""Pods that pairs are tried for: one of each cause, those that came first."""
MOST_FIRST: Final = 6
MOST_SECOND: Final = 4
"""So many changes are tried first, and so many beside each: 24 decisions a pod."""
MOST_REFINED: Final = 200
"""For more pods than that a change keeps its size: each size tries them all."""
MOST_EXACT: Final = 50
_PARTS: Final = 256
"""For more pods than that its size is told to a 256th of what all who could use it ask for: 8 sizes are tried."""
PAIR: Final = 100
"""A pair is dearer than any single change."""


class Trials:
    """Tries changes on a sequence whose pods have been decided on."""

    def __init__(self, sequence: explain.DecisionSequence, waiting: Sequence[Waiting], step: sources.Step) -> None:
        self._sequence = sequence
        self._replay = sequence.replay
        self._waiting = [each.key for each in waiting]
        self._step = step
        self._in_effect: list[Object] = []
        self._deleted: list[Object] = []
        self._only_local = _refused_by_rows_alone(sequence.replay.engine, waiting)

    def tried(self, change: Knob) -> Remedy | None:
        """What a change helps, at the smallest size that does it; None when it helps nobody."""
        placed = self._placed(change, change.most, self._waiting)
        for objects in change.or_else if placed else ():
            case = replace(change, targets=tuple(objects))
            also = self._placed(case, change.most, list(placed))
            placed = {key: node for key, node in placed.items() if key in also}
        if not placed:
            return None
        size = self._least_size(change, placed)
        nodes = (change.node,) if change.node else ()
        return Remedy(change.rank, size, change.told(size), nodes, pods=tuple(placed))

    def _least_size(self, change: Knob, placed: Mapping[Key, str]) -> int:
        """The smallest that lets all of these in, the less exactly the more they are."""
        if change.most <= change.unit or len(placed) > MOST_REFINED:
            return change.most
        keys, unit = list(placed), change.unit
        if len(keys) > MOST_EXACT:
            unit *= max(change.most // unit // _PARTS, 1)

        def does(units: int) -> bool:
            return len(self._placed(change, units * unit, keys, is_all_or_none=True)) == len(keys)

        return (least(-(-change.most // unit), does) or 0) * unit or change.most

    def tried_in_pairs(self, each: Waiting) -> Remedy | None:
        """Two changes that let a pod in which no single one does: the first pair, of the cheapest kinds, that does."""
        alone = ChangeProposals([each], self._replay).of_cluster()
        for first in [change for change in alone if change.rank != NODE][:MOST_FIRST]:
            with self._changed(first.turned(first.most), first.gone):
                attempt = self._replay.attempt(each.key, explains=True)
                if attempt.placement is not None:  # by itself after all
                    self._replay.withdraw(each.key)
                    continue
                if attempt.explanation is None:
                    continue
                left = Waiting(each.pod, attempt.explanation)
                for second in ChangeProposals([left], self._replay).of_cluster()[:MOST_SECOND]:
                    if second.rank == NODE:
                        continue
                    if each.key in self._only_local and not self._placed(second, second.most, [each.key]):
                        continue  # others beside it only take room
                    placed = self._placed(second, second.most, self._waiting)
                    if each.key in placed:
                        break
                else:
                    continue
            return self._pair(first, second, tuple(placed))
        return None

    def _pair(self, first: Knob, second: Knob, placed: tuple[Key, ...]) -> Remedy:
        """Both, or the second alone where that does: it may be about a place that was not among those tried."""
        of_first = {(type(each), each.key) for each in first.turned(first.most)}
        if of_first.isdisjoint((type(each), each.key) for each in second.turned(second.most)):
            alone = self._placed(second, second.most, self._waiting)
            if alone:
                return Remedy(second.rank, 0, second.text(second.most), pods=tuple(alone))
        told = f"{first.text(first.most)}, and {second.text(second.most)}"
        return Remedy(PAIR + first.rank + second.rank, 0, told, pods=placed)

    def _placed(self, change: Knob, size: int, keys: Sequence[Key], *, is_all_or_none: bool = False) -> dict[Key, str]:
        """By pod of these that fits with the change, its node; `is_all_or_none`, of pods that fit with more of it, ends
        with the first that does not."""
        placed: dict[Key, str] = {}
        with self._changed(change.turned(size), change.gone):
            concerned = _Concerned(self._replay.engine, self._in_effect, self._deleted)
            try:
                for key in keys:
                    self._step(0)  # a try of thousands of pods takes long: whoever asked may end it here
                    pod = self._replay.pod(key)
                    if self._sequence.held_back(pod):
                        continue
                    if is_all_or_none or key not in self._only_local or concerned.may_fit(PodInfo(pod)):
                        attempt = self._replay.attempt(key)
                        if attempt.placement is not None:
                            placed[key] = attempt.placement.node
                    if is_all_or_none and key not in placed:
                        break
            finally:
                for key in reversed(placed):
                    self._replay.withdraw(key)
        return placed

    @contextmanager
    def _changed(self, objects: Sequence[Object], deleted: Sequence[Object]) -> Iterator[None]:
        in_effect, gone_before = len(self._in_effect), len(self._deleted)
        with self._replay.changed(objects, deleted):
            self._in_effect += objects
            self._deleted += deleted
            try:
                yield
            finally:
                del self._in_effect[in_effect:], self._deleted[gone_before:]


def _row_filters(profile: Assembled) -> list[FilterPlugin]:
    return [plugin for plugin in profile.pipeline.filter if plugin.row_local]


def _refused_by_rows_alone(engine: Engine, waiting: Sequence[Waiting]) -> frozenset[Key]:
    """The pods that plugins refused which look at one node at a time: what happens elsewhere changes no such refusal,
    and other pods that find a place only make a node fuller."""
    local = {id(profile): {plugin.name for plugin in _row_filters(profile)} for profile in engine.profiles.values()}
    refusers: dict[int, set[str]] = {}
    found: set[Key] = set()
    for each in waiting:
        explanation = each.explanation
        if id(explanation) not in refusers:
            refusers[id(explanation)] = {answer.rejected_by for answer in explanation.nodes}
        if not explanation.held_back and refusers[id(explanation)] <= local.get(id(engine.profile_of(each.pod)), set()):
            found.add(each.key)
    return frozenset(found)


class _Concerned:
    """Whom changes concern that are in effect: pods whose claims they change, or that their nodes do not refuse."""

    def __init__(self, engine: Engine, objects: Sequence[Object], deleted: Sequence[Object]) -> None:
        self._engine = engine
        kinds = core_v1.Node | storage_v1.CSINode | storage_v1.CSIStorageCapacity | core_v1.PersistentVolumeClaim
        self._is_known = not deleted and all(isinstance(each, kinds) for each in objects)
        self._claims = {each.key for each in objects if isinstance(each, core_v1.PersistentVolumeClaim)}
        cluster = engine.cluster
        names = {each.name for each in objects if isinstance(each, core_v1.Node | storage_v1.CSINode)}
        for each in objects:
            if isinstance(each, storage_v1.CSIStorageCapacity) and each.node_topology is not None:
                matches = each.node_topology.matches
                nodes = ((name, cluster.nodes[row]) for name, row in cluster.row_of.items())
                names.update(name for name, node in nodes if node is not None and matches(node.metadata.labels))
        rows = sorted(cluster.row_of[name] for name in names if name in cluster.row_of)
        self._rows = np.array(rows, dtype=np.intp)
        self._filters = {id(profile): list(reversed(_row_filters(profile))) for profile in engine.profiles.values()}
        """By profile; the one that refused the last pod comes first, as it mostly refuses the next."""

    def may_fit(self, pod: PodInfo) -> bool:
        """False only for a pod that is refused on each of the nodes that the change is about."""
        if not self._is_known or not self._claims.isdisjoint(pod.claim_keys):
            return True
        profile = self._engine.profile_of(pod.pod)
        if profile is None or not len(self._rows):
            return profile is None
        cycle, passing = Cycle(pod, self._engine.cluster), np.ones(len(self._rows), dtype=np.bool_)
        filters = self._filters[id(profile)]
        for number, each in enumerate(filters):
            passing &= ~refused_rows(each, cycle, self._rows)
            if not passing.any():
                filters.insert(0, filters.pop(number))
                return False
        return True
