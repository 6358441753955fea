"""The server's clock, as far as it is known here.

    server's time  >=  the newest stamp  +  our monotonic seconds since it was read

Only times that one clock wrote are compared, because clocks may differ by minutes. Where the server's clock was
set back, promises are held for longer, never for less.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tonnage.objects.core_v1 import Event, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Object, StampedMeta
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster

_MOST_APART: Final = timedelta(hours=25)
_MOST_APART_IN_DUMPS: Final = timedelta(hours=1)
"""Clocks differ by less than this: what is older than that by our own clock is old, however few stamps were read. A
dump that was made without managedFields says little about the time it was made at, and is read where it was made."""


class ServerTime:
    """What the server's clock shows at least: `cluster.index(ServerTime)`. It reads every object of storage."""

    def __init__(self, cluster: Cluster) -> None:
        self._clock = cluster.clock
        self._zero_at: datetime | None = None
        """What the server's clock showed, at least, at the start of our monotonic clock."""
        self._has_managed_fields = False
        storage = cluster.storage
        known = (storage.classes, storage.drivers, storage.capacities, storage.attachments)
        for each in (*storage.claims, *storage.volumes, *(each for kind in known for each in kind.values())):
            self._changed(None, each)
        for kind in (
            PersistentVolumeClaim,
            PersistentVolume,
            CSIStorageCapacity,
            VolumeAttachment,
            StorageClass,
            CSIDriver,
            Event,
        ):
            storage.on_change(kind, self._changed)

    def now(self) -> datetime | None:
        """The server's clock shows this or more; None when nothing that was read has a stamp."""
        return None if self._zero_at is None else self._zero_at + timedelta(seconds=self._clock.monotonic())

    def age_s(self, created_at: datetime) -> float:
        """How many seconds ago something was created, at least."""
        known = self.now() or created_at
        most_apart = _MOST_APART if self._has_managed_fields else _MOST_APART_IN_DUMPS
        return max(
            (known - created_at).total_seconds(), (self._clock.now() - created_at - most_apart).total_seconds(), 0
        )

    def _changed(self, _: Object | None, new: Object | None) -> None:
        if new is None:
            return
        stamps = [new.metadata.creation_timestamp]
        if isinstance(new.metadata, StampedMeta) and new.metadata.updated_at is not None:
            self._has_managed_fields = True
            stamps.append(new.metadata.updated_at)
        for stamp in stamps:
            zero_at = stamp - timedelta(seconds=self._clock.monotonic()) if stamp is not None else None
            if zero_at is not None and (self._zero_at is None or zero_at > self._zero_at):
                self._zero_at = zero_at
