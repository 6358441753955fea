"""Whom an event wakes: the unschedulable pods that it may help, one of each kind, and no more than it can.

    event ──► pods that mount a claim it is about ── a refuser thinks it worth a try ──► tried again
          └─► classes, by who refused them ──────── a refuser thinks it worth a try ──► a round: tried again, in turn

Pods that an event names are asked about one by one, for the event tells them from their like: they are filed anew, by
what plugins see of them now. Of the others one of each class is asked about (equivalence_classes.py); a hint says the
same to all of them. Who is let out when stands in `rounds`; here is who is asked, and what the end of an attempt tells
about those that are like the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from tonnage.clock import Clock
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.events import ClusterEvent, claims_named
from tonnage.scheduling.queue.equivalence_classes import ClassKey, EquivalenceClass
from tonnage.scheduling.queue.needs import OfferHook
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.queueing_hints import HintTable, PluginErrorHook, PreCheck, Requeue
from tonnage.scheduling.queue.queues import QueueName, Queues
from tonnage.scheduling.queue.rounds import ReachHook, Round, RoundKey, Rounds

CAN_BE_POPPED = frozenset((QueueName.ACTIVE, QueueName.BACKOFF))


class _Order(Protocol):
    def __call__(self, queued: QueuedPod, /) -> Any: ...


class Waking:
    """Moves pods out of the unschedulable pool.

    `is_in_flight` tells by uid whether a pod is being tried. A pod that is nominated has its turn at once, so that its
    room is held again before anybody else is tried. `on_active` is called when somebody may be popped.
    """

    def __init__(
        self,
        clock: Clock,
        tables: Mapping[str, HintTable],
        queues: Queues,
        *,
        is_in_flight: Callable[[str], bool],
        is_nominated: Callable[[Pod], bool],
        order: _Order,
        reach: ReachHook,
        offer: OfferHook,
        on_active: Callable[[], None],
        on_plugin_error: PluginErrorHook,
    ) -> None:
        self._clock = clock
        self._tables = tables
        self._queues = queues
        self._pool = queues.pool
        self._is_in_flight = is_in_flight
        self._is_nominated = is_nominated
        self._reach = reach
        self._offer = offer
        self._rounds = Rounds(queues.pool, order)
        self._on_active = on_active
        self._on_plugin_error = on_plugin_error
        self._pool.on_moved = self._rounds.moved

    # -- something happened -------------------------------------------------------------------------------------------

    def wake(self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None) -> None:
        """Let those be tried again whom an event may help. A wildcard helps everybody; `pre_check` leaves pods out."""
        if not len(self._pool):
            return
        if event.is_wildcard:
            everybody = [queued for queued in self._pool if pre_check is None or pre_check(queued.pod)]
            self.move(((queued, Requeue.AFTER_BACKOFF) for queued in everybody), event)
            return
        named = self._pool.mounting(claims_named(old, new)) if self._pool.mounts_claims else {}
        self._pool.sign_again(named.values())
        at_once = self._those_named(named, event, old, new, pre_check)
        for profile, table in self._tables.items():
            helped: dict[ClassKey, frozenset[str]] = {}
            has_reach: dict[str, bool] = {}
            for found in self._classes(profile, table, event, old, new):
                asked = _first(found, named, pre_check)
                if asked is None:
                    continue
                how, plugins = table.answer(asked, table.caring_for_any(event), event, old, new)
                if how is Requeue.NOT:
                    continue
                for plugin in plugins - has_reach.keys():
                    has_reach[plugin] = self._reach(profile, plugin, event, _changed(old, new)) is not None
                takes_turns = len(found) > 1 or all(has_reach[each] for each in plugins)
                if how is Requeue.AT_ONCE or not takes_turns or self._is_nominated(asked.pod):
                    at_once.append((asked, how))
                else:
                    helped[found.key] = plugins
            if helped:
                key = _round_key(profile, old, new)
                self._rounds.begin(key, event, _changed(old, new), helped, self._is_in_flight)
        self.move(at_once, event)
        self.let_out()

    def _those_named(
        self, named: Mapping[str, QueuedPod], event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None
    ) -> list[tuple[QueuedPod, Requeue]]:
        """The pods that an event is about, with what it does for each of them."""
        found: list[tuple[QueuedPod, Requeue]] = []
        for queued in named.values():
            table = self._tables.get(queued.profile)
            if table is None or (pre_check is not None and not pre_check(queued.pod)):
                continue
            if queued.is_gated and queued.gating_plugin not in table.caring(event):
                continue
            how = table.worth(queued, event, old, new)
            if how is not Requeue.NOT:
                found.append((queued, how))
        return found

    def _classes(
        self, profile: str, table: HintTable, event: ClusterEvent, old: Any, new: Any
    ) -> list[EquivalenceClass]:
        """Those that a plugin refused which cares for the event, and for which it may be enough (needs.py)."""
        found: dict[ClassKey, EquivalenceClass] = {}
        for plugin in table.caring_for_any(event):
            refused = self._pool.refused_by(profile, plugin)
            if not len(refused):
                continue
            offer = self._offer(profile, plugin, event, old, new)
            for each in refused.everyone() if offer is None else refused.helped_by(offer):
                found[each.key] = each
        return list(found.values())

    def move(self, helped: Iterable[tuple[QueuedPod, Requeue]], event: ClusterEvent) -> None:
        """Put pods of the pool where an event sends them."""
        landed = [self._queues.requeue(queued, how, event.label) for queued, how in helped if queued.uid in self._pool]
        if not CAN_BE_POPPED.isdisjoint(landed):
            self._on_active()

    # -- somebody has his turn ----------------------------------------------------------------------------------------

    def let_out(self) -> None:
        """Move the pods out of the pool whose turn it is."""
        for queued, event in self._rounds.let_out(self._may_help, self._clock.monotonic()):
            self.move([(queued, Requeue.AFTER_BACKOFF)], event)

    def _may_help(self, found: Round, queued: QueuedPod, plugins: frozenset[str]) -> bool:
        """Whether one of the plugins that say so is right: the pod is not refused all the same where it happened."""
        for plugin in plugins:
            may_help = self._reach(found.profile, plugin, found.event, found.changed)
            try:
                if may_help is None or may_help(queued):
                    return True
            except Exception as exc:  # one try too many is better than a pod that is never tried again
                self._on_plugin_error(plugin, queued, exc)
                return True
        return False

    def tried(self, uid: str) -> None:
        """A pod was placed, met an error or is gone: the next one like it has its turn."""
        self._rounds.tried(uid)
        self.let_out()

    def refused(self, queued: QueuedPod) -> None:
        """A pod was refused as any other like it would be. It is where it belongs by now.

        Those that it was let out before are refused with it, if those who refuse it now see the same of them: they wait
        for what it waits for.
        """
        out_in = self._rounds.out_in(queued.uid)
        theirs = self._pool.key_for(queued) if out_in else None
        for each, key in out_in:
            found = self._pool.class_at(key)
            if theirs is None or found is None:
                continue
            if theirs != key:
                self._refuse_alike(found, queued, theirs)
            if theirs == key or not len(found):
                each.waiting.pop(key, None)
        self.tried(queued.uid)

    def _refuse_alike(self, found: EquivalenceClass, queued: QueuedPod, key: ClassKey) -> None:
        """Move the pods of a class that would be refused for the same reasons as one of them was just now."""
        for member in list(found):
            before = member.unschedulable_plugins
            member.unschedulable_plugins = queued.unschedulable_plugins
            is_alike = self._pool.key_for(member) == key
            member.unschedulable_plugins = before
            if is_alike:
                self._queues.refuse(member, queued.unschedulable_plugins)

    def flush(self, now_s: float) -> None:
        """Wait no longer for pods that were let out a while ago."""
        self._rounds.flush(now_s)
        self.let_out()


def _first(found: EquivalenceClass, named: Collection[str], pre_check: PreCheck | None) -> QueuedPod | None:
    """The first pod of a class that the event is not about by name, and may be for."""
    head = found.head
    if head is not None and head.uid not in named and (pre_check is None or pre_check(head.pod)):
        return head
    others = (each for each in found if each.uid not in named and (pre_check is None or pre_check(each.pod)))
    return next(others, None)


def _changed(old: Any, new: Any) -> Any:
    return old if new is None else new


def _round_key(profile: str, old: Any, new: Any) -> RoundKey:
    """What changed; of a pod, the node where it did."""
    changed = _changed(old, new)
    if isinstance(changed, Pod):
        return profile, Pod, changed.spec.node_name or changed.status.nominated_node_name
    return profile, type(changed), changed.key if isinstance(changed, Object) else ""
