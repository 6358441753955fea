"""Objects found by something other than their name: pods by the claim they mount, attachments by their node.

    pods_of = Lookup(informers.of(Pod), claim_keys)
    for pod in pods_of("default/data-0"): ...

It follows a cache and costs each change the keys it touches, so that no reconcile has to look through all objects.
Make it before the handlers that use it: they are told in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tonnage.client.cache import Cache
from tonnage.objects.core_v1 import PersistentVolume, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import VolumeAttachment

T = TypeVar("T", bound=Object)


class Lookup(Generic[T]):
    """The objects of a cache, by the keys that a function gives them."""

    def __init__(self, cache: Cache[T], keys: Callable[[T], Iterable[str]]) -> None:
        self._cache = cache
        self._keys = keys
        self._found: dict[str, dict[Key, None]] = {}
        cache.add_handlers(on_add=self._add, on_update=self._update, on_delete=self._remove)

    def __call__(self, key: str) -> tuple[T, ...]:
        """The objects with that key, in the order in which they got it."""
        found = (self._cache.get(name) for name in self._found.get(key, ()))
        return tuple(each for each in found if each is not None)

    def _add(self, new: T) -> None:
        for key in self._keys(new):
            self._found.setdefault(key, {})[new.key] = None

    def _update(self, old: T, new: T) -> None:
        before, after = set(self._keys(old)), set(self._keys(new))
        self._drop(old.key, before - after)
        for key in after - before:
            self._found.setdefault(key, {})[new.key] = None

    def _remove(self, old: T) -> None:
        self._drop(old.key, set(self._keys(old)))

    def _drop(self, name: Key, keys: set[str]) -> None:
        for key in keys:
            names = self._found.get(key)
            if names is not None:
                names.pop(name, None)
                if not names:
                    del self._found[key]


def claim_keys(pod: Pod) -> tuple[Key, ...]:
    """The claims that a pod mounts, whether they exist or not."""
    return tuple(f"{pod.namespace}/{name}" for name in pod.claim_names())


def kept_for(volume: PersistentVolume) -> tuple[Key, ...]:
    """The claim that a volume is bound to or kept for."""
    return () if volume.spec.claim_ref is None else (volume.spec.claim_ref.key,)


def attached_volume(attachment: VolumeAttachment) -> tuple[str, ...]:
    """The name of the volume that is attached; nothing for the rare inline one."""
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


def attached_node(attachment: VolumeAttachment) -> tuple[str, ...]:
    return (attachment.spec.node_name,)


def is_over(pod: Pod) -> bool:
    """The pod needs its volumes no more: it has ended, or it is being deleted and none of its containers runs.

    Mirrors upstream's IsPodTerminated: containers that nobody has told of do not run.
    """
    if pod.is_terminal:
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.metadata.is_terminating and not any(
        each.state.terminated is None and each.state.waiting is None for each in statuses
    )
