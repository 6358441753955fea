"""The reservations as a state machine, against a model that looks at everything after every step.

The model has no indexes, no deferred work and no heaps: after each event it walks over all claims, objects and nodes
and says from what it sees what is reserved. What it keeps is one flat record an object. So a reservation that is lost,
one that leaks, and an object of which nobody was told fail here.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from reservation_world import CLASS_OF, TIMEOUT_S, ReservationMachine, pod_names

from examples_tried import tries
from support.scheduling_sight import next_expiry_at
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.requirements import NodeSelector
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import pod


class ReservationsModel:
    """Reservations by the rules: a record an object, looked at after every step."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.records: dict[str, ReservationRecord] = {}
        self.volumes_before: set[str] = set()
        self.ended = {"refresh": 0, "failure": 0, "deletion": 0, "timeout": 0, "refusal": 0}

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
        self.ended[cause] += 1


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


class ReservationsMachine(ReservationMachine):
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
        assert found.ended == self.model.ended
        assert found.reservations_total == self.count
        waits = [each.bound_s + TIMEOUT_S for each in records.values() if each.bound_s is not None]
        assert next_expiry_at(found) == min(waits, default=None)
        gone = {uid for uid, was in self.is_reserved.items() if was and not is_reserved.get(uid, False)}
        come = {uid for uid, is_now in is_reserved.items() if is_now and not self.is_reserved.get(uid, False)}
        assert gone | come <= self.changed
        assert gone <= self.released
        self.is_reserved = is_reserved
        self.changed.clear()
        self.released.clear()


TestReservations = ReservationsMachine.TestCase
TestReservations.settings = settings(max_examples=tries(60), stateful_step_count=50, deadline=None)
