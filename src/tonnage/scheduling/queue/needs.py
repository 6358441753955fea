"""Classes of waiting pods by what they need of an event, so that an event looks only at those it may be enough for.

    NodeResourcesFit    cpu          3000m db   8000m ml   60000m hopeless-0   60001m hopeless-1 …
    VolumeBinding       class fast   20Gi data  5000Gi hopeless-2 …
    InterPodAffinity    app=db       web

A pod that ended on a node which has 4 CPU free now is looked at for `db` alone, however many wait behind it. What a pod
needs is what it cannot do without (`Plugin.needs`), not all it takes: those that an event has enough for are judged as
ever. Classes whose plugins cannot say what they need are looked at each time, and so are those that preemption may
help: room can be made for them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.queue.equivalence_classes import ClassKey, EquivalenceClass

Needs: TypeAlias = Mapping[Hashable, int]
"""What -> how much: an event that does not offer enough of any of them is of no use."""


class Offer(NamedTuple):
    """What an event has for the pods that a plugin refused."""

    amounts: Mapping[Hashable, int]
    """What it does not name it has none of."""
    preempting_above: int
    """Pods of a higher priority than this may have room made for them, where they preempt at all."""


class Needy(NamedTuple):
    """What the pods of a class need, and the priority by which they preempt; None when they do not."""

    needs: Needs
    preempts_with: int | None


NeedsHook: TypeAlias = Callable[[str, str, PodInfo, frozenset[str]], Needy | None]
"""(profile, plugin, pod, all who refused it) -> what it needs of the events that the plugin cares for."""
OfferHook: TypeAlias = Callable[[str, str, ClusterEvent, Any, Any], Offer | None]
"""(profile, plugin, event, old, new) -> what it has; None when it may help anybody."""


_ANY_AMOUNT = 1 << 200


class _ByAmount:
    """Classes in the order of how much they need."""

    def __init__(self) -> None:
        self._amounts: list[int] = []
        self._classes: list[EquivalenceClass] = []

    def put(self, amount: int, found: EquivalenceClass) -> None:
        place = bisect_right(self._amounts, amount)
        self._amounts.insert(place, amount)
        self._classes.insert(place, found)

    def remove(self, amount: int, found: EquivalenceClass) -> None:
        place = bisect_left(self._amounts, amount)
        while self._classes[place] is not found:
            place += 1
        del self._amounts[place], self._classes[place]

    def up_to(self, amount: int) -> list[EquivalenceClass]:
        return self._classes[: bisect_right(self._amounts, amount)]

    def __len__(self) -> int:
        return len(self._classes)


class RefusedClasses:
    """The classes that one plugin of a profile refused."""

    def __init__(self) -> None:
        self._all: dict[ClassKey, tuple[EquivalenceClass, Needy | None]] = {}
        self._unsaid: dict[ClassKey, EquivalenceClass] = {}
        self._by_priority: dict[int | None, dict[Hashable, _ByAmount]] = {}

    def put(self, found: EquivalenceClass, needy: Needy | None) -> None:
        self._all[found.key] = (found, needy)
        if needy is None:
            self._unsaid[found.key] = found
            return
        by_what = self._by_priority.setdefault(needy.preempts_with, {})
        for what, amount in needy.needs.items():
            by_what.setdefault(what, _ByAmount()).put(amount, found)

    def remove(self, key: ClassKey) -> None:
        found, needy = self._all.pop(key)
        if needy is None:
            del self._unsaid[key]
            return
        by_what = self._by_priority[needy.preempts_with]
        for what, amount in needy.needs.items():
            by_what[what].remove(amount, found)
            if not len(by_what[what]):
                del by_what[what]
        if not by_what:
            del self._by_priority[needy.preempts_with]

    def everyone(self) -> Iterator[EquivalenceClass]:
        return (found for found, _ in self._all.values())

    def helped_by(self, offer: Offer) -> Iterator[EquivalenceClass]:
        """Those that an event may be enough for; some of them more than once."""
        yield from self._unsaid.values()
        for priority, by_what in self._by_priority.items():
            if priority is not None and priority > offer.preempting_above:
                for each in by_what.values():
                    yield from each.up_to(_ANY_AMOUNT)
                continue
            for what, amount in offer.amounts.items():
                if (waiting := by_what.get(what)) is not None:
                    yield from waiting.up_to(amount)

    def __len__(self) -> int:
        return len(self._all)
