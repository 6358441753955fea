"""Which pods an event wakes: the unschedulable pods that it may help, one of each class at a time.

    event ──► pods that mount a claim it is about ── a refuser thinks it worth a try ──► tried again
          └─► classes, by who refused them ──────── a refuser thinks it worth a try ──► a round: tried again, in turn

An event helps every pod of a class or none, and mostly there is room for one. So the changed object has a round:

    classes, in order of their heads ──► head ──► out ──┬─ refused: so are the others, the class is through
         ▲            │ refused where it happened       ├─ placed, gone, an error: the next one of its class
         │            ▼                                 └─ a second has passed: the next one, too
         │       left alone: whatever changes that is an event again                   │
         └─────────────────────────────────────────────────────────────────────────────┘

A plugin may say which rows the event is about (`Plugin.reach`): a pod that is still refused there is left alone without
an attempt. No pod is lost: a pod left alone, or whose class is through, was judged after the event, by plugins whose
hints will be asked again.

`HintTable` asks the hints of the plugins that block a pod. Mirrors PriorityQueue.isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object
from tonnage.scheduling import events
from tonnage.scheduling.queue.queues import Queues
from tonnage.scheduling.queue.waiting_pods import (
    ClassKey,
    EquivalenceClass,
    PluginErrorHook,
    PreCheck,
    QueuedPod,
    QueueingRules,
    RecordedEvent,
    Requeue,
)

PATIENCE_S: Final = 1.0
"""A pod that was let out keeps others waiting for this long."""

_NOBODY: Final[frozenset[str]] = frozenset()

Caring: TypeAlias = Mapping[str, Sequence[events.HintFn | None]]
"""Plugins that registered for an event, with their hints."""


class HintTable:
    """The hints of one profile, by event."""

    def __init__(self, rules: QueueingRules, on_plugin_error: PluginErrorHook) -> None:
        self._rules = rules
        self._on_plugin_error = on_plugin_error
        self._caring: dict[tuple[events.EventResource, events.ActionType, bool], Caring] = {}

    def caring(self, event: events.ClusterEvent, *, for_any: bool = False) -> Caring:
        """The plugins that registered for the event, with their hints. `for_any`: without the hints that are only for
        pods which mount a claim of the event."""
        key = (event.resource, event.action, for_any)
        if key not in self._caring:
            hints = {
                plugin: [
                    hint
                    for mask, hint in registered
                    if mask.covers(event) and not (for_any and hint in events.FOR_MOUNTED_CLAIMS)
                ]
                for plugin, registered in self._rules.hints.items()
            }
            self._caring[key] = {plugin: found for plugin, found in hints.items() if found}
        return self._caring[key]

    def is_worth(self, queued: QueuedPod, event: events.ClusterEvent, old: Any, new: Any) -> bool:
        """True if the event is worth another attempt. For a pod that met an error it always is, and a wildcard asks no
        plugin."""
        return event.is_wildcard or self.answer(queued, self.caring(event), event, old, new) is not None

    def is_worth_since(self, queued: QueuedPod, recorded: Iterable[RecordedEvent]) -> bool:
        """True if any of the events that came during a refused attempt is worth another one."""
        return any(
            self.is_worth(queued, seen.event, seen.old, seen.new)
            for seen in recorded
            if seen.pre_check is None or seen.pre_check(queued.pod)
        )

    def answer(
        self, queued: QueuedPod, caring: Caring, event: events.ClusterEvent, old: Any, new: Any
    ) -> frozenset[str] | None:
        """Which of these plugins say that the event is worth another attempt; None if it is not worth any."""
        refused_by = queued.unschedulable_plugins
        if not refused_by:
            return _NOBODY
        saying: list[str] = []
        for plugin, hints in caring.items():
            if plugin not in refused_by:
                continue
            try:
                if not any(hint is None or hint(queued.info, event, old, new) is events.QUEUE for hint in hints):
                    continue
            except Exception as exc:
                # One attempt too many is better than a pod that is never tried again.
                self._on_plugin_error(plugin, queued, exc)
            saying.append(plugin)
        return frozenset(saying) or None


RoundKey: TypeAlias = tuple[str, type, Key]
"""Profile, and what changed: the object, or the node that a pod left."""


@dataclass(slots=True, eq=False)
class Round:
    """The classes of one profile that one changed object may help."""

    key: RoundKey
    event: events.ClusterEvent
    changed: Any
    waiting: dict[ClassKey, frozenset[str]] = field(default_factory=dict)
    """Classes that are not through, with the plugins that say the event helps them."""
    out: tuple[str, ClassKey] | None = None
    """The pod that was let out and not tried yet, and its class."""
    let_out_at: float = 0.0


@dataclass(eq=False)
class Waking:
    """Moves pods out of the unschedulable pool. A nominated pod comes first, so that its room is held again before
    other pods are tried."""

    clock: Clock
    tables: Mapping[str, HintTable]
    queues: Queues
    is_in_flight: Callable[[str], bool]
    _rounds: dict[RoundKey, Round] = field(default_factory=dict)
    _rounds_of: dict[str, set[RoundKey]] = field(default_factory=dict)
    """Rounds by the pod that is out."""
    _due: dict[RoundKey, None] = field(default_factory=dict)
    """Rounds in which a pod may be let out."""

    def __post_init__(self) -> None:
        self._pool, self._rules = self.queues.pool, self.queues.pool.rules
        self._pool.on_moved = self._moved

    # -- events -------------------------------------------------------------------------------------------------------

    def wake(self, event: events.ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None) -> None:
        """Let pods be tried again that an event may help. A wildcard helps all pods; `pre_check` excludes pods."""
        if not len(self._pool):
            return
        if event.is_wildcard:
            self.move([queued for queued in self._pool if pre_check is None or pre_check(queued.pod)], event)
            return
        named = self._pool.mounting(events.claims_named(old, new)) if self._pool.mounts_claims else {}
        self._pool.sign_again(named.values())
        at_once = self._those_named(named, event, old, new, pre_check)
        for profile, table in self.tables.items():
            helped: list[tuple[EquivalenceClass, frozenset[str]]] = []
            has_reach: dict[str, bool] = {}
            for equivalence_class in self._classes(profile, table, event, old, new):
                asked = _first(equivalence_class, named, pre_check)
                if asked is None:
                    continue
                plugins = table.answer(asked, table.caring(event, for_any=True), event, old, new)
                if plugins is None:
                    continue
                for plugin in plugins - has_reach.keys():
                    has_reach[plugin] = self._rules.reach(profile, plugin, event, _changed(old, new)) is not None
                takes_turns = len(equivalence_class) > 1 or all(has_reach[each] for each in plugins)
                if not takes_turns or self._pool.is_nominated(asked.pod):
                    at_once.append(asked)
                else:
                    helped.append((equivalence_class, plugins))
            if helped:
                self._begin(_round_key(profile, old, new), event, _changed(old, new), helped)
        self.move(at_once, event)
        self.let_out()

    def _those_named(
        self, named: Mapping[str, QueuedPod], event: events.ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None
    ) -> list[QueuedPod]:
        """The pods that an event is about, and may help."""
        found: list[QueuedPod] = []
        for queued in named.values():
            table = self.tables.get(queued.profile)
            if table is None or (pre_check is not None and not pre_check(queued.pod)):
                continue
            if queued.is_gated and queued.gating_plugin not in table.caring(event):
                continue
            if table.is_worth(queued, event, old, new):
                found.append(queued)
        return found

    def _classes(
        self, profile: str, table: HintTable, event: events.ClusterEvent, old: Any, new: Any
    ) -> list[EquivalenceClass]:
        """The classes that a plugin registered for the event refused, and that the event may be enough for."""
        found: dict[ClassKey, EquivalenceClass] = {}
        for plugin in table.caring(event, for_any=True):
            refused = self._pool.refused_by(profile, plugin)
            if not len(refused):
                continue
            offer = self._rules.offer(profile, plugin, event, old, new)
            for equivalence_class in refused.everyone() if offer is None else refused.helped_by(offer):
                found[equivalence_class.key] = equivalence_class
        return list(found.values())

    def move(self, helped: Iterable[QueuedPod], event: events.ClusterEvent) -> None:
        """Let pods of the pool be tried again, after their backoff."""
        for queued in helped:
            if queued.uid in self._pool:
                self.queues.requeue(queued, Requeue.AFTER_BACKOFF, event.label)

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _begin(
        self,
        key: RoundKey,
        event: events.ClusterEvent,
        changed: Any,
        helped: Iterable[tuple[EquivalenceClass, frozenset[str]]],
    ) -> None:
        """Add classes that an event helps, according to these plugins, to the round of the changed object. A pod of the
        round that is being tried now says nothing about the event: the next pod is let out."""
        found = self._rounds.setdefault(key, Round(key, event, changed))
        found.event, found.changed = event, changed
        if found.out is not None and self.is_in_flight(found.out[0]):
            self._come_back(found)
        for of_class, plugins in helped:
            self._join(found, of_class, plugins)

    def _join(self, found: Round, of_class: EquivalenceClass, plugins: frozenset[str]) -> None:
        """Let a class wait in a round for its turn, if it does not already."""
        if len(of_class):
            found.waiting[of_class.key] = found.waiting.get(of_class.key, _NOBODY) | plugins
            self._due[found.key] = None

    def _turns(self, found: Round) -> list[tuple[ClassKey, EquivalenceClass, QueuedPod]]:
        """The waiting classes with their first pods, in the queue's order; classes without pods stop waiting."""
        classes = [(key, of_class) for key in found.waiting if (of_class := self._pool.classes.get(key)) is not None]
        turns = [(key, of_class, head) for key, of_class in classes if (head := of_class.peek()) is not None]
        found.waiting = {key: found.waiting[key] for key, _, _ in turns}
        return sorted(turns, key=lambda turn: self._pool.order(turn[2]))

    def let_out(self) -> None:
        """Move the pods out of the pool whose turn it is. Pods that the event cannot help are left alone."""
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            found = self._rounds.get(key)
            if found is None:
                continue
            for turn, of_class, head in self._turns(found) if found.out is None else ():
                if not self._may_help(found, head, found.waiting[turn]):
                    del found.waiting[turn]
                    continue
                if len(of_class) == 1:
                    del found.waiting[turn]  # pods that join the class from now on were tried after the event
                found.out, found.let_out_at = (head.uid, turn), self.clock.monotonic()
                self._rounds_of.setdefault(head.uid, set()).add(key)
                self.move([head], found.event)
                break
            if not found.waiting and self._rounds.get(key) is found:
                self._forget_out(found)
                del self._rounds[key]

    def _may_help(self, found: Round, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """True if one of these plugins is right: the pod is not still refused on the rows of the event."""
        for plugin in plugins:
            may_help = self._rules.reach(found.key[0], plugin, found.event, found.changed)
            try:
                if may_help is None or may_help(queued):
                    return True
            except Exception as exc:  # one attempt too many is better than a pod that is never tried again
                self._pool.on_plugin_error(plugin, queued, exc)
                return True
        return False

    def tried(self, uid: str) -> None:
        """A pod was placed, met an error or is gone: let the next one like it out."""
        for key in list(self._rounds_of.get(uid, ())):
            self._come_back(self._rounds[key])
        self.let_out()

    def refused(self, queued: QueuedPod) -> None:
        """A pod that was let out was refused and is indexed again. Other pods of its old class are refused with it if
        the plugins that refuse it now cannot tell them apart."""
        rounds = [self._rounds[key] for key in self._rounds_of.get(queued.uid, ())]
        theirs = self._pool.key_for(queued) if rounds else None
        for each in rounds:
            if each.out is None:
                continue
            key = each.out[1]
            equivalence_class = self._pool.classes.get(key)
            if theirs is None or equivalence_class is None:
                continue
            if theirs != key:
                self._refuse_alike(equivalence_class, queued, theirs)
            if theirs == key or not len(equivalence_class):
                each.waiting.pop(key, None)
        self.tried(queued.uid)

    def _refuse_alike(self, found: EquivalenceClass, queued: QueuedPod, key: ClassKey) -> None:
        """Move the pods of a class that would be refused for the same reasons as `queued`."""
        for member in list(found):
            before = member.unschedulable_plugins
            member.unschedulable_plugins = queued.unschedulable_plugins
            if self._pool.key_for(member) == key:
                self._pool.add(member)
            else:
                member.unschedulable_plugins = before

    def _moved(self, before: ClassKey, now: EquivalenceClass) -> None:
        """A pod changed its class: it joins the rounds in which its old class waits."""
        for each in self._rounds.values():
            plugins = each.waiting.get(before)
            if plugins is not None:
                self._join(each, now, plugins)

    def flush(self, now_s: float) -> None:
        """Stop waiting for pods that were let out a while ago."""
        for each in self._rounds.values():
            if now_s - each.let_out_at >= PATIENCE_S:
                self._come_back(each)
        self.let_out()

    def _come_back(self, found: Round) -> None:
        """Stop waiting for the pod that is out."""
        self._due[found.key] = None
        self._forget_out(found)

    def _forget_out(self, found: Round) -> None:
        if found.out is not None:
            keys = self._rounds_of[found.out[0]]
            keys.discard(found.key)
            if not keys:
                del self._rounds_of[found.out[0]]
            found.out = None


def _first(found: EquivalenceClass, named: Collection[str], pre_check: PreCheck | None) -> QueuedPod | None:
    """The first pod of a class that the event may help but does not name: pods it names are judged separately."""
    head = found.peek()
    if head is not None and head.uid not in named and (pre_check is None or pre_check(head.pod)):
        return head
    others = (each for each in found if each.uid not in named and (pre_check is None or pre_check(each.pod)))
    return next(others, None)


def _changed(old: Any, new: Any) -> Any:
    return old if new is None else new


def _round_key(profile: str, old: Any, new: Any) -> RoundKey:
    """The changed object; for a pod, its node."""
    changed = _changed(old, new)
    if isinstance(changed, Pod):
        return profile, Pod, changed.spec.node_name or changed.status.nominated_node_name
    return profile, type(changed), changed.key if isinstance(changed, Object) else ""
