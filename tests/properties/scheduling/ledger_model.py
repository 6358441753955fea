"""The ledger as a model that looks at everything after every step.

It has no indexes, no deferred work and no heaps: after each event it walks over all claims, objects and nodes and says
from what it sees what is promised. What it keeps is one flat record a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product

from reservation_world import CLASS_OF, TIMEOUT_S

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET
from tonnage.objects.selectors import LabelSelector, selects
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster


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
    arrived: tuple[int, datetime | None, int] | None = None
    is_left_behind: bool = False
    has_claim: bool = True
    size: Quantity | None = None
    """Of what was left behind; of others it is read off their claims."""
    decided_tick: int = 0
    order: int = 0
    """Whose volume existed first."""
    volume_size: int | None = None
    """Of the volume that was made for the claim, bound or not."""

    @property
    def is_made(self) -> bool:
        return self.made_step is not None or (self.volume_size is not None and not self.is_rebuild)


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
        self.falls: dict[str, list[list[int]]] = {}
        """By object, ticks and bytes of falls that no volume was paid for with."""
        self.volumes_made = 0
        self.zeros_at: list[datetime] = []
        """Of every stamp of the server that was seen, what its clock showed when ours was at zero, by that stamp."""
        self.step = 0
        self.look()

    def look(self) -> None:
        """Account for whatever happened."""
        self.step += 1
        storage = self.cluster.storage
        elapsed = timedelta(seconds=self.cluster.clock.monotonic())
        for each in (*storage.claims, *storage.volumes, *storage.capacities.values()):
            times = [entry.time for entry in getattr(each.metadata, "managed_fields", ())]
            self.zeros_at += [at - elapsed for at in (each.metadata.creation_timestamp, *times) if at is not None]
        versions = {each.uid: each.metadata.resource_version for each in storage.capacities.values()}
        figures = {each.uid: each.capacity.value() for each in storage.capacities.values() if each.capacity is not None}
        places = {each.uid: (each.storage_class_name, each.node_topology) for each in storage.capacities.values()}
        self.refreshed = {uid: tick for uid, tick in self.refreshed.items() if uid in versions}
        for uid, version in versions.items():
            if self.versions.get(uid, version) != version:
                self.tick += 1
                if self.places[uid] == places[uid]:
                    self._move(uid, self.figures[uid] - figures[uid])
                    self._show(uid)
                else:
                    self.falls.pop(uid, None)
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
                self._end(key)  # somebody has it again: it is one volume
                continue
            found, before = storage.volumes.get(record.volume), self.volumes_before.get(record.volume)
            is_gone = (found is None and before is not None) or (
                found is not None and self._is_elsewhere(found, record.node)
            )
            if record.is_left_behind and is_gone:
                self._end(key)
        self.volumes_before = {each.name: each for each in storage.volumes}
        for key in list(self.records):
            self._end_if_shown(key)
        self.charged = self.promises()

    def _move(self, uid: str, fell_by: int) -> None:
        """A figure fell, or rose by less than nothing: then the last falls are taken back."""
        falls = self.falls.setdefault(uid, [])
        if fell_by > 0:
            falls.append([self.tick, fell_by])
        while fell_by < 0 and falls:
            falls[-1][1] += fell_by
            fell_by = min(falls[-1][1], 0)
            if falls[-1][1] <= 0:
                falls.pop()

    def _show(self, uid: str) -> None:
        """A refresh: volumes that exist are shown, the oldest first, as far as the figure fell since each was decided
        on; and whatever was bound before the refresh before this one."""
        unshown = self._unshown(uid)
        oldest = min([each.decided_tick for each in unshown.values()], default=self.tick)
        self.falls[uid] = [each for each in self.falls[uid] if each[0] > oldest]
        for key, record in unshown.items():
            if record.made_step is not None and (record.is_rebuild or self._size(key) is None):
                record.shown_by.add(uid)
                self._take(uid, record, self._falling_size(key))
        for key, record in sorted(self._unshown(uid).items(), key=lambda each: each[1].order):
            self._pay(uid, key, record)
        for key, record in self._unshown(uid).items():
            if record.made_step is not None and self.refreshed.get(uid, 0) > record.made_tick:
                record.shown_by.add(uid)
                self._take(uid, record, self._falling_size(key))

    def _unshown(self, uid: str) -> dict[str, Record]:
        return {
            key: record
            for key, record in self.records.items()
            if (key in self.charged.get(uid, {}) or record.named == uid) and uid not in record.shown_by
        }

    def _pay(self, uid: str, key: str, record: Record) -> None:
        size, falls = self._falling_size(key), self.falls.get(uid, [])
        fell = sum(each[1] for each in falls if each[0] > record.decided_tick)
        if size is not None and record.is_made and size <= fell:
            self._take(uid, record, size)
            record.shown_by.add(uid)

    def _take(self, uid: str, record: Record, size: int | None) -> None:
        for each in self.falls.get(uid, []):
            if each[0] > record.decided_tick and size:
                taken = min(each[1], size)
                each[1] -= taken
                size -= taken
        self.falls[uid] = [each for each in self.falls.get(uid, []) if each[1]]

    def _falling_size(self, key: str) -> int | None:
        size, made = self._size(key), self.records[key].volume_size
        return size if size is None or made is None else max(size, made)

    def _end(self, key: str) -> None:
        """A promise is over for another reason: what fell may have been its volume."""
        record = self.records[key]
        for uid in list(self.charged) if record.is_made else ():
            if key in self.charged[uid] and uid not in record.shown_by:
                self._take(uid, record, max(self.charged[uid][key], record.volume_size or 0))
        del self.records[key]

    def _order(self) -> int:
        self.volumes_made += 1
        return self.volumes_made

    def _look_for_volume(self, key: str, record: Record) -> None:
        """The volume that was made for a claim that is a promise: what fell before it came is paid out."""
        if record.is_rebuild or record.is_left_behind:
            return
        was_made = record.is_made
        found = next(
            (
                each
                for each in self.cluster.storage.volumes
                if each.spec.claim_ref is not None and each.spec.claim_ref.uid == record.uid
            ),
            None,
        )
        if found is not None:
            is_first = record.volume_size is None
            record.volume_size = found.spec.capacity["storage"].value()
            record.order = record.order or self._order()
            if is_first:
                self._pay_out(key, record)
        elif record.made_step is None and record.volume_size is not None:
            record.volume_size, record.decided_tick = None, self.tick
            record.shown_by.clear()
        elif was_made and not record.order:
            record.order = self._order()
            self._pay_out(key, record)

    def _pay_out(self, key: str, record: Record) -> None:
        for uid in [uid for uid, each in self.charged.items() if key in each]:
            self._pay(uid, key, record)

    def _look_at(self, key: str, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        record = self.records.get(key)
        if record is not None and (new is None or not _is_same(record, new)):
            if old is not None and self._leave_behind(key, record, old, new):
                del self.records[key]
            else:
                self._end(key)
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
            record = self.records[key] = Record(new.uid, new.selected_node, "", decided_tick=self.tick)
        elif record is None and (old is None or old.uid != new.uid or not old.is_bound or _is_sent_on(old, new)):
            self.met_bound[key] = self.tick
        elif record is not None and new.is_bound and not record.volume:
            record.volume = new.spec.volume_name
            record.made_step, record.made_at = self.step, self._server_now()
            record.made_tick = self.tick
            record.wait_s = self.cluster.clock.monotonic()
        found = self.cluster.storage.volumes.get(new.spec.volume_name)
        if key in self.met_bound and found is not None:
            met_tick, created_at = self.met_bound.pop(key), found.metadata.creation_timestamp
            if record is None and _is_on_its_way(new, found):
                record = self.records[key] = Record(
                    new.uid, new.selected_node, found.name, is_rebuild=True, decided_tick=self.tick
                )
            elif created_at is not None and record is None and self._age_s(created_at) < TIMEOUT_S:
                record = self.records[key] = Record(
                    new.uid, new.selected_node, new.spec.volume_name, decided_tick=self.tick
                )
                record.made_step, record.made_at, record.made_tick = self.step, created_at, met_tick
                record.volume_size, record.order = found.spec.capacity["storage"].value(), self._order()
                record.wait_s = self.cluster.clock.monotonic() - self._age_s(created_at)
        before = self.volumes_before.get(new.spec.volume_name)
        may_move = found is not None and before is not None and _is_on_its_way(new, found)
        if record is None and may_move and before is not None and self._is_elsewhere(before, new.selected_node):
            record = self.records[key] = Record(
                new.uid, new.selected_node, before.name, is_rebuild=True, decided_tick=self.tick
            )
        if record is not None:
            self._look_for_volume(key, record)
        if record is not None and record.is_rebuild:
            if found is None and before is not None:
                self._end(key)
            elif found is None or found.spec.node_affinity.required is None:
                record.made_step = record.wait_s = None
                record.shown_by.clear()
            elif self._is_elsewhere(found, record.node):
                self._end(key)
            elif record.made_step is None:
                record.made_step, record.made_at = self.step, self._server_now()
                record.made_tick = self.tick
                record.arrived = record.made_step, record.made_at, record.made_tick
                record.wait_s = self.cluster.clock.monotonic()

    def _leave_behind(
        self, key: str, record: Record, old: PersistentVolumeClaim, new: PersistentVolumeClaim | None
    ) -> bool:
        """A volume that was made is where it is, though its claim is sent elsewhere, or is gone, or let go of it."""
        since = record.arrived
        if record.made_step is not None:
            since = record.made_step, record.made_at, record.made_tick
        made = self.cluster.storage.volumes.get(record.volume)
        is_same = new is not None and new.is_bound and (new.uid, new.spec.volume_name) == (record.uid, record.volume)
        is_sent = is_same and new is not None and new.selected_node not in ("", record.node)
        if since is None or (made is None and not is_sent):
            return False
        now_s, is_resized = self.cluster.clock.monotonic(), record.is_rebuild and made is not None
        for other, behind in list(self.records.items()):
            if behind.is_left_behind and (behind.volume, behind.node) == (record.volume, record.node):
                self._end(other)
        self.records[f"{key} (volume {record.volume}, on {record.node})"] = replace(
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
            order=record.order or self._order(),
        )
        return True

    def _age_s(self, created_at: datetime) -> float:
        now = self._server_now()
        return max((now - created_at).total_seconds(), 0.0) if now is not None else 0.0

    def _server_now(self) -> datetime | None:
        """What the server's clock shows at least."""
        zero_at = max(self.zeros_at, default=None)
        return None if zero_at is None else zero_at + timedelta(seconds=self.cluster.clock.monotonic())

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
                if key in self.records:
                    self._end(key)
                self.records[key] = Record(
                    now.uid, now.selected_node, now.spec.volume_name, is_rebuild=True, decided_tick=self.tick
                )
            self.records[key].named = uid
        self.look()

    def expire(self) -> None:
        now_s = self.cluster.clock.monotonic()
        for key, record in list(self.records.items()):
            if record.wait_s is not None and record.wait_s + TIMEOUT_S <= now_s:
                self._end(key)
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
        created_at, made_at = each.metadata.creation_timestamp, record.made_at
        is_newer = created_at is not None and made_at is not None and created_at > made_at
        return each.uid in record.shown_by or (is_newer and record.made_step is not None)

    def _end_if_shown(self, key: str) -> None:
        record, objects = self.records[key], self._objects(key)
        is_named = [each.uid for each in objects] == [record.named]
        if record.volume and is_named and all(self._is_shown(record, each) for each in self._with_siblings(objects)):
            self._end(key)

    def promises(self) -> dict[str, dict[str, int]]:
        """Bytes by object and claim."""
        found = dict[str, dict[str, int]]()
        for key, record in self.records.items():
            size = self._size(key) if not self._rests(key) else None
            for each in self._with_siblings(self._objects(key)) if size is not None else ():
                if size is not None and not self._is_shown(record, each):
                    found.setdefault(each.uid, {})[key] = size
        return found

    def _rests(self, key: str) -> bool:
        """The provisioner's last word on the claim, as it stands in the API, is that it cannot be made."""
        record, storage = self.records[key], self.cluster.storage
        told, event = storage.claims.api(key), storage.provisioning_failures.get(key.replace("/", "/said-of-"))
        if record.is_made or record.is_rebuild or record.is_left_behind or told is None or event is None:
            return False
        is_sent = (told.uid, told.selected_node) == (record.uid, record.node)
        return is_sent and event.involved_object.uid in ("", record.uid) and "InvalidArgument" in event.message

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
