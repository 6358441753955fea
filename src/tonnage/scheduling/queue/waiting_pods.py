"""A pod in the queue, and pods that fit nowhere, until an event comes that the plugins which refused them asked for.

    refused by            sign                       needs            pods, in the queue's order
    NodeResourcesFit      2 CPU                      cpu 2000m        web-0, web-1, web-2, …
    VolumeBinding         20Gi of class fast         fast 20Gi        data-0, data-1, …

Pods that their refusing plugins cannot tell apart (`Plugin.sign`) form a class: an event helps all of them or none. A
pod without a sign is a class by itself. Classes are indexed by refusing plugin and by need, so that an event only looks
at classes it may be enough for. Classes without known needs, and those that preemption may help, are always looked at.
A gated pod is indexed under its gate only. (kube-scheduler signs pods as well: KEP-5598.)

`QueuedPod` is a pod in the queue, with what the queue remembers of its attempts: others read it, and return it.
Instants are seconds of the clock's `monotonic()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.keyed import KeyedHeap, Shelf
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.framework import EventHint, PreEnqueuePlugin

SortKey: TypeAlias = Callable[[PodInfo, float], Any]
"""(pod, when it was queued) -> a sort key; the smallest is tried first. Like QueueSortPlugin.sort_key."""


def by_priority(pod: PodInfo, queued_at: float) -> tuple[int, float]:
    """Highest priority first; among equals, the longest waiting. Like PrioritySort."""
    return -pod.priority, queued_at


def uid_of(pod: Pod) -> str:
    """The pod's uid. A pod from a file may have none; then its key, as in PodInfo."""
    return pod.metadata.uid or pod.key


def is_over(pod: PodInfo, known: Pod | None) -> bool:
    """True if a pod no longer waits: it is gone, terminating, replaced by another of its name, or has its node.
    `known`: the API's current pod of its name."""
    if known is None or uid_of(known) != pod.uid:
        return True
    return known.metadata.is_terminating or bool(known.spec.node_name)


