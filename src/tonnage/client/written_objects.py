"""The newest known state of objects that a program also writes: the informer's, or the answer to its last write.

The state with the higher resourceVersion wins, until the informer has reached the write, shows the object's deletion,
or five minutes have passed (a restored server counts from an older version). Versions that are no numbers never win.
Mirrors client-go's MutationCache. Finalizer patches carry the resourceVersion: one computed from an old list conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from tonnage.client.cache import Cache
from tonnage.clock import Clock
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, Object, revision_of

T = TypeVar("T", bound=Object)

KEPT_S: Final = 300.0


class MutationCache(Generic[T]):
    """A view of an informer's cache that never lags behind this program's own writes."""

    def __init__(self, objects: Cache[T], *, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        objects.add_handlers(on_add=self._shown, on_update=lambda _, new: self._shown(new), on_delete=self._deleted)

    def get(self, key: Key) -> T | None:
        shown = self._objects.get(key)
        if key not in self._written:
            return shown
        written, stored_at_s = self._written[key]
        # The informer has no position while it reads the state.
        reached = max(shown.metadata.revision if shown is not None else 0, revision_of(self._objects.resource_version))
        is_caught_up = reached >= written.metadata.revision
        if is_caught_up or self._clock.monotonic() - stored_at_s > KEPT_S:
            del self._written[key]
            return shown
        return written

    def store(self, written: T) -> T:
        """Keep the answer of a create, update or patch, unless a later one is known. Returns `written`."""
        known = self._written.get(written.key)
        if known is None or written.metadata.revision >= known[0].metadata.revision:
            self._written[written.key] = written, self._clock.monotonic()
        return written

    def forget(self, key: Key) -> None:
        """Call it when the program has deleted the object itself."""
        self._written.pop(key, None)

    def _shown(self, shown: T) -> None:
        self.get(shown.key)  # forgets the write if the informer has reached it

    def _deleted(self, old: T) -> None:
        found = self._written.get(old.key)
        if found is not None and found[0].uid == old.uid:
            del self._written[old.key]


def add_finalizer(found: Object, name: str, *, annotations: Mapping[str, str] | None = None) -> Doc | None:
    """A patch that adds the finalizer and the annotations; None when all exist."""
    metadata: Doc = {}
    if name not in found.metadata.finalizers:
        metadata["finalizers"] = [*found.metadata.finalizers, name]
    missing = {key: value for key, value in (annotations or {}).items() if found.metadata.annotations.get(key) != value}
    if missing:
        metadata["annotations"] = missing
    return {"metadata": {"resourceVersion": found.metadata.resource_version, **metadata}} if metadata else None


def remove_finalizer(found: Object, name: str) -> Doc | None:
    if name not in found.metadata.finalizers:
        return None
    others = [other for other in found.metadata.finalizers if other != name]
    return {"metadata": {"resourceVersion": found.metadata.resource_version, "finalizers": others}}
