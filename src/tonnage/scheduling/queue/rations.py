"""Pods that an event helps, a few at a time: as many as what changed can hold, the others when those were tried.

A capacity object that is refreshed helps every pod that waits for room of its class, a little: there may be hundreds of
them, and room for one. To wake all of them is an attempt each, for every refresh of every node. So a plugin may say how
much of the changed object each pod would use up (`Plugin.ration`), and pods are let out in the queue's order:

    event ──► waiting ──── next in order, and what is out takes less than the whole ────► out ──► tried
                 │ cannot use the object as it is now                                      │
                 ▼                                                                         ▼
              left alone: whatever changes that is an event again               or a second has passed

Nobody is lost. A pod that is left alone was judged by the plugin itself, after the event, on the nodes that the object
reaches; a pod that is not in the pool any more was woken by something else, and is tried after the event as well; with
nobody out, the next pod that can use the object is let out whatever it takes. Pods that back off do not hold up the
others: after a second what is out no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from tonnage.objects.meta import Key
from tonnage.scheduling.events import ClusterEvent
from tonnage.scheduling.framework import Ration
from tonnage.scheduling.queue.queued_pod import QueuedPod
from tonnage.scheduling.queue.unschedulable_pods import UnschedulablePool

RationHook: TypeAlias = Callable[[str, str, ClusterEvent, Any], Ration | None]
"""(profile, plugin, event, what changed) -> how it is shared out; None when whoever is helped is tried at once."""

PATIENCE_S: Final = 1.0
"""For so long pods that were let out keep others from being let out."""

_WaveKey: TypeAlias = tuple[str, str, type, Key]
"""Profile, plugin, and the object that changed."""


class Wave:
    """The pods of one profile that one plugin refused and one changed object may help."""

    def __init__(self, profile: str, plugin: str) -> None:
        self.profile = profile
        self.plugin = plugin
        self.event: ClusterEvent
        self.changed: Any
        self.waiting: dict[str, QueuedPod] = {}
        self.out: dict[str, float] = {}
        """Those that were let out and not tried since, with what each of them would use up."""
        self.let_out_at = 0.0
        self._is_in_order = True

    def add(self, helped: Iterable[QueuedPod]) -> None:
        self.waiting.update({queued.uid: queued for queued in helped})
        self._is_in_order = False

    def next(
        self,
        share_of: Callable[[QueuedPod], float | None],
        pool: UnschedulablePool,
        order: Callable[[QueuedPod], Any],
    ) -> Iterator[QueuedPod]:
        """Let out those whose turn it is now; the others go on waiting, or are left alone."""
        if not self._is_in_order:
            self.waiting = {queued.uid: queued for queued in sorted(self.waiting.values(), key=order)}
            self._is_in_order = True
        for queued in list(self.waiting.values()):
            if queued.uid not in pool:
                del self.waiting[queued.uid]
                continue
            share = share_of(queued)
            if share is not None and self.out and sum(self.out.values()) + share > 1.0:
                return
            del self.waiting[queued.uid]
            if share is not None:
                self.out[queued.uid] = share
                yield queued


class Rations:
    """The waves there are. `begin` and `tried` note; `due` are those in which somebody may have his turn."""

    def __init__(self) -> None:
        self._waves: dict[_WaveKey, Wave] = {}
        self._waves_of: dict[str, set[_WaveKey]] = {}
        """By pod that is out."""
        self._due: dict[_WaveKey, None] = {}

    def begin(self, profile: str, plugin: str, event: ClusterEvent, changed: Any, helped: Iterable[QueuedPod]) -> None:
        """These pods may be helped. Those that an earlier event of the same object was to help still are."""
        key = (profile, plugin, type(changed), changed.key)
        wave = self._waves.setdefault(key, Wave(profile, plugin))
        wave.event, wave.changed = event, changed
        wave.add(helped)
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
        key = (wave.profile, wave.plugin, type(wave.changed), wave.changed.key)
        if not wave.waiting:
            del self._waves[key]
            self._forget_out(key, wave)
            return
        wave.let_out_at = now_s
        for uid in wave.out:
            self._waves_of.setdefault(uid, set()).add(key)

    def tried(self, uid: str) -> bool:
        """A pod was tried, or is gone; whether somebody else may have his turn for that."""
        keys = self._waves_of.pop(uid, None)
        if not keys:
            return False
        for key in keys:
            self._waves[key].out.pop(uid, None)
            self._due[key] = None
        return True

    def flush(self, now_s: float) -> bool:
        """Wait no longer for pods that were let out a while ago; whether there were any."""
        late = [key for key, wave in self._waves.items() if now_s - wave.let_out_at >= PATIENCE_S]
        for key in late:
            self._forget_out(key, self._waves[key])
            self._due[key] = None
        return bool(late)

    def _forget_out(self, key: _WaveKey, wave: Wave) -> None:
        for uid in wave.out:
            keys = self._waves_of.get(uid)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._waves_of[uid]
        wave.out.clear()

    def __len__(self) -> int:
        return len(self._waves)
