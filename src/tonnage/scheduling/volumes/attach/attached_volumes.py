"""Attached volumes and attach limits by node, kept up to date as pods, claims, volumes and attachments change.

    mounted     a pod on the row uses the volume: through a claim, a generic ephemeral claim, or as an in-tree disk
    attached    a VolumeAttachment names the volume, whatever its status, even when its pod is gone
    used        by driver and row: the number of different volumes mounted or attached; compared with the limit

`Cluster.note_rows` hears of rows whose count changes without a pod. A missing count, driver or CSINode means "no
limit"; 0 is a limit. The limits of a deleted CSINode are remembered until the node goes or a new CSINode names the
driver (upstream: no limit); a driver that leaves an existing CSINode loses its limit. An ephemeral claim made for
another pod is not counted (upstream fails every decision about that node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ints, Mask, grown, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import either
from tonnage.scheduling.volumes.attach.volume_ids import VolumeId, id_of_claim, id_of_inline

NO_LIMIT: Final = 1 << 62
"""In a column of limits: larger than any count of volumes."""
_Told = tuple[tuple[str, int | None, bool], ...]
"""Per driver: name, count, and whether a CSINode names it now; otherwise the count is a remembered one."""


class AttachLimits:
    """Attach limits and installed drivers: one column per driver, one entry per row."""

    def __init__(self) -> None:
        self._capacity = 0
        self._limits: dict[str, Ints] = {}
        self._installed: dict[str, Mask] = {}
        self._told: dict[int, _Told] = {}  # by row that has a CSINode, or had one
        self._uids: dict[int, str] = {}  # by row: the CSINode that was read last
        self._limited: dict[str, int] = {}  # rows with a limit, by driver
        self.has_csi_node: Mask = np.zeros(0, dtype=np.bool_)

    def grow(self, capacity: int) -> None:
        self._limits = {driver: self._no_limits(capacity, column) for driver, column in self._limits.items()}
        self._installed = {driver: grown(column, capacity) for driver, column in self._installed.items()}
        self.has_csi_node = grown(self.has_csi_node, capacity)
        self._capacity = capacity

    def write(self, row: int, csi_node: CSINode | None) -> bool:
        """Read a row's CSINode (None if the node has none). Returns True if anything changed."""
        before = self._told.get(row, ())
        after = self._remembered(row, csi_node, before)
        if csi_node is not None:
            after = (*[(each.name, each.allocatable.count, True) for each in csi_node.spec.drivers], *after)
            self._uids[row] = csi_node.uid
        return self._replace(row, before, after, has_csi_node=csi_node is not None)

    def forget(self, row: int) -> bool:
        """Forget a row's limits: its node was replaced or deleted. Returns True if anything changed."""
        self._uids.pop(row, None)
        return self._replace(row, self._told.get(row, ()), (), has_csi_node=False)

    def _remembered(self, row: int, csi_node: CSINode | None, before: _Told) -> _Told:
        """Limits of drivers that the CSINode does not name. A driver removed from a CSINode loses its limit."""
        named = {each.name for each in csi_node.spec.drivers} if csi_node is not None else set()
        is_same = csi_node is not None and self._uids.get(row) == csi_node.uid
        return tuple(
            [
                (driver, limit, False)
                for driver, limit, was_named in before
                if limit is not None and driver not in named and not (is_same and was_named)
            ]
        )

    def _replace(self, row: int, before: _Told, after: _Told, *, has_csi_node: bool) -> bool:
        if before == after and self.has_csi_node.item(row) is has_csi_node:
            return False
        for driver, limit, was_named in before:
            if was_named:
                self._installed[driver][row] = False
            if limit is not None:
                self._limits[driver][row] = NO_LIMIT
                self._limited[driver] -= 1
        for driver, limit, is_named in after:
            if is_named:
                self._installed.setdefault(driver, np.zeros(self._capacity, dtype=np.bool_))[row] = True
            if limit is not None:
                self.limits(driver)[row] = limit
                self._limited[driver] = self._limited.get(driver, 0) + 1
        self.has_csi_node[row] = has_csi_node
        self._told[row] = after
        if not after:
            del self._told[row]
        return True

    def is_limited(self, driver: str) -> bool:
        """True if any node limits the driver."""
        return self._limited.get(driver, 0) > 0

    def limited_drivers(self) -> list[str]:
        """The names of the drivers that any node limits, sorted."""
        return sorted(driver for driver, rows in self._limited.items() if rows)

    def limits(self, driver: str) -> Ints:
        """By row, how many volumes of the driver may be attached; `NO_LIMIT` if the node sets no limit."""
        found = self._limits.get(driver)
        if found is None:
            found = self._limits[driver] = self._no_limits(self._capacity)
        return found

    def installed(self, driver: str) -> Mask:
        """A mask over rows: True where the driver is installed."""
        found = self._installed.get(driver)
        return np.zeros(self._capacity, dtype=np.bool_) if found is None else found

    @staticmethod
    def _no_limits(capacity: int, known: Ints | None = None) -> Ints:
        made = np.full(capacity, NO_LIMIT, dtype=np.int64)
        if known is not None:
            made[: len(known)] = known
        return made


