"""Pods that nothing fits, until something happens that the plugins which refused them care for.

There may be ten thousand of them, and events come by the hundred a second. So pods are found by who refused them: an
event that only one plugin cares for touches only that plugin's pods, and one nobody cares for touches none. A pod that
a PreEnqueue plugin holds back is found under that plugin alone, because nobody else can let it go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.scheduling.queue.queued_pod import QueuedPod

_NOBODY: Final[Mapping[str, QueuedPod]] = {}

Refuser = tuple[str, str]
"""(profile, plugin)"""


class UnschedulablePool:
    """Waiting pods by uid, and by each plugin that refused them."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[QueuedPod, tuple[Refuser, ...]]] = {}
        self._by_refuser: dict[Refuser, dict[str, QueuedPod]] = {}
        self._gated: set[str] = set()

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or file it again when who refused it has changed."""
        self.remove(queued.uid)
        plugins = (queued.gating_plugin,) if queued.is_gated else sorted(queued.rejectors)
        refusers = tuple((queued.profile, plugin) for plugin in plugins)
        self._pods[queued.uid] = (queued, refusers)
        for refuser in refusers:
            self._by_refuser.setdefault(refuser, {})[queued.uid] = queued
        if queued.is_gated:
            self._gated.add(queued.uid)

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out; None when it is not there."""
        entry = self._pods.pop(uid, None)
        if entry is None:
            return None
        queued, refusers = entry
        for refuser in refusers:
            refused = self._by_refuser[refuser]
            del refused[uid]
            if not refused:
                del self._by_refuser[refuser]
        self._gated.discard(uid)
        return queued

    def refused_by(self, profile: str, plugin: str) -> Mapping[str, QueuedPod]:
        """By uid, in the order they were filed."""
        return self._by_refuser.get((profile, plugin), _NOBODY)

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._pods.get(uid)
        return entry[0] if entry is not None else None

    @property
    def gated_count(self) -> int:
        return len(self._gated)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for queued, _ in self._pods.values())
