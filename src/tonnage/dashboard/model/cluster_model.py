"""A cluster as rows, kept up to date: objects go in, and their changes are settled into `wire.Collections`.

    model = ClusterModel(collections)
    model.put(node)                    # or model.remove(node): from informers, or from a replay
    model.remember(memory)             # what only the scheduler knows
    model.look_into(contents)          # the contents of a driver's pools, where they can be read
    model.settle(now)                  # rebuild the touched rows

Rows depend only on the known objects and on `now`, not on the order of changes; a property test checks it. Volumes are
settled first, because node rows read volume rows. Every row that may change must be touched: an unchanged row costs
little, a missing one stays wrong until something else touches it. Classes and drivers hardly ever change: then all are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tonnage.dashboard.model import capacity_rows, node_rows, volume_rows
from tonnage.dashboard.model.known_objects import DriverContents, Index, KnownObjects, Refusals, first_at
from tonnage.dashboard.model.lanes import Lanes
from tonnage.dashboard.wire import ClassRow, Collections, NodeRow, Row, VolumeRow
from tonnage.faults import Fault
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Event, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.whatif.scheduler_memory import AssumedPod, RememberedCapacity, SchedulerMemory


@dataclass(slots=True)
class Touched:
    """Rows to rebuild, by collection."""

    volumes: set[Key] = field(default_factory=set)
    capacities: set[Key] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    pods: set[Key] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    labels: set[tuple[str, str] | None] = field(default_factory=set)
    """Labels of nodes: what they reach changes. A label that many nodes share, such as a zone, counts once."""


_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class ClusterModel:
    def __init__(self, collections: Collections) -> None:
        self.collections = collections
        self.objects = KnownObjects()
        self.memory = SchedulerMemory()
        self.contents = DriverContents()
        self.now = _START
        self._touched = Touched()
        self._assumed: dict[str, AssumedPod] = {}
        self._assumed_on: dict[str, list[Key]] = {}
        self._volumes_on = Index()
        self.book = capacity_rows.CapacityBook(self.objects, self._volume_objects_on)
        self.refusals = Refusals()
        self._held_for: dict[Key, list[RememberedCapacity]] = {}
        """What is kept back, by claim."""
        self.lanes = Lanes(self.objects, self._home)

    def tick(self, now: datetime) -> None:
        """Set the time of the changes that follow."""
        self.now = max(self.now, now)

    def put(self, new: Object) -> None:
        old = self.objects.put(new)
        self._note(old, new)

    def remove(self, old: Object) -> None:
        known = self.objects.remove(old)
        if known is not None:
            self._note(known, None)

    def forget(self, old: Object) -> None:
        """Drop an object that may no longer be read. Nothing happened to it: no lane gets a step."""
        known = self.objects.remove(old)
        if known is not None:
            self._note(known, None, is_told=False)
        if isinstance(old, Pod):
            self.lanes.forget()

    def remember(self, memory: SchedulerMemory | None) -> None:
        """Replace the scheduler's memory. None when the scheduler cannot be asked: reservations are then unknown and
        not shown, and lanes get no step."""
        is_asked, memory = memory is not None, memory or SchedulerMemory()
        if memory != self.memory:
            for told in (self.memory, memory):
                self._touched.capacities.update(each.capacity for each in told.held)
                self._touched.volumes.update(claim for each in told.held for claim in each.claims)
                self._touched.pods.update(each.pod for each in told.pods)
                self._touched.nodes.update(each.node for each in told.pods)
            self.memory = memory
            self._assumed = {each.uid: each for each in memory.pods}
            self._assumed_on = grouped((each.node, each.pod) for each in memory.pods)
            self.book.held = grouped((each.capacity, each) for each in memory.held)
            self._held_for = grouped((claim, each) for each in memory.held for claim in each.claims)
        if is_asked:
            self.lanes.remembered(memory, self.now)

    def look_into(self, contents: DriverContents) -> None:
        self._touched.nodes.update(self.contents.nodes(), contents.nodes())
        changed = {handle for handle, _ in self.contents.volumes.items() ^ contents.volumes.items()}
        for told in (self.contents, contents):
            for handle in changed & told.volumes.keys():
                for name in self.objects.volumes_by_handle[told.driver, handle]:
                    self._touch_volume(name)
                self._touched.volumes |= self.objects.claims_by_uid[told.volumes[handle].name.removeprefix("pvc-")]
        self.contents = contents

    def suffer(self, faults: Sequence[Fault]) -> None:
        if tuple(faults) != tuple(self.book.faults):
            self.book.faults = tuple(faults)
            self._touched.capacities.update(self.objects.capacities)

    def cannot_make(self, claim: Key, uid: str, why: str, since: datetime | None = None) -> None:
        self._touched.volumes.add(claim)
        for gone in self.refusals.put(uid, why, since):
            self._touched.volumes |= self.objects.claims_by_uid[gone]

    def heard(self, event: Event) -> None:
        self.lanes.heard(event, self.now)
        if self.refusals.heard(event, self.now):
            about = event.involved_object
            self.cannot_make(about.key, about.uid, event.message, first_at(event))

    def settle(self, now: datetime | None = None) -> None:
        """Rebuild the touched rows as of `now`, by default as of the last given time."""
        if now is not None:
            self.tick(now)
        for label in self._touched.labels:
            self._touched.capacities |= self.objects.capacities_by_label[label]
            for name in self.objects.volumes_by_label[label]:
                self._touch_volume(name)
        touched, self._touched = self._touched, Touched()
        self._settle_volumes(touched)
        keys = self.book.look_at(touched.capacities | self.book.due(self.now), self.now)
        self._write("capacities", ((key, self.book.row_of(key, self.now)) for key in keys))
        touched.nodes.discard("")
        self._write("nodes", ((name, self._node_row(name)) for name in touched.nodes))
        self._write("pods", ((key, node_rows.pod_row(self.objects, key, self.decided(key))) for key in touched.pods))
        self._write("classes", ((name, _class_row(self.objects.classes.get(name))) for name in touched.classes))
        self._write("lanes", self.lanes.take(self.now))

    def decided(self, pod: Key) -> str:
        """The node that the scheduler chose for a pod while the API does not show it yet; else empty."""
        found = self.objects.pods.get(pod)
        assumed = self._assumed.get(found.uid) if found is not None and not found.spec.node_name else None
        return assumed.node if assumed is not None else ""

    # -- touching -----------------------------------------------------------------------------------------------------

    def _note(self, old: Object | None, new: Object | None, *, is_told: bool = True) -> None:
        """An object was added (`old` is None), changed, or removed (`new` is None). The indexes already know it."""
        if _read_everywhere(old) != _read_everywhere(new):
            self._touched.volumes.update(self.objects.claims, self.objects.volumes)
            self._touched.capacities.update(self.objects.capacities)
            self._touched.nodes.update(self.collections.of(NodeRow))
        is_moved = old is None or new is None or old.metadata.labels != new.metadata.labels
        for each in (old, new):
            if each is not None:
                self._touch(each, is_moved=is_moved)
        if is_told:
            self.lanes.changed(old, new, self.now)
        if isinstance(old, PersistentVolumeClaim) and (new is None or new.uid != old.uid):
            self.refusals.of_claim.pop(old.uid, None)

    def _touch(self, found: Object, *, is_moved: bool) -> None:
        """Touch the rows that depend on an object. `is_moved`: it was added or removed, or its labels changed."""
        touched, objects = self._touched, self.objects
        touched.nodes.update(self._nodes_with(found))
        match found:
            case Node():
                touched.nodes.add(found.name)
                if is_moved:  # no heartbeat, no cordon
                    touched.labels |= {None, *found.metadata.labels.items()}
                    self._touch_place(found.name)
            case CSINode():
                touched.nodes.add(found.name)
                self._touch_place(found.name)
            case Pod():
                touched.pods.add(found.key)
                assumed = self._assumed.get(found.uid)
                touched.nodes |= {found.spec.node_name, assumed.node if assumed is not None else ""}
                touched.volumes.update(found.claim_keys())
            case PersistentVolumeClaim():
                touched.volumes |= {found.key, *objects.volumes_of_claim[found.key]}
                self._touch_volume(found.spec.volume_name)
                self._touch_users(found.key)
                touched.capacities.update(each.capacity for each in self._held_for.get(found.key, ()))
            case PersistentVolume():
                self._touch_volume(found.name)
                if found.spec.claim_ref is not None:
                    owner = found.spec.claim_ref.key
                    touched.volumes |= {owner, *objects.volumes_of_claim[owner]}
                for key in objects.claims_of_volume[found.name]:
                    self._touch_users(key)
                for key in objects.attachments_of_volume[found.name]:
                    touched.nodes.add(objects.attachments[key].spec.node_name)
            case VolumeAttachment():
                self._touch_volume(found.spec.source.persistent_volume_name)
                touched.nodes.add(found.spec.node_name)
            case CSIStorageCapacity():
                touched.capacities.add(found.key)
            case StorageClass():
                touched.classes.add(found.name)
            case _:  # a ReplicaSet or a Job: the owner of pods
                touched.pods |= objects.pods_of_owner[found.uid]

    def _touch_volume(self, name: str) -> None:
        """Touch every row that shows this volume."""
        self._touched.volumes |= {name, *self.objects.claims_of_volume[name]} if name else set()
        volume = self.objects.volumes.get(name)
        if volume is not None and volume.spec.claim_ref is not None:
            self._touched.volumes.add(volume.spec.claim_ref.key)

    def _touch_users(self, claim: Key) -> None:
        """Touch the nodes of the pods that mount a claim: their attach slots may change."""
        for key in self.objects.pods_of_claim[claim]:
            self._touched.nodes.add(self.objects.pods[key].spec.node_name or self.decided(key))

    def _touch_place(self, node: str) -> None:
        """Touch the rows that name a node as their place."""
        self._touched.volumes |= self._volumes_on[node]
        self._touched.capacities |= self.book.of_node[node]

    def _nodes_with(self, found: Object | None) -> Iterator[str]:
        """Nodes whose pools hold contents of a claim or of a volume."""
        handle = ""
        if isinstance(found, PersistentVolume) and found.spec.csi is not None:
            handle = found.spec.csi.volume_handle
        elif isinstance(found, PersistentVolumeClaim):
            handle = self.contents.by_name.get(f"pvc-{found.uid}", "")
        content = self.contents.volumes.get(handle)
        if content is not None:
            yield from (place.node for place in content.places())

    # -- settling -----------------------------------------------------------------------------------------------------

    def _settle_volumes(self, touched: Touched) -> None:
        besides = volume_rows.Besides(self.contents, self.refusals.of_claim, self._held_for)
        rows = self.collections.of(VolumeRow)
        for key in touched.volumes:
            before, after = rows.get(key), volume_rows.row_of(self.objects, key, besides)
            if before == after:
                continue
            for row, is_there in ((before, False), (after, True)):
                for node in _places(row):
                    self._volumes_on.mark(node, key, is_there=is_there)
                    touched.nodes.add(node)
                    touched.capacities |= self.book.of_node[node]
                volume = self.objects.volumes.get(row.volume) if row is not None else None
                touched.nodes.update(self._nodes_with(volume))
            touched.nodes.update(self._nodes_with(self.objects.claims.get(key)))
            self._write("volumes", ((key, after),))

    def _home(self, claim: Key) -> str:
        """The node of a claim's volume, from its current row."""
        row = self.collections.of(VolumeRow).get(claim)
        return row.node if row is not None else ""

    def _node_row(self, name: str) -> Row | None:
        pods = self.objects.pods
        return node_rows.row_of(
            self.objects,
            name,
            assumed=[key for key in self._assumed_on.get(name, ()) if key in pods and self.decided(key) == name],
            left_behind=self._volumes_on[name],
            contents=self.contents,
        )

    def _volume_objects_on(self, node: str) -> Iterator[PersistentVolume]:
        rows = self.collections.of(VolumeRow)
        for key in self._volumes_on[node]:
            row = rows[key]
            volume = self.objects.volumes.get(row.volume) if row.node == node else None
            if volume is not None:
                yield volume

    def _write(self, collection: str, rows: Iterable[tuple[str, Row | None]]) -> None:
        for key, row in rows:
            if row is None:
                self.collections.remove(collection, key)
            else:
                self.collections.put(collection, key, row)


def _read_everywhere(found: Object | None) -> object:
    """What rows of many objects read of a class or of a driver."""
    if isinstance(found, StorageClass):
        return found.provisioner, found.volume_binding_mode, found.capacity_group
    return isinstance(found, CSIDriver) and rebuilds_volumes(found)


def _places(row: VolumeRow | None) -> set[str]:
    """Nodes that a volume's row names as its place or its target."""
    return {row.node, row.target, *row.nodes} - {""} if row is not None else set()


def _class_row(found: StorageClass | None) -> ClassRow | None:
    if found is None:
        return None
    return ClassRow(
        driver=found.provisioner,
        mode=found.volume_binding_mode,
        group=found.capacity_group,
        is_default=found.metadata.annotations.get(_DEFAULT_CLASS) == "true",
    )
