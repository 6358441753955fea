"""Reservation mode Object: an object is out of bounds from Reserve until it is refreshed, or its pod comes to nothing.

The first tests are the unit tests that KEP-5925 lists for its second enhancement, by the KEP's words, as far as they
can be asked of the reservations alone.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.scheduling_sight import next_expiry_at
from support.virtual_clock import VirtualClock
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.scheduling.volumes.reservations.holds import REFRESH, Hold
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, pod_with, volume

GI = 1 << 30


class ReservationsRig:
    """A cluster with two objects of room, a clock that is moved by hand, and everything that was told."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = Cluster(self.clock)
        self.storage = self.cluster.storage
        self.room = self.put(capacity("fast", "node-1", "100Gi"))
        self.other = self.put(capacity("slow", "node-1", "100Gi"))
        self.reservations = add_indexes(self.cluster).index(Reservations)
        self.changed: list[str] = []
        self.released: list[str] = []
        self.reservations.on_change.append(self.changed.append)
        self.reservations.on_released.append(lambda each: self.released.append(each.metadata.resource_version))

    def put(self, new: CSIStorageCapacity) -> CSIStorageCapacity:
        self.storage.put(new)
        return new

    def refresh(self, free: str = "80Gi") -> CSIStorageCapacity:
        return self.put(capacity("fast", "node-1", free))

    def pod(self, name: str, *claims: str, size: str = "20Gi") -> PodInfo:
        for each in claims:
            if self.storage.claims.get(f"default/{each}") is None:
                self.storage.put(claim(each, size))
        return PodInfo(pod_with(name, *claims))

    def reserve(self, pod: PodInfo, of: CSIStorageCapacity | None = None, *, node: str = "node-1") -> None:
        """Reserve as the plugin does: the claims are assumed on their node first."""
        planned = [self.claim(key) for key in pod.claim_keys]
        for each in planned:
            self.storage.claims.assume(asking_for(each, node))
        self.reservations.reserve(of or self.room, pod, planned)

    def claim(self, key: str) -> PersistentVolumeClaim:
        found = self.storage.claims.get(key)
        assert found is not None
        return found

    def bind(self, name: str) -> None:
        """The informer shows the claim bound, on its node."""
        self.storage.put(claim(name, "20Gi", volume=f"pv-{name}", selected_node="node-1"))

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.reservations.expire(self.clock.monotonic())

    @property
    def is_reserved(self) -> bool:
        return self.reservations.is_reserved(self.storage.capacities[self.room.key])

    def causes(self) -> dict[str, int]:
        return {cause: count for cause, count in self.reservations.ended.items() if count}


@pytest.fixture
def rig() -> ReservationsRig:
    return ReservationsRig()


# -- KEP-5925, unit tests, enhancement 2 ------------------------------------------------------------------------------


