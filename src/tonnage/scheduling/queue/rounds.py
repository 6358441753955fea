"""Rounds: the classes of pods that an event may help have their turns, one pod at a time.

An event helps every pod of a class (equivalence_classes.py) or none of it, and mostly there is room for one: a pod has
ended, a capacity object was refreshed. To wake all of them is an attempt each, for every such event. So the changed
object has a round: one pod is let out, in the queue's order, and how its attempt ends decides about the others.

    event ──► classes, in order of their heads ──► head ──► out ──┬─ refused: so are the others, the class is through
                 ▲            │ refused where it happened         ├─ placed, gone, an error: the next one of its class
                 │            ▼                                   └─ a second has passed: the next one, too
                 │       left alone: whatever changes that is an event again                   │
                 └─────────────────────────────────────────────────────────────────────────────┘

A plugin may say which rows the event is about (`Plugin.reach`): a pod that those who refused it refuse there now, too,
is left alone without an attempt. That is asked when the event comes and when an attempt has ended, never by a pop.

Nobody is lost. A pod that is left alone was judged after the event, by plugins that go on standing in its way, so that
their hints go on being asked; a class that is through had one of its pods judged after the event, and those that are
refused for other reasons than it was go on (`Waking.refused`). So does a pod that has become unlike the others of its
class (`moved`). A pod that is not in the pool any more was woken by something else, and is tried after the event as
well. Pods that back off do not hold up the others: after a second what is out no longer counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from tonnage.objects.meta import Key
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.queue.equivalence_classes import ClassKey, EquivalenceClass
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool

MayHelp: TypeAlias = Callable[[QueuedPod], bool]
"""False for a pod that is refused all the same where an event happened."""

ReachHook: TypeAlias = Callable[[str, str, ClusterEvent, Any], MayHelp | None]
"""(profile, plugin, event, what changed) -> whom it may help; None when the plugin cannot say where it happened."""

PATIENCE_S: Final = 1.0
"""For so long a pod that was let out keeps others from being let out."""

RoundKey: TypeAlias = tuple[str, type, Key]
"""Profile, and what changed: the object, or the node that a pod left."""


class Round:
    """The classes of one profile that one changed object may help."""

    def __init__(self, key: RoundKey) -> None:
        self.key = key
        self.event: ClusterEvent
        self.changed: Any
        self.waiting: dict[ClassKey, frozenset[str]] = {}
        """Classes that are not through, and the plugins that say that they are helped."""
        self.out: tuple[str, ClassKey] | None = None
        """The pod that was let out and not tried since, and the class that it was of."""
        self.let_out_at = 0.0
        self._turns: list[tuple[Any, int, ClassKey]] = []  # a heap
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

    def next_class(self) -> ClassKey | None:
        """Take out the class whose turn it is; None when there is none."""
        return heapq.heappop(self._turns)[2] if self._turns else None


class Rounds:
    """The rounds there are. `begin`, `tried`, `moved` and `flush` note; `let_out` gives turns."""

    def __init__(self, pool: UnschedulablePool, order: Callable[[QueuedPod], Any]) -> None:
        self._pool = pool
        self._order = order
        self._rounds: dict[RoundKey, Round] = {}
        self._rounds_of: dict[str, set[RoundKey]] = {}
        """By pod that is out."""
        self._due: dict[RoundKey, None] = {}

    def begin(
        self,
        key: RoundKey,
        event: ClusterEvent,
        changed: Any,
        helped: Mapping[ClassKey, frozenset[str]],
        is_in_flight: Callable[[str], bool],
    ) -> None:
        """These classes may be helped, as these plugins say. Those that an earlier event of the object was to help
        still are.

        A pod of theirs that is being tried at this moment tells nothing about the event: the next has its turn.
        """
        found = self._rounds.setdefault(key, Round(key))
        found.event, found.changed = event, changed
        if found.out is not None and is_in_flight(found.out[0]):
            self._come_back(found)
        for each, plugins in helped.items():
            known = self._pool.class_at(each)
            if known is not None and (head := known.head) is not None:
                found.add(each, plugins, self._order(head))
        self._due[key] = None

    def let_out(
        self, may_help: Callable[[Round, QueuedPod, frozenset[str]], bool], now_s: float
    ) -> Iterator[tuple[QueuedPod, ClusterEvent]]:
        """The pods whose turn it is, and the events that let them out; those that they cannot help are left alone."""
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            found = self._rounds.get(key)
            while found is not None and found.out is None and (turn := found.next_class()) is not None:
                of_class = self._pool.class_at(turn) if turn in found.waiting else None
                head = of_class.head if of_class is not None else None
                if head is None or not may_help(found, head, found.waiting[turn]):
                    found.waiting.pop(turn, None)
                    continue
                if of_class is not None and len(of_class) == 1:
                    del found.waiting[turn]  # whoever joins the class from now on was tried after the event
                found.out, found.let_out_at = (head.uid, turn), now_s
                self._rounds_of.setdefault(head.uid, set()).add(key)
                yield head, found.event
            if found is not None and not found.waiting:
                self._end(found)

    def out_in(self, uid: str) -> list[tuple[Round, ClassKey]]:
        """The rounds in which a pod is out, each with the class that it was let out of."""
        rounds = [self._rounds[key] for key in self._rounds_of.get(uid, ())]
        return [(each, each.out[1]) for each in rounds if each.out is not None]

    def tried(self, uid: str) -> None:
        """A pod was tried, or is gone: others have their turn."""
        for key in list(self._rounds_of.get(uid, ())):
            self._come_back(self._rounds[key])

    def moved(self, before: ClassKey, now: EquivalenceClass) -> None:
        """A pod is of another class now: what becomes of those it waited with tells nothing about it."""
        for each in self._rounds.values():
            plugins = each.waiting.get(before)
            if plugins is not None and (head := now.head) is not None:
                each.add(now.key, plugins, self._order(head))
                self._due[each.key] = None

    def flush(self, now_s: float) -> None:
        """Wait no longer for pods that were let out a while ago."""
        for each in self._rounds.values():
            if now_s - each.let_out_at >= PATIENCE_S:
                self._come_back(each)

    def _come_back(self, found: Round) -> None:
        """The pod that is out is not waited for any more."""
        self._due[found.key] = None
        if found.out is None:
            return
        key = self._forget_out(found, *found.out)
        of_class = self._pool.class_at(key)
        head = of_class.head if of_class is not None else None
        if head is None:
            found.waiting.pop(key, None)
        elif key in found.waiting:
            found.queue_up(key, self._order(head))

    def _end(self, found: Round) -> None:
        if self._rounds.get(found.key) is found:
            del self._rounds[found.key]
            if found.out is not None:
                self._forget_out(found, *found.out)

    def _forget_out(self, found: Round, uid: str, key: ClassKey) -> ClassKey:
        found.out = None
        keys = self._rounds_of[uid]
        keys.discard(found.key)
        if not keys:
            del self._rounds_of[uid]
        return key

    def __len__(self) -> int:
        return len(self._rounds)
