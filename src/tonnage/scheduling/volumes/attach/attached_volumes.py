"""Attached volumes and attach limits by node, kept up to date as pods, claims, volumes and attachments change.

    mounted     a pod on the row uses the volume: through a claim, a generic ephemeral claim, or as an in-tree disk
    attached    a VolumeAttachment names the volume, whatever its status, even when its pod is gone
    used        by driver and row: the number of different volumes mounted or attached; compared with the limit

Events only mark pods and rows: a marked pod's mounts and a marked row's attachments are counted anew before the next
question. `Cluster.note_rows` hears of rows whose
count may change without a pod. A missing count, driver or CSINode means "no limit"; 0 is a limit. The limits of a
deleted CSINode are remembered until the node goes or a new CSINode names the driver (upstream: no limit); a driver that
leaves an existing CSINode loses its limit. An ephemeral claim made for another pod is not counted (upstream fails every
decision about that node).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster, Observer
from tonnage.scheduling.cluster.columns import Ints, Mask, grown, row_numbers
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import VolumeId, either, id_of_claim, id_of_inline, id_of_volume

NO_LIMIT: Final = 1 << 62
"""In a column of limits: larger than any count of volumes."""


class _Limit(NamedTuple):
    """What is known of a driver on a node. `is_installed`: a CSINode names it now; otherwise it is remembered."""

    volumes: int | None
    is_installed: bool


class _Columns(NamedTuple):
    """One driver on all rows."""

    limits: Ints
    installed: Mask
    is_limited: bool


_Told = Mapping[str, _Limit]
_NOTHING: Final[_Told] = {}


class AttachLimits:
    """Attach limits and installed drivers: one column per driver, one entry per row, built when asked for."""

    def __init__(self) -> None:
        self._capacity = 0
        self._told: dict[int, _Told] = {}  # by row that has a CSINode, or had one
        self._uids: dict[int, str] = {}  # by row: the CSINode that was read last
        self._columns: dict[str, _Columns] = {}
        self.has_csi_node: Mask = np.zeros(0, dtype=np.bool_)

    def grow(self, capacity: int) -> None:
        self.has_csi_node = grown(self.has_csi_node, capacity)
        self._capacity = capacity
        self._columns.clear()

    def write(self, row: int, csi_node: CSINode | None) -> bool:
        """Read a row's CSINode (None if the node has none). Returns True if anything changed."""
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        is_same = csi_node is not None and self._uids.get(row) == csi_node.uid
        after = {each.name: _Limit(each.allocatable.count, is_installed=True) for each in drivers}
        for driver, limit in self._told.get(row, _NOTHING).items():
            if driver not in after and limit.volumes is not None and not (is_same and limit.is_installed):
                after[driver] = _Limit(limit.volumes, is_installed=False)
        if csi_node is not None:
            self._uids[row] = csi_node.uid
        return self._replace(row, after, has_csi_node=csi_node is not None)

    def forget(self, row: int) -> None:
        """Forget a row's limits: its node was replaced or deleted."""
        self._uids.pop(row, None)
        self._replace(row, _NOTHING, has_csi_node=False)

    def _replace(self, row: int, after: _Told, *, has_csi_node: bool) -> bool:
        if self._told.get(row, _NOTHING) == after and self.has_csi_node.item(row) is has_csi_node:
            return False
        self.has_csi_node[row] = has_csi_node
        self._told[row] = after
        self._columns.clear()
        return True

    def is_limited(self, driver: str) -> bool:
        """True if any node limits the driver."""
        return self._columns_of(driver).is_limited

    def limited_drivers(self) -> list[str]:
        """The names of the drivers that any node limits, sorted."""
        return sorted({driver for told in self._told.values() for driver in told if told[driver].volumes is not None})

    def limits(self, driver: str) -> Ints:
        """By row, how many volumes of the driver may be attached; `NO_LIMIT` if the node sets no limit."""
        return self._columns_of(driver).limits

    def installed(self, driver: str) -> Mask:
        """A mask over rows: True where the driver is installed."""
        return self._columns_of(driver).installed

    def _columns_of(self, driver: str) -> _Columns:
        if driver not in self._columns:
            limits: Ints = np.full(self._capacity, NO_LIMIT, dtype=np.int64)
            installed: Mask = np.zeros(self._capacity, dtype=np.bool_)
            for row, told in self._told.items():
                if (limit := told.get(driver)) is not None:
                    limits[row] = NO_LIMIT if limit.volumes is None else limit.volumes
                    installed[row] = limit.is_installed
            self._columns[driver] = _Columns(limits, installed, bool((limits != NO_LIMIT).any()))
        return self._columns[driver]


class _User(NamedTuple):
    """A resident pod that mounts a claim."""

    pod: Pod
    row: int
    is_ephemeral: bool


