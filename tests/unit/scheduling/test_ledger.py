"""Reservation mode Ledger: bytes are promised from selected-node until the object shows the volume, and no longer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tonnage.clock import VirtualClock, rfc3339
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster import Cluster
from tonnage.scheduling.pod_info import PodInfo
from tonnage.scheduling.volumes.binding import sent_to
from tonnage.scheduling.volumes.holds import Hold
from tonnage.scheduling.volumes.ledger import Ledger
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

GI = 1 << 30
NODE_1 = "kube-system-fast-node-1"
NODE_2 = "kube-system-fast-node-2"
ZONE = "kube-system-fast-shared"


class Rig:
    """Two nodes with room of one class each, a clock that is moved by hand, and everything that was told.

    `is_down`: the scheduler is not running yet; it starts when the ledger is first asked for, and reads what is there.
    """

    def __init__(self, *, is_empty: bool = False, is_down: bool = False) -> None:
        self.clock = VirtualClock()
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        self.changed: list[str] = []
        self.released: list[str] = []
        if not is_empty:
            self.put(storage_class(), driver())
            for name in ("node-1", "node-2"):
                self.cluster.put_node(node(name, labels={"zone": "z"}))
                self.put(capacity("fast", name, "100Gi"))
        self._ledger: Ledger | None = None
        if not is_down:
            self.ledger.catch_up()

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self.cluster.view(Ledger)
            self._ledger.on_change.append(self.changed.append)
            self._ledger.on_released.append(lambda each: self.released.append(each.uid))
        return self._ledger

    def put(self, *objects: Object) -> None:
        for each in objects:
            self.storage.put(each)

    def refresh(self, node_name: str = "node-1", free: str = "80Gi") -> None:
        self.put(capacity("fast", node_name, free))

    def pod(self, name: str, *claims: str, size: str = "20Gi") -> PodInfo:
        for each in claims:
            if self.storage.claims.get(f"default/{each}") is None:
                self.put(claim(each, size))
        return PodInfo(pod_with(name, *claims))

    def reserve(self, pod: PodInfo, node_name: str = "node-1", of: CSIStorageCapacity | None = None) -> None:
        """Reserve as the plugin does: the claims are assumed on their node, then charged as they were planned."""
        planned = [self.claim(key) for key in pod.claim_keys]
        for each in planned:
            self.storage.claims.assume(sent_to(each, node_name))
        self.ledger.reserve(of or self.storage.capacities[f"kube-system/fast-{node_name}"], pod, planned)

    def claim(self, key: str) -> PersistentVolumeClaim:
        found = self.storage.claims.get(key)
        assert found is not None
        return found

    def gibs(self, uid: str = NODE_1) -> list[int]:
        self.ledger.catch_up()
        return [size // GI for size in self.ledger.promised(uid)]

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.ledger.expire(self.clock.monotonic())


def written(name: str, size: str = "20Gi", node_name: str = "node-1") -> PersistentVolumeClaim:
    """A claim as it is in the API once PreBind has written it."""
    return claim(name, size, selected_node=node_name)


def bound(name: str, size: str = "20Gi", node_name: str = "node-1") -> PersistentVolumeClaim:
    return claim(name, size, volume=f"pv-{name}", selected_node=node_name)


def made(name: str, rig: Rig, age_s: float, on: str = "node-1") -> PersistentVolume:
    """The volume of a claim, created so long ago."""
    created_at = rfc3339(rig.clock.now() - timedelta(seconds=age_s))
    return volume(f"pv-{name}", "20Gi", on=on, claim=f"default/{name}", metadata={"creationTimestamp": created_at})


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def down() -> Rig:
    """A cluster whose scheduler is not running yet."""
    return Rig(is_down=True)


# -- promises ---------------------------------------------------------------------------------------------------------


def test_an_assumed_claim_is_a_promise_before_the_api_knows(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert rig.gibs() == [20]
    assert rig.gibs(NODE_2) == []
    assert set(rig.changed) == {NODE_1}


def test_promises_are_told_largest_first_and_by_claim(rig: Rig) -> None:
    rig.reserve(rig.pod("small", "a", size="5Gi"))
    rig.reserve(rig.pod("large", "b", size="50Gi"))
    assert rig.gibs() == [50, 5]
    assert rig.ledger.promises(NODE_1) == {"default/a": 5 * GI, "default/b": 50 * GI}
    assert rig.ledger.promises("unknown") == {}


def test_five_pods_are_promised_at_once(rig: Rig) -> None:
    for number in range(5):
        rig.reserve(rig.pod(f"web-{number}", f"data-{number}"))
    assert rig.gibs() == [20, 20, 20, 20, 20]


def test_a_quantity_is_promised_in_whole_bytes_rounded_up(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data", size="1500m"))
    assert rig.ledger.promised(NODE_1) == (2,)


def test_a_claim_that_does_not_say_how_much_promises_nothing(rig: Rig) -> None:
    rig.put(claim("data", None, selected_node="node-1"))
    assert rig.gibs() == []


def test_a_driver_that_does_not_publish_capacity_is_promised_nothing(rig: Rig) -> None:
    rig.put(driver(capacity=False))
    rig.put(written("data"))
    assert rig.gibs() == []
    rig.put(driver(capacity=True))
    assert rig.gibs() == [20]
    rig.storage.remove(rig.storage.drivers["csi.example"])
    assert rig.gibs() == []


def test_claims_of_other_classes_are_not_charged(rig: Rig) -> None:
    rig.put(storage_class("slow"), claim("data", "20Gi", class_name="slow", selected_node="node-1"))
    assert rig.gibs() == []


def test_a_claim_without_a_node_promises_nothing(rig: Rig) -> None:
    rig.put(claim("data", "20Gi"))
    assert rig.gibs() == []


# -- which object -----------------------------------------------------------------------------------------------------


def test_a_claim_of_another_scheduler_is_charged_to_every_object_that_reaches_its_node(rig: Rig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}))
    rig.put(written("data"))
    assert rig.gibs(NODE_1) == [20]
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_2) == []


def test_a_reserved_claim_is_charged_to_the_object_that_was_named(rig: Rig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_1) == []
    rig.put(written("data"))
    assert rig.gibs(ZONE) == [20]
    assert rig.gibs(NODE_1) == []


def test_when_the_named_object_goes_the_others_are_charged(rig: Rig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.storage.remove(shared)
    assert rig.gibs(ZONE) == []
    assert rig.gibs(NODE_1) == [20]
    assert rig.released == [NODE_1, ZONE]  # the claim was assumed before the object was named; then the object went


def test_an_object_that_stops_reaching_the_node_is_not_charged(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("fast", name="fast-node-1", free="100Gi", topology={"matchLabels": {"zone": "elsewhere"}}))
    assert rig.gibs() == []
    rig.put(capacity("fast", "node-1", "100Gi"))
    assert rig.gibs() == [20]


def test_an_object_that_changes_its_class_takes_no_promise_along(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("slow", "node-1", "100Gi", name="fast-node-1"))
    assert rig.gibs() == []


def test_an_object_made_anew_under_its_name_is_charged(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("fast", "node-1", "100Gi", metadata={"uid": "second"}))
    assert rig.gibs("second") == [20]
    assert rig.gibs(NODE_1) == []


def test_what_was_named_stays_charged_when_the_node_goes(rig: Rig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.cluster.remove_node("node-1")
    assert rig.gibs(ZONE) == [20]


def test_what_was_not_named_is_charged_nowhere_while_its_node_is_not_known(rig: Rig) -> None:
    rig.put(written("data"))
    rig.cluster.remove_node("node-1")
    assert rig.gibs() == []
    rig.cluster.put_node(node("node-1", labels={"zone": "z"}))
    assert rig.gibs() == [20]


def test_a_node_that_takes_the_place_of_another_is_not_taken_for_it(rig: Rig) -> None:
    rig.put(written("data"))
    rig.cluster.remove_node("node-1")
    rig.cluster.put_node(node("node-3"))  # in the same row
    assert rig.gibs() == []
    rig.cluster.remove_node("node-3")
    rig.cluster.put_node(node("node-1"))
    assert rig.gibs() == [20]
    rig.cluster.remove_node("node-1")
    assert rig.gibs() == []


def test_a_node_that_came_late_and_goes_is_noticed(rig: Rig) -> None:
    rig.put(capacity("fast", "node-3", "100Gi"), written("data", node_name="node-3"))
    rig.cluster.put_node(node("node-3"))
    assert rig.gibs("kube-system-fast-node-3") == [20]
    rig.cluster.remove_node("node-3")
    assert rig.gibs("kube-system-fast-node-3") == []


def test_an_object_that_was_named_for_another_class_is_not_charged_when_the_node_goes(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.cluster.remove_node("node-1")
    rig.put(capacity("slow", "node-1", "100Gi", name="fast-node-1"))
    assert rig.gibs() == []


def test_a_class_that_changes_its_driver_takes_the_promises_along(rig: Rig) -> None:
    rig.put(written("data"))
    rig.put(storage_class(provisioner="other.example"))
    assert rig.gibs() == []
    rig.put(storage_class())
    assert rig.gibs() == [20]


def test_a_node_that_changes_its_labels_moves_the_charge(rig: Rig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "other"}}))
    rig.put(written("data"))
    assert rig.gibs(ZONE) == []
    rig.changed.clear()
    rig.cluster.put_node(node("node-1", labels={"zone": "other"}))
    assert rig.gibs(ZONE) == [20]
    assert rig.changed == [ZONE]


# -- the end of a promise ---------------------------------------------------------------------------------------------


def test_a_refresh_before_the_claim_is_bound_ends_nothing(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.refresh()
    assert rig.gibs() == [20]


def test_a_promise_ends_when_the_object_is_refreshed_after_the_claim_was_bound(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    rig.changed.clear()
    rig.released.clear()
    rig.refresh()
    assert rig.gibs() == []
    assert (rig.changed, rig.released) == ([NODE_1], [NODE_1])
    assert rig.ledger.next_expiry_at() is None


def test_a_promise_that_counts_for_nothing_ends_like_any_other(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(driver(capacity=False), bound("data"))
    assert rig.gibs() == []
    rig.refresh()
    rig.put(driver())
    assert rig.gibs() == []
    assert rig.ledger.next_expiry_at() is None


def test_the_same_version_told_again_is_no_refresh(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(rig.storage.capacities["kube-system/fast-node-1"])
    assert rig.gibs() == [20]


def test_of_several_claims_each_refresh_ends_those_that_were_bound_before_it(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "a", "b", size="30Gi"))
    rig.put(bound("a", "30Gi"))
    rig.refresh(free="70Gi")
    # 70Gi free shows a; b is still to come: 70 - 30 = 40Gi are left, where mode Object would see 70.
    assert rig.gibs() == [30]
    rig.put(bound("b", "30Gi"))
    rig.refresh(free="40Gi")
    assert rig.gibs() == []


def test_without_a_refresh_a_promise_ends_a_timeout_after_it_was_bound(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.wait(3600)
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    assert rig.ledger.next_expiry_at() == 3660
    rig.wait(59.5)
    assert rig.gibs() == [20]
    rig.wait(0.5)
    assert rig.gibs() == []
    assert rig.released[-1:] == [NODE_1]
    assert rig.ledger.next_expiry_at() is None


def test_objects_that_were_not_named_are_let_go_one_by_one(rig: Rig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}))
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    rig.refresh()
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([], [20])
    rig.wait(60)
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([], [])


def test_a_promise_stands_though_the_attempt_failed_once_it_is_written(rig: Rig) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    rig.put(written("data"))
    rig.storage.claims.restore("default/data")
    rig.ledger.release(web.uid)
    rig.ledger.release(web.uid)
    assert rig.gibs() == [20]
    rig.ledger.pod_gone(web.uid)
    assert rig.gibs() == [20]
    assert [hold.pod for hold in rig.ledger.holds()] == [""]


@pytest.mark.parametrize("restored_first", [True, False])
def test_an_attempt_that_failed_before_it_was_written_promises_nothing(rig: Rig, restored_first: bool) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    if restored_first:
        rig.storage.claims.restore("default/data")
        rig.ledger.release(web.uid)
    else:
        rig.ledger.release(web.uid)
        rig.storage.claims.restore("default/data")
    assert rig.gibs() == []
    assert rig.released[-1:] == [NODE_1]


def test_claims_that_were_never_assumed_are_let_go_with_the_attempt(rig: Rig) -> None:
    web = rig.pod("web", "data")
    rig.ledger.reserve(
        rig.storage.capacities["kube-system/fast-node-1"], web, [sent_to(rig.claim("default/data"), "node-1")]
    )
    assert rig.gibs() == [20]
    rig.ledger.release(web.uid)
    assert rig.gibs() == []


def test_a_late_failure_leaves_the_promise_to_the_pod_that_shares_the_claim(rig: Rig) -> None:
    first, second = rig.pod("first", "data"), rig.pod("second", "data")
    rig.reserve(first)
    rig.reserve(second)
    rig.ledger.release(first.uid)
    assert rig.gibs() == [20]
    assert [hold.pod for hold in rig.ledger.holds()] == ["default/second"]


def test_a_claim_that_the_provisioner_gives_back_promises_nothing(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    rig.put(claim("data", "20Gi"))
    assert rig.gibs() == []
    assert rig.released[-1:] == [NODE_1]


def test_a_claim_that_is_sent_elsewhere_takes_its_promise_along(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data", node_name="node-2"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])


def test_a_deleted_claim_promises_nothing(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == []


def test_a_claim_made_anew_under_its_name_is_another_promise(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(claim("data", "7Gi", selected_node="node-1", metadata={"uid": "second"}))
    assert rig.gibs() == [7]
    assert [hold.pod for hold in rig.ledger.holds()] == [""]


def test_a_claim_bound_without_having_been_a_promise_is_none_if_its_volume_is_old(rig: Rig) -> None:
    rig.put(claim("data", "20Gi"))
    rig.put(made("data", rig, age_s=3600))
    assert rig.gibs() == []
    rig.put(bound("data"))
    assert rig.gibs() == []


def test_a_claim_first_seen_bound_is_a_promise_if_its_volume_is_young(rig: Rig) -> None:
    # Selected-node and binding came between two looks of the informer.
    rig.put(claim("data", "20Gi"), made("data", rig, age_s=10))
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    # 60 - 10 = 50 s are left.
    assert rig.ledger.next_expiry_at() == 50


def test_a_bound_claim_is_not_promised_again_once_its_object_showed_it(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.refresh()
    rig.put(bound("data"))
    assert rig.gibs() == []


def test_a_claim_that_is_bound_no_more_is_promised_anew(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(written("data"))
    rig.wait(3600)
    assert rig.gibs() == [20]
    assert rig.ledger.next_expiry_at() is None


def test_a_claim_that_asks_for_more_promises_more_and_for_less_releases_something(rig: Rig) -> None:
    rig.put(written("data", "20Gi"))
    rig.put(written("data", "30Gi"))
    assert rig.gibs() == [30]
    assert (rig.changed, rig.released) == ([NODE_1, NODE_1], [])
    rig.put(written("data", "10Gi"))
    assert rig.gibs() == [10]
    assert rig.released == [NODE_1]


# -- rebuilds ---------------------------------------------------------------------------------------------------------


def rebuilt_rig() -> Rig:
    """A claim bound long ago on node-2, whose driver has withdrawn the volume's affinity, reserved on node-1."""
    rig = Rig()
    rig.put(bound("data", node_name="node-2"), volume("pv-data", "20Gi", claim="default/data"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    return rig


def test_a_rebuild_is_a_promise_on_the_new_node() -> None:
    rig = rebuilt_rig()
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [])
    assert [hold.why for hold in rig.ledger.holds()] == ["waits for its volume to be rebuilt"]


def test_a_rebuild_ends_by_a_refresh_after_its_volume_is_on_the_new_node() -> None:
    rig = rebuilt_rig()
    rig.put(bound("data", node_name="node-1"))
    rig.refresh()
    assert rig.gibs() == [20]
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    assert rig.gibs() == [20]
    assert [hold.why for hold in rig.ledger.holds()] == ["rebuilt; waits for the object to be refreshed"]
    rig.refresh()
    assert rig.gibs() == []


def test_an_affinity_that_does_not_admit_the_new_node_ends_no_rebuild() -> None:
    rig = rebuilt_rig()
    rig.put(volume("pv-data", "20Gi", on="node-2", claim="default/data"))
    rig.refresh()
    assert rig.gibs() == [20]


def test_an_affinity_that_is_withdrawn_again_makes_the_rebuild_wait_again() -> None:
    rig = rebuilt_rig()
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    rig.refresh()
    assert rig.gibs() == [20]


def test_a_rebuild_ends_a_timeout_after_reserve() -> None:
    rig = rebuilt_rig()
    rig.wait(30)
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    assert rig.ledger.next_expiry_at() == 60
    rig.wait(30)
    assert rig.gibs() == []
    rig.put(bound("data", node_name="node-1"))
    assert rig.gibs() == []


def test_a_rebuild_whose_attempt_failed_is_no_promise() -> None:
    rig = rebuilt_rig()
    rig.storage.claims.restore("default/data")
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])
    assert rig.ledger.next_expiry_at() is None


