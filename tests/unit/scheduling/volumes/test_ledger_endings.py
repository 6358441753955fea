"""Reservation mode Ledger: a promise stands until the object shows the volume, and no longer; rebuilds too."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from ledger_rig import NODE_1, NODE_2, ZONE, LedgerRig, bound, made, marked, written

from support.scheduling_sight import next_expiry_at
from tonnage.clock import rfc3339
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, volume


@pytest.fixture
def rig() -> LedgerRig:
    return LedgerRig()


@pytest.fixture
def down() -> LedgerRig:
    """A cluster whose scheduler is not running yet."""
    return LedgerRig(is_down=True)


# -- the end of a promise ---------------------------------------------------------------------------------------------


def test_a_refresh_before_the_claim_is_bound_ends_nothing(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.refresh()
    assert rig.gibs() == [20]


def test_a_promise_ends_when_the_object_is_refreshed_after_the_claim_was_bound(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    rig.changed.clear()
    rig.released.clear()
    rig.refresh()
    assert rig.gibs() == []
    assert (rig.changed, rig.released) == ([NODE_1], [NODE_1])
    assert next_expiry_at(rig.ledger) is None


def including(*claims: str, node_name: str = "node-1") -> CSIStorageCapacity:
    """A refresh by a provisioner that says which claims its figures include."""
    uids = ",".join(f"default-{each}" for each in claims)
    return capacity("fast", node_name, "80Gi", metadata={"annotations": {"tonnage.dev/included-claims": uids}})


def test_a_promise_ends_with_a_refresh_that_says_it_includes_the_claim_bound_or_not(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    assert rig.claim("default/data").uid == "default-data"
    rig.put(including("other", "data"))
    assert rig.gibs() == []
    # It is bound a moment later, by the very volume: nothing is kept back again.
    rig.put(bound("data"))
    assert rig.gibs() == []


def test_a_refresh_that_includes_other_claims_only_ends_nothing(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"), including("other"))
    assert rig.gibs() == [20]


def test_five_pods_are_promised_while_the_first_volumes_are_being_made(rig: LedgerRig) -> None:
    for number in range(3):
        rig.reserve(rig.pod(f"web-{number}", f"data-{number}"))
    # 100Gi - 20Gi are free, and two of the three promises are still to be taken from that.
    rig.put(including("data-0"))
    assert rig.gibs() == [20, 20]


def test_what_a_refresh_said_of_a_volume_when_it_was_made_says_nothing_of_where_it_is_rebuilt(rig: LedgerRig) -> None:
    rig.put(bound("data"), made("data", rig, age_s=300, on=None))
    rig.put(including("data", node_name="node-2"))
    rig.reserve(rig.pod("web", "data"), "node-2")
    assert rig.gibs(NODE_2) == [20]


def test_a_provisioner_that_names_claims_is_believed_in_what_it_leaves_out(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(including("other"), including("other"))
    assert rig.gibs() == [20]
    rig.put(including("other", "data"))
    assert rig.gibs() == []


def test_a_provisioner_that_cannot_name_all_claims_says_until_when_volumes_are_included(rig: LedgerRig) -> None:
    for name in ("early", "late"):
        rig.reserve(rig.pod(f"web-{name}", name))
    rig.put(made("early", rig, age_s=5), made("late", rig, age_s=2))
    room = including("other")
    until = {**room.metadata.annotations, "tonnage.dev/included-until": rfc3339(rig.clock.now() - timedelta(seconds=2))}
    rig.put(msgspec.structs.replace(room, metadata=msgspec.structs.replace(room.metadata, annotations=until)))
    assert [each.claims for each in rig.ledger.holds()] == [("default/late",)]


def test_nor_is_the_volume_itself_needed_before_the_figure(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    room = including("other")
    until = {**room.metadata.annotations, "tonnage.dev/included-until": rfc3339(rig.clock.now())}
    rig.put(msgspec.structs.replace(room, metadata=msgspec.structs.replace(room.metadata, annotations=until)))
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    rig.put(made("data", rig, age_s=1))  # the news of it is late
    assert rig.gibs() == []


def test_when_a_volume_was_made_says_nothing_of_where_it_is_rebuilt(rig: LedgerRig) -> None:
    rig.put(bound("data"), made("data", rig, age_s=300, on=None))
    room = including("other", node_name="node-2")
    until = {**room.metadata.annotations, "tonnage.dev/included-until": rfc3339(rig.clock.now())}
    rig.put(msgspec.structs.replace(room, metadata=msgspec.structs.replace(room.metadata, annotations=until)))
    rig.reserve(rig.pod("web", "data"), "node-2")
    assert rig.gibs(NODE_2) == [20]


# -- provisioners that do not say what their figures include ----------------------------------------------------------


def test_a_figure_measured_before_the_volume_was_made_and_arriving_late_frees_nothing(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.refresh(free="100Gi")  # written again, by whomever, or measured before: it does not show the 20Gi
    assert rig.gibs() == [20]
    rig.refresh(free="80Gi")
    assert rig.gibs() == []


def test_a_figure_shows_as_many_volumes_as_it_fell_by_those_made_first(rig: LedgerRig) -> None:
    for name in ("a", "b", "c"):
        rig.reserve(rig.pod(f"web-{name}", name))
    rig.put(bound("b"))
    rig.refresh(node_name="node-2")  # time passes
    rig.put(bound("a"), bound("c"))
    # Measured when two of the three were made: 100 - 2 * 20
    rig.refresh(free="60Gi")
    assert [hold.claims for hold in rig.ledger.holds()] == [("default/c",)]
    rig.refresh(free="40Gi")
    assert rig.gibs() == []


def test_a_figure_that_fell_by_less_than_the_volume_takes_does_not_show_it(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.refresh(free="81Gi")
    assert rig.gibs() == [20]


def test_pools_count_by_their_sum(rig: LedgerRig) -> None:
    rig.put(capacity("fast", "node-1", pools=["60Gi", "40Gi"]))
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(capacity("fast", "node-1", pools=["60Gi", "20Gi"]))
    assert rig.gibs() == []


def test_the_second_refresh_after_the_volume_shows_it_whatever_the_figures_say(rig: LedgerRig) -> None:
    # Another volume was deleted meanwhile, or the driver is thin. The second was measured after the first was written.
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.refresh(free="100Gi")
    rig.refresh(free="101Gi")
    assert rig.gibs() == []


def at(rig: LedgerRig, seconds: float, free: str) -> CSIStorageCapacity:
    """The object of node-1 as it was written so many seconds from now, by the server's clock."""
    stamp = rfc3339(rig.clock.now() + timedelta(seconds=seconds))
    metadata = {"managedFields": [{"manager": "csi-provisioner", "operation": "Update", "time": stamp}]}
    return capacity("fast", "node-1", free, metadata=metadata)


