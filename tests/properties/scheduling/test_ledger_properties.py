"""The ledger as a state machine, against a model that looks at everything after every step.

So a promise that is lost, one that leaks, and an object of which nobody was told fail here.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from ledger_model import LedgerModel
from reservation_world import CLASS_OF, TIMEOUT_S, TOPOLOGIES, ReservationMachine, pod_names, seldom

from examples_tried import tries
from support.scheduling_sight import next_expiry_at, promised, promises
from tonnage.objects.core_v1 import Event, ObjectReference
from tonnage.objects.meta import StampedMeta
from tonnage.objects.storage_v1 import CSIDriver, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import capacity, driver, storage_class


class LedgerMachine(ReservationMachine):
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

    @rule(name=st.sampled_from(sorted(CLASS_OF)), code=st.sampled_from(["InvalidArgument", "Unavailable", "gone"]))
    def provisioner_speaks(self, name: str, code: str) -> None:
        """The last word on a claim: it cannot be made, not now, or nobody remembers what was said."""
        now = self.storage.claims.get(f"default/{name}")
        about = ObjectReference(
            kind="PersistentVolumeClaim", namespace="default", name=name, uid=now.uid if now else ""
        )
        event = Event(
            metadata=StampedMeta(namespace="default", name=f"said-of-{name}"),
            involved_object=about,
            reason="ProvisioningFailed",
            message=f"rpc error: code = {code} desc = so it is",
        )
        if code == "gone":
            self.storage.remove(event)
        else:
            self.storage.put(event)
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
        for one in (
            *api.classes.values(),
            *api.drivers.values(),
            *api.capacities.values(),
            *api.provisioning_failures.values(),
        ):
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
        found = {uid: dict(promises(self.ledger, uid)) for uid in uids if promises(self.ledger, uid)}
        assert found == expected
        assert {promise.key for promise in self.ledger._records} == set(self.model.records)
        for uid, of_object in found.items():
            assert promised(self.ledger, uid) == tuple(sorted(of_object.values(), reverse=True))
        holds = {(hold.uid, hold.claims[0]): hold.bytes for hold in self.ledger.holds()}
        assert holds == {(uid, key): size for uid, each in expected.items() for key, size in each.items()}
        waits = [each.wait_s + TIMEOUT_S for each in self.model.records.values() if each.wait_s is not None]
        assert next_expiry_at(self.ledger) == min(waits, default=None)
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


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=tries(150), stateful_step_count=60, deadline=None)


def test_what_a_made_volume_holds_is_told_anew_when_its_claim_is_sent_elsewhere():
    """The volume's promise gets a name of its own: whoever asks as the claim must read it again."""
    state = LedgerMachine()
    state.begin(skew_s=0)
    state.write_claim(name="a", on="n1", size="1Gi")
    state.reserve(by="p1", names=["a"], of="o1", on="n1")
    state.decide()
    state.put_or_remove_volume(age_s=20, name="a", on="n1")
    state.go_on(by="p1", free="9Gi", name="a", of="o1", on="n1", steps=1)
    state.decide()
    state.write_claim(name="a", on="n2", size="1Gi")
    state.decide()