def test_a_rebuild_that_was_written_stands_though_the_attempt_failed() -> None:
    rig = rebuilt_rig()
    rig.put(bound("data", node_name="node-1"))
    rig.ledger.release("default-web")
    assert rig.gibs() == [20]


def test_a_refresh_counts_after_what_nodes_did_before_it() -> None:
    rig = Rig()
    rig.put(bound("data", node_name="node-2"), volume("pv-data", "20Gi", claim="default/data"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    affinity = {"key": "disk", "operator": "Exists"}
    rig.put(volume("pv-data", "20Gi", affinity=affinity, claim="default/data"))
    rig.cluster.put_node(node("node-1", labels={"disk": "yes"}))  # now the affinity admits it, and nobody has asked yet
    rig.refresh()
    assert rig.gibs() == []


# -- restarts and the order of events ---------------------------------------------------------------------------------


def test_after_a_restart_unbound_claims_are_found_again(down: Rig) -> None:
    down.put(written("data"), claim("loose", "20Gi"))
    assert down.gibs() == [20]
    assert down.changed == []


def test_after_a_restart_a_young_volume_counts_for_the_rest_of_its_time(down: Rig) -> None:
    down.clock.advance(1000)
    down.put(bound("data"), made("data", down, age_s=45))
    assert down.gibs() == [20]
    # 60 - 45 = 15 s are left.
    assert down.ledger.next_expiry_at() == 1015
    down.wait(15)
    assert down.gibs() == []


def test_after_a_restart_a_refresh_ends_the_promise_of_a_young_volume(down: Rig) -> None:
    down.put(bound("data"), made("data", down, age_s=45))
    assert down.gibs() == [20]
    down.refresh()
    assert down.gibs() == []


def test_after_a_restart_old_volumes_and_those_without_a_date_promise_nothing(down: Rig) -> None:
    down.put(bound("old"), made("old", down, age_s=60))
    down.put(bound("undated"), volume("pv-undated", "20Gi", claim="default/undated"))
    assert down.gibs() == []


def test_a_volume_from_the_future_is_just_made(down: Rig) -> None:
    down.put(bound("data"), made("data", down, age_s=-5))
    assert down.gibs() == [20]
    assert down.ledger.next_expiry_at() == 60


def test_a_longer_timeout_finds_the_volumes_that_were_too_old_before(down: Rig) -> None:
    down.clock.advance(1000)
    down.put(bound("data"), made("data", down, age_s=100))
    down.put(bound("older"), made("older", down, age_s=300))
    assert down.gibs() == []
    down.ledger.timeout_s = 300
    assert down.gibs() == [20]
    assert down.changed == [NODE_1]
    # 300 - 100 = 200 s are left.
    assert down.ledger.next_expiry_at() == 1200


def test_claims_may_come_before_everything_else() -> None:
    rig = Rig(is_empty=True)
    rig.put(written("data"), bound("young", "7Gi"))
    rig.put(made("young", rig, age_s=10))
    rig.put(capacity("fast", "node-1", "100Gi"))
    rig.cluster.put_node(node("node-1"))
    rig.put(storage_class())
    assert rig.gibs() == []
    rig.put(driver())
    assert rig.gibs() == [20, 7]
    assert rig.changed == [NODE_1]


def test_a_refresh_between_a_claim_and_its_late_volume_counts(rig: Rig) -> None:
    rig.put(bound("data"))
    rig.refresh()
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == []


def test_a_refresh_before_the_claim_came_does_not_show_its_late_volume(rig: Rig) -> None:
    rig.refresh()
    rig.put(bound("data"))
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == [20]


def test_a_late_volume_does_not_replace_the_promise_of_a_rebuild(rig: Rig) -> None:
    rig.put(bound("data", node_name="node-2"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    rig.put(made("data", rig, age_s=1, on="node-2"))
    assert rig.gibs() == [20]
    assert [hold.pod for hold in rig.ledger.holds()] == ["default/web"]


def test_a_claim_that_goes_before_its_late_volume_comes_promises_nothing(rig: Rig) -> None:
    rig.put(bound("data"))
    rig.storage.remove(rig.claim("default/data"))
    rig.put(made("data", rig, age_s=1))
    assert rig.gibs() == []


def test_a_claim_that_is_sent_elsewhere_before_its_late_volume_comes_promises_nothing(rig: Rig) -> None:
    rig.put(bound("data"))
    rig.put(bound("data", node_name="node-2"))
    rig.put(made("data", rig, age_s=1))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])


def test_an_object_created_after_the_volume_shows_it(rig: Rig) -> None:
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    created = {"creationTimestamp": rfc3339(rig.clock.now() + timedelta(seconds=1))}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([20], [])


def test_an_object_created_in_the_second_of_the_binding_need_not_show_it(rig: Rig) -> None:
    rig.put(written("data"))
    rig.put(bound("data"))
    created = {"creationTimestamp": rfc3339(rig.clock.now())}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert rig.gibs(ZONE) == [20]


def test_an_object_that_the_informer_tells_of_late_is_charged_for_what_was_made_before(rig: Rig) -> None:
    rig.clock.advance(1000)
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    created = {"creationTimestamp": rfc3339(rig.clock.now() - timedelta(seconds=500))}
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}, metadata=created))
    assert rig.gibs(ZONE) == [20]


