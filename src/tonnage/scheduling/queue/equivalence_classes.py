"""Unschedulable pods that the plugins which refused them cannot tell apart.

    refused by            sign                       pods, in the queue's order
    NodeResourcesFit      2 CPU                      web-0, web-1, web-2, …
    NodeResourcesFit      3 CPU                      db-0
    VolumeBinding         20Gi of class fast         data-0, data-1, …

Every node refused the first of a class, each by a plugin that sees the same of the others (`Plugin.sign`): so it would
refuse them too, as long as nothing changes. What helps one of them helps all, and what refuses one refuses all. A queue
that knows this asks a hint once a class, and tries one pod of it at a time (rounds.py). A pod without a sign is a
class by itself.

The word is that of kube-scheduler's old equivalence cache; its successor, which signs pods as well, is KEP-5598.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeAlias

from tonnage.keyed_heap import KeyedHeap
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.queue.queued_pod import QueuedPod

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
