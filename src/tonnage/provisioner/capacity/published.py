"""The capacity objects that are ours, by their work item, including those just written.

An informer is a moment behind: of an object that was made or changed it tells later. `note` takes in what the server
answered to our own write, so that nothing is made twice and nothing is changed on top of an old state. What the
informer has not shown yet is `is_confirmed` False: it may have been deleted by somebody before anyone was told, and is
fetched before it is relied on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tonnage.client.cache import Cache
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.provisioner.capacity.objects import key_of

_NEVER = datetime.max.replace(tzinfo=UTC)


class PublishedCapacities:
    """Index of a cache of capacity objects. Class and topology never change, so an object stays where it is."""

    def __init__(self, objects: Cache[CSIStorageCapacity]) -> None:
        self._objects = objects
        self._by_item: dict[Key, dict[str, CSIStorageCapacity]] = {}
        objects.add_handlers(on_add=self.note, on_update=lambda _, new: self.note(new), on_delete=self.forget)

    def about(self, key: Key) -> list[CSIStorageCapacity]:
        """The objects of a work item, the one to be kept first: the oldest, of equally old ones by name."""
        found = self._by_item.get(key, {}).values()
        alive = (each for each in found if not each.metadata.is_terminating)
        return sorted(alive, key=lambda each: (each.metadata.creation_timestamp or _NEVER, each.name))

    def __iter__(self) -> Iterator[Key]:
        """The work items that have an object."""
        return iter(tuple(self._by_item))

    def __contains__(self, key: Key) -> bool:
        return key in self._by_item

    def is_confirmed(self, found: CSIStorageCapacity) -> bool:
        """Whether the informer has shown this object, in this state or an earlier one."""
        shown = self._objects.get(found.key)
        return shown is not None and shown.uid == found.uid

    def note(self, found: CSIStorageCapacity) -> None:
        """Take in an object as the server has it, unless a newer state of it is known."""
        known = self._by_item.setdefault(key_of(found), {})
        before = known.get(found.uid)
        if before is None or found.metadata.revision >= before.metadata.revision:
            known[found.uid] = found

    def forget(self, found: CSIStorageCapacity) -> None:
        """It is gone."""
        key = key_of(found)
        known = self._by_item.get(key, {})
        known.pop(found.uid, None)
        if not known:
            self._by_item.pop(key, None)
