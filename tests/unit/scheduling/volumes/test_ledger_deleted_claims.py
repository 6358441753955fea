"""A claim that is deleted gives back no room: its volume does, once it is gone.

The ledger keeps what a volume takes that no figure shows yet, whether or not anybody claims the volume any more.
"""

from __future__ import annotations

import pytest
from ledger_rig import NODE_1, NODE_2, LedgerRig, bound, made, marked, written

from support.scheduling_sight import next_expiry_at
from tonnage.objects.storage_v1 import INCLUDED_CLAIMS
from tonnage.scheduling.volumes.bind_volumes import asking_for
from tonnage.testing.storage_builders import capacity, claim, volume

VOLUME = "default/data (volume pv-data, on node-1)"


@pytest.fixture
def rig() -> LedgerRig:
    """20Gi were made on node-1, of 100Gi that its object still shows, and the claim is deleted."""
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(written("data"), made("data", rig, age_s=0), bound("data"))
    rig.storage.remove(rig.claim("default/data"))
    return rig


def test_what_a_volume_takes_stays_promised_when_its_claim_is_deleted(rig: LedgerRig) -> None:
    assert rig.gibs() == [20]
    (hold,) = rig.ledger.holds()
    assert hold.claims == (VOLUME,)
    assert hold.why == "its claim is gone, its volume is not; waits for the object to be refreshed"


def test_it_ends_when_the_volume_is_deleted_and_the_figure_is_true_again(rig: LedgerRig) -> None:
    rig.released.clear()
    rig.storage.volumes.remove("pv-data")
    assert rig.gibs() == [] and rig.released == [NODE_1]
    assert next_expiry_at(rig.ledger) is None


def test_it_ends_when_the_object_shows_the_volume(rig: LedgerRig) -> None:
    rig.refresh(free="80Gi")
    assert rig.gibs() == []


def test_a_figure_measured_before_the_volume_was_made_does_not_end_it(rig: LedgerRig) -> None:
    rig.refresh(free="100Gi")
    assert rig.gibs() == [20]
    rig.refresh(free="100Gi")  # measured after the one before it was written: what it says is so
    assert rig.gibs() == []


def test_a_provisioner_that_names_claims_is_believed(rig: LedgerRig) -> None:
    rig.put(capacity("fast", "node-1", "80Gi", metadata={"annotations": {INCLUDED_CLAIMS: "other"}}))
    assert rig.gibs() == [20]
    named = bound("data").uid
    rig.put(capacity("fast", "node-1", "60Gi", metadata={"annotations": {INCLUDED_CLAIMS: f"other,{named}"}}))
    assert rig.gibs() == []


def test_the_clock_ends_it_as_if_the_claim_were_there() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.wait(40)
    rig.storage.remove(rig.claim("default/data"))
    rig.wait(19)
    assert rig.gibs() == [20]
    rig.wait(1)
    assert rig.gibs() == []


def test_a_claim_made_anew_under_its_name_is_promised_beside_it(rig: LedgerRig) -> None:
    rig.put(claim("data", "7Gi", selected_node="node-1", metadata={"uid": "second"}))
    assert rig.gibs() == [20, 7]


def test_claims_that_come_and_go_under_one_name_leave_each_their_volume(rig: LedgerRig) -> None:
    again = claim("data", "7Gi", selected_node="node-1", metadata={"uid": "second"})
    rig.put(again, volume("pv-second", "7Gi", on="node-1", claim="default/data"))
    rig.put(claim("data", "7Gi", volume="pv-second", selected_node="node-1", metadata={"uid": "second"}))
    rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == [20, 7]


def test_a_claim_that_another_replaced_between_two_looks_leaves_its_volume() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.put(claim("data", "7Gi", metadata={"uid": "second"}))
    assert rig.gibs() == [20]


def test_what_the_object_showed_before_is_not_promised_again() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.refresh(free="80Gi")
    rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == []


def test_nothing_is_left_of_a_claim_whose_volume_went_first() -> None:
    """The two are told of by watches of their own."""
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.storage.volumes.remove("pv-data")
    rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == []


def test_a_volume_that_arrived_where_it_was_rebuilt_is_there_when_its_claim_is_deleted() -> None:
    rig = LedgerRig()
    rig.put(bound("data", node_name="node-1"), volume("pv-data", "20Gi", claim="default/data"))
    rig.put(marked("data", "node-2"))
    rig.put(volume("pv-data", "20Gi", on="node-2", claim="default/data"))
    rig.storage.remove(rig.claim("default/data"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [20])


def test_a_bound_claim_that_loses_its_node_leaves_the_volume_where_it_was_made() -> None:
    rig = LedgerRig()
    rig.reserve(rig.pod("web", "data"))
    rig.put(made("data", rig, age_s=0), bound("data"))
    rig.put(bound("data", node_name=""))
    assert rig.gibs() == [20]
    rig.reserve(rig.pod("web", "data"))  # as a rebuild that has arrived
    assert rig.gibs() == [20]


def test_a_volume_is_counted_once_when_somebody_claims_it_again(rig: LedgerRig) -> None:
    again = claim("again", "20Gi", volume="pv-data", selected_node="node-1")
    rig.put(again)
    assert rig.gibs() == [20]
    assert [hold.claims for hold in rig.ledger.holds()] == [("default/again",)]


def test_another_ledger_of_the_same_cluster_is_told_of_it(rig: LedgerRig) -> None:
    twin = LedgerRig()
    twin.ledger.agree_with(rig.ledger.holds(), {})
    assert twin.gibs() == [20]
    assert [hold.claims for hold in twin.ledger.holds()] == [(VOLUME,)]
    twin.put(made("data", twin, age_s=0))
    twin.storage.volumes.remove("pv-data")
    assert twin.gibs() == []


def test_two_lives_of_a_claims_name_leave_two_volumes_on_one_node() -> None:
    """Each was made on node-1 and sent to node-2 before the figures of node-1 showed it."""
    rig = LedgerRig()
    for life in ("first", "second"):
        rig.put(claim("data", "20Gi", selected_node="node-1", metadata={"uid": life}))
        rig.put(volume(f"pv-{life}", "20Gi", claim="default/data", claim_uid=life))
        rig.put(claim("data", "20Gi", selected_node="node-1", volume=f"pv-{life}", metadata={"uid": life}))
        rig.put(asking_for(rig.claim("default/data"), "node-2"))
        if life == "first":
            rig.storage.remove(rig.claim("default/data"))
    assert rig.gibs() == [20, 20]
    rig.storage.remove(volume("pv-first"))
    assert rig.gibs() == [20]
    assert [each.claims for each in rig.ledger.holds_on(NODE_1)] == [("default/data (volume pv-second, on node-1)",)]
    rig.wait(60)
    assert rig.gibs() == []


def test_a_volume_that_two_lives_of_a_name_leave_on_two_nodes_is_told_apart_by_the_node() -> None:
    rig = LedgerRig()
    for life, node_name in (("first", "node-1"), ("second", "node-2")):
        metadata = {"uid": life}
        rig.put(claim("data", "20Gi", selected_node=node_name, metadata=metadata))
        rig.put(volume("pv-data", "20Gi", claim="default/data", claim_uid=life))
        rig.put(claim("data", "20Gi", selected_node=node_name, volume="pv-data", metadata=metadata))
        rig.storage.remove(rig.claim("default/data"))
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([20], [20])
    rig.wait(60)
    assert (rig.gibs(NODE_1), rig.gibs(NODE_2)) == ([], [])
