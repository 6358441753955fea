"""Volumes that are being rebuilt on another node: where they may go, how much room that takes, and who goes with them.

KEP-5925's letter leaves holes between the moment a volume is freed from its old node and the moment it is confined to a
new one. Throughout, `pv-data` (20Gi) was made for the claim `data` on the node `old`; `large` has 20Gi free, `small`
has 10Gi.
"""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ELSEWHERE, FULL, Server, VolumeRig, refused

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.plugins.volume_binding import ToldRebuilds
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import attachment, capacity, claim, driver, pod_with, volume

CORDONED = node("old", unschedulable=True)
UNSCHEDULABLE = "node(s) were unschedulable"
WEB = pod_with("web", "data")


def pv(size: str = "20Gi", **options: Any) -> PersistentVolume:
    return volume("pv-data", size, claim="default/data", **options)


def rig_with(*objects: Object, selected_node: str = "old", **settings: Any) -> VolumeRig:
    rig = VolumeRig(
        node("large"), node("small"), capacity("fast", "large", "20Gi"), capacity("fast", "small", "10Gi"), **settings
    )
    rig.put(driver(rebuilding=True), pv(), claim("data", "20Gi", volume="pv-data", selected_node=selected_node))
    rig.put(*objects)
    return rig


# -- home needs no room -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [(), (CORDONED,)], ids=["gone", "cordoned"])
def test_where_the_affinity_admits_one_node_alone_the_volume_is_whatever_selected_node_says(gone: tuple[Object, ...]):
    rig = rig_with(*gone, pv(on="small"))
    # 20Gi that are there already: the 10Gi that small has free do not matter.
    assert rig.nodes(WEB) == ["small"]
    assert rig.reasons(WEB)["large"] == (ELSEWHERE,)
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}


def test_an_affinity_that_admits_several_nodes_does_not_tell_where_the_volume_is():
    rig = rig_with(CORDONED, pv(on=["large", "small"]))
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)


def test_a_node_that_is_gone_counts_as_admitted_if_the_affinity_names_it():
    """The volume was on the node that is gone; that only one of the two is left does not bring it there."""
    rig = rig_with(pv(on=["old", "small"]))
    assert rig.reasons(WEB) == {"large": (ELSEWHERE,), "small": (FULL,)}


def test_a_volume_that_its_driver_has_not_freed_yet_is_not_reclassified():
    rig = rig_with(pv(on="old"))
    assert rig.reasons(WEB) == {"large": (ELSEWHERE,), "small": (ELSEWHERE,)}
    assert told(rig) == []


# -- a rebuild takes the volume's size --------------------------------------------------------------------------------


def test_a_rebuild_takes_the_volumes_size_and_not_the_claims_request():
    rig = rig_with(claim("data", "8Gi", volume="pv-data", selected_node="old"))
    # The claim asks for 8Gi and small has 10; the volume is of 20.
    assert rig.reasons(WEB) == {"small": (FULL,)}
    assert rig.nodes(WEB) == ["large"]


def test_a_claim_that_waits_to_be_made_larger_is_rebuilt_as_large_as_it_is():
    rig = rig_with(claim("data", "30Gi", volume="pv-data", selected_node="old"))
    assert rig.nodes(WEB) == ["large"]


def test_of_a_volume_that_does_not_say_how_large_it_is_the_request_counts():
    rig = rig_with(volume("pv-data", claim="default/data", spec={"capacity": {}}))
    assert rig.nodes(WEB) == ["large"]


@pytest.mark.parametrize("reservation", ["Ledger", "Object"])
def test_what_is_held_for_a_rebuild_is_the_volumes_size(reservation: str):
    rig = rig_with(
        claim("data", "8Gi", volume="pv-data", selected_node="old"),
        capacity("fast", "large", "30Gi"),
        reservation=reservation,
    )
    assert rig.place(WEB) == "large"
    (hold,) = [hold for kept in rig.engine.held.modes.values() for hold in kept.holds()]
    assert hold.bytes == 20 << 30
    assert rig.message(rig.pod("db", "11Gi")) == refused({FULL: 2}, 2)