def test_object_is_reserved_with_matching_resource_version(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert rig.reservations.is_reserved(rig.room)
    assert not rig.reservations.is_reserved(rig.other)


def test_object_is_available_when_resource_version_has_changed(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    assert rig.reservations.is_reserved(rig.room)
    changed = capacity("fast", "node-1", "100Gi")
    assert changed.metadata.resource_version != rig.room.metadata.resource_version
    rig.put(changed)
    assert not rig.reservations.is_reserved(changed)


def test_reservation_is_recorded_in_reserve_phase(rig: ReservationsRig) -> None:
    assert not rig.is_reserved
    rig.reserve(rig.pod("web", "data"))
    assert rig.is_reserved
    assert rig.reservations.reservations_total == 1
    assert rig.changed == [rig.room.uid]


def test_reservation_is_cleared_on_informer_update(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    refreshed = rig.refresh()
    assert not rig.is_reserved
    assert rig.causes() == {"refresh": 1}
    assert rig.reservations.ended[REFRESH] == 1
    assert rig.changed == [rig.room.uid, rig.room.uid]
    assert rig.released == [refreshed.metadata.resource_version]


def test_scheduler_restart_has_no_reservations(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    fresh = Reservations(rig.cluster)
    assert not fresh.is_reserved(rig.room)
    assert fresh.holds() == []
    assert next_expiry_at(fresh) is None


def test_first_decision_reserves_and_second_sees_reserved(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("first", "a"))
    assert rig.is_reserved  # what the second decision finds
    rig.refresh()
    rig.reserve(rig.pod("second", "b"), rig.storage.capacities[rig.room.key])
    assert rig.is_reserved
    assert rig.reservations.reservations_total == 2


# -- pods that share a claim ------------------------------------------------------------------------------------------


def test_an_object_is_not_kept_from_the_claims_that_it_is_kept_for(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data", "logs"))
    data, logs, other = "default/data", "default/logs", "default/other"
    for own in ([data], [logs], [data, logs], [data, logs, other]):
        assert not rig.reservations.is_reserved(rig.room, own)
    # What logs takes is not among these, and nobody can tell what is left beside it.
    for own in ([other], [data, other]):
        assert rig.reservations.is_reserved(rig.room, own)


def test_an_object_stays_reserved_until_the_last_pod_that_shares_the_claim_is_done_with_it(
    rig: ReservationsRig,
) -> None:
    first, second = rig.pod("first", "data"), rig.pod("second", "data")
    rig.reserve(first)
    rig.reserve(second)
    assert [hold.pod for hold in rig.reservations.holds()] == ["default/first"]
    rig.reservations.release(second.uid)
    assert rig.is_reserved
    rig.reserve(second)
    rig.reservations.pod_gone(first.uid)
    assert rig.is_reserved and [hold.pod for hold in rig.reservations.holds()] == ["default/second"]
    rig.reservations.release(second.uid)
    assert not rig.is_reserved and rig.causes() == {"failure": 1}


def test_a_pod_that_shares_one_claim_and_brings_another_adds_it(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("first", "data"))
    rig.reserve(rig.pod("second", "data", "more"))
    (hold,) = rig.reservations.holds()
    assert set(hold.claims) == {"default/data", "default/more"} and hold.bytes == 40 * GI


def test_a_rebuild_of_the_first_pod_is_waited_for_though_the_second_shares_another_claim(rig: ReservationsRig) -> None:
    """Whoever reserves for one of the claims, the first pod again or another, the rebuild of the other goes on."""
    web = rebuild(rig, "logs")
    for who in (web, rig.pod("second", "logs")):
        rig.reservations.reserve(rig.room, who, [rig.claim("default/logs")])
        (hold,) = rig.reservations.holds()
        assert set(hold.claims) == {"default/data", "default/logs"}
        assert hold.why == "waits for its volumes to be rebuilt"
    rig.refresh()
    assert rig.is_reserved and rig.causes() == {}


# -- refreshes --------------------------------------------------------------------------------------------------------


def test_a_capacity_that_shrank_frees_the_reservation_all_the_same(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.refresh("1Gi")
    assert not rig.is_reserved
    assert len(rig.released) == 1


def test_the_same_version_told_again_is_no_refresh(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(rig.room)
    assert rig.is_reserved
    assert rig.released == []


def test_an_object_without_versions_is_refreshed_by_being_handed_in_again() -> None:
    rig = ReservationsRig()
    unversioned = rig.put(capacity("fast", "node-1", "100Gi", metadata={"resourceVersion": ""}))
    rig.reserve(rig.pod("web", "data"), unversioned)
    assert rig.is_reserved
    rig.put(unversioned)
    assert not rig.is_reserved


def test_an_object_refreshed_since_the_decision_is_held_as_it_is_now(rig: ReservationsRig) -> None:
    stale = rig.room
    rig.refresh()
    rig.reserve(rig.pod("web", "data"), stale)
    assert rig.is_reserved


def test_a_refresh_of_another_object_changes_nothing(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(capacity("slow", "node-1", "1Gi"))
    assert rig.is_reserved


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_frees_all_objects_of_the_pod(rig: ReservationsRig) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    rig.reserve(web, rig.other)
    rig.reservations.release(web.uid)
    assert rig.reservations.holds() == []
    assert rig.causes() == {"failure": 2}
    assert rig.released == [rig.room.metadata.resource_version, rig.other.metadata.resource_version]


def test_releasing_twice_does_no_harm(rig: ReservationsRig) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    rig.reservations.release(web.uid)
    rig.reservations.release(web.uid)
    rig.reservations.release("nobody")
    assert rig.causes() == {"failure": 1}
    assert rig.changed == [rig.room.uid, rig.room.uid]


def test_a_late_failure_does_not_free_what_another_pod_reserved_since(rig: ReservationsRig) -> None:
    first, second = rig.pod("first", "a"), rig.pod("second", "b")
    rig.reserve(first)
    rig.refresh()
    rig.reserve(second)
    rig.reservations.release(first.uid)
    assert rig.is_reserved
    assert [hold.pod for hold in rig.reservations.holds()] == ["default/second"]
    rig.reservations.release(second.uid)
    assert not rig.is_reserved


def test_a_pod_that_takes_over_an_object_without_a_refresh_is_its_only_holder(rig: ReservationsRig) -> None:
    first, second = rig.pod("first", "a"), rig.pod("second", "b")
    rig.reserve(first)
    rig.reserve(second)
    assert [hold.pod for hold in rig.reservations.holds()] == ["default/second"]
    rig.reservations.release(first.uid)
    rig.storage.remove(rig.claim("default/a"))
    assert rig.is_reserved
    assert rig.released == []


def test_restored_claims_end_it_as_the_failure_they_are(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.claims.restore("default/data")
    assert not rig.is_reserved
    assert rig.causes() == {"failure": 1}


def test_claims_that_the_provisioner_gives_back_free_the_object(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.put(claim("data", "20Gi", selected_node="node-1"))  # written by PreBind
    assert rig.is_reserved
    rig.storage.put(claim("data", "20Gi"))  # the provisioner asks for another node
    assert not rig.is_reserved
    assert rig.causes() == {"failure": 1}


def test_a_claim_sent_to_another_node_by_somebody_else_frees_the_object(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.put(claim("data", "20Gi", selected_node="node-2"))
    assert not rig.is_reserved


def test_it_takes_the_loss_of_all_claims_to_free_the_object(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "a", "b"))
    rig.storage.put(claim("a", "20Gi"))
    assert rig.is_reserved
    rig.storage.remove(rig.claim("default/b"))
    assert not rig.is_reserved
    assert rig.causes() == {"deletion": 1}


def test_assumed_claims_count_before_the_api_knows_them(rig: ReservationsRig) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    # The informer repeats what it knew at Reserve: the assumption is newer, and stands.
    known = rig.storage.claims.api("default/data")
    assert known is not None
    rig.storage.put(known)
    assert rig.is_reserved


def test_claims_handed_over_as_assumed_are_understood(rig: ReservationsRig) -> None:
    web = rig.pod("web", "data")
    assumed = asking_for(rig.claim("default/data"), "node-1")
    rig.storage.claims.assume(assumed)
    rig.reservations.reserve(rig.room, web, [assumed])
    assert rig.is_reserved
    rig.storage.claims.restore("default/data")
    assert not rig.is_reserved


# -- deletions --------------------------------------------------------------------------------------------------------


def test_a_deleted_object_is_forgotten_with_its_reservation(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.remove(rig.room)
    assert rig.reservations.holds() == []
    assert rig.causes() == {"deletion": 1}
    assert rig.released == [rig.room.metadata.resource_version]


def test_an_object_made_anew_under_its_name_is_free(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    # The deletion was missed: the informer shows another object under the same name.
    rig.put(capacity("fast", "node-1", "100Gi", metadata={"uid": "second"}))
    assert not rig.is_reserved
    assert rig.causes() == {"deletion": 1}


def test_a_deleted_pod_frees_its_objects(rig: ReservationsRig) -> None:
    web = rig.pod("web", "data")
    rig.reserve(web)
    rig.reservations.pod_gone(web.uid)
    rig.reservations.pod_gone(web.uid)
    assert not rig.is_reserved
    assert rig.causes() == {"deletion": 1}
    assert rig.released == [rig.room.metadata.resource_version]


def test_a_claim_made_anew_under_its_name_is_not_the_one_that_was_waited_for(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.put(claim("data", "20Gi", selected_node="node-1", metadata={"uid": "second"}))
    assert not rig.is_reserved
    assert rig.causes() == {"deletion": 1}


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_reservation_does_not_expire_while_a_claim_is_unbound(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "a", "b"))
    rig.bind("a")
    rig.wait(3600)
    assert rig.is_reserved
    assert next_expiry_at(rig.reservations) is None


def test_a_reservation_expires_a_timeout_after_the_last_claim_was_bound(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "a", "b"))
    rig.wait(10)
    rig.bind("a")
    rig.wait(10)
    rig.bind("b")
    # Bound at 20 s, and 60 s on top of that.
    assert next_expiry_at(rig.reservations) == 80
    rig.wait(59.5)
    assert rig.is_reserved
    rig.wait(0.5)
    assert not rig.is_reserved
    assert rig.causes() == {"timeout": 1}
    assert rig.reservations.ended[REFRESH] == 0
    assert rig.released == [rig.room.metadata.resource_version]
    assert next_expiry_at(rig.reservations) is None


def test_news_of_a_bound_claim_does_not_prolong_the_wait(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.bind("data")
    rig.wait(30)
    rig.bind("data")
    assert next_expiry_at(rig.reservations) == 60


def test_a_claim_that_is_bound_no_more_stops_the_wait(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.bind("data")
    rig.storage.put(claim("data", "20Gi", selected_node="node-1"))
    assert next_expiry_at(rig.reservations) is None
    rig.wait(60)
    rig.bind("data")
    assert next_expiry_at(rig.reservations) == 120


def test_a_lost_claim_does_not_keep_the_others_from_expiring(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("web", "a", "b"))
    rig.bind("a")
    rig.wait(5)
    rig.storage.remove(rig.claim("default/b"))
    assert rig.is_reserved
    assert next_expiry_at(rig.reservations) == 65


def rebuild(rig: ReservationsRig, *others: str) -> PodInfo:
    """A pod whose volume may move, with room reserved on node-1 for it and for what the pod has besides."""
    rig.storage.put(volume("pv-data", "20Gi", claim="default/data"))
    rig.storage.put(claim("data", "20Gi", volume="pv-data", selected_node="node-0"))
    rig.cluster.put_node(node("node-1"))
    web = rig.pod("web", "data", *others)
    rig.reserve(web)
    return web


def test_neither_the_clock_nor_a_refresh_ends_a_rebuild_under_way(rig: ReservationsRig) -> None:
    rebuild(rig)
    rig.wait(86_400)
    assert rig.is_reserved and next_expiry_at(rig.reservations) is None
    assert [hold.why for hold in rig.reservations.holds()] == ["waits for its volumes to be rebuilt"]
    rig.refresh()
    assert rig.is_reserved


def test_after_a_rebuild_the_wait_for_a_refresh_begins(rig: ReservationsRig) -> None:
    rebuild(rig)
    rig.wait(100)
    rig.storage.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    assert rig.is_reserved and next_expiry_at(rig.reservations) == 160
    assert [hold.why for hold in rig.reservations.holds()] == [
        "its volumes are rebuilt; waits for the object to be refreshed"
    ]
    rig.refresh()
    assert rig.causes() == {"refresh": 1}


@pytest.mark.parametrize("ends", ["elsewhere", "claim", "volume"])
def test_a_rebuild_that_comes_to_nothing_gives_the_object_back(rig: ReservationsRig, ends: str) -> None:
    rebuild(rig)
    if ends == "elsewhere":
        rig.storage.put(volume("pv-data", "20Gi", on="node-0", claim="default/data"))
    elif ends == "claim":
        rig.storage.remove(claim("data"))
    else:
        rig.storage.remove(volume("pv-data", claim="default/data"))
    assert not rig.is_reserved


def test_a_rebuild_that_was_written_outlives_its_pod(rig: ReservationsRig) -> None:
    web = rebuild(rig)
    rig.storage.put(asking_for(claim("data", "20Gi", volume="pv-data"), "node-1"))
    rig.reservations.release(web.uid)
    rig.reservations.pod_gone(web.uid)
    assert rig.is_reserved and [hold.pod for hold in rig.reservations.holds()] == [""]
    rig.storage.put(claim("data", "20Gi", volume="pv-data", selected_node="node-0"))
    assert not rig.is_reserved


def test_a_refused_rebuild_holds_an_object_only_where_it_would_fit(rig: ReservationsRig) -> None:
    rebuild(rig)
    rig.storage.put(attachment("va", "pv-data", "node-1", error="busy"))
    assert rig.is_reserved
    rig.refresh(free="10Gi")
    assert rig.causes() == {"failure": 1}


def rebuild_two(rig: ReservationsRig) -> PodInfo:
    """A pod with two volumes that may move, and room reserved on node-1 for both."""
    rig.storage.put(volume("pv-logs", "20Gi", claim="default/logs"))
    rig.storage.put(claim("logs", "20Gi", volume="pv-logs", selected_node="node-0"))
    return rebuild(rig, "logs")


def test_a_refused_rebuild_without_room_does_not_hold_an_object_on_which_the_pods_other_volume_arrived(
    rig: ReservationsRig,
) -> None:
    rebuild_two(rig)
    rig.storage.put(volume("pv-logs", "20Gi", on="node-1", claim="default/logs"))
    rig.storage.put(attachment("va", "pv-data", "node-1", error="no pool has room"))
    # 20Gi are free: it may still arrive.
    rig.refresh(free="20Gi")
    assert rig.is_reserved
    # 10Gi are: it cannot, and the figures show the other volume. Pods of 10Gi are tried again.
    shown = rig.refresh(free="10Gi")
    assert not rig.is_reserved and rig.causes() == {"refresh": 1}
    assert rig.released == [shown.metadata.resource_version]


def test_a_rebuild_refused_after_its_room_went_leaves_the_wait_for_a_refresh_to_the_volume_that_arrived(
    rig: ReservationsRig,
) -> None:
    rebuild_two(rig)
    rig.refresh(free="10Gi")
    rig.storage.put(volume("pv-logs", "20Gi", on="node-1", claim="default/logs"))
    assert rig.is_reserved and next_expiry_at(rig.reservations) is None
    rig.storage.put(attachment("va", "pv-data", "node-1", error="no pool has room"))
    assert rig.is_reserved and next_expiry_at(rig.reservations) == 60
    rig.refresh(free="10Gi")
    assert rig.causes() == {"refresh": 1}


def test_a_refused_rebuild_without_room_does_not_end_the_reservation_of_another_that_is_under_way(
    rig: ReservationsRig,
) -> None:
    rebuild_two(rig)
    rig.storage.put(attachment("va", "pv-data", "node-1", error="no pool has room"))
    rig.refresh(free="10Gi")
    assert rig.is_reserved
    rig.storage.put(attachment("va-2", "pv-logs", "node-1", error="no pool has room"))
    assert rig.causes() == {"failure": 1}


def test_a_refused_rebuild_without_room_does_not_hold_an_object_that_a_volume_was_made_of(rig: ReservationsRig) -> None:
    rebuild(rig, "scratch")
    rig.storage.put(attachment("va", "pv-data", "node-1", error="no pool has room"))
    rig.bind("scratch")
    rig.refresh(free="10Gi")
    assert rig.causes() == {"refresh": 1}


def test_a_rebuild_under_way_is_found_again_by_a_scheduler_that_starts(rig: ReservationsRig) -> None:
    rebuild(rig)
    rig.storage.put(asking_for(claim("data", "20Gi", volume="pv-data"), "node-1"))
    fresh = Reservations(rig.cluster)
    assert fresh.is_reserved(rig.room)
    assert [(hold.pod, hold.claims, hold.bytes) for hold in fresh.holds()] == [("", ("default/data",), 20 * GI)]


def test_each_reservation_lasts_as_long_as_the_profile_of_its_pod_has_it(rig: ReservationsRig) -> None:
    for each in (30.0, 300.0, 30.0):
        rig.reservations.tell_timeout(each)
    for name, room, timeout_s in (("short", rig.room, 30.0), ("long", rig.other, 300.0)):
        web = rig.pod(f"web-{name}", name)
        rig.storage.claims.assume(asking_for(rig.claim(f"default/{name}"), "node-1"))
        rig.reservations.reserve(room, web, [rig.claim(f"default/{name}")], timeout_s)
        rig.bind(name)
    rig.wait(30)
    assert [hold.pod for hold in rig.reservations.holds()] == ["default/web-long"]
    rig.wait(270)
    assert rig.reservations.holds() == []


def test_the_timeout_is_the_one_that_was_set(rig: ReservationsRig) -> None:
    rig.reservations.tell_timeout(5)
    rig.reserve(rig.pod("web", "data"))
    rig.bind("data")
    rig.wait(5)
    assert not rig.is_reserved


def test_a_wait_that_a_refresh_ended_is_not_ended_again(rig: ReservationsRig) -> None:
    rig.reserve(rig.pod("first", "a"))
    rig.bind("a")
    rig.wait(30)
    rig.refresh()
    rig.reserve(rig.pod("second", "b"))
    rig.wait(60)
    assert rig.is_reserved
    assert rig.causes() == {"refresh": 1}


# -- who holds what ---------------------------------------------------------------------------------------------------


def test_a_hold_says_who_since_when_and_why(rig: ReservationsRig) -> None:
    rig.clock.advance(90)
    rig.reserve(rig.pod("web", "a", "b"))
    # Two claims of 20Gi.
    expected = Hold(
        capacity="kube-system/fast-node-1",
        uid="kube-system-fast-node-1",
        pod="default/web",
        claims=("default/a", "default/b"),
        bytes=40 * GI,
        since=VirtualClock().now() + timedelta(seconds=90),
        why="waits for its claims to be bound",
    )
    assert rig.reservations.holds() == [expected]
    assert rig.reservations.holds_on("kube-system-fast-node-1") == [expected]
    assert rig.reservations.holds_on("kube-system-slow-node-1") == []
    rig.bind("a")
    rig.bind("b")
    assert [hold.why for hold in rig.reservations.holds()] == ["bound; waits for the object to be refreshed"]


def test_listeners_find_the_change_made(rig: ReservationsRig) -> None:
    seen: list[bool] = []
    rig.reservations.on_change.append(lambda _: seen.append(rig.is_reserved))
    rig.reservations.on_released.append(lambda each: seen.append(rig.reservations.is_reserved(each)))
    web = rig.pod("web", "data")
    rig.reserve(web)
    rig.reservations.release(web.uid)
    assert seen == [True, False, False]


def test_nothing_is_kept_of_reservations_that_ended(rig: ReservationsRig) -> None:
    for number in range(20):
        rig.reserve(rig.pod(f"web-{number}", f"data-{number}"))
        rig.refresh()
    kept = rig.reservations
    assert list(kept._records) == [] and not kept._records._by_tag
    assert kept.ended == {"refresh": 20, "failure": 0, "deletion": 0, "timeout": 0, "refusal": 0}
