"""The server's clock, as far as it is known here.

Clocks may differ by minutes, so only times of one clock are compared: the server's stamps with each other and with a
lower bound of the server's clock. If that clock is set back, holds last longer, never shorter.

    server's time  >=  the newest stamp  +  our monotonic seconds since it was read
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from tonnage.objects.core_v1 import Event
from tonnage.objects.meta import Object, StampedMeta
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.storage import STORAGE_KINDS

_MOST_APART: Final = timedelta(hours=25)
_MOST_APART_IN_DUMPS: Final = timedelta(hours=1)
"""The largest difference between clocks: whatever is older by our own clock is old, however few stamps were read. A
dump without managedFields says little about its time; it is read where it was made."""


class ServerTime:
    """A lower bound of the server's clock, from the stamps of all storage objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._zero_at: datetime | None = None
        """A lower bound of the server's clock at the start of our monotonic clock."""
        self._has_managed_fields = False
        storage = cluster.storage
        plain = (storage.classes, storage.drivers, storage.capacities, storage.attachments)
        self._note((*storage.claims, *storage.volumes, *(each for kind in plain for each in kind.values())))
        for kind in (*STORAGE_KINDS, Event):
            storage.on_change(kind, self._changed)

    def now(self) -> datetime | None:
        """A lower bound of the server's clock; None if no object has a stamp."""
        return None if self._zero_at is None else self._zero_at + timedelta(seconds=self._clock.monotonic())

    def age_s(self, created_at: datetime) -> float:
        """A lower bound of the seconds since `created_at`."""
        known = self.now() or created_at
        most_apart = _MOST_APART if self._has_managed_fields else _MOST_APART_IN_DUMPS
        return max(
            (known - created_at).total_seconds(), (self._clock.now() - created_at - most_apart).total_seconds(), 0
        )

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or (old is not None and old.metadata.resource_version == new.metadata.resource_version != ""):
            return  # an assumed object has no new stamps
        self._note((new,))

    def _note(self, objects: Iterable[Object]) -> None:
        """Take the newest stamp of the objects into account."""
        newest: datetime | None = None
        for each in objects:
            updated_at = each.metadata.updated_at if isinstance(each.metadata, StampedMeta) else None
            if updated_at is not None:
                self._has_managed_fields = True
            for stamp in (each.metadata.creation_timestamp, updated_at):
                if stamp is not None and (newest is None or stamp > newest):
                    newest = stamp
        if newest is not None:
            zero_at = newest - timedelta(seconds=self._clock.monotonic())
            if self._zero_at is None or zero_at > self._zero_at:
                self._zero_at = zero_at