@dataclass(slots=True)
class _Mount:
    """A claim that a resident pod mounts, and the volume it is counted as."""

    pod: Pod
    row: int
    is_ephemeral: bool
    counted: VolumeId | None = None


@dataclass(slots=True)
class _UsedClaim:
    """A claim that resident pods mount. `volume_name`: the volume it is indexed under."""

    mounts: dict[tuple[str, bool], _Mount] = field(default_factory=dict)  # by the pod's uid, and if it is ephemeral
    volume_name: str = ""


class AttachedVolumes:
    """Counts the attached volumes of a cluster. Get it with `Cluster.index(AttachedVolumes)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = storage = cluster.storage
        self.limits = AttachLimits()
        self._capacity = 0
        self._used: dict[str, Ints] = {}
        self._mounted: Shelf[VolumeId, int, int] = Shelf()  # volume -> row -> mounts
        self._attached: dict[int, frozenset[VolumeId]] = {}
        self._claims: dict[Key, _UsedClaim] = {}
        self._claims_of: Shelf[str, Key, Key] = Shelf()  # volume name -> used claims that name it
        self._attachments: Shelf[str, str, VolumeAttachment] = Shelf()  # node name -> by name
        self._nodes_of: Shelf[str, str, str] = Shelf()  # volume name -> attachment -> node name
        self._caught_up_at = 0
        self._node_uids: dict[int, str] = {}  # row -> the node that its limits are of
        storage.on_change(PersistentVolumeClaim, self._claim_changed)
        storage.on_change(PersistentVolume, self._volume_changed)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSINode, self._csi_node_changed)
        storage.on_change(VolumeAttachment, self._attachment_changed)
        for each in storage.attachments.values():
            self._index_attachment(each)
        cluster.observe(self)

    # -- asking -------------------------------------------------------------------------------------------------------

    def on(self, row: int, driver: str) -> tuple[int, int | None]:
        """The number of the driver's volumes on a node, and the node's limit (None: no limit)."""
        self.catch_up()
        limit = int(self.limits.limits(driver)[row])
        return int(self.used(driver)[row]), None if limit == NO_LIMIT else limit

    def used(self, driver: str) -> Ints:
        """By row, the number of different volumes of the driver that are mounted or attached."""
        found = self._used.get(driver)
        if found is None:
            found = self._used[driver] = np.zeros(self._capacity, dtype=np.int64)
        return found

    def rows_with(self, volume: VolumeId) -> Mapping[int, int]:
        """The rows where a resident pod mounts the volume. Rows where it is only attached are left out."""
        return self._mounted.at(volume)

    def is_mounted(self, claim: Key) -> bool:
        """True if a resident pod mounts the claim by name; generic ephemeral claims do not count."""
        used = self._claims.get(claim)
        return used is not None and not all(mount.is_ephemeral for mount in used.mounts.values())

    def users_of(self, claim: Key) -> list[tuple[Key, int]]:
        """The resident pods that mount the claim by name, with their rows."""
        used = self._claims.get(claim)
        return [(each.pod.key, each.row) for each in used.mounts.values() if not each.is_ephemeral] if used else []

    def living_rows(self, claim: Key, *, without: str) -> set[int]:
        """The rows of pods that mount the claim by name and are not terminating, except the pod with uid `without`."""
        used = self._claims.get(claim)
        if used is None:
            return set()
        return {
            mount.row
            for (uid, is_ephemeral), mount in used.mounts.items()
            if uid != without and not is_ephemeral and not mount.pod.metadata.is_terminating
        }

    def gone_nodes_with(self, volume_name: str) -> list[str]:
        """Names of deleted nodes that VolumeAttachments still name for the volume, sorted."""
        return sorted(node for node in set(self._nodes_of[volume_name]) if node not in self._cluster.row_of)

    def catch_up(self) -> None:
        """Read CSINodes and attachments of nodes that came, went or changed rows. Must run before any question."""
        changes = self._cluster.node_changes
        if changes.tick == self._caught_up_at:
            return
        for row in row_numbers(changes.since(self._caught_up_at, self._cluster.size)).tolist():
            node = self._cluster.nodes[row]
            uid, name = (node.uid, node.name) if node is not None else ("", "")  # a hole has neither
            if self._node_uids.get(row, "") != uid:
                self._node_uids[row] = uid
                self.limits.forget(row)
            self.limits.write(row, self._storage.csi_nodes.get(name))
            self._read_attachments(row)
        self._caught_up_at = changes.tick

    # -- pods ---------------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        for volume in info.pod.spec.volumes:
            name = volume.claim_name(info.pod.name)
            if name is not None:
                self._use(f"{info.namespace}/{name}", info, volume.ephemeral is not None, row)
            elif (found := id_of_inline(volume)) is not None:
                self._mount(found, row)

    def resident_removed(self, info: PodInfo, row: int) -> None:
        for volume in info.pod.spec.volumes:
            name = volume.claim_name(info.pod.name)
            if name is not None:
                self._leave(f"{info.namespace}/{name}", info, volume.ephemeral is not None)
            elif (found := id_of_inline(volume)) is not None:
                self._unmount(found, row)

    def grown(self, capacity: int) -> None:
        self._used = {driver: grown(column, capacity) for driver, column in self._used.items()}
        self.limits.grow(capacity)
        self._capacity = capacity

    # -- storage ------------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        key = either(old, new).key
        if key in self._claims:
            self._look_again((key,))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        name = either(old, new).name
        self._look_again(self._claims_of[name])
        for node in set(self._nodes_of[name]):
            self._attachments_changed(node)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """Recount every used claim when a class comes or goes; this is rare, and a class's provisioner is immutable."""
        if old is None or new is None or old.provisioner != new.provisioner:
            self._look_again(tuple(self._claims))

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        self.catch_up()  # so that the limits of a node that is gone are not remembered for its successor
        row = self._cluster.row_of.get(either(old, new).name)
        if row is None:
            return
        # `catch_up` may have read the new CSINode already, but never the old one.
        is_behind = old is not None and self.limits.write(row, old)
        if self.limits.write(row, new) or is_behind:
            self._note((row,))

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return  # only its status changed
        if old is not None:
            node, volume = old.spec.node_name, old.spec.source.persistent_volume_name
            self._attachments.take(node, old.metadata.name)
            self._nodes_of.take(volume, old.metadata.name)
            self._attachments_changed(node)
        if new is not None:
            self._index_attachment(new)
            self._attachments_changed(new.spec.node_name)

    # -- claims that residents mount ----------------------------------------------------------------------------------

    def _use(self, key: Key, info: PodInfo, is_ephemeral: bool, row: int) -> None:
        claim = self._storage.claims.get(key)
        used = self._claims.get(key)
        if used is None:
            used = self._claims[key] = _UsedClaim()
            self._index_claim(key, used, claim)
        if (info.uid, is_ephemeral) in used.mounts:
            return  # mounted twice, under two names
        mount = used.mounts[info.uid, is_ephemeral] = _Mount(info.pod, row, is_ephemeral)
        if claim is not None and _is_good_for(claim, mount):
            self._count_as(mount, id_of_claim(claim, self._storage))

    def _leave(self, key: Key, info: PodInfo, is_ephemeral: bool) -> None:
        used = self._claims.get(key)
        mount = used.mounts.pop((info.uid, is_ephemeral), None) if used is not None else None
        if used is None or mount is None:
            return  # mounted twice, left already
        self._count_as(mount, None)
        if not used.mounts:
            del self._claims[key]
            self._claims_of.take(used.volume_name, key)

    def _look_again(self, keys: Iterable[Key]) -> None:
        """Recount the mounts of these claims by the volumes they now stand for."""
        touched = []
        for key in keys:
            used, claim = self._claims[key], self._storage.claims.get(key)
            self._index_claim(key, used, claim)
            wanted = id_of_claim(claim, self._storage) if claim is not None else None
            for mount in used.mounts.values():
                volume = wanted if claim is not None and _is_good_for(claim, mount) else None
                if volume != mount.counted:
                    self._count_as(mount, volume)
                    touched.append(mount.row)
        self._note(touched)

    def _index_claim(self, key: Key, used: _UsedClaim, claim: PersistentVolumeClaim | None) -> None:
        name = claim.spec.volume_name if claim is not None else ""
        if name != used.volume_name:
            self._claims_of.take(used.volume_name, key)
            if name:
                self._claims_of.put(name, key, key)
            used.volume_name = name

    # -- attachments --------------------------------------------------------------------------------------------------

    def _index_attachment(self, each: VolumeAttachment) -> None:
        node, volume = each.spec.node_name, each.spec.source.persistent_volume_name
        if each.spec.attacher and volume:  # both are always set on an attachment for a claim
            self._attachments.put(node, each.metadata.name, each)
            self._nodes_of.put(volume, each.metadata.name, node)

    def _attachments_changed(self, node: str) -> None:
        row = self._cluster.row_of.get(node)
        if row is not None and self._read_attachments(row):
            self._note((row,))

    def _read_attachments(self, row: int) -> bool:
        """Read the CSI volumes attached to a row's node, under the attacher's name. True if anything changed."""
        found: set[VolumeId] = set()
        for each in self._attachments[self._cluster.name(row)]:
            volume = self._storage.volumes.get(each.spec.source.persistent_volume_name)
            if volume is not None and volume.spec.csi is not None:
                found.add(VolumeId(each.spec.attacher, volume.spec.csi.volume_handle))
        before = self._attached.pop(row, frozenset())
        if found:
            self._attached[row] = frozenset(found)
        for volumes, more in ((before - found, -1), (found - before, 1)):
            for volume_id in volumes:
                if row not in self._mounted.at(volume_id):
                    self.used(volume_id.driver)[row] += more
        return before != found

    # -- counting -----------------------------------------------------------------------------------------------------

    def _count_as(self, mount: _Mount, volume: VolumeId | None) -> None:
        if mount.counted is not None:
            self._unmount(mount.counted, mount.row)
        if volume is not None:
            self._mount(volume, mount.row)
        mount.counted = volume

    def _mount(self, volume: VolumeId, row: int) -> None:
        mounts = self._mounted.at(volume).get(row, 0) + 1
        self._mounted.put(volume, row, mounts)
        if mounts == 1 and volume not in self._attached.get(row, ()):
            self.used(volume.driver)[row] += 1

    def _unmount(self, volume: VolumeId, row: int) -> None:
        mounts = self._mounted.at(volume)[row] - 1
        if mounts:
            self._mounted.put(volume, row, mounts)
        else:
            self._mounted.take(volume, row)
            if volume not in self._attached.get(row, ()):
                self.used(volume.driver)[row] -= 1

    def _note(self, rows: Iterable[int]) -> None:
        touched = np.fromiter(rows, np.intp)
        if len(touched):
            self._cluster.note_rows(touched)


def _is_good_for(claim: PersistentVolumeClaim, mount: _Mount) -> bool:
    return not mount.is_ephemeral or claim.is_for_pod(mount.pod)
