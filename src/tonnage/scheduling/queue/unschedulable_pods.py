"""Pods that nothing fits, until something happens that the plugins which refused them care for.

There may be ten thousand of them, and events come by the hundred a second. So pods are found by who refused them, in
classes of pods that cannot be told apart (equivalence_classes.py): an event that only one plugin cares for touches only
that plugin's classes, and one nobody cares for touches none. Events about claims find the pods that mount them. A pod
that a PreEnqueue plugin holds back is found under that plugin alone, because nobody else can let it go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key
from tonnage.scheduling.queue.equivalence_classes import ClassKey, EquivalenceClass, SignHook
from tonnage.scheduling.queue.needs import NeedsHook, Needy, RefusedClasses
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.queueing_hints import PluginErrorHook

_NO_CLASSES: Final = RefusedClasses()

Refuser = tuple[str, str]
"""(profile, plugin)"""


class UnschedulablePool:
    """Waiting pods by uid, by class, by each plugin that refused them, and by the claims they mount.

    `order` says whose turn is first within a class. What `sign` says of a pod is asked when it comes in, and again by
    `sign_again`, when one of its claims has changed, or where it is nominated.
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
        """What the class of a pod needs of an event; None for those that have to be asked about each time.

        A pod that is held by a gate, has met an error or waits for somebody to act is told by hints alone, and one that
        is nominated has room held for it.
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
