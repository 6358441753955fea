"""The newest state of objects that we also write ourselves: what the informer shows, or what our last write returned.

An informer lags a little behind. Whoever decides from its cache right after a write would decide from the state before
it, and do everything twice. So what a write returned is noted here and is shown until the informer has caught up.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from tonnage.client.cache import Cache
from tonnage.clock import Clock
from tonnage.objects.meta import Key, Object

T = TypeVar("T", bound=Object)

_KEPT_S: Final = 15.0
"""An informer that has not shown our write by then never will: the object was deleted while it was not listening."""


class Latest(Generic[T]):
    """Reads as the cache does, with our own writes in front of it."""

    def __init__(self, cache: Cache[T], *, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        cache.add_handlers(on_add=self._seen, on_update=lambda _, new: self._seen(new), on_delete=self._deleted)

    def get(self, key: Key) -> T | None:
        shown = self._cache.get(key)
        written, at_s = self._written.get(key, (None, 0.0))
        if written is None:
            return shown
        if self._clock.monotonic() - at_s > _KEPT_S:
            del self._written[key]
            return shown
        return written if shown is None or version_of(written) > version_of(shown) else shown

    def note(self, written: T) -> T:
        """What a write of ours returned."""
        self._written[written.key] = written, self._clock.monotonic()
        return written

    def forget(self, key: Key) -> None:
        """We deleted it ourselves."""
        self._written.pop(key, None)

    def _seen(self, shown: T) -> None:
        written, _ = self._written.get(shown.key, (None, 0.0))
        if written is not None and version_of(shown) >= version_of(written):
            del self._written[shown.key]

    def _deleted(self, shown: T) -> None:
        written, _ = self._written.get(shown.key, (None, 0.0))
        if written is not None and written.uid == shown.uid:
            del self._written[shown.key]


def version_of(found: Object) -> int:
    """Resource versions of one resource are numbers that grow (since Kubernetes 1.35 everybody may rely on it)."""
    text = found.metadata.resource_version
    return int(text) if text.isdecimal() else 0
