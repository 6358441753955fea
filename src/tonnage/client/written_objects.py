"""The newest known state of objects that a program also writes: the informer's, or the answer to its own last write.

An informer shows a write a moment after it was answered. Who decides from its cache meanwhile decides from the state
before the write, and does its work twice or undoes it. So the answer of every write is stored here and shown until the
informer has caught up. client-go's MutationCache does the same. The rules:

    newer wins    Of the written and the shown state the one with the higher resourceVersion is returned, whatever
                  their uids: within a resource the versions are one sequence, so an object that was deleted and made
                  again under its name is always newer than every state of the one before it.
    caught up     The informer has caught up with a write when it shows the object at that version or a later one, or
                  has itself come as far (`resource_version`). Then its word counts, and the write is forgotten.
    not shown     So an object that the informer does not show is one that was just created, as long as the informer
                  has not come to the creation; after that it has been deleted.
    deleted       A deletion that the informer shows ends all states with that uid at once. After a deletion of its own
                  a program calls `forget`; the informer shows the object until it has seen the deletion.
    kept 5 min    A write that the informer has not come to by then is forgotten: a server that was restored from a copy
                  counts from an older version. Versions that are no numbers never win.

Patches that add and remove a finalizer, each valid only for the state it was computed from.

The list can only be written whole. With the resourceVersion in it, a patch computed from an old list is a Conflict, and
never restores a finalizer that somebody else has just removed.
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
    """A view of an informer's cache that is never behind this program's own writes."""

    def __init__(self, objects: Cache[T], *, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock
        self._written: dict[Key, tuple[T, float]] = {}
        objects.add_handlers(on_add=self._shown, on_update=lambda _, new: self._shown(new), on_delete=self._deleted)

    def get(self, key: Key) -> T | None:
        """The newest known state; None when there is no such object."""
        shown = self._objects.get(key)
        if key not in self._written:
            return shown
        written, stored_at_s = self._written[key]
        revision = written.metadata.revision
        is_caught_up = (shown is not None and shown.metadata.revision >= revision) or self._is_at(revision)
        if is_caught_up or self._clock.monotonic() - stored_at_s > KEPT_S:
            del self._written[key]
            return shown
        return written

    def store(self, written: T) -> T:
        """Keep the answer of a create, an update or a patch, unless that of a later write is known; returns it."""
        known = self._written.get(written.key)
        if known is None or written.metadata.revision >= known[0].metadata.revision:
            self._written[written.key] = written, self._clock.monotonic()
        return written

    def forget(self, key: Key) -> None:
        """The program has deleted the object itself."""
        self._written.pop(key, None)

    def _is_at(self, revision: int) -> bool:
        """Whether the informer has come as far; it has no position while it fetches the state."""
        position = self._objects.resource_version
        return bool(position) and revision_of(position) >= revision

    def _shown(self, shown: T) -> None:
        found = self._written.get(shown.key)
        if found is not None and shown.metadata.revision >= found[0].metadata.revision:
            del self._written[shown.key]

    def _deleted(self, old: T) -> None:
        found = self._written.get(old.key)
        if found is not None and found[0].uid == old.uid:
            del self._written[old.key]


def add_finalizer(found: Object, name: str, *, annotations: Mapping[str, str] | None = None) -> Doc | None:
    """The patch that adds the finalizer, and these annotations with it; None when everything is there."""
    metadata: Doc = {}
    if name not in found.metadata.finalizers:
        metadata["finalizers"] = [*found.metadata.finalizers, name]
    missing = {key: value for key, value in (annotations or {}).items() if found.metadata.annotations.get(key) != value}
    if missing:
        metadata["annotations"] = missing
    return {"metadata": {"resourceVersion": found.metadata.resource_version, **metadata}} if metadata else None


def remove_finalizer(found: Object, name: str) -> Doc | None:
    """The patch that removes the finalizer; None when it is not there."""
    if name not in found.metadata.finalizers:
        return None
    others = [other for other in found.metadata.finalizers if other != name]
    return {"metadata": {"resourceVersion": found.metadata.resource_version, "finalizers": others}}
