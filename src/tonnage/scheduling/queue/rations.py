"""Pods that an event helps, a few at a time: one of each class, and no more than what changed can hold.

An event helps every pod of a class (equivalence_classes.py) or none of it, and mostly there is room for one: a pod has
ended, a capacity object was refreshed. To wake all of them is an attempt each, for every such event. So one of them is
let out, in the queue's order, and what becomes of it tells about the others:

    event ──► classes, in order of their heads ──► head ──► out ──┬─ refused: so are the others, the class is through
                 ▲            │ of no use to it                   ├─ placed, gone, an error: the next one of its class
                 │            ▼                                   └─ a second has passed: the next one, too
                 │       left alone: whatever changes that is an event again                   │
                 └─────────────────────────────────────────────────────────────────────────────┘

A plugin may say how much of the changed object a pod would use up (`Plugin.ration`): as long as those who are out take
all of it, nobody else is let out. And it may say which rows the event is about (`Plugin.reach`): a pod that those who
refused it refuse there now, too, is left alone without an attempt.

Nobody is lost. A pod that is left alone was judged after the event, by plugins that go on standing in its way, so that
their hints go on being asked; a class that is through had one of its pods judged after the event, and those that are
refused for other reasons than it was go on (`Waking.refused`). So does a pod that has become unlike the others of its
class (`moved`). A pod that is not in the pool any more was woken by something else, and is tried after the event as
well. With nobody out, the next pod that can use the object is let out whatever it takes. Pods that back off do not hold
up the others: after a second what is out no longer counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.objects.meta import Key
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.queue.equivalence_classes import ClassKey, EquivalenceClass
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool

PodRation: TypeAlias = Callable[[QueuedPod], float | None]
"""As `framework.Ration`, of a pod as it waits."""

RationHook: TypeAlias = Callable[[str, str, ClusterEvent, Any], PodRation | None]
"""(profile, plugin, event, what changed) -> how it is shared out; None when whoever is helped may be tried."""

PATIENCE_S: Final = 1.0
"""For so long pods that were let out keep others from being let out."""

WaveKey: TypeAlias = tuple[str, type, Key]
"""Profile, and what changed: the object, or the node that a pod left."""
Helped: TypeAlias = Mapping[ClassKey, frozenset[str]]
"""Classes that an event may help, and the plugins that say so."""


class Out(NamedTuple):
    """A pod that was let out and not tried since: what it would use up, and its class."""

    share: float
    key: ClassKey


class Wave:
    """The classes of one profile that one changed object may help."""

    def __init__(self, key: WaveKey) -> None:
        self.key = key
        self.event: ClusterEvent
        self.changed: Any
        self.waiting: dict[ClassKey, frozenset[str]] = {}
        """Classes that are not through, and who says that they are helped."""
        self.out: dict[str, Out] = {}
        self.let_out_at = 0.0
        self._turns: list[tuple[Any, int, ClassKey]] = []  # a heap: of the waiting ones, those with nobody out
        self._tickets = count()

    @property
    def profile(self) -> str:
        return self.key[0]

    def add(self, key: ClassKey, plugins: frozenset[str], order: Any) -> None:
        """Let a class wait, if it does not; `order` is that of its head."""
        known = self.waiting.get(key)
        self.waiting[key] = plugins if known is None else known | plugins
        if known is None:
            self.queue_up(key, order)

    def queue_up(self, key: ClassKey, order: Any) -> None:
        """A class that waits has nobody out: its head is to have his turn."""
        heapq.heappush(self._turns, (order, next(self._tickets), key))

    def next(
        self, share_of: Callable[[QueuedPod, frozenset[str]], float | None], pool: UnschedulablePool
    ) -> Iterator[QueuedPod]:
        """Let out those whose turn it is now; the others go on waiting, or are left alone."""
        used = sum(each.share for each in self.out.values())
        while self._turns:
            key = self._turns[0][2]
            found = pool.class_at(key) if key in self.waiting else None
            head = found.head if found is not None else None
            share = share_of(head, self.waiting[key]) if head is not None else None
            if head is None or share is None:
                heapq.heappop(self._turns)
                self.waiting.pop(key, None)
                continue
            if self.out and used + share > 1.0:
                return
            heapq.heappop(self._turns)
            self.out[head.uid] = Out(share, key)
            used += share
            if found is not None and len(found) == 1:  # whoever joins the class from now on was tried after the event
                del self.waiting[key]
            yield head


class Rations:
    """The waves there are. `begin` and `tried` note; `due` are those in which somebody may have his turn."""

    def __init__(self, pool: UnschedulablePool, order: Callable[[QueuedPod], Any]) -> None:
        self._pool = pool
        self._order = order
        self._waves: dict[WaveKey, Wave] = {}
        self._waves_of: dict[str, set[WaveKey]] = {}
        """By pod that is out."""
        self._due: dict[WaveKey, None] = {}

    def begin(
        self, key: WaveKey, event: ClusterEvent, changed: Any, helped: Helped, is_in_flight: Callable[[str], bool]
    ) -> None:
        """These classes may be helped. Those that an earlier event of the same object was to help still are.

        A pod of theirs that is being tried at this moment tells nothing about the event: the next has its turn.
        """
        wave = self._waves.setdefault(key, Wave(key))
        wave.event, wave.changed = event, changed
        for uid in [uid for uid in wave.out if is_in_flight(uid)]:
            self._forget(wave, uid)
        for each, plugins in helped.items():
            found = self._pool.class_at(each)
            if found is not None and (head := found.head) is not None:
                wave.add(each, plugins, self._order(head))
        self._due[key] = None

    def due(self) -> Iterator[Wave]:
        """Waves to be looked at. Whoever does says afterwards who was let out (`noted`)."""
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            if (wave := self._waves.get(key)) is not None:
                yield wave

    def noted(self, wave: Wave, now_s: float) -> None:
        """A wave was looked at."""
        if not wave.waiting:
            del self._waves[wave.key]
            for uid in list(wave.out):
                self._forget(wave, uid)
            return
        wave.let_out_at = now_s
        for uid in wave.out:
            self._waves_of.setdefault(uid, set()).add(wave.key)

    def out_in(self, uid: str) -> list[tuple[Wave, ClassKey]]:
        """The waves in which a pod is out, each with the class that it was let out of."""
        waves = [self._waves[key] for key in self._waves_of.get(uid, ())]
        return [(wave, wave.out[uid].key) for wave in waves]

    def tried(self, uid: str) -> bool:
        """A pod was tried, or is gone; whether somebody else may have his turn for that."""
        keys = list(self._waves_of.get(uid, ()))
        for key in keys:
            self._forget(self._waves[key], uid)
            self._due[key] = None
        return bool(keys)

    def moved(self, before: ClassKey, now: EquivalenceClass) -> bool:
        """A pod is of another class now: what becomes of those it waited with tells nothing about it; whether it waited
        with anybody for its turn."""
        found = False
        for wave in self._waves.values():
            plugins = wave.waiting.get(before)
            if plugins is not None and (head := now.head) is not None:
                wave.add(now.key, plugins, self._order(head))
                self._due[wave.key] = None
                found = True
        return found

    def flush(self, now_s: float) -> bool:
        """Wait no longer for pods that were let out a while ago; whether there were any."""
        late = [wave for wave in self._waves.values() if now_s - wave.let_out_at >= PATIENCE_S]
        for wave in late:
            for uid in list(wave.out):
                self._forget(wave, uid)
            self._due[wave.key] = None
        return bool(late)

    def _forget(self, wave: Wave, uid: str) -> None:
        """A pod that is out is not waited for any more."""
        key = wave.out.pop(uid).key
        keys = self._waves_of.get(uid)
        if keys is not None:
            keys.discard(wave.key)
            if not keys:
                del self._waves_of[uid]
        found = self._pool.class_at(key)
        head = found.head if found is not None else None
        if head is None:
            wave.waiting.pop(key, None)
        elif key in wave.waiting:
            wave.queue_up(key, self._order(head))

    def __len__(self) -> int:
        return len(self._waves)
