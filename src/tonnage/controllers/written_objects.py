"""The newest known state of objects: what the informer shows, or what our own write answered, whichever is later.

An informer tells of our own writes a moment after they were made. A controller that looked at the old state meanwhile
would do its work twice, or take back what it just did. So the answer of every write is kept until the informer has
caught up. Only objects that the informer knows are shown: when it says that one is gone, it is gone.

Mirrors the stores of upstream's volume controllers, which compare resourceVersions as numbers too.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from tonnage.client.cache import Cache
from tonnage.objects.meta import Key, Object

T = TypeVar("T", bound=Object)


class Newest(Generic[T]):
    """A view of a cache that is never behind what was noted."""

    def __init__(self, cache: Cache[T]) -> None:
        self._cache = cache
        self._written: dict[Key, T] = {}
        cache.add_handlers(on_update=lambda _, new: self._caught_up(new), on_delete=self._gone)

    def get(self, key: Key) -> T | None:
        shown = self._cache.get(key)
        written = self._written.get(key)
        if shown is None or written is None or written.uid != shown.uid or not _is_later(written, shown):
            return shown
        return written

    def note(self, written: T) -> T:
        """Keep what a write answered, and return it."""
        self._written[written.key] = written
        return written

    def _caught_up(self, new: T) -> None:
        written = self._written.get(new.key)
        if written is not None and not _is_later(written, new):
            del self._written[new.key]

    def _gone(self, old: T) -> None:
        self._written.pop(old.key, None)


def _is_later(one: Object, other: Object) -> bool:
    return _number(one) > _number(other)


def _number(each: Object) -> int:
    text = each.metadata.resource_version
    return int(text) if text.isdecimal() else 0
