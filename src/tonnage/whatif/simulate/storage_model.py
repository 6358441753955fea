"""A model of the driver and its provisioner: volumes are created or refused, deleted, and published as capacity.

    a claim gets a selected node ──create latency──► a pool has room ──► a volume, bound to its claim
                                                     └─ none has ──► refused: the claim loses its node, as upstream does
    disks changed ──refresh delay──► capacity objects show it, as true as the driver is

It acts on the cluster only by writing objects, as the real programs do; the scheduler sees nothing else. `disks.py` has
the true contents and what is published of them. A volume whose driver rebuilds (KEP-5925) is copied to its pod's node
if there is room, and then confined to it; otherwise it is retried when there is room.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tonnage.objects.core_v1 import SELECTED_NODE, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME, VolumeNodeAffinity
from tonnage.objects.meta import Key
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.size_rules import rules_of, volume_size
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.volumes.capacity.index import CapacityIndex
from tonnage.scheduling.volumes.capacity.pools import pool_policy_of, rebuilds_volumes
from tonnage.scheduling.volumes.demand import driver_bytes, volume_bytes
from tonnage.scheduling.volumes.packing.pool_policies import PoolPolicy
from tonnage.whatif.creation import renewed
from tonnage.whatif.simulate import disks as true_contents
from tonnage.whatif.simulate.disks import Disk, Disks, NodeReach, StorageCounts
from tonnage.whatif.simulate.world_state import WorldState


class StorageModel:
    """`cluster` is an engine's, and shows the same objects: its index knows which capacity objects reach a node."""

    def __init__(self, objects: WorldState, cluster: Cluster, rng: random.Random) -> None:
        self.objects = objects
        self._index = cluster.index(CapacityIndex)
        self.agenda = objects.agenda
        self.settings = objects.settings.storage
        self.rng = rng
        self.disks = Disks()
        self.counts = StorageCounts()
        self.home: dict[str, Disk] = {}
        """By volume: its disk, if known."""
        self.rebuilding = Rebuilds(self)
        self.choose: Callable[[Disk, PersistentVolumeClaim], int | None] | None = None
        """Picks the pool of a new volume instead of the driver; None when no pool has room."""
        self._classes, self._drivers = objects.of(StorageClass), objects.of(CSIDriver)
        self._told: dict[Key, CSIStorageCapacity] = {}
        """Capacity objects as last published: one that differs was changed by somebody else."""
        self._reach: NodeReach | None = None
        self._stale: set[Key] = set()
        self._refused: dict[Key, None] = {}
        """Claims without a node that found no room: they retry when a disk changes."""
        self._numbers = 0

    # -- what it knows ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Learn the initial objects; each volume is on the disk of its node, if known."""
        for capacity in self.objects.all(CSIStorageCapacity):
            self.know(capacity)
        for volume in self.objects.all(PersistentVolume):
            node = self.home_node(volume)
            disk = next(iter(self.disks_for(volume.class_name, node)), None) if node is not None else None
            if disk is not None:
                disk.hold_before(volume.name, self.volume_bytes(volume))
                self.home[volume.name] = disk

    def take_unseen(self, volume: PersistentVolume) -> None:
        """A created volume that the figures do not show yet: subtract its bytes."""
        disk, owner = self.home.get(volume.name), volume.spec.claim_ref
        if disk is None or disk.volumes[volume.name][0] >= 0 or (owner is not None and owner.uid in disk.included):
            return  # unknown, in its pool, or another object of its capacity group shows it
        _, size_bytes = disk.volumes.pop(volume.name)
        if self.take(disk, volume.name, size_bytes, volume.class_name, driver_of(volume), kept_bytes=0):
            disk.total_bytes -= size_bytes
            self.changed(disk)
        else:
            disk.volumes[volume.name] = (-1, size_bytes)

    def know(self, found: CSIStorageCapacity) -> None:
        """A capacity object was added or changed."""
        capacity = self._told.get(found.key)
        self._told[found.key] = found
        if capacity is None:
            disk = self.disks.add(found, self._classes)
            if self._refused:
                self.agenda.after(0.0, lambda: self.changed(disk, has_room=True))
        elif _figures(capacity) != _figures(found):
            # Somebody else wrote new figures: the disk is changed to them, less what stands on it.
            disk = self.disks.by_object[found.key]
            disk.change_to(found)
            self.changed(disk, has_room=True)

    def forget(self, capacity: CSIStorageCapacity) -> None:
        """A capacity object was deleted: its disk can no longer be published."""
        self._told.pop(capacity.key, None)

    def nodes_changed(self) -> None:
        """Nodes were added or removed, or labels changed: drop what was derived from them."""
        self._reach = None

    def disks_for(self, class_name: str, node: Node | None) -> list[Disk]:
        """The disks that can hold a new volume of a class for a node; without a node, for any node."""
        if node is None:
            found = [each for each in self._told.values() if each.storage_class_name == class_name]
        else:
            found = [each for each in self._index.objects_at(class_name, node.name) if each.key in self._told]
        return list(dict.fromkeys(self.disks.by_object[capacity.key] for capacity in found))

    def _topology(self, disk: Disk) -> LabelSelector | None:
        capacity = self._told.get(disk.objects[0])
        return capacity.node_topology if capacity is not None else None

    def _provisioner(self, class_name: str) -> str:
        storage_class = self._classes.get(class_name)
        return storage_class.provisioner if storage_class is not None else ""

    def rebuilds(self, volume: PersistentVolume) -> bool:
        return volume.spec.csi is not None and rebuilds_volumes(self._drivers.get(volume.spec.csi.driver))

    def told_pick(self, class_name: str, driver: str = "") -> PoolPolicy:
        """How a driver picks a pool for a class: by the scenario, else by annotations. `driver`: if not the class's
        provisioner."""
        driver = driver or self._provisioner(class_name)
        told = self.settings.of(driver).pick
        if told is PoolPolicy.UNKNOWN:
            return pool_policy_of(self._classes.get(class_name), self._drivers.get(driver))
        return told

    def take(
        self, disk: Disk, name: str, size_bytes: int, class_name: str, driver: str, *, kept_bytes: int | None = None
    ) -> bool:
        """Put a volume of a class into a pool of the disk, as its driver picks it. False when none has room."""
        kept = self.kept_bytes(class_name) if kept_bytes is None else kept_bytes
        within = self.numbers_for(disk, class_name)
        number = disk.pick(size_bytes + kept, self.told_pick(class_name, driver), self.rng, within)
        if number is not None:
            disk.put(name, number, size_bytes)
        return number is not None

    # -- creating volumes ---------------------------------------------------------------------------------------------

    def taken_bytes(self, claim: PersistentVolumeClaim) -> int:
        """The bytes that the driver takes for a claim, by the size rules of its class."""
        return driver_bytes(claim, self._classes.get(claim.class_name or ""))

    def volume_bytes(self, volume: PersistentVolume) -> int:
        """The bytes that a volume takes from its pool."""
        return volume_bytes(volume, self._classes.get(volume.class_name))

    def numbers_for(self, disk: Disk, class_name: str) -> list[int]:
        """The pools of a disk, by number, that a class draws from."""
        told = (self._told.get(key) for key in disk.objects)
        keys = [capacity.key for capacity in told if capacity is not None and capacity.storage_class_name == class_name]
        found = {number for key in keys for number in disk.numbers_of(key)}
        return sorted(found) if found else list(range(len(disk.pools)))

    def kept_bytes(self, class_name: str) -> int:
        """Bytes that must stay free in the pool of a new volume: 1 if the driver wants strictly more."""
        return int(rules_of(self._classes.get(class_name)).is_strict)

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        """Create the volume of an unbound claim that is due, after the driver's latency."""
        storage_class = self._classes.get(claim.class_name or "")
        if claim.spec.volume_name or storage_class is None or storage_class.provisioner.endswith("/no-provisioner"):
            return
        asked_for = claim.selected_node
        if storage_class.waits_for_consumer and not asked_for:
            return
        key, uid, settings = claim.key, claim.uid, self.settings.of(storage_class.provisioner)
        self.agenda.after(settings.create_latency_s, lambda: self._make(key, uid, asked_for))

    def _make(self, key: Key, uid: str, node_name: str) -> None:
        claim = self.objects.get(PersistentVolumeClaim, key)
        if claim is None or claim.uid != uid or claim.selected_node != node_name or claim.spec.volume_name:
            return
        class_name = claim.class_name or ""
        driver, size_bytes = self._provisioner(class_name), self.taken_bytes(claim)
        storage_class = self._classes.get(class_name)
        is_checked = storage_class is not None and storage_class.checks_capacity(self._drivers.get(driver))
        node = self.objects.get(Node, node_name) if node_name else None
        disks = self.disks_for(class_name, node)
        if len(disks) > 1:
            disks.sort(key=lambda each: -max((each.pools[at] for at in self.numbers_for(each, class_name)), default=0))
        name = f"pvc-{self._numbers + 1:08d}"
        disk = next((each for each in disks if claim.uid in each.included), None)
        if disk is not None:  # the initial figures include its volume, which was created and not bound yet
            disk.hold_before(name, size_bytes)
        else:
            disk = next((each for each in disks if self._take(each, name, claim, size_bytes)), None)
        if disk is None and (disks or is_checked):
            self._refuse(claim)
            return
        self._numbers += 1
        self.counts.made += 1
        affinity = VolumeNodeAffinity()
        if disk is not None:
            self.home[name] = disk
            disk.claims[name] = claim.uid
            self.changed(disk)
            affinity = self.affinity(disk)
        reclaim = storage_class.reclaim_policy if storage_class is not None else "Delete"
        made_bytes = volume_size(rules_of(storage_class), claim.requested_size.value(), is_block=claim.spec.is_block)
        self.objects.put(true_contents.made_volume(name, claim, driver, made_bytes, affinity, reclaim))
        self.objects.put(true_contents.bound_claim(claim, name))

    def _take(self, disk: Disk, name: str, claim: PersistentVolumeClaim, size_bytes: int) -> bool:
        """Put a claim's volume into a pool of the disk; False when none has room."""
        class_name = claim.class_name or ""
        if self.choose is None:
            return self.take(disk, name, size_bytes, class_name, self._provisioner(class_name))
        number = self.choose(disk, claim)
        if number is None or not disk.takes_one_more(number):
            return False
        disk.put(name, number, size_bytes)
        return True

    def _refuse(self, claim: PersistentVolumeClaim) -> None:
        """No room: a claim with a selected node loses it, and the scheduler chooses again; others wait for room."""
        self.counts.refused += 1
        if not claim.selected_node:
            self._refused[claim.key] = None
            return
        annotations = {key: value for key, value in claim.metadata.annotations.items() if key != SELECTED_NODE}
        self.objects.put(renewed(claim, {"annotations": annotations}))

    def affinity(self, disk: Disk) -> VolumeNodeAffinity:
        """Where a volume of this disk can be used: wherever one of its capacity objects reaches."""
        return true_contents.affinity_of(self._topology(disk))

    def where(self, disk: Disk) -> str:
        """A disk's place in words: the values of its topology."""
        topology = self._topology(disk)
        return ",".join(topology.match_labels.values()) if topology is not None else ""

    def classes_of(self, disk: Disk) -> list[str]:
        told = (self._told.get(key) for key in disk.objects)
        return sorted({capacity.storage_class_name for capacity in told if capacity is not None})

    def home_node(self, volume: PersistentVolume) -> Node | None:
        """The only node that can use a volume; for one that may move, the node where it is attached or was selected."""
        if volume.spec.node_affinity.required is None:
            owner = volume.spec.claim_ref
            claim = self.objects.get(PersistentVolumeClaim, owner.key) if owner is not None else None
            if claim is None or not self.rebuilds(volume):
                return None
            attached = {
                attachment.spec.node_name
                for attachment in self.objects.all(VolumeAttachment)
                if attachment.status.attached and attachment.spec.source.persistent_volume_name == volume.name
            }
            home = min(attached) if attached and claim.selected_node not in attached else claim.selected_node
            return self.objects.get(Node, home) if home else None
        homes = self.reach().admitted(volume.spec.node_affinity.required)
        return self.objects.get(Node, *homes) if len(homes) == 1 else None

    def is_home(self, volume: PersistentVolume, node: Node) -> bool:
        """True if a volume's contents are on this node: by its disk if known, else by its affinity."""
        disk = self.home.get(volume.name)
        if disk is not None:
            if self._topology(disk) is None or disk not in self.disks_for(volume.class_name, node):
                return False
            return len(self.reach().admitted(self.affinity(disk).required)) == 1  # a zone's storage is no node's
        return self.home_node(volume) == node

    def reach(self) -> NodeReach:
        if self._reach is None:
            self._reach = NodeReach(self.objects.all(Node))
        return self._reach

    # -- deleting volumes ---------------------------------------------------------------------------------------------

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        """Delete the claim's volume after the driver's latency, or retain it, as its reclaim policy says."""
        self._refused.pop(claim.key, None)
        volume = self.objects.get(PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return
        if volume.spec.persistent_volume_reclaim_policy != "Delete":
            self.objects.put(renewed(volume, status={"phase": "Released"}))
            return
        name, settings = volume.name, self.settings.of(driver_of(volume))
        self.agenda.after(settings.delete_latency_s, lambda: self._delete(name))

    def _delete(self, name: str) -> None:
        self.objects.remove(PersistentVolume, name)
        self.rebuilding.stop(name)
        disk = self.home.pop(name, None)
        if disk is not None and disk.give(name):
            self.changed(disk, has_room=True)

    # -- figures ------------------------------------------------------------------------------------------------------

    def changed(self, disk: Disk, *, has_room: bool = False) -> None:
        """Publish a disk's figures after the driver's delay. `has_room`: refused claims retry."""
        if has_room:
            self.rebuilding.disk_has_room(disk)
            refused, self._refused = self._refused, {}
            for key in refused:
                claim = self.objects.get(PersistentVolumeClaim, key)
                if claim is not None:
                    self.claim_changed(claim)
        for key in disk.objects:
            capacity = self._told.get(key)
            if capacity is None or key in self._stale:
                continue
            self._stale.add(key)
            settings = self.settings.of(self._provisioner(capacity.storage_class_name))
            self.agenda.after(settings.refresh_delay_s, partial(self._publish, key))

    def publish_all(self) -> None:
        """Publish the initial figures: a driver that overstates them has done so before."""
        for key, capacity in tuple(self._told.items()):
            if self.settings.of(self._provisioner(capacity.storage_class_name)).overstates != 1.0:
                self._publish(key)

    def _publish(self, key: Key) -> None:
        self._stale.discard(key)
        capacity, disk = self._told.get(key), self.disks.by_object.get(key)
        if capacity is not None and disk is not None:
            overstates = self.settings.of(self._provisioner(capacity.storage_class_name)).overstates
            shown = true_contents.figures(capacity, disk, overstates, self.agenda.clock.now())
            self._told[key] = shown  # before the write: these are our own figures
            self.objects.put(shown)


Done = Callable[[], None]


@dataclass(slots=True)
class _Move:
    """A volume being copied to a disk, and the pods that wait for it there."""

    target: Disk
    node: str
    waiting: list[Done]


def _on_its_way(volume: str) -> str:
    """The name under which a target's space is held until the volume has arrived."""
    return f"{volume} on its way"


@dataclass(slots=True)
class Rebuilds:
    model: StorageModel
    _moves: dict[str, _Move] = field(default_factory=dict)
    """By volume."""
    _refused: list[tuple[list[Disk], Callable[[], None]]] = field(default_factory=list)
    """What is tried again when one of these disks has more room."""

    def set_free(self, node_name: str, volumes: list[PersistentVolume]) -> None:
        """A node is out of use: volumes on it whose driver rebuilds may be rebuilt anywhere (KEP-5925)."""
        for volume in volumes:
            if self.model.rebuilds(volume) and volume.spec.node_affinity.required is not None:
                self._move_to(volume, VolumeNodeAffinity(), home=node_name)

    def confine(self, volume: PersistentVolume) -> None:
        """A volume's node takes pods again: confine the volume to it, unless it is being rebuilt elsewhere."""
        disk, is_free = self.model.home.get(volume.name), volume.spec.node_affinity.required is None
        if disk is not None and is_free and volume.name not in self._moves and self.model.rebuilds(volume):
            self._move_to(volume, self.model.affinity(disk))

    def attach(self, pod: Pod, node: Node, volume: PersistentVolume, done: Done) -> None:
        """Bring a volume to a pod's node; calls `done` when it is there."""
        model = self.model
        settings = model.settings.of(driver_of(volume))
        disk, here = model.home.get(volume.name), model.disks_for(volume.class_name, node)
        if disk is None or disk in here or not here or not model.rebuilds(volume):
            self.stop(volume.name)
            model.agenda.after(settings.attach_latency_s, done)
            return
        move = self._moves.get(volume.name)
        if move is not None and move.target in here:
            move.waiting.append(done)
            return
        self.stop(volume.name)
        _, size_bytes = disk.volumes[volume.name]
        room, driver = _on_its_way(volume.name), driver_of(volume)
        target = next((each for each in here if model.take(each, room, size_bytes, volume.class_name, driver)), None)
        if target is None:
            model.counts.refused += 1
            self._refused.append((here, lambda: self._again(pod, node.name, volume.name, done)))
            return
        begun = self._moves[volume.name] = _Move(target, node.name, [done])
        model.changed(target)
        takes_s = size_bytes / settings.rebuild_bytes_per_s + settings.attach_latency_s
        model.agenda.after(takes_s, lambda: self._arrived(volume.name, begun, size_bytes))

    def stop(self, name: str) -> None:
        """Cancel a move that no pod needs, and free the space held for it."""
        move = self._moves.pop(name, None)
        if move is not None:
            move.target.give(_on_its_way(name))
            self.model.changed(move.target, has_room=True)

    def disk_has_room(self, disk: Disk) -> None:
        """Retry the moves that were refused for lack of room."""
        refused, self._refused = self._refused, []
        for disks, again in refused:
            if disk in disks:
                self.model.agenda.after(0.0, again)
            else:
                self._refused.append((disks, again))

    def _again(self, pod: Pod, node_name: str, name: str, done: Done) -> None:
        objects = self.model.objects
        node, known = objects.get(Node, node_name), objects.get(Pod, pod.key)
        volume = objects.get(PersistentVolume, name)
        if known is not None and known.uid == pod.uid and node is not None and volume is not None:
            self.attach(pod, node, volume, done)

    def _arrived(self, name: str, move: _Move, size_bytes: int) -> None:
        """The copy is complete: the volume is on its new disk, and its old space is free."""
        model, volume = self.model, self.model.objects.get(PersistentVolume, name)
        if self._moves.get(name) is not move or volume is None:
            return
        del self._moves[name]
        source, target = model.home[name], move.target
        target.volumes[name] = target.volumes.pop(_on_its_way(name))
        source.give(name)
        model.home[name] = target
        model.counts.bytes_rebuilt += size_bytes
        model.counts.rebuilt.append((model.agenda.now_s, name, model.where(source), move.node, size_bytes))
        model.changed(source, has_room=True)
        model.changed(target)
        self._move_to(volume, model.affinity(target))
        for done in move.waiting:
            done()

    def _move_to(self, volume: PersistentVolume, affinity: VolumeNodeAffinity, *, home: str = "") -> None:
        """Write a volume's node affinity as its driver does; `home` is the node of a volume that may move."""
        others = {key: value for key, value in volume.metadata.annotations.items() if key != VOLUME_HOME}
        annotations = {**others, VOLUME_HOME: home} if home else others
        self.model.objects.put(renewed(volume, {"annotations": annotations}, spec={"node_affinity": affinity}))


def driver_of(volume: PersistentVolume) -> str:
    return volume.spec.csi.driver if volume.spec.csi is not None else ""


def _figures(of: CSIStorageCapacity) -> tuple[object, ...]:
    return of.capacity, of.maximum_volume_size, of.available_capacities, of.metadata.annotations