class LeftBehind(NamedTuple):
    """What the last attempt to place a pod left behind. Set by the code that tried it."""

    tried_on: str = ""
    """The nominated node, or the node that the attempt chose; empty for neither."""
    refused_on: str = ""
    """The nominated node that refused it, or the chosen node that it did not reach, if no terminating pod there would
    help. No room is held there. Empty if there is none."""
    is_like_others: bool = False
    """True if pods refused by the same plugins, and alike to them, would get the same decision."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that waits to be placed, or is being placed. `unschedulable_count` grows when plugins refuse the pod;
    `consecutive_errors` on errors, and restarts with the next refusal. `attempts` counts pops."""

    info: PodInfo
    queued_at: float
    """When it was last queued, after its creation or a failed attempt."""
    sequence: int
    """Orders pods queued at the same instant."""
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_at: float | None = None
    """When it could first be tried, after its gates."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that refused it, at the last attempt or before it could be queued; empty after an error."""
    gating_plugin: str = ""
    flushed_at: float | None = None
    """When it was moved because it had waited too long; None if not since its last attempt."""
    left_behind: LeftBehind = field(default=LeftBehind())

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def uid(self) -> str:
        return self.info.uid

    @property
    def profile(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        """True if a PreEnqueue plugin blocks it from being tried."""
        return bool(self.gating_plugin)

    def waiting_since(self) -> float:
        """Since when nothing has moved it: its last attempt, or its last flush without success."""
        return self.queued_at if self.flushed_at is None else max(self.queued_at, self.flushed_at)

    def failed(self, at: float, sequence: int, unschedulable_plugins: frozenset[str]) -> None:
        """Record how an attempt ended; without plugins it was an error. The pod is queued again."""
        self.unschedulable_plugins = unschedulable_plugins
        if unschedulable_plugins:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.queued_at, self.sequence = at, sequence
        self.flushed_at = None
        self.gating_plugin = ""

    def __repr__(self) -> str:
        return f"QueuedPod({self.info.key}, attempts={self.attempts})"


PreCheck: TypeAlias = Callable[[Pod], bool]
"""Which waiting pods an event may concern."""

PluginErrorHook: TypeAlias = Callable[[str, QueuedPod, Exception], None]
"""(plugin, pod, exception): a plugin failed. The pod is not affected; the error should be reported."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event that came while a pod was in flight."""

    event: ClusterEvent
    old: Any
    new: Any
    pre_check: PreCheck | None = None


class Requeue(Enum):
    """What an event does for a waiting pod."""

    NOT = auto()
    AFTER_BACKOFF = auto()
    AT_ONCE = auto()


@dataclass(frozen=True, slots=True)
class QueueingRules:
    """The queueing rules of one profile: its PreEnqueue plugins, and by plugin the events that may change its answer.

    Without a hint, every event of a mask is worth an attempt. Pods refused by a plugin that is not in `hints` wait for
    the periodic flush.
    """

    pre_enqueue: Sequence[PreEnqueuePlugin] = ()
    hints: Mapping[str, Sequence[EventHint]] = field(default_factory=dict)


Needs: TypeAlias = Mapping[Hashable, int]
"""Resource -> amount: an event that offers too little of every resource does not help."""


class Offer(NamedTuple):
    """What an event offers to pods that a plugin refused. Missing in `amounts` means none."""

    amounts: Mapping[Hashable, int]
    preempting_above: int
    """Preemption may make room for pods of a higher priority than this, if they may preempt."""


class Needy(NamedTuple):
    """What the pods of a class need, and their priority for preemption; None if they never preempt."""

    needs: Needs
    preempts_with: int | None


_UNKNOWN_NEED: Final = Needy({"": 0}, None)
"""Of classes that every event may help."""


MayHelp: TypeAlias = Callable[[QueuedPod], bool]
"""False if a pod is still refused on the rows of an event."""


class WakingRules:
    """What the queue asks about refused pods. The engine answers; this base class knows no plugins."""

    def sign(self, profile: str, pod: PodInfo, plugins: frozenset[str]) -> Hashable | None:
        """What these plugins read of the pod: pods of one sign are refused alike. None if a plugin cannot say."""
        return None

    def needs(self, profile: str, plugin: str, pod: PodInfo, refused_by: frozenset[str]) -> Needy | None:
        """What an event must offer to help a pod that the plugin refused; None if the plugin cannot say."""
        return None

    def offer(self, profile: str, plugin: str, event: ClusterEvent, old: Any, new: Any) -> Offer | None:
        """What an event offers to pods that a plugin refused; None if it may help any of them."""
        return None

    def reach(self, profile: str, plugin: str, event: ClusterEvent, changed: Any) -> MayHelp | None:
        """A function that returns whether the event may help a pod on its rows; None if it may for every pod."""
        return None


class RefusedClasses:
    """The classes that one plugin of a profile refused."""

    def __init__(self) -> None:
        self._all: dict[ClassKey, tuple[EquivalenceClass, Needy]] = {}
        self._by_need: Shelf[Hashable, ClassKey, tuple[int, EquivalenceClass]] = Shelf()
        self._by_priority: Shelf[int, ClassKey, EquivalenceClass] = Shelf()

    def put(self, found: EquivalenceClass, needy: Needy | None) -> None:
        needy = needy or _UNKNOWN_NEED
        self._all[found.key] = found, needy
        for what, amount in needy.needs.items():
            self._by_need.put(what, found.key, (amount, found))
        if needy.preempts_with is not None:
            self._by_priority.put(needy.preempts_with, found.key, found)

    def remove(self, key: ClassKey) -> None:
        _, needy = self._all.pop(key)
        for what in needy.needs:
            self._by_need.take(what, key)
        if needy.preempts_with is not None:
            self._by_priority.take(needy.preempts_with, key)

    def everyone(self) -> Iterator[EquivalenceClass]:
        return (found for found, _ in self._all.values())

    def helped_by(self, offer: Offer) -> Iterator[EquivalenceClass]:
        """The classes that an event may be enough for; some of them more than once."""
        for what, offered in (*_UNKNOWN_NEED.needs.items(), *offer.amounts.items()):
            yield from [found for amount, found in self._by_need.at(what).values() if amount <= offered]
        for priority in self._by_priority:
            if priority > offer.preempting_above:
                yield from self._by_priority[priority]

    def __len__(self) -> int:
        return len(self._all)


ClassKey: TypeAlias = Hashable


class EquivalenceClass(KeyedHeap[QueuedPod]):
    """Pods of one profile, refused by the same plugins and alike to them, in the queue's order. `rejectors`: the
    plugins that the class is indexed under."""

    def __init__(self, key: ClassKey, profile: str, rejectors: tuple[str, ...]) -> None:
        super().__init__()
        self.key = key
        self.profile = profile
        self.rejectors = rejectors


_NO_CLASSES: Final = RefusedClasses()


@dataclass(slots=True, eq=False)
class UnschedulablePool:
    """Unschedulable pods by uid, by class, by refusing plugin, and by mounted claim. A pod's sign is computed when it
    comes in, and by `sign_again` when a claim or its nomination has changed."""

    order: Callable[[QueuedPod], Any]
    rules: WakingRules
    on_plugin_error: PluginErrorHook
    is_nominated: Callable[[Pod], bool]
    on_moved: Callable[[ClassKey, EquivalenceClass], None] = lambda before, now: None
    """Called with the old and the new class of a pod that `sign_again` moved."""
    classes: dict[ClassKey, EquivalenceClass] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    _pods: dict[str, tuple[QueuedPod, EquivalenceClass, tuple[Key, ...]]] = field(default_factory=dict)
    _by_refuser: dict[tuple[str, str], RefusedClasses] = field(default_factory=dict)  # by (profile, plugin)
    _by_claim: Shelf[Key, str, QueuedPod] = field(default_factory=Shelf)

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or index it again after a change; it keeps its place in the order."""
        self._take_from_files(queued.uid)
        self._file(queued)

    def _file(self, queued: QueuedPod) -> None:
        key, found = self.key_for(queued), None
        if key is not None:
            found = self.classes.get(key)
        if found is None:
            plugins = (queued.gating_plugin,) if queued.is_gated else tuple(sorted(queued.unschedulable_plugins))
            found = EquivalenceClass(queued.uid if key is None else key, queued.profile, plugins)
            self.classes[found.key] = found
            for plugin in plugins:
                refused = self._by_refuser.setdefault((found.profile, plugin), RefusedClasses())
                refused.put(found, self._needs_of(queued, plugin))
        found.put(queued.uid, self.order(queued), queued)
        claims = queued.info.claim_keys
        self._pods[queued.uid] = (queued, found, claims)
        for claim in claims:
            self._by_claim.put(claim, queued.uid, queued)
        if queued.is_gated:
            self.gated.add(queued.uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod; None if it is not there."""
        self._take_from_files(uid)
        entry = self._pods.pop(uid, None)
        return entry[0] if entry is not None else None

    def _take_from_files(self, uid: str) -> None:
        entry = self._pods.get(uid)
        if entry is None:
            return
        _, equivalence_class, claims = entry
        equivalence_class.remove(uid)
        if not len(equivalence_class):
            del self.classes[equivalence_class.key]
            for plugin in equivalence_class.rejectors:
                refused = self._by_refuser[equivalence_class.profile, plugin]
                refused.remove(equivalence_class.key)
                if not len(refused):
                    del self._by_refuser[equivalence_class.profile, plugin]
        for claim in claims:
            self._by_claim.take(claim, uid)
        self.gated.discard(uid)

    def sign_again(self, pods: Iterable[QueuedPod]) -> None:
        """Index these pods again, because plugins may read something else of them now. All are removed before the first
        is added: a class created again computes its needs again."""
        known = [(queued, self._pods[queued.uid][1].key) for queued in pods]
        for queued, _ in known:
            self._take_from_files(queued.uid)
        for queued, _ in known:
            self._file(queued)
        for queued, before in known:
            if self._pods[queued.uid][1].key != before:
                self.on_moved(before, self._pods[queued.uid][1])

    def key_for(self, queued: QueuedPod) -> ClassKey | None:
        """The class of a pod by its last refusal; None if it is alone."""
        if queued.is_gated or not queued.unschedulable_plugins:
            return None
        if self.is_nominated(queued.pod):  # room is held for it, and others are nominated after it
            return None
        try:
            sign = self.rules.sign(queued.profile, queued.info, queued.unschedulable_plugins)
            hash(sign)
        except Exception as exc:  # a pod without a sign is tried once too often, nothing worse
            self.on_plugin_error("Sign", queued, exc)
            return None
        return None if sign is None else (queued.profile, queued.unschedulable_plugins, sign)

    def _needs_of(self, queued: QueuedPod, plugin: str) -> Needy | None:
        """What the class of a pod needs from an event; None for gated and nominated pods."""
        if queued.is_gated or self.is_nominated(queued.pod):
            return None
        try:
            return self.rules.needs(queued.profile, plugin, queued.info, queued.unschedulable_plugins)
        except Exception as exc:  # the class is looked at once too often, nothing worse
            self.on_plugin_error(plugin, queued, exc)
            return None

    # -- reading ------------------------------------------------------------------------------------------------------

    def refused_by(self, profile: str, plugin: str) -> RefusedClasses:
        return self._by_refuser.get((profile, plugin), _NO_CLASSES)

    def mounting(self, claims: Iterable[Key]) -> dict[str, QueuedPod]:
        """The pods that mount one of these claims, by uid."""
        found: dict[str, QueuedPod] = {}
        for claim in claims:
            found.update(self._by_claim.at(claim))
        return found

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._pods.get(uid)
        return entry[0] if entry is not None else None

    @property
    def mounts_claims(self) -> bool:
        """True if any of the pods mounts a claim."""
        return len(self._by_claim) > 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for queued, _, _ in self._pods.values())
