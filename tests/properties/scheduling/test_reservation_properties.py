"""The ledger and the reservations as state machines, against models that look at everything after every step.

The models have no indexes, no deferred work and no heaps: after each event they walk over all claims, objects and nodes
and say from what they see what is promised and what is reserved. What they keep is one flat record a claim or object.
So a promise that is lost, one that leaks, and an object of which nobody was told fail here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples_tried import tries
from tonnage.clock import VirtualClock, rfc3339
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.node_selectors import NodeSelector
from tonnage.objects.selectors import LabelSelector, selects
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.indexes import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, storage_class, volume

TIMEOUT_S = 60
CLASS_OF = {"a": "fast", "b": "fast", "c": "slow"}
TOPOLOGIES = {
    "nowhere": None,
    "everywhere": {},
    "n1": {"matchLabels": {"kubernetes.io/hostname": "n1"}},
    "n2": {"matchLabels": {"kubernetes.io/hostname": "n2"}},
    "z1": {"matchLabels": {"zone": "z1"}},
}

figures = st.sampled_from(["9Gi", "8Gi", "7Gi", "5Gi"])
claim_names = st.sampled_from(sorted(CLASS_OF))
node_names = st.sampled_from(["n1", "n1", "n1", "n2"])
object_names = st.sampled_from(["o1", "o1", "o2", "o3"])
pod_names = st.sampled_from(["p1", "p2"])
generations = st.sampled_from(["", "", "", "second"])  # mostly the same object, now and then another of its name
ages_s = st.sampled_from([0, 20, 70, None])
seldom = st.sampled_from([False] * 7 + [True])  # for what would undo most of what went before


@dataclass
class Record:
    """What the model keeps of a claim that is a promise."""

    uid: str
    node: str
    volume: str
    named: str = ""
    is_rebuild: bool = False
    made_step: int | None = None
    made_tick: int = 0
    shown_by: set[str] = field(default_factory=set)
    made_at: datetime | None = None
    wait_s: float | None = None
    arrived: tuple[int, datetime, int] | None = None
    is_left_behind: bool = False
    has_claim: bool = True
    size: Quantity | None = None
    """Of what was left behind; of others it is read off their claims."""


class LedgerModel:
    """Promises by the rules, one claim after the other, by looking at everything."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.records: dict[str, Record] = {}
        self.before: dict[str, PersistentVolumeClaim] = {}
        self.volumes_before: dict[str, PersistentVolume] = {}
        self.met_bound: dict[str, int] = {}
        self.versions: dict[str, str] = {}
        self.figures: dict[str, int] = {}
        self.places: dict[str, tuple[str, LabelSelector | None]] = {}
        self.refreshed: dict[str, int] = {}
        """By object, the tick of its last refresh; all refreshes are counted."""
        self.tick = 0
        self.charged: dict[str, dict[str, int]] = {}
        self.step = 0
        self.look()

    def look(self) -> None:
        """Account for whatever happened."""
        self.step += 1
        storage = self.cluster.storage
        versions = {each.uid: each.metadata.resource_version for each in storage.capacities.values()}
        figures = {each.uid: each.capacity.value() for each in storage.capacities.values() if each.capacity is not None}
        places = {each.uid: (each.storage_class_name, each.node_topology) for each in storage.capacities.values()}
        self.refreshed = {uid: tick for uid, tick in self.refreshed.items() if uid in versions}
        for uid, version in versions.items():
            if self.versions.get(uid, version) != version:
                self.tick += 1
                if self.places[uid] == places[uid]:
                    self._show(uid, self.figures[uid] - figures[uid])
                self.refreshed[uid] = self.tick
        self.versions, self.figures, self.places = versions, figures, places
        claims = {each.key: each for each in storage.claims}
        for key in {*self.before, *claims}:
            self._look_at(key, self.before.get(key), claims.get(key))
        self.before = claims
        claimed = {
            (each.volume, each.node)
            for each in self.records.values()
            if each.made_step is not None and not each.is_left_behind
        }
        for key, record in list(self.records.items()):
            if not record.has_claim and (record.volume, record.node) in claimed:
                del self.records[key]  # somebody has it again: it is one volume
                continue
            found, before = storage.volumes.get(record.volume), self.volumes_before.get(record.volume)
            is_gone = (found is None and before is not None) or (
                found is not None and self._is_elsewhere(found, record.node)
            )
            if record.is_left_behind and is_gone:
                del self.records[key]
        self.volumes_before = {each.name: each for each in storage.volumes}
        for key in list(self.records):
            self._end_if_shown(key)
        self.charged = self.promises()

    def _show(self, uid: str, fell_by: int) -> None:
        """A refresh: what was made first is shown first, as far as the figure fell, or if there was one before it."""
        on_it = {
            key: record
            for key, record in self.records.items()
            if key in self.charged.get(uid, {}) or record.named == uid
        }
        for key, record in sorted(on_it.items(), key=lambda each: (each[1].made_tick, each[0])):
            if record.made_step is None or uid in record.shown_by:
                continue
            size = self._size(key)
            if size is None or record.is_rebuild:
                record.shown_by.add(uid)
            elif size <= fell_by:
                fell_by -= size
                record.shown_by.add(uid)
            elif self.refreshed.get(uid, 0) > record.made_tick:
                record.shown_by.add(uid)

    def _look_at(self, key: str, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        record = self.records.get(key)
        if record is not None and (new is None or not _is_same(record, new)):
            if old is not None:
                self._leave_behind(key, record, old, new)
            del self.records[key]
            record = None
        if (
            old is None
            or new is None
            or (old.uid, old.selected_node) != (new.uid, new.selected_node)
            or not new.is_bound
        ):
            self.met_bound.pop(key, None)
        if new is None or not new.selected_node:
            return
        if record is None and not new.is_bound:
            record = self.records[key] = Record(new.uid, new.selected_node, "")
        elif record is None and (old is None or old.uid != new.uid or not old.is_bound or _is_sent_on(old, new)):
            self.met_bound[key] = self.tick
        elif record is not None and new.is_bound and not record.volume:
            record.volume = new.spec.volume_name
            record.made_step, record.made_at = self.step, self.cluster.clock.now()
            record.made_tick = self.tick
            record.wait_s = self.cluster.clock.monotonic()
        found = self.cluster.storage.volumes.get(new.spec.volume_name)
        if key in self.met_bound and found is not None:
            met_tick, created_at = self.met_bound.pop(key), found.metadata.creation_timestamp
            if record is None and _is_on_its_way(new, found):
                record = self.records[key] = Record(new.uid, new.selected_node, found.name, is_rebuild=True)
            elif created_at is not None and record is None and self._age_s(created_at) < TIMEOUT_S:
                record = self.records[key] = Record(new.uid, new.selected_node, new.spec.volume_name)
                record.made_step, record.made_at, record.made_tick = self.step, created_at, met_tick
                record.wait_s = self.cluster.clock.monotonic() - self._age_s(created_at)
        before = self.volumes_before.get(new.spec.volume_name)
        may_move = found is not None and before is not None and _is_on_its_way(new, found)
        if record is None and may_move and before is not None and self._is_elsewhere(before, new.selected_node):
            record = self.records[key] = Record(new.uid, new.selected_node, before.name, is_rebuild=True)
        if record is not None and record.is_rebuild:
            if found is None and before is not None:
                del self.records[key]
            elif found is None or found.spec.node_affinity.required is None:
                record.made_step = record.wait_s = None
                record.shown_by.clear()
            elif self._is_elsewhere(found, record.node):
                del self.records[key]
            elif record.made_step is None:
                record.made_step, record.made_at = self.step, self.cluster.clock.now()
                record.made_tick = self.tick
                record.arrived = record.made_step, record.made_at, record.made_tick
                record.wait_s = self.cluster.clock.monotonic()

    def _leave_behind(
        self, key: str, record: Record, old: PersistentVolumeClaim, new: PersistentVolumeClaim | None
    ) -> None:
        """A volume that was made is where it is, though its claim is sent elsewhere, or is gone, or let go of it."""
        since = record.arrived
        if record.made_step is not None and record.made_at is not None:
            since = record.made_step, record.made_at, record.made_tick
        made = self.cluster.storage.volumes.get(record.volume)
        is_same = new is not None and new.is_bound and (new.uid, new.spec.volume_name) == (record.uid, record.volume)
        is_sent = is_same and new is not None and new.selected_node not in ("", record.node)
        if since is None or (made is None and not is_sent):
            return
        now_s, is_resized = self.cluster.clock.monotonic(), record.is_rebuild and made is not None
        for other, behind in list(self.records.items()):
            if behind.is_left_behind and (behind.volume, behind.node) == (record.volume, record.node):
                del self.records[other]
        where = f"still on {record.node}" if is_sent else f"volume {record.volume}"
        self.records[f"{key} ({where})"] = replace(
            record,
            is_rebuild=False,
            made_step=since[0],
            made_at=since[1],
            made_tick=since[2],
            shown_by=set(record.shown_by),
            wait_s=now_s if is_sent or record.wait_s is None else record.wait_s,
            size=made.spec.capacity["storage"] if is_resized and made is not None else old.requested,
            is_left_behind=True,
            has_claim=is_sent,
        )

    def _age_s(self, created_at: datetime) -> float:
        return (self.cluster.clock.now() - created_at).total_seconds()

    def _is_elsewhere(self, found: PersistentVolume, node_name: str) -> bool:
        labels, required = self._labels(node_name), found.spec.node_affinity.required
        return required is not None and labels is not None and not required.matches(node_name, labels)

    def _labels(self, name: str) -> Mapping[str, str] | None:
        return next(
            (each.metadata.labels for each in self.cluster.nodes if each is not None and each.name == name), None
        )

    def reserve(self, keys: list[str], uid: str) -> None:
        for key in keys:
            now = self.cluster.storage.claims.get(key)
            assert now is not None
            if now.is_bound and (key not in self.records or not self.records[key].is_rebuild):
                self.records[key] = Record(now.uid, now.selected_node, now.spec.volume_name, is_rebuild=True)
            self.records[key].named = uid
        self.look()

    def expire(self) -> None:
        now_s = self.cluster.clock.monotonic()
        for key, record in list(self.records.items()):
            if record.wait_s is not None and record.wait_s + TIMEOUT_S <= now_s:
                del self.records[key]
        self.look()

    def _objects(self, key: str) -> list[CSIStorageCapacity]:
        """Where a record is charged, whatever shows it."""
        record, class_name = self.records[key], CLASS_OF[key.removeprefix("default/").split()[0]]
        labels = self._labels(record.node)
        of_class = [each for each in self.cluster.storage.capacities.values() if each.storage_class_name == class_name]
        if labels is None:
            return [each for each in of_class if each.uid == record.named]
        reaching = [each for each in of_class if selects(each.node_topology, labels)]
        return [each for each in reaching if each.uid == record.named] or reaching

    def _with_siblings(self, objects: list[CSIStorageCapacity]) -> list[CSIStorageCapacity]:
        """And those of other classes of the same capacity group for the same topology."""
        storage = self.cluster.storage
        found = {each.uid: each for each in objects}
        for each, other in product(objects, storage.capacities.values()):
            groups = {self._group(each.storage_class_name), self._group(other.storage_class_name)}
            is_other = each.storage_class_name != other.storage_class_name
            if is_other and len(groups) == 1 and "" not in groups and each.node_topology == other.node_topology:
                found.setdefault(other.uid, other)
        return list(found.values()) if objects and objects[0].node_topology is not None else objects

    def _group(self, class_name: str) -> str:
        found = self.cluster.storage.classes.get(class_name)
        return found.capacity_group if found is not None else ""

    def _is_shown(self, record: Record, each: CSIStorageCapacity) -> bool:
        if record.made_step is None or record.made_at is None:
            return False
        created_at = each.metadata.creation_timestamp
        is_newer = created_at is not None and created_at > record.made_at
        return is_newer or each.uid in record.shown_by

    def _end_if_shown(self, key: str) -> None:
        record, objects = self.records[key], self._objects(key)
        is_named = [each.uid for each in objects] == [record.named]
        if is_named and all(self._is_shown(record, each) for each in self._with_siblings(objects)):
            del self.records[key]

    def promises(self) -> dict[str, dict[str, int]]:
        """Bytes by object and claim."""
        found = dict[str, dict[str, int]]()
        for key, record in self.records.items():
            size = self._size(key)
            for each in self._with_siblings(self._objects(key)) if size is not None else ():
                if size is not None and not self._is_shown(record, each):
                    found.setdefault(each.uid, {})[key] = size
        return found

    def _size(self, key: str) -> int | None:
        storage, record = self.cluster.storage, self.records[key]
        now = storage.claims.get(key)
        of_class = storage.classes.get(CLASS_OF[key.removeprefix("default/").split()[0]])
        keeps_count = of_class is not None and storage.drivers[of_class.provisioner].spec.storage_capacity
        size = now.requested if now is not None else record.size
        made = storage.volumes.get(record.volume) if record.is_rebuild else None
        if made is not None:
            size = made.spec.capacity["storage"]
        return size.value() if size is not None and keeps_count else None


def _is_on_its_way(claim: PersistentVolumeClaim, found: PersistentVolume) -> bool:
    is_marked = claim.is_bound and claim.metadata.annotations.get(REBUILD_TARGET) == claim.selected_node != ""
    return is_marked and found.spec.node_affinity.required is None


def _is_sent_on(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    marks = [each.metadata.annotations.get(REBUILD_TARGET) for each in (old, new)]
    return marks[1] == new.selected_node and (marks[0], old.selected_node) != (marks[1], new.selected_node)


def _is_same(record: Record, now: PersistentVolumeClaim) -> bool:
    is_there = (now.uid, now.selected_node) == (record.uid, record.node)
    return is_there and (not record.volume or (now.is_bound and now.spec.volume_name == record.volume))


class World(RuleBasedStateMachine):
    """Everything that can happen to claims, volumes, objects and nodes; those who watch are told by `happened`."""

    nodes_go = True

    def happened(self) -> None:
        """One event is over."""

    def nodes_happened(self) -> None:
        """An event of a node is over. Nodes do not tell the ledger."""
        self.happened()

    @initialize()
    def begin(self) -> None:
        self.clock = VirtualClock()
        self.clock.advance(1000)
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        self.storage.put(driver())
        self.storage.put(storage_class("fast"))
        self.storage.put(storage_class("slow"))
        for name in ("n1", "n2"):
            self.cluster.put_node(node(name, labels={"zone": "z1"}))
        self.storage.put(capacity("fast", name="o1", topology=TOPOLOGIES["n1"], free="9Gi"))
        self.storage.put(capacity("fast", name="o2", topology=TOPOLOGIES["z1"], free="9Gi"))
        for name in CLASS_OF:
            self.storage.put(claim(name, class_name=CLASS_OF[name], metadata={"uid": name}))
        self.watch()

    def watch(self) -> None:
        """Begin to look at the cluster."""

    def decide(self) -> None:
        """Somebody asks what is held."""

    @rule(name=claim_names, on=st.sampled_from(["n1", "n2", "n1", ""]), size=st.sampled_from(["1Gi", "2Gi", None]))
    def write_claim(self, name: str, on: str, size: str | None) -> None:
        """Somebody writes a claim's selected-node, or removes it. A claim that is bound stays bound."""
        now = self.storage.claims.get(f"default/{name}")
        made = now.spec.volume_name if now is not None else ""
        self._put_claim(name, size, made, on, now.uid if now is not None else name)

    @rule(
        name=claim_names, on=node_names, of=object_names, by=pod_names, steps=st.sampled_from([1, 2, 3]), free=figures
    )
    def go_on(self, name: str, on: str, of: str, by: str, steps: int, free: str) -> None:
        """A claim comes further in its usual life: reserved, bound where it was sent, shown by the objects."""
        for _ in range(steps):
            now = self.storage.claims.get(f"default/{name}")
            if now is None or not now.selected_node:
                self.take([name], on, of, by)
            elif not now.is_bound:
                size = str(now.requested) if now.requested is not None else None
                self._put_claim(name, size, f"pv-{name}", now.selected_node, now.uid)
            else:
                for each in ("o1", "o2", "o3"):
                    self._refresh(each, free)
                self.decide()

    @rule(name=claim_names, how=st.sampled_from(["restore", "anew", "anew", "anew", "anew bound", "unbind", "remove"]))
    def undo_claim(self, name: str, how: str) -> None:
        now = self.storage.claims.get(f"default/{name}")
        if how == "restore":
            self.storage.claims.restore(f"default/{name}")
            self.happened()
        elif how == "remove" or now is None:
            self.storage.claims.remove(f"default/{name}")
            self.happened()
        elif how == "unbind":
            self._put_claim(name, "1Gi", "", now.selected_node, now.uid)
        elif how == "anew":
            self._put_claim(name, "1Gi", "", "", f"{now.uid}'")
        else:
            self._put_claim(name, "1Gi", f"pv-{name}", "n1", f"{now.uid}'")

    def _put_claim(self, name: str, size: str | None, made: str, on: str, uid: str) -> None:
        self.storage.put(
            claim(name, size, class_name=CLASS_OF[name], volume=made, selected_node=on, metadata={"uid": uid})
        )
        self.happened()

    @rule(name=claim_names, age_s=ages_s, on=st.sampled_from([None, "n1", "n2", "gone"]))
    def put_or_remove_volume(self, name: str, age_s: int | None, on: str | None) -> None:
        created = {} if age_s is None else {"creationTimestamp": rfc3339(self.clock.now() - timedelta(seconds=age_s))}
        if on == "gone":
            self.storage.volumes.remove(f"pv-{name}")
        else:
            self.storage.put(volume(f"pv-{name}", on=on, claim=f"default/{name}", metadata=created))
        self.happened()

    @rule(
        name=object_names,
        class_name=st.sampled_from(["fast", "fast", "slow"]),
        where=st.sampled_from(["n1", "n1", "n2", "z1", "everywhere", "nowhere"]),
        again=generations,
        is_dated=st.booleans(),
        is_wanted=seldom,
    )
    def put_object(self, name: str, class_name: str, where: str, again: str, is_dated: bool, is_wanted: bool) -> None:
        if not is_wanted and f"kube-system/{name}" in self.storage.capacities:
            return
        metadata = {"uid": f"{name}{again}"} | ({"creationTimestamp": rfc3339(self.clock.now())} if is_dated else {})
        self.storage.put(capacity(class_name, name=name, topology=TOPOLOGIES[where], free="9Gi", metadata=metadata))
        self.happened()

    @rule(name=object_names, how=st.sampled_from(["refresh"] * 6 + ["repeat", "remove"]), free=figures)
    def refresh_object(self, name: str, how: str, free: str) -> None:
        old = self.storage.capacities.get(f"kube-system/{name}")
        if old is None:
            return
        if how == "remove":
            self.storage.remove(old)
        elif how == "repeat":
            self.storage.put(old)
        else:
            self._refresh(name, free)
            return
        self.happened()

    def _refresh(self, name: str, free: str) -> None:
        old = self.storage.capacities.get(f"kube-system/{name}")
        if old is not None:
            version = capacity("fast").metadata.resource_version
            newer = msgspec.structs.replace(old.metadata, resource_version=version)
            self.storage.put(msgspec.structs.replace(old, metadata=newer, capacity=Quantity.parse(free)))
            self.happened()

    @rule(name=node_names, zone=st.sampled_from(["z1", "z1", "z1", "z2", "gone"]))
    def put_or_remove_node(self, name: str, zone: str) -> None:
        if zone == "gone" and self.nodes_go:
            self.cluster.remove_node(name)
        else:
            self.cluster.put_node(node(name, labels={"zone": "z1" if zone == "gone" else zone}))
        self.nodes_happened()

    @rule(seconds=st.sampled_from([1, 5, 15, 60]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(
        names=st.lists(claim_names, min_size=1, max_size=3, unique=True), on=node_names, of=object_names, by=pod_names
    )
    def reserve(self, names: list[str], on: str, of: str, by: str) -> None:
        self.take(names, on, of, by)

    def take(self, names: list[str], on: str, of: str, by: str) -> None:
        """Reserve an object for claims, on a node."""

    def assumed(self, names: list[str], on: str) -> list[PersistentVolumeClaim]:
        """Send those of the claims that are there to a node; as they were planned with."""
        found = [self.storage.claims.get(f"default/{name}") for name in names]
        planned = [each for each in found if each is not None]
        for each in planned:
            self.storage.claims.assume(asking_for(each, on))
            self.happened()
        return planned


class LedgerMachine(World):
    def watch(self) -> None:
        self.ledger = add_indexes(self.cluster).index(Ledger)
        self.model = LedgerModel(self.cluster)
        self.changed: set[str] = set()
        self.released: set[str] = set()
        self.ledger.on_change.append(self.changed.add)
        self.ledger.on_released.append(lambda each: self.released.add(each.uid))
        self.answers: dict[str, dict[str, int]] = {}
        self.compare(is_told=False)

    def happened(self) -> None:
        self.model.look()

    def nodes_happened(self) -> None:
        # A node that goes and is back before the next decision was never away for the ledger, and what it would have
        # let go meanwhile it keeps until the clock ends it. The model sees everything: so there is a decision between.
        self.ledger.catch_up()
        self.happened()

    def take(self, names: list[str], on: str, of: str, by: str) -> None:
        found = self.storage.capacities.get(f"kube-system/{of}")
        if found is None:
            return
        planned = self.assumed(names, on)
        self.ledger.reserve(found, PodInfo(pod(by)), planned)
        self.model.reserve([each.key for each in planned], found.uid)

    @rule(by=pod_names, is_deleted=st.booleans())
    def leave(self, by: str, is_deleted: bool) -> None:
        """The ledger goes by the claims: nothing follows from this."""
        end = self.ledger.pod_gone if is_deleted else self.ledger.release
        end(PodInfo(pod(by)).uid)

    @rule(
        change=st.sampled_from(
            [
                driver(),
                driver(),
                storage_class("slow"),
                None,
                driver(capacity=False),
                *[storage_class(name, group="disks") for name in ("fast", "slow", "fast", "slow")],
                storage_class("fast"),
            ]
        )
    )
    def change_rules(self, change: CSIDriver | StorageClass | None) -> None:
        if change is None:
            self.storage.remove(storage_class("slow"))
        else:
            self.storage.put(change)
        self.happened()

    @rule(where=st.sampled_from(["n1", "z1"]))
    def share_disks(self, where: str) -> None:
        """Both classes draw from the same pools, and each has an object for them."""
        for name in ("fast", "slow"):
            self.storage.put(storage_class(name, group="disks"))
            self.happened()
        self.storage.put(capacity("slow", name="o3", topology=TOPOLOGIES[where], free="9Gi", metadata={"uid": "o3"}))
        self.happened()

    @rule()
    def expire(self) -> None:
        self.ledger.expire(self.clock.monotonic())
        self.model.expire()

    @rule(is_wanted=seldom)
    def restart(self, is_wanted: bool) -> None:
        """Memory is lost, what the API has is kept."""
        if not is_wanted:
            return
        before, api = self.cluster, self.storage
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        for each in before.nodes:
            if each is not None:
                self.cluster.put_node(each)
        for one in (*api.classes.values(), *api.drivers.values(), *api.capacities.values()):
            self.storage.put(one)
        for known in list(api.claims):
            told = api.claims.api(known.key)
            assert told is not None
            self.storage.put(told)
        for found in api.volumes:
            self.storage.put(found)
        self.watch()

    @rule()
    def decide(self) -> None:
        self.compare(is_told=True)

    def teardown(self) -> None:
        self.compare(is_told=True)

    def compare(self, *, is_told: bool) -> None:
        self.ledger.catch_up()
        expected = self.model.promises()
        uids = {*self.answers, *expected, *(each.uid for each in self.storage.capacities.values())}
        found = {uid: dict(self.ledger.promises(uid)) for uid in uids if self.ledger.promises(uid)}
        assert found == expected
        assert {promise.key for promise in self.ledger._promises} == set(self.model.records)
        for uid, of_object in found.items():
            assert self.ledger.promised(uid) == tuple(sorted(of_object.values(), reverse=True))
        holds = {(hold.uid, hold.claims[0]): hold.bytes for hold in self.ledger.holds()}
        assert holds == {(uid, key): size for uid, each in expected.items() for key, size in each.items()}
        waits = [each.wait_s + TIMEOUT_S for each in self.model.records.values() if each.wait_s is not None]
        assert self.ledger.next_expiry_at() == min(waits, default=None)
        if is_told:
            differing = {uid for uid in uids if self.answers.get(uid) != found.get(uid)}
            assert differing <= self.changed
            shrunk = {
                uid
                for uid in differing
                if any(found.get(uid, {}).get(key, 0) < size for key, size in self.answers.get(uid, {}).items())
            }
            assert shrunk <= self.released
        self.answers = found
        self.changed.clear()
        self.released.clear()


class ReservationsModel:
    """Reservations by the rules: a record an object, looked at after every step."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.records: dict[str, ReservationRecord] = {}
        self.volumes_before: set[str] = set()
        self.resets = {"refresh": 0, "failure": 0, "deletion": 0, "timeout": 0}

    def look(self) -> None:
        storage = self.cluster.storage
        current = {each.uid: each for each in storage.capacities.values()}
        for uid, record in list(self.records.items()):
            if uid not in current:
                self.end(uid, "deletion")
                continue
            if current[uid].metadata.resource_version != record.version:
                if not record.is_under_way:
                    self.end(uid, "refresh")
                    continue
                record.version = current[uid].metadata.resource_version
            lost = ""
            for key, claim_uid in list(record.claims.items()):
                now = storage.claims.get(key)
                if now is None or now.uid != claim_uid:
                    lost = "deletion"
                    del record.claims[key]
                elif now.selected_node != record.node or self._is_elsewhere(record, key):
                    lost = "failure"
                    del record.claims[key]
                elif key in record.rebuilds and self._is_gone(record.rebuilds[key]):
                    lost = "deletion"
                    del record.claims[key]
            if lost and not record.claims:
                self.end(uid, lost)
                continue
            record.is_under_way = any(
                self._affinity(name) is None for key, name in record.rebuilds.items() if key in record.claims
            )
            is_bound = all(_is_bound(storage.claims.get(key)) for key in record.claims)
            if not is_bound or record.is_under_way:
                record.bound_s = None
            elif record.bound_s is None:
                record.bound_s = self.cluster.clock.monotonic()
        self.volumes_before = {each.name for each in storage.volumes}

    def _affinity(self, volume_name: str) -> NodeSelector | None:
        found = self.cluster.storage.volumes.get(volume_name)
        return found.spec.node_affinity.required if found is not None else None

    def _is_elsewhere(self, record: ReservationRecord, key: str) -> bool:
        required = self._affinity(record.rebuilds[key]) if key in record.rebuilds else None
        row = self.cluster.row_of[record.node]
        labels = self.cluster.nodes[row].metadata.labels
        return required is not None and not required.matches(record.node, labels)

    def _is_gone(self, volume_name: str) -> bool:
        return volume_name in self.volumes_before and self.cluster.storage.volumes.get(volume_name) is None

    def expire(self) -> None:
        for uid, record in list(self.records.items()):
            if record.bound_s is not None and record.bound_s + TIMEOUT_S <= self.cluster.clock.monotonic():
                self.end(uid, "timeout")

    def end(self, uid: str, cause: str) -> None:
        del self.records[uid]
        self.resets[cause] += 1


@dataclass
class ReservationRecord:
    version: str
    pods: set[str]
    node: str
    claims: dict[str, str]
    rebuilds: dict[str, str]
    """The volumes that are to be made anew, by claim."""
    is_under_way: bool = False
    bound_s: float | None = None


def _is_bound(now: PersistentVolumeClaim | None) -> bool:
    return now is not None and now.is_bound


class ReservationsMachine(World):
    nodes_go = (
        False  # only where a volume that is rebuilt has arrived depends on them, and that is another test's affair
    )

    def watch(self) -> None:
        self.reservations = add_indexes(self.cluster).index(Reservations)
        self.model = ReservationsModel(self.cluster)
        self.is_reserved: dict[str, bool] = {}
        self.changed: set[str] = set()
        self.released: set[str] = set()
        self.reservations.on_change.append(self.changed.add)
        self.reservations.on_released.append(lambda each: self.released.add(each.uid))
        self.count = 0

    def happened(self) -> None:
        self.model.look()

    def take(self, names: list[str], on: str, of: str, by: str) -> None:
        found = self.storage.capacities.get(f"kube-system/{of}")
        if found is None or not any(self.storage.claims.get(f"default/{name}") for name in names):
            return
        who = PodInfo(pod(by))
        planned = self.assumed(names, on)
        self.reservations.reserve(found, who, planned)
        claims, pods = {each.key: each.uid for each in planned}, {who.uid}
        rebuilds = {each.key: each.spec.volume_name for each in planned if each.is_bound}
        before = self.model.records.get(found.uid)
        is_as_before = before is not None and (before.version, before.node) == (found.metadata.resource_version, on)
        if before is not None and is_as_before and claims.items() & before.claims.items():
            # Pods that share a claim hold the object for the claims of all of them.
            rebuilds = {key: name for key, name in before.rebuilds.items() if key not in claims} | rebuilds
            claims, pods = {**before.claims, **claims}, {*before.pods, who.uid}
        self.model.records[found.uid] = ReservationRecord(found.metadata.resource_version, pods, on, claims, rebuilds)
        self.count += 1
        self.model.look()

    @rule(by=pod_names, is_deleted=st.booleans())
    def leave(self, by: str, is_deleted: bool) -> None:
        uid = PodInfo(pod(by)).uid
        end = self.reservations.pod_gone if is_deleted else self.reservations.release
        end(uid)
        for of_object, record in list(self.model.records.items()):
            is_held = uid in record.pods
            record.pods.discard(uid)
            if is_held and not record.pods and not record.is_under_way:
                self.model.end(of_object, "deletion" if is_deleted else "failure")

    @rule()
    def expire(self) -> None:
        self.reservations.expire(self.clock.monotonic())
        self.model.expire()

    @invariant()
    def says_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        records, found = self.model.records, self.reservations
        is_reserved = {each.uid: found.is_reserved(each) for each in self.storage.capacities.values()}
        assert is_reserved == {uid: uid in records for uid in is_reserved}
        assert {hold.uid for hold in found.holds()} == set(records)
        for each in self.storage.capacities.values():
            record = records.get(each.uid)
            for name in CLASS_OF:
                own = {f"default/{name}"}
                is_own = record is not None and (own <= record.claims.keys() or record.claims.keys() <= own)
                assert found.is_reserved(each, own) is (record is not None and not is_own)
        assert found.resets == self.model.resets
        assert found.reservations_total == self.count
        waits = [each.bound_s + TIMEOUT_S for each in records.values() if each.bound_s is not None]
        assert found.next_expiry_at() == min(waits, default=None)
        gone = {uid for uid, was in self.is_reserved.items() if was and not is_reserved.get(uid, False)}
        come = {uid for uid, is_now in is_reserved.items() if is_now and not self.is_reserved.get(uid, False)}
        assert gone | come <= self.changed
        assert gone <= self.released
        self.is_reserved = is_reserved
        self.changed.clear()
        self.released.clear()


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=tries(150), stateful_step_count=60, deadline=None)
TestReservations = ReservationsMachine.TestCase
TestReservations.settings = settings(max_examples=tries(60), stateful_step_count=50, deadline=None)
