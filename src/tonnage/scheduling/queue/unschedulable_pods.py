"""Pods that nothing fits, until something happens that the plugins which refused them care for.

    refused by            sign                       needs            pods, in the queue's order
    NodeResourcesFit      2 CPU                      cpu 2000m        web-0, web-1, web-2, …
    VolumeBinding         20Gi of class fast         fast 20Gi        data-0, data-1, …

Pods that the plugins which refused them cannot tell apart (`Plugin.sign`) are one class: what helps one of them helps
all, and what refuses one refuses all. A pod without a sign is a class by itself. Classes are found by who refused them,
and among those by what they cannot do without, so that an event looks only at the classes it may be enough for. Classes
that cannot say what they need, and those that preemption may help, are looked at each time. A gated pod is found under
its gate alone. (kube-scheduler signs pods as well: KEP-5598.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tonnage.keyed import KeyedHeap
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.queueing_hints import PluginErrorHook

Needs: TypeAlias = Mapping[Hashable, int]
"""What -> how much: an event that does not offer enough of any of them is of no use."""


class Offer(NamedTuple):
    """What an event has for the pods that a plugin refused. What `amounts` does not name it has none of."""

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


ClassKey: TypeAlias = Hashable

SignHook: TypeAlias = Callable[[str, PodInfo, frozenset[str]], Hashable | None]
"""(profile, pod, plugins) -> what these plugins see of the pod: pods of one sign are refused alike, by decision and by
preemption. None when one of them cannot say."""


class EquivalenceClass:
    """Pods of one profile that were refused by the same plugins and cannot be told apart by them."""

    __slots__ = ("_pods", "key", "profile", "rejectors")

    def __init__(self, key: ClassKey, profile: str, rejectors: tuple[str, ...]) -> None:
        self.key = key
        self.profile = profile
        self.rejectors = rejectors
        """Under whose names the class is found."""
        self._pods: KeyedHeap[QueuedPod] = KeyedHeap()

    @property
    def head(self) -> QueuedPod | None:
        """The pod whose turn it is first; None when the class is empty."""
        return self._pods.peek()

    def put(self, queued: QueuedPod, order: object) -> None:
        self._pods.put(queued.uid, order, queued)

    def remove(self, uid: str) -> None:
        self._pods.remove(uid)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods)


_NO_CLASSES: Final = RefusedClasses()

Refuser = tuple[str, str]
"""(profile, plugin)"""


class UnschedulablePool:
    """Waiting pods by uid, by class, by each plugin that refused them, and by the claims they mount.

    A pod's sign is asked when it comes in, and again by `sign_again`, when a claim or its nomination has changed.
    """

    def __init__(
        self,
        order: Callable[[QueuedPod], Any] = lambda queued: queued.sequence,
        sign: SignHook = lambda profile, pod, plugins: None,
        on_plugin_error: PluginErrorHook = lambda plugin, queued, exc: None,
        is_nominated: Callable[[Pod], bool] = lambda pod: False,
        needs: NeedsHook = lambda profile, plugin, pod, plugins: None,
    ) -> None:
        self.on_moved: Callable[[ClassKey, EquivalenceClass], None] = lambda before, now: None
        """Told of a pod that was signed again and is of another class now: the class that it was of, and the other."""
        self._order = order
        self._on_plugin_error = on_plugin_error
        self._is_nominated = is_nominated
        self._sign = sign
        self._needs = needs
        self._pods: dict[str, tuple[QueuedPod, EquivalenceClass, tuple[Key, ...]]] = {}
        self._classes: dict[ClassKey, EquivalenceClass] = {}
        self._by_refuser: dict[Refuser, RefusedClasses] = {}
        self._by_claim: dict[Key, dict[str, QueuedPod]] = {}
        self._gated: set[str] = set()

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or file it again when it has changed, or who refused it; it keeps its place among all."""
        self._take_from_files(queued.uid)
        self._file(queued)

    def _file(self, queued: QueuedPod) -> None:
        key, found = self.key_for(queued), None
        if key is not None:
            found = self._classes.get(key)
        if found is None:
            plugins = (queued.gating_plugin,) if queued.is_gated else tuple(sorted(queued.rejectors))
            found = EquivalenceClass(queued.uid if key is None else key, queued.profile, plugins)
            self._classes[found.key] = found
            for plugin in plugins:
                refused = self._by_refuser.setdefault((found.profile, plugin), RefusedClasses())
                refused.put(found, self._needs_of(queued, plugin))
        found.put(queued, self._order(queued))
        claims = queued.info.claim_keys
        self._pods[queued.uid] = (queued, found, claims)
        for claim in claims:
            self._by_claim.setdefault(claim, {})[queued.uid] = queued
        if queued.is_gated:
            self._gated.add(queued.uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out; None when it is not there."""
        self._take_from_files(uid)
        entry = self._pods.pop(uid, None)
        return entry[0] if entry is not None else None

    def _take_from_files(self, uid: str) -> None:
        entry = self._pods.get(uid)
        if entry is None:
            return
        _, found, claims = entry
        found.remove(uid)
        if not len(found):
            del self._classes[found.key]
            for plugin in found.rejectors:
                refused = self._by_refuser[found.profile, plugin]
                refused.remove(found.key)
                if not len(refused):
                    del self._by_refuser[found.profile, plugin]
        for claim in claims:
            self._drop(self._by_claim, claim, uid)
        self._gated.discard(uid)

    def sign_again(self, pods: Iterable[QueuedPod]) -> None:
        """What plugins see of these pods may have changed: file them where they belong now.

        All are taken out before the first is put back: a class that is made again is asked anew what it needs.
        """
        known = [(queued, self._pods[queued.uid][1].key) for queued in pods]
        for queued, _ in known:
            self._take_from_files(queued.uid)
        for queued, _ in known:
            self._file(queued)
        for queued, before in known:
            if self._pods[queued.uid][1].key != before:
                self.on_moved(before, self._pods[queued.uid][1])

    def sign_mounting_again(self) -> None:
        """The same for every pod that mounts a claim."""
        self.sign_again(self.mounting(tuple(self._by_claim)).values())

    def key_for(self, queued: QueuedPod) -> ClassKey | None:
        """The class it belongs to as it was refused last; None when it is alone."""
        if queued.is_gated or queued.pending_plugins or not queued.unschedulable_plugins:
            return None
        if self._is_nominated(queued.pod):  # for it room is held, and others are nominated after it
            return None
        try:
            sign = self._sign(queued.profile, queued.info, queued.unschedulable_plugins)
            hash(sign)
        except Exception as exc:  # a pod that cannot be told from others is tried once too often, and that is all
            self._on_plugin_error("Sign", queued, exc)
            return None
        return None if sign is None else (queued.profile, queued.unschedulable_plugins, sign)

    def _needs_of(self, queued: QueuedPod, plugin: str) -> Needy | None:
        """What the class of a pod needs of an event; None for those that have to be asked about each time: gated,
        pending and nominated pods.
        """
        if queued.is_gated or queued.pending_plugins or self._is_nominated(queued.pod):
            return None
        try:
            return self._needs(queued.profile, plugin, queued.info, queued.unschedulable_plugins)
        except Exception as exc:  # it is looked at once too often, and that is all
            self._on_plugin_error(plugin, queued, exc)
            return None

    # -- looking in ---------------------------------------------------------------------------------------------------

    def refused_by(self, profile: str, plugin: str) -> RefusedClasses:
        return self._by_refuser.get((profile, plugin), _NO_CLASSES)

    def class_at(self, key: ClassKey) -> EquivalenceClass | None:
        return self._classes.get(key)

    def mounting(self, claims: Iterable[Key]) -> dict[str, QueuedPod]:
        """The pods that mount one of these claims, by uid."""
        found: dict[str, QueuedPod] = {}
        for claim in claims:
            found.update(self._by_claim.get(claim, {}))
        return found

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._pods.get(uid)
        return entry[0] if entry is not None else None

    @property
    def mounts_claims(self) -> bool:
        """Whether any of the pods does."""
        return bool(self._by_claim)

    @property
    def gated_count(self) -> int:
        return len(self._gated)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for queued, _, _ in self._pods.values())

    @staticmethod
    def _drop(index: dict[Any, dict[Any, Any]], place: Any, name: Any) -> None:
        found = index.get(place)
        if found is not None:
            found.pop(name, None)
            if not found:
                del index[place]