class AttachedVolumes(Observer):
    """Counts the attached volumes of a cluster. Get it with `Cluster.index(AttachedVolumes)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage = storage = cluster.storage
        self.limits = AttachLimits()
        self._used: dict[str, Ints] = {}
        self._mounted: Shelf[VolumeId, int, int] = Shelf()  # volume -> by row, how many pods mount it there
        self._counted: dict[str, tuple[int, set[VolumeId]]] = {}  # uid -> row and volumes of a pod, as counted
        self._attached: dict[int, set[VolumeId]] = {}  # row -> volumes attached to its node, as counted
        self._stale_pods: set[str] = set()  # uids
        self._stale_rows: set[int] = set()
        self._users: Shelf[Key, tuple[str, bool], _User] = Shelf()  # claim -> by the pod's uid, and if it is ephemeral
        self._claims_of: Shelf[str, Key, Key] = Shelf()  # volume name -> claims that name it
        self._on_node: Shelf[str, str, VolumeAttachment] = Shelf()  # node name -> attachments
        self.of_volume: Shelf[str, str, VolumeAttachment] = Shelf()  # volume name -> attachments
        self._caught_up_at = 0
        self._nodes: dict[int, tuple[str, str]] = {}  # row -> uid and name of the node that its limits are of
        storage.on_change(PersistentVolumeClaim, self._claim_changed)
        storage.on_change(PersistentVolume, self._volume_changed)
        storage.on_change(StorageClass, self._class_changed)
        storage.on_change(CSINode, self._csi_node_changed)
        storage.on_change(VolumeAttachment, self._attachment_changed)
        for claim in storage.claims:
            self._claim_changed(None, claim)
        for attachment in storage.attachments.values():
            self._attachment_changed(None, attachment)
        cluster.observe(self)

    # -- asking -------------------------------------------------------------------------------------------------------

    def on(self, row: int, driver: str) -> tuple[int, int | None]:
        """The number of the driver's volumes on a node, and the node's limit (None: no limit)."""
        used, limit = int(self.used(driver)[row]), int(self.limits.limits(driver)[row])
        return used, None if limit == NO_LIMIT else limit

    def used(self, driver: str) -> Ints:
        """By row, the number of different volumes of the driver that are mounted or attached."""
        self.catch_up()
        return self._used_column(driver)

    def rows_with(self, volume: VolumeId) -> Collection[int]:
        """The rows where a resident pod mounts the volume. Rows where it is only attached are left out."""
        self.catch_up()
        return self._mounted.at(volume)

    def users_of(self, claim: Key) -> list[tuple[Key, int]]:
        """The resident pods that mount the claim by name, with their rows."""
        return [(user.pod.key, user.row) for user in self._users[claim] if not user.is_ephemeral]

    def living_rows(self, claim: Key, *, without: str) -> set[int]:
        """The rows of pods that mount the claim by name and are not terminating, except the pod with uid `without`."""
        return {
            user.row
            for (uid, _), user in self._users.at(claim).items()
            if uid != without and not user.is_ephemeral and not user.pod.metadata.is_terminating
        }

    def gone_nodes_with(self, volume_name: str) -> list[str]:
        """Names of deleted nodes that VolumeAttachments still name for the volume, sorted."""
        named = {attachment.spec.node_name for attachment in self.of_volume[volume_name]}
        return sorted(named - self._cluster.row_of.keys())

    def catch_up(self) -> None:
        """Read what changed since the last question. Must run before the limits are read."""
        if self._cluster.node_changes.tick != self._caught_up_at:
            self._read_nodes()
        while self._stale_pods:
            self._count(self._stale_pods.pop())
        while self._stale_rows:
            self._count_attached(self._stale_rows.pop())

    def _read_nodes(self) -> None:
        """Read the CSINodes of nodes that came, went or changed rows."""
        changes = self._cluster.node_changes
        for row in row_numbers(changes.since(self._caught_up_at, self._cluster.size)).tolist():
            node = self._cluster.nodes[row]
            now = (node.uid, node.name) if node is not None else ("", "")  # a hole has neither
            before = self._nodes.get(row, ("", ""))
            if before != now:
                self._nodes[row] = now
                self._stale_rows.add(row)
            if before[0] != now[0]:
                self.limits.forget(row)
            self.limits.write(row, self._storage.csi_nodes.get(now[1]))
        self._caught_up_at = changes.tick

    # -- pods ---------------------------------------------------------------------------------------------------------

    def resident_added(self, info: PodInfo, row: int) -> None:
        for key, is_ephemeral in self._mounts(info):
            self._users.put(key, (info.uid, is_ephemeral), _User(info.pod, row, is_ephemeral))

    def resident_removed(self, info: PodInfo, row: int) -> None:
        for key, is_ephemeral in self._mounts(info):
            self._users.take(key, (info.uid, is_ephemeral))

    def _mounts(self, info: PodInfo) -> Iterator[tuple[Key, bool]]:
        """The claims of a pod that came or went, and whether they are ephemeral."""
        if info.pod.spec.volumes:
            self._stale_pods.add(info.uid)
        for volume in info.pod.spec.volumes:
            name = volume.claim_name(info.pod.name)
            if name is not None:
                yield f"{info.namespace}/{name}", volume.ephemeral is not None

    def grown(self, capacity: int) -> None:
        self._used = {driver: grown(column, capacity) for driver, column in self._used.items()}
        self.limits.grow(capacity)

    # -- storage ------------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and new is not None and _counts_by(old) == _counts_by(new):
            return
        if old is not None:
            self._claims_of.take(old.spec.volume_name, old.key)
        if new is not None and new.spec.volume_name:
            self._claims_of.put(new.spec.volume_name, new.key, new.key)
        self._look_again((either(old, new).key,))

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is None or new is None or id_of_volume(old) != id_of_volume(new):
            name = either(old, new).name
            nodes = [attachment.spec.node_name for attachment in self.of_volume[name]]
            self._look_again(self._claims_of[name], nodes)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """Recount every used claim when a class comes or goes; this is rare, and a class's provisioner is immutable."""
        if old is None or new is None or old.provisioner != new.provisioner:
            self._look_again(self._users)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        self._read_nodes()  # so that the limits of a node that is gone are not remembered for its successor
        row = self._cluster.row_of.get(either(old, new).name)
        if row is None:
            return
        # `_read_nodes` may have read the new CSINode already, but never the old one.
        is_behind = old is not None and self.limits.write(row, old)
        if self.limits.write(row, new) or is_behind:
            self._cluster.note_rows(np.array([row]))

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self._on_node.take(old.spec.node_name, old.name)
            self.of_volume.take(old.spec.source.persistent_volume_name, old.name)
        if new is not None and new.spec.source.persistent_volume_name:
            self._on_node.put(new.spec.node_name, new.name, new)
            self.of_volume.put(new.spec.source.persistent_volume_name, new.name, new)
        if old is None or new is None or old.spec != new.spec:
            self._look_again((), [attachment.spec.node_name for attachment in (old, new) if attachment is not None])

    def _look_again(self, claims: Iterable[Key], nodes: Iterable[str] = ()) -> None:
        """Mark the pods that mount these claims, and the rows of these nodes."""
        rows = {row for node in nodes if (row := self._cluster.row_of.get(node)) is not None}
        self._stale_rows |= rows
        for key in claims:
            for (uid, _), user in self._users.at(key).items():
                self._stale_pods.add(uid)
                rows.add(user.row)
        if rows:
            self._cluster.note_rows(np.fromiter(rows, np.intp))

    # -- counting -----------------------------------------------------------------------------------------------------

    def _count(self, uid: str) -> None:
        """Count a pod's volumes where the pod is now, and no longer as before."""
        row, volumes = self._counted.pop(uid, (0, set()))
        for volume in volumes:
            self._mount(volume, row, -1)
        now = self._cluster.row_of.get(self._cluster.node_of(uid) or "")
        if now is None:
            return
        volumes = set(self._mounted_by(self._cluster.residents[now][uid].pod))
        if volumes:
            self._counted[uid] = now, volumes
        for volume in volumes:
            self._mount(volume, now, 1)

    def _mount(self, volume: VolumeId, row: int, change: int) -> None:
        """One pod more, or one less, mounts a volume on a row."""
        before = self._mounted.at(volume).get(row, 0)
        now = before + change
        if now:
            self._mounted.put(volume, row, now)
        else:
            self._mounted.take(volume, row)
        if not (before and now) and volume not in self._attached.get(row, ()):
            self._used_column(volume.driver)[row] += change

    def _count_attached(self, row: int) -> None:
        before, now = self._attached.pop(row, set()), self._attached_to(row)
        if now:
            self._attached[row] = now
        for volume in before ^ now:
            if row not in self._mounted.at(volume):
                self._used_column(volume.driver)[row] += 1 if volume in now else -1

    def _used_column(self, driver: str) -> Ints:
        if driver not in self._used:
            self._used[driver] = np.zeros(self._cluster.capacity, dtype=np.int64)
        return self._used[driver]

    def _mounted_by(self, pod: Pod) -> Iterator[VolumeId]:
        for volume in pod.spec.volumes:
            name = volume.claim_name(pod.name)
            if name is None:
                volume_id = id_of_inline(volume)
            else:
                volume_id = None
                claim = self._storage.claims.get(f"{pod.namespace}/{name}")
                if claim is not None and (volume.ephemeral is None or claim.is_for_pod(pod)):
                    volume_id = id_of_claim(claim, self._storage)
            if volume_id is not None:
                yield volume_id

    def _attached_to(self, row: int) -> set[VolumeId]:
        """The CSI volumes attached to a row's node, under the attacher's name."""
        found: set[VolumeId] = set()
        for attachment in self._on_node[self._cluster.name(row)]:
            volume = self._storage.volumes.get(attachment.spec.source.persistent_volume_name)
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                found.add(VolumeId(attachment.spec.attacher, volume.spec.csi.volume_handle))
        return found


def _counts_by(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    """What decides which volume a claim counts as, and for whom."""
    return claim.spec.volume_name, claim.class_name, claim.metadata.owner_references
