"""Which capacity objects a promise is charged to, and what may have changed that.

The object that Reserve named is charged as long as it reaches the node; a promise without a name is charged to every
object of its class that does. Siblings in a capacity group are charged too, each until it shows the volume.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import numpy as np

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import row_numbers
from tonnage.scheduling.volumes.attach.volume_places import MissedTargets
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.capacity.index import CapacityIndex, is_elsewhere
from tonnage.scheduling.volumes.rebuilds import RebuildProgress, progress_of
from tonnage.scheduling.volumes.reservations.figures import Figures
from tonnage.scheduling.volumes.reservations.holds import is_looked_at_anew, is_refresh
from tonnage.scheduling.volumes.reservations.promises import Promise
from tonnage.scheduling.volumes.volume_reach import reachable


class PromisedObjects:
    """The capacity objects of a cluster, as the ledger sees them; by `identity`, their uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._index = cluster.index(CapacityIndex)  # it listens before the ledger does, and is told of objects first
        self._by_uid = {identity(each): each for each in cluster.storage.capacities.values()}
        self.figures = Figures(cluster.storage)
        self._node_tick = cluster.node_changes.tick
        self._node_names = {row: name for name, row in cluster.row_of.items()}
        """As of that tick: a row says which node it is now, not which it was."""

    def get(self, uid: str) -> CSIStorageCapacity | None:
        return self._by_uid.get(uid)

    def put(self, new: CSIStorageCapacity) -> bool:
        """An object came or changed. Tells whether it may reach nodes that it did not reach before."""
        uid = identity(new)
        before = self._by_uid.get(uid)
        self._by_uid[uid] = new
        if before is None:
            return True
        if is_refresh(before.figures_version, new):
            self.figures.refreshed(before, new, is_elsewhere=is_elsewhere(before, new))
        return is_elsewhere(before, new)

    def remove(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
        self.figures.forget(uid)

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
        if promise.is_undecided:
            return self._undecided_at(promise.class_name, promise.node_name)
        return self._index.objects_at(promise.class_name, promise.node_name)

    def _undecided_at(self, class_name: str, node_name: str) -> Sequence[CSIStorageCapacity]:
        """The objects that a volume nobody decided on may have taken from. A class with immediate binding mostly has
        none of its own: then those of the classes that share its pools."""
        found = self._index.objects_at(class_name, node_name)
        if found or not self._index.groups.has_groups:
            return found
        others = [self._index.objects_at(each, node_name) for each in self.classes_with(class_name)]
        return [capacity for objects in others for capacity in objects]

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

    def is_unchecked(self, promise: Promise, made_at: datetime | None) -> bool:
        """Whether nobody has looked, since its volume was made, at the source of pools that are to show it."""
        bound_at = promise.claim.metadata.updated_at if not promise.is_rebuild else None
        return any(
            each.is_unchecked_since(made_at)
            and not is_looked_at_anew(each, promise.looked_at.get(identity(each)), bound_at)
            for each in self.charged_to(promise)
        )

    def place_of(self, volume: PersistentVolume) -> str:
        """A node whose room a volume took, by its node affinity; empty if that names none, or nodes that have their
        room from different objects."""
        if volume.spec.node_affinity.required is None:
            return ""
        rows = np.flatnonzero(self._cluster.exists)
        names = [self._cluster.name(row) for row in rows[reachable(self._cluster, volume, rows)].tolist()]
        first: Sequence[CSIStorageCapacity] | None = None
        for name in names:
            objects = self._undecided_at(volume.spec.storage_class_name, name)
            if first is not None and list(map(identity, objects)) != list(map(identity, first)):
                return ""
            first = objects
        return names[0] if names else ""

    def progress(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None = None) -> RebuildProgress:
        """How far the rebuild of a claim's volume has come, as the volume is now, or as it is handed in."""
        known = volume or self._cluster.storage.volumes.get(claim.spec.volume_name)
        return RebuildProgress.UNDER_WAY if known is None else progress_of(self._cluster, known, claim.selected_node)

    def is_refused(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the node that a claim's volume is on its way to could not attach it."""
        return self._cluster.index(MissedTargets).has(claim.spec.volume_name, claim.selected_node)