# -- a volume on its way is marked ------------------------------------------------------------------------------------


def sent_to(target: str, size: str = "20Gi", *, selected_node: str = "") -> PersistentVolumeClaim:
    """The claim as the decision to rebuild its volume on a node leaves it."""
    marked = {"annotations": {REBUILD_TARGET: target}}
    return claim("data", size, volume="pv-data", selected_node=selected_node or target, metadata=marked)


def test_a_volume_on_its_way_needs_no_room_where_it_goes_and_room_everywhere_else():
    rig = rig_with(CORDONED, sent_to("small"))
    # small has 10Gi free, for it has begun with the 20; other, which takes pods and has 5Gi, has not.
    rig.put(node("other"), capacity("fast", "other", "5Gi"))
    assert rig.nodes(WEB) == ["large", "small"]
    assert rig.reasons(WEB) == {"old": (UNSCHEDULABLE,), "other": (FULL,)}
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}
    assert rig.planned(WEB, "large") == {"data": "rebuilt of fast-large"}


def test_a_volume_on_its_way_to_a_node_that_is_gone_needs_room_on_every_node():
    rig = rig_with(sent_to("gone"))
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB) == {"small": (FULL,)}


@pytest.mark.parametrize(
    "unmarked",
    [
        pytest.param(sent_to("gone", selected_node="small"), id="selected-node was rewritten by somebody else"),
        pytest.param(claim("data", "20Gi", volume="pv-data", selected_node="small"), id="no mark"),
    ],
)
def test_a_volume_without_the_mark_is_on_its_selected_node_and_needs_room_on_others(unmarked: PersistentVolumeClaim):
    rig = rig_with(CORDONED, unmarked, node("other"), capacity("fast", "other", "5Gi"))
    assert rig.nodes(WEB) == ["large", "small"] and rig.reasons(WEB)["other"] == (FULL,)


def test_a_volume_that_has_arrived_is_there_whatever_its_mark_says():
    rig = rig_with(CORDONED, sent_to("large"), pv(on="small"))
    assert rig.nodes(WEB) == ["small"] and rig.reasons(WEB)["large"] == (ELSEWHERE,)


def test_a_refused_attachment_means_that_the_volume_did_not_arrive():
    rig = rig_with(CORDONED, sent_to("small"), attachment("va", "pv-data", "small", error="no pool has room"))
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)
    # Room comes, on the node that refused it.
    rig.put(capacity("fast", "small", "20Gi"))
    assert rig.nodes(WEB) == ["large", "small"]


def test_a_refusal_is_remembered_when_the_attachment_goes_with_its_pod():
    refused_there = attachment("va", "pv-data", "small", error="no pool has room")
    rig = rig_with(CORDONED, sent_to("small"), refused_there)
    rig.engine.delete(refused_there)
    assert rig.nodes(WEB) == ["large"]
    # Attached after all: it arrived, and only its affinity is still to be set.
    rig.put(attachment("va-2", "pv-data", "small"))
    assert rig.nodes(WEB) == ["large", "small"]


def test_a_volume_that_was_elsewhere_since_it_was_sent_is_not_on_its_way_any_more():
    """It went home, and what was kept for it on small was given back."""
    rig = rig_with(node("old"), sent_to("small"))
    rig.put(pv(on="old"), attachment("va", "pv-data", "old"))
    rig.put(CORDONED, pv())
    assert rig.nodes(WEB) == ["large"] and rig.reasons(WEB)["small"] == (FULL,)


def test_a_refusal_elsewhere_and_one_from_before_the_volume_had_a_home_are_of_no_account():
    rig = rig_with(CORDONED, sent_to("small"), attachment("va", "pv-data", "old", error="busy"))
    assert rig.nodes(WEB) == ["large", "small"]
    rig.put(attachment("va-2", "pv-data", "small", error="busy"), pv(on="small"), pv())
    assert rig.nodes(WEB) == ["large", "small"]