def test_a_figure_written_before_the_decision_was_frees_nothing_though_it_fell(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data", at=rig.clock.now()))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.put(at(rig, -2, "80Gi"))  # somebody else's 20Gi
    assert rig.gibs() == [20]
    # The one before it was written before the volume as well: this one may have been measured before it, too.
    rig.put(at(rig, +1, "80Gi"))
    assert rig.gibs() == [20]
    rig.put(at(rig, +2, "80Gi"))
    assert rig.gibs() == []


def test_a_figure_that_fell_and_was_written_after_the_volume_shows_it(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.put(at(rig, 0, "80Gi"))  # in the same second: the fall decides
    assert rig.gibs() == []


# -- what ends a promise besides --------------------------------------------------------------------------------------


def test_a_promise_that_counts_for_nothing_ends_like_any_other(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(driver(capacity=False), bound("data"))
    assert rig.gibs() == []
    rig.refresh()
    rig.put(driver())
    assert rig.gibs() == []
    assert next_expiry_at(rig.ledger) is None


def test_the_same_version_told_again_is_no_refresh(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(rig.storage.capacities["kube-system/fast-node-1"])
    assert rig.gibs() == [20]


def test_of_several_claims_each_refresh_ends_those_that_were_bound_before_it(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "a", "b", size="30Gi"))
    rig.put(bound("a", "30Gi"))
    rig.refresh(free="70Gi")
    # 70Gi free shows a; b is still to come: 70 - 30 = 40Gi are left, where mode Object would see 70.
    assert rig.gibs() == [30]
    rig.put(bound("b", "30Gi"))
    rig.refresh(free="40Gi")
    assert rig.gibs() == []


def test_without_a_refresh_a_promise_ends_a_timeout_after_it_was_bound(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.wait(3600)
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    assert next_expiry_at(rig.ledger) == 3660
    rig.wait(59.5)
    assert rig.gibs() == [20]
    rig.wait(0.5)
    assert rig.gibs() == []
    assert rig.released[-1:] == [NODE_1]
    assert next_expiry_at(rig.ledger) is None


def test_each_promise_lasts_as_long_as_the_profile_of_its_pod_has_it(rig: LedgerRig) -> None:
    # Two profiles, whichever of them was made last.
    for timeouts in ((30.0, 300.0), (300.0, 30.0)):
        for each in timeouts:
            rig.ledger.tell_timeout(each)
    room = rig.storage.capacities["kube-system/fast-node-1"]
    for name, size, timeout_s in (("short", "1Gi", 30.0), ("long", "2Gi", 300.0)):
        rig.ledger.reserve(room, rig.pod(f"web-{name}", name, size=size), [written(name, size)], timeout_s)
        rig.put(bound(name, size))
    rig.put(written("nobodys", "3Gi"), bound("nobodys", "3Gi"))
    assert next_expiry_at(rig.ledger) == 30
    rig.wait(30)
    assert rig.gibs() == [3, 2]
    rig.wait(269)
    assert rig.gibs() == [3, 2]
    rig.wait(1)
    assert rig.gibs() == []


def test_objects_that_were_not_named_are_let_go_one_by_one(rig: LedgerRig) -> None:
    rig.put(capacity("fast", topology={"matchLabels": {"zone": "z"}}))
    rig.put(written("data"))
    assert rig.gibs() == [20]
    rig.put(bound("data"))
    rig.refresh()
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([], [20])
    rig.wait(60)
    assert (rig.gibs(NODE_1), rig.gibs(ZONE)) == ([], [])


def test_a_promise_stands_though_the_attempt_failed_once_it_is_written(rig: LedgerRig) -> None:
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
def test_an_attempt_that_failed_before_it_was_written_promises_nothing(rig: LedgerRig, restored_first: bool) -> None:
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


def test_claims_that_were_never_assumed_are_let_go_with_the_attempt(rig: LedgerRig) -> None:
    web = rig.pod("web", "data")
    rig.ledger.reserve(
        rig.storage.capacities["kube-system/fast-node-1"],
        web,
        [asking_for(rig.claim("default/data"), "node-1")],
    )
    assert rig.gibs() == [20]
    rig.ledger.release(web.uid)
    assert rig.gibs() == []


def test_a_late_failure_leaves_the_promise_to_the_pod_that_shares_the_claim(rig: LedgerRig) -> None:
    first, second = rig.pod("first", "data"), rig.pod("second", "data")
    rig.reserve(first)
    rig.reserve(second)
    rig.ledger.release(first.uid)
    assert rig.gibs() == [20]
    assert [hold.pod for hold in rig.ledger.holds()] == ["default/second"]


def test_a_claim_that_the_provisioner_gives_back_promises_nothing(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"))
    rig.put(claim("data", "20Gi"))
    assert rig.gibs() == []
    assert rig.released[-1:] == [NODE_1]


def test_a_claim_that_is_sent_elsewhere_takes_its_promise_along(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data", node_name="node-2"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])


def test_a_deleted_claim_promises_nothing(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == []


def test_a_claim_made_anew_under_its_name_is_another_promise(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(claim("data", "7Gi", selected_node="node-1", metadata={"uid": "second"}))
    assert rig.gibs() == [7]
    assert [hold.pod for hold in rig.ledger.holds()] == [""]


def test_a_claim_bound_without_having_been_a_promise_is_none_if_its_volume_is_old(rig: LedgerRig) -> None:
    rig.put(claim("data", "20Gi"))
    rig.put(made("data", rig, age_s=3600))
    assert rig.gibs() == []
    rig.put(bound("data"))
    assert rig.gibs() == []


def test_a_claim_first_seen_bound_is_a_promise_if_its_volume_is_young(rig: LedgerRig) -> None:
    # Selected-node and binding came between two looks of the informer.
    rig.put(claim("data", "20Gi"), made("data", rig, age_s=10))
    rig.put(bound("data"))
    assert rig.gibs() == [20]
    # 60 - 10 = 50 s are left.
    assert next_expiry_at(rig.ledger) == 50


def test_a_bound_claim_is_not_promised_again_once_its_object_showed_it(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.refresh()
    rig.put(bound("data"))
    assert rig.gibs() == []


def test_a_claim_that_is_bound_no_more_is_promised_anew(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"))
    rig.put(written("data"))
    rig.wait(3600)
    assert rig.gibs() == [20]
    assert next_expiry_at(rig.ledger) is None


def test_a_claim_that_asks_for_more_promises_more_and_for_less_releases_something(rig: LedgerRig) -> None:
    rig.put(written("data", "20Gi"))
    rig.put(written("data", "30Gi"))
    assert rig.gibs() == [30]
    assert (rig.changed, rig.released) == ([NODE_1, NODE_1], [])
    rig.put(written("data", "10Gi"))
    assert rig.gibs() == [10]
    assert rig.released[-1:] == [NODE_1]


# -- rebuilds ---------------------------------------------------------------------------------------------------------


def rebuilt_rig() -> LedgerRig:
    """A claim bound long ago on node-2, whose driver has withdrawn the volume's affinity, reserved on node-1."""
    rig = LedgerRig()
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


def test_a_volume_that_went_elsewhere_is_no_promise_until_it_may_move_again() -> None:
    rig = rebuilt_rig()
    rig.put(volume("pv-data", "20Gi", on="node-2", claim="default/data"))
    assert rig.gibs() == [] and rig.released == [NODE_1]
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    assert rig.gibs() == [20]


def test_a_volume_that_had_arrived_and_may_move_again_is_where_it_is() -> None:
    rig = rebuilt_rig()
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    rig.refresh()
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    assert rig.gibs() == []


def test_a_volume_that_is_gone_is_not_rebuilt() -> None:
    rig = rebuilt_rig()
    rig.storage.remove(volume("pv-data"))
    assert rig.gibs() == []


def test_an_affinity_that_is_withdrawn_again_makes_the_rebuild_wait_again() -> None:
    rig = rebuilt_rig()
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    rig.refresh()
    assert rig.gibs() == [20]


def test_no_clock_ends_a_rebuild_but_that_after_its_end() -> None:
    rig = rebuilt_rig()
    rig.wait(86_400)
    assert rig.gibs() == [20] and next_expiry_at(rig.ledger) is None
    rig.put(volume("pv-data", "20Gi", on="node-1", claim="default/data"))
    assert next_expiry_at(rig.ledger) == 86_400 + 60
    rig.wait(60)
    assert rig.gibs() == []
    rig.put(bound("data", node_name="node-1"))
    assert rig.gibs() == []


def test_a_rebuild_takes_the_volumes_size_of_its_object() -> None:
    rig = LedgerRig()
    rig.put(bound("data", "20Gi", node_name="node-2"), volume("pv-data", "50Gi", claim="default/data"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    assert rig.gibs() == [50]


def test_a_refused_rebuild_is_charged_only_where_it_would_fit() -> None:
    """Where it would not, the node may take others: nobody can have what is not there."""
    rig = rebuilt_rig()
    rig.refresh(free="10Gi")
    assert rig.gibs() == [20]
    rig.put(attachment("va", "pv-data", "node-1", error="no pool has room"))
    assert rig.gibs() == [] and rig.released == [NODE_1]
    rig.refresh(free="30Gi")
    assert rig.gibs() == [20]


def test_whoever_marks_a_claim_the_ledger_keeps_its_room() -> None:
    """Another scheduler has decided, or this one before it was started anew."""
    rig = LedgerRig()
    rig.put(bound("data", node_name="node-2"), volume("pv-data", "20Gi", claim="default/data"))
    rig.put(marked("data", "node-1"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [])


def test_a_rebuild_whose_attempt_failed_is_no_promise() -> None:
    rig = rebuilt_rig()
    rig.storage.claims.restore("default/data")
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])
    assert next_expiry_at(rig.ledger) is None


def test_a_rebuild_that_was_written_stands_though_the_attempt_failed() -> None:
    rig = rebuilt_rig()
    rig.put(bound("data", node_name="node-1"))
    rig.ledger.release("default-web")
    assert rig.gibs() == [20]


def test_a_refresh_counts_after_what_nodes_did_before_it() -> None:
    rig = LedgerRig()
    rig.put(bound("data", node_name="node-2"), volume("pv-data", "20Gi", claim="default/data"))
    rig.reserve(rig.pod("web", "data"), "node-1")
    affinity = {"key": "disk", "operator": "Exists"}
    rig.put(volume("pv-data", "20Gi", affinity=affinity, claim="default/data"))
    rig.cluster.put_node(node("node-1", labels={"disk": "yes"}))  # now the affinity admits it, and nobody has asked yet
    rig.refresh()
    assert rig.gibs() == []


def test_a_volume_that_is_sent_elsewhere_before_its_object_shows_it_is_still_where_it_was_made() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"), volume("pv-data", "20Gi", claim="default/data"))
    rig.put(marked("data", "node-2"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [20])
    assert [hold.claims for hold in rig.ledger.holds_on(NODE_1)] == [("default/data (volume pv-data, on node-1)",)]
    rig.refresh("node-1")
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])


def test_what_is_left_behind_ends_by_the_clock_where_nothing_is_refreshed() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(bound("data"), volume("pv-data", "20Gi", claim="default/data"))
    rig.put(marked("data", "node-2"))
    rig.wait(60)
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])


def test_what_was_left_behind_is_free_when_the_volume_has_gone_from_there(rig: LedgerRig) -> None:
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    # The node is drained before its figure shows the volume: it is still there while it is sent to node-2.
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    rig.reserve(rig.pod("web-again", "data"), "node-2")
    assert rig.gibs(NODE_1) == [20]
    rig.put(including("other"), including("other"))  # nobody names it here any more; the second figure shows it
    assert rig.gibs(NODE_1) == []
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"), volume("pv-data", "20Gi", claim="default/data"))
    rig.reserve(rig.pod("web-again", "data"), "node-2")
    rig.put(volume("pv-data", "20Gi", on="node-2", claim="default/data"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])
    assert rig.released[-1:] == [NODE_1]
