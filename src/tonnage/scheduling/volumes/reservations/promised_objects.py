"""Which capacity objects a promise is charged to, which of them show it already, and what may have changed that.

The object that Reserve named is charged as long as it reaches the node; a promise without a name is charged to every
object of its class that does, because any of them may be what the driver takes from. An object that shows what a volume
took is charged no more. A provisioner that says which claims its figures include (`tonnage.dev/included-claims`) is
believed in what it says and in what it leaves out. Others say nothing, and a figure may have been measured before a
volume was made and arrive after its claim was seen bound. So such a refresh shows a volume

    that was made, and seen bound, before it came    (counted in refreshes, however coarse the clock is)
    unless it was written before the volume's object was    (managedFields, creationTimestamp: the server's clock)
    and only if the figure fell by as much, the volumes that were made first being shown first,
    or the refresh before it came after the volume as well: a provisioner measures again after it has written

or, of course, if the object was created after the volume. Where `tonnage pools` keeps an object's pools, only a write
that changes them, or says that they were told anew, is a refresh, and it is as old as what it was told: `capacity`,
which the driver's provisioner writes, says nothing about them (docs/decisions/019). What none of this shows is let go
by the clock. Objects of other classes that draw from the same pools (`capacity/groups.py`) are charged too, each until
it shows the volume.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import INCLUDED_CLAIMS, CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import row_numbers
from tonnage.scheduling.volumes.attach.missed_targets import MissedTargets
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import free_bytes
from tonnage.scheduling.volumes.rebuilds import Progress, progress_of
from tonnage.scheduling.volumes.reservations.holds import is_refresh
from tonnage.scheduling.volumes.reservations.promises import Promise


class Refresh(NamedTuple):
    """An object was published again."""

    tick: int
    """How many refreshes of any object there had been by then."""
    updated_at: datetime | None
    """When it was written; None when it does not say."""
    fell_by: int = 0
    """By how many bytes there is less free than before."""
    before: Refresh | None = None
    """The one before it; the one before that is forgotten."""
    is_measured: bool = True
    """False: the figures are of another kind than before, pools that `tonnage pools` keeps or the driver's own. They
    cannot be compared, and when they were measured is not known."""

    def comes_after(self, made_tick: int, created_at: datetime | None) -> bool:
        """Whether it came and was written after a volume was made that was seen at this tick, created then."""
        is_late = self.updated_at is None or created_at is None or self.updated_at > created_at
        return self.is_measured and self.tick > made_tick and is_late

    def is_too_early(self, created_at: datetime | None) -> bool:
        return self.updated_at is not None and created_at is not None and self.updated_at < created_at


class PromisedObjects:
    """The capacity objects of a cluster, as the ledger sees them; by `identity`, their uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._index = cluster.index(CapacityIndex)  # it listens before the ledger does, and is told of objects first
        self._by_uid = {identity(each): each for each in cluster.storage.capacities.values()}
        self.tick = 0
        """Moves with every refresh of an object."""
        self._refreshed: dict[str, Refresh] = {}
        """By object, its last refresh."""
        self._node_tick = cluster.node_changes.tick
        self._node_names = {row: name for name, row in cluster.row_of.items()}
        """As of that tick: a row says which node it is now, not which it was."""

    def get(self, uid: str) -> CSIStorageCapacity | None:
        return self._by_uid.get(uid)

    def last_refresh(self, uid: str) -> Refresh | None:
        return self._refreshed.get(uid)

    def put(self, new: CSIStorageCapacity) -> bool:
        """An object came or changed. Tells whether it may reach nodes that it did not reach before."""
        uid = identity(new)
        before = self._by_uid.get(uid)
        self._by_uid[uid] = new
        if before is None:
            return True
        if is_refresh(before.figures_version, new):
            self.tick += 1
            self._refreshed[uid] = self._refresh(before, new, self._refreshed.get(uid))
        return (before.storage_class_name, before.node_topology) != (new.storage_class_name, new.node_topology)

    def _refresh(self, before: CSIStorageCapacity, new: CSIStorageCapacity, last: Refresh | None) -> Refresh:
        if before.has_kept_pools != new.has_kept_pools:
            return Refresh(self.tick, None, is_measured=False)
        free, free_before = free_bytes(new), free_bytes(before)
        fell_by = max(free_before - free, 0) if free is not None and free_before is not None else 0
        earlier = last._replace(before=None) if last is not None else None
        return Refresh(self.tick, new.figures_at, fell_by, earlier)

    def remove(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
        self._refreshed.pop(uid, None)

    def changed_nodes(self) -> Sequence[str]:
        """The nodes that came, went or changed since this was asked last."""
        changes, cluster = self._cluster.node_changes, self._cluster
        if self._node_tick == changes.tick:
            return ()
        rows = row_numbers(changes.since(self._node_tick, cluster.size)).tolist()
        self._node_tick = changes.tick
        before = [self._node_names.get(row, "") for row in rows]
        now = [cluster.name(row) for row in rows]
        self._node_names.update(zip(rows, now, strict=True))
        return list(dict.fromkeys([*before, *now]))

    def charged_to(self, promise: Promise) -> Sequence[CSIStorageCapacity]:
        """The objects that a promise is charged to while its volume is being made.

        A node that is not known may have gone meanwhile: what was named stays charged, for the driver may be at it.
        """
        named = self._by_uid.get(promise.named)
        row = self._cluster.row_of.get(promise.node_name)
        if row is None:
            return (named,) if named is not None and named.storage_class_name == promise.class_name else ()
        if named is not None and self._index.reaches(promise.named, promise.class_name, row):
            return (named,)
        return self._index.objects_at(promise.class_name, promise.node_name)

    def shared_with(self, objects: Sequence[CSIStorageCapacity]) -> Sequence[CSIStorageCapacity]:
        """Objects of other classes that draw from the same pools as these: they are charged as well."""
        if not self._index.groups.has_groups:
            return ()
        siblings = [each for charged in objects for each in self._index.groups.siblings(charged)]
        return list({identity(each): each for each in siblings}.values()) if siblings else ()

    def classes_with(self, class_name: str) -> Collection[str]:
        """A class and those that share its pools."""
        return self._index.groups.classes_with(class_name)

    def on_other_groups(self, listener: Callable[[Collection[str]], None]) -> None:
        """Tell of the classes whose objects share their pools with others than before."""
        self._index.groups.on_change.append(listener)

    def shown_by_refresh(
        self, capacity: CSIStorageCapacity, made: Sequence[tuple[Promise, int | None]]
    ) -> list[Promise]:
        """Which volumes the last refresh of an object shows, of promises that it does not show yet, with their sizes.

        All of them were made; what is not counted, or is a rebuild, is shown by whatever comes after it.
        """
        refresh, shown = self._refreshed[identity(capacity)], list[Promise]()
        if not refresh.is_measured:
            return shown
        left = refresh.fell_by
        for promise, size in sorted(made, key=lambda each: (each[0].made_tick or 0, each[0].key)):
            made_tick = promise.made_tick
            if made_tick is None or refresh.tick <= made_tick:
                continue
            if size is None or promise.is_rebuild:
                shown.append(promise)
                continue
            volume = self._cluster.storage.volumes.get(promise.claim.spec.volume_name)
            created_at = volume.metadata.creation_timestamp if volume is not None else None
            # Of a volume that is sent elsewhere a provisioner no longer says that it is where it was.
            is_sent_elsewhere = promise.is_left_behind and promise.has_claim
            names_claims = self._names_claims(capacity) and not is_sent_elsewhere
            if names_claims or refresh.is_too_early(created_at):
                continue
            if size <= left:
                left -= size
                shown.append(promise)
            elif refresh.before is not None and refresh.before.comes_after(made_tick, created_at):
                shown.append(promise)
        return shown

    def is_newer(self, capacity: CSIStorageCapacity, made_at: datetime) -> bool:
        """Whether an object was created after a volume was made, and its pools, if another keeps them, told after."""
        created_at, told_at = capacity.metadata.creation_timestamp, capacity.figures_at
        if capacity.has_kept_pools and (told_at is None or told_at <= made_at):
            return False
        return created_at is not None and created_at > made_at

    def is_unchecked(self, promise: Promise) -> bool:
        """Whether nobody has looked, since its volume was made, at the source of pools that are to show it."""
        return any(each.is_unchecked_since(promise.made_at) for each in self.charged_to(promise))

    def includes(self, capacity: CSIStorageCapacity, claim_uid: str) -> bool:
        """Whether whoever publishes an object says that its figures include this claim's volume."""
        told = capacity.metadata.annotations.get(INCLUDED_CLAIMS, "")
        return bool(told) and self._names_claims(capacity) and claim_uid in told.split(",")

    def _names_claims(self, capacity: CSIStorageCapacity) -> bool:
        """Whether it is said which claims its figures include. A provisioner says that of `capacity`, and of pools that
        another keeps it knows nothing."""
        return INCLUDED_CLAIMS in capacity.metadata.annotations and not capacity.has_kept_pools

    def progress(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None = None) -> Progress:
        """How far the rebuild of a claim's volume has come, as the volume is now, or as it is handed in."""
        known = volume or self._cluster.storage.volumes.get(claim.spec.volume_name)
        return Progress.UNDER_WAY if known is None else progress_of(self._cluster, known, claim.selected_node)

    def is_refused(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the node that a claim's volume is on its way to could not attach it."""
        return self._cluster.index(MissedTargets).has(claim.spec.volume_name, claim.selected_node)