async def test_the_patch_that_rewrites_selected_node_marks_the_claim():
    rig = rig_with(CORDONED)
    assert rig.place(WEB) == "large"
    assumed = rig.cluster.storage.claims.get("default/data")
    assert assumed is not None and assumed.rebuild_target == assumed.selected_node == "large"
    api = Server(rig)
    await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)
    asked = {SELECTED_NODE: "large", REBUILD_TARGET: "large"}
    assert api.patches == [("default/data", {"metadata": {"annotations": asked}})]


async def test_a_claim_that_is_sent_to_the_node_it_was_marked_for_is_not_written_again():
    rig = rig_with(CORDONED, sent_to("large"), attachment("va", "pv-data", "large", error="busy"))
    assert rig.place(WEB) == "large" and rig.notes(WEB).assumed is not None
    api = Server(rig)
    assert (await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)).is_success
    assert api.patches == []


# -- people are told of a reclassification ----------------------------------------------------------------------------


def told(rig: VolumeRig) -> list[tuple[str, str]]:
    """What a live scheduler would record for the pod after an attempt that found no node."""
    attempt = rig.engine.place(PodInfo(WEB))
    assert attempt.placement is None
    found = rig.engine.events_to_record(attempt)
    assert {each.reason for each in found} <= {"CapacityAwareRescheduling"}
    return [(each.regarding.key, each.note) for each in found]


NOWHERE = (
    "Volume of claim default/data is to be rebuilt on another node: node old is out of use; no node fits its pod now"
)


def test_a_claim_that_is_reclassified_in_vain_is_told_of_once_and_not_once_an_attempt():
    rig = rig_with(CORDONED, capacity("fast", "large", "1Gi"))
    assert told(rig) == [("default/data", NOWHERE)]
    assert told(rig) == [] and rig.plugin.reschedulings_total == 1


async def test_where_it_goes_in_the_end_is_told_as_well_and_counts_no_second_time():
    rig = rig_with(CORDONED, capacity("fast", "large", "1Gi"))
    told(rig)
    rig.put(capacity("fast", "large", "20Gi"))
    assert rig.place(WEB) == "large"
    api = Server(rig)
    await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)
    assert [note for _, _, note in api.events] == [
        "Volume of claim default/data will be rebuilt on large: node old is out of use"
    ]
    assert rig.plugin.reschedulings_total == 1
    assert len(rig.cluster.index(ToldRebuilds)) == 0


def test_a_decision_that_is_taken_back_is_no_news():
    rig = rig_with(CORDONED, capacity("fast", "large", "1Gi"))
    told(rig)
    rig.put(capacity("fast", "large", "20Gi"))
    rig.place(WEB)
    rig.fail(WEB)
    rig.put(capacity("fast", "large", "1Gi"))
    assert told(rig) == []


def test_a_claim_that_is_made_anew_is_told_of_again_and_one_that_is_gone_is_forgotten():
    rig = rig_with(CORDONED, capacity("fast", "large", "1Gi"))
    told(rig)
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node="old", metadata={"uid": "another"}))
    assert len(told(rig)) == 1
    rig.engine.delete(rig.objects[PersistentVolumeClaim, "default/data"])
    assert len(rig.cluster.index(ToldRebuilds)) == 0


def test_a_volume_on_its_way_was_told_of_when_it_was_sent():
    rig = rig_with(CORDONED, sent_to("large"), attachment("va", "pv-data", "large", error="busy"))
    rig.put(capacity("fast", "large", "1Gi"))
    assert told(rig) == []


async def test_a_volume_that_moves_on_says_that_it_did_not_arrive():
    rig = rig_with(CORDONED, sent_to("small"), attachment("va", "pv-data", "small", error="busy"))
    assert rig.place(WEB) == "large"
    api = Server(rig)
    await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)
    assert [note for _, _, note in api.events] == [
        "Volume of claim default/data will be rebuilt on large: it did not arrive on small"
    ]


def test_explain_tells_nobody():
    rig = rig_with(CORDONED, capacity("fast", "large", "1Gi"))
    rig.engine.explain(WEB)
    assert rig.plugin.reschedulings_total == 0 and len(rig.cluster.index(ToldRebuilds)) == 0
