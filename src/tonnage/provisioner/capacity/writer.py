"""Writes capacity objects within a rate limit, and finds out where the server keeps pools.

A server without KEP-5925 drops `availableCapacities`. So the answer to a write is compared with the request; if the
field was dropped, pools go into an annotation, and the field is tried again after ten minutes.

`PublishedCapacities` also has objects that the informer does not show yet; these are fetched before they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.throttle import TokenBucket
from tonnage.clock import Clock
from tonnage.errors import NotFound, TonnageError
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key, OwnerReference
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, CSIStorageCapacity
from tonnage.provisioner.capacity import objects
from tonnage.provisioner.capacity.objects import ReportedCapacity, WorkItem, key_of

_NEVER = datetime.max.replace(tzinfo=UTC)


class PublishedCapacities:
    """Capacity objects by work item. Class and topology of an object never change."""

    def __init__(self, objects: Cache[CSIStorageCapacity]) -> None:
        self._objects = objects
        self._by_item: dict[Key, dict[str, CSIStorageCapacity]] = {}
        objects.add_handlers(on_add=self.note, on_update=lambda _, new: self.note(new), on_delete=self.forget)

    def about(self, key: Key) -> list[CSIStorageCapacity]:
        """The objects of a work item, the one to keep first: the oldest, then by name."""
        found = self._by_item.get(key, {}).values()
        alive = (capacity for capacity in found if not capacity.metadata.is_terminating)
        return sorted(alive, key=lambda each: (each.metadata.creation_timestamp or _NEVER, each.name))

    def __iter__(self) -> Iterator[Key]:
        """The work items that have an object."""
        return iter(tuple(self._by_item))

    def __contains__(self, key: Key) -> bool:
        return key in self._by_item

    def is_confirmed(self, found: CSIStorageCapacity) -> bool:
        """True if the informer has shown this object, in this or an earlier version."""
        shown = self._objects.get(found.key)
        return shown is not None and shown.uid == found.uid

    def note(self, found: CSIStorageCapacity) -> None:
        """Take an object from the server, unless a newer version of it is known."""
        known = self._by_item.setdefault(key_of(found), {})
        before = known.get(found.uid)
        if before is None or found.metadata.revision >= before.metadata.revision:
            known[found.uid] = found

    def forget(self, found: CSIStorageCapacity) -> None:
        key = key_of(found)
        known = self._by_item.get(key, {})
        known.pop(found.uid, None)
        if not known:
            self._by_item.pop(key, None)


_OFFER_AGAIN_S: Final = 600.0
_OLD_S: Final = 0.1
"""A report that waited this long for its write is asked for again."""

_log = logs.logger("tonnage.provisioner")


@dataclass(kw_only=True, eq=False)
class CapacityWriter:
    """Creates, patches and deletes objects for the capacity controller, and notes them as published."""

    client: Client
    published: PublishedCapacities
    namespace: str
    labels: Mapping[str, str]
    owner: OwnerReference | None
    limit: TokenBucket | None
    clock: Clock

    def __post_init__(self) -> None:
        self._dropped_at: float | None = None

    @property
    def is_dropped(self) -> bool:
        """True if the server is known to drop the field of pools."""
        return self._dropped_at is not None and self.clock.monotonic() - self._dropped_at < _OFFER_AGAIN_S

    def patch_for(self, found: CSIStorageCapacity, reported: ReportedCapacity) -> Doc:
        """The patch that brings an object to the report; empty if it matches."""
        return objects.patch_for(found, reported, owner=self.owner, is_dropped=self.is_dropped)

    async def waited_for_turn(self) -> bool:
        """Return when another write may be sent; True if that took so long that the report is outdated."""
        if self.limit is None:
            return False
        since = self.clock.monotonic()
        await self.limit.take()
        return self.clock.monotonic() - since > _OLD_S

    async def write(
        self, item: WorkItem, found: CSIStorageCapacity | None, reported: ReportedCapacity
    ) -> CSIStorageCapacity:
        """Create the object, or patch it if still needed; returns the server's version. Raises ApiError."""
        had_field = found is not None and bool(found.available_capacities)
        offers_field = bool(reported.pools) and reported.adds_pools and not had_field and not self.is_dropped
        if found is None:
            wanted = objects.new_object(
                item,
                reported,
                namespace=self.namespace,
                labels=self.labels,
                owner=self.owner,
                is_dropped=self.is_dropped,
            )
            try:
                written = await self.client.create(wanted)
            except NotFound as exc:
                # Elsewhere NotFound means that the object is gone; here the namespace is missing.
                raise TonnageError(
                    f'capacity objects cannot be made: there is no namespace "{self.namespace}"',
                    hint=f"create it (kubectl create namespace {self.namespace}), or name another",
                ) from exc
        else:
            change = self.patch_for(found, reported)
            if not change:
                return found
            metadata = {**change.get("metadata", {}), "resourceVersion": found.metadata.resource_version}
            written = await self.client.patch(CSIStorageCapacity, found.key, {**change, "metadata": metadata})
        self.published.note(written)
        if offers_field:
            is_kept = bool(written.available_capacities)
            if not is_kept and self._dropped_at is None:
                _log.info(
                    "The API server drops availableCapacities; pools are written as an annotation",
                    annotation=AVAILABLE_CAPACITIES,
                )
            self._dropped_at = None if is_kept else self.clock.monotonic()
        _log.debug("Published", object=written.key, item=item.key, reported=reported)
        return written

    async def confirmed(self, found: CSIStorageCapacity) -> CSIStorageCapacity | None:
        """The object, fetched if the informer has never shown it; None if it is gone."""
        if self.published.is_confirmed(found):
            return found
        current = await self.client.find(CSIStorageCapacity, found.key)
        if current is None:
            self.published.forget(found)
        return current

    async def delete(self, found: CSIStorageCapacity) -> None:
        """Delete this object, but not a later one of the same name."""
        await self.waited_for_turn()
        _log.info("A capacity object is deleted", object=found.key, item=objects.key_of(found))
        with suppress(NotFound):
            await self.client.delete(CSIStorageCapacity, found.key, uid=found.uid)
        self.published.forget(found)
