"""Objects of a cache found by something other than their name: pods by the claims they mount, sets by their owner.

    pods_by_claim = Indexer(informers.of(Pod), claim_keys)
    for pod in pods_by_claim("default/data-0"): ...

An index follows its cache by event handlers, so that no reconcile has to look through all objects; an event costs the
index keys it touches. Make an index before the handlers that use it: handlers are called in the order in which they
were added. client-go's Indexer does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tonnage.client.cache import Cache
from tonnage.objects.meta import Key, Object

T = TypeVar("T", bound=Object)


class Indexer(Generic[T]):
    """The objects of a cache, by the index keys that a function gives them."""

    def __init__(self, objects: Cache[T], index_keys: Callable[[T], Iterable[str]]) -> None:
        self._objects = objects
        self._index_keys = index_keys
        self._indexed: dict[str, dict[Key, None]] = {}
        objects.add_handlers(on_add=self._add, on_update=self._update, on_delete=self._delete)

    def __call__(self, index_key: str) -> tuple[T, ...]:
        """The objects with that index key, in the order in which they got it."""
        found = (self._objects.get(key) for key in self._indexed.get(index_key, ()))
        return tuple(each for each in found if each is not None)

    def _add(self, new: T) -> None:
        for index_key in self._index_keys(new):
            self._indexed.setdefault(index_key, {})[new.key] = None

    def _update(self, old: T, new: T) -> None:
        before, after = set(self._index_keys(old)), set(self._index_keys(new))
        self._drop(old.key, before - after)
        for index_key in after - before:
            self._indexed.setdefault(index_key, {})[new.key] = None

    def _delete(self, old: T) -> None:
        self._drop(old.key, set(self._index_keys(old)))

    def _drop(self, key: Key, index_keys: set[str]) -> None:
        for index_key in index_keys:
            keys = self._indexed.get(index_key)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._indexed[index_key]