def test_names_are_lost_in_a_restart_and_promises_are_not(rig: Rig) -> None:
    shared = capacity("fast", topology={"matchLabels": {"zone": "z"}})
    rig.put(shared)
    rig.reserve(rig.pod("web", "data"), of=shared)
    rig.put(written("data"))
    fresh = Ledger(rig.cluster)
    # Nobody knows any more which of the two was meant: both are charged.
    assert fresh.promised(ZONE) == (20 * GI,)
    assert fresh.promised(NODE_1) == (20 * GI,)
    assert [(hold.pod, hold.claims) for hold in fresh.holds_on(ZONE)] == [("", ("default/data",))]


# -- who holds what ---------------------------------------------------------------------------------------------------


def test_a_hold_says_who_since_when_and_why(rig: Rig) -> None:
    rig.clock.advance(90)
    rig.reserve(rig.pod("web", "a", "b"))
    rig.put(bound("b"))
    since = VirtualClock().now() + timedelta(seconds=90)
    of_object = {"capacity": "kube-system/fast-node-1", "uid": NODE_1, "pod": "default/web"}
    assert rig.ledger.holds() == [
        Hold(**of_object, claims=("default/a",), bytes=20 * GI, since=since, why="waits for its claim to be bound"),
        Hold(
            **of_object,
            claims=("default/b",),
            bytes=20 * GI,
            since=since,
            why="bound; waits for the object to be refreshed",
        ),
    ]
    assert rig.ledger.holds_on(NODE_2) == []


def test_listeners_find_the_change_made(rig: Rig) -> None:
    seen: list[tuple[int, ...]] = []
    rig.ledger.on_change.append(lambda uid: seen.append(rig.ledger.promised(uid)))
    rig.put(written("data"))
    rig.put(claim("data", "20Gi"))
    assert seen == [(20 * GI,), ()]


def test_nothing_is_kept_of_promises_that_ended(rig: Rig) -> None:
    for number in range(20):
        name = f"data-{number}"
        rig.reserve(rig.pod(f"web-{number}", name))
        rig.put(bound(name))
        rig.refresh()
    ledger = rig.ledger
    assert list(ledger._promises) == [] and list(ledger._charges) == [] and ledger.next_expiry_at() is None
    assert not any(vars(ledger._promises).values())


def test_reservations_and_what_a_refresh_ends_of_them_are_counted(rig: Rig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert (rig.ledger.reservations_total, rig.ledger.resets_total) == (1, 0)
    rig.put(bound("data"))
    rig.refresh()
    assert (rig.ledger.reservations_total, rig.ledger.resets_total) == (1, 1)
