"""Bound volumes whose node is out of use go where there is room to rebuild them: KEP-5925's third enhancement.

The first part is the KEP's list of unit tests, by name. Throughout, `pv-data` was made for the claim `data` on the node
`old` and its driver has unset the volume's node affinity, unless a test says otherwise.
"""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import BOTH, ELSEWHERE, FULL, UNBINDABLE, Server, VolumeRig, refused

from tonnage.objects import codec
from tonnage.objects.core_v1.persistent_volume import REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.meta import Object
from tonnage.scheduling.framework import SKIP, Code
from tonnage.scheduling.volumes.capacity.pools import VOLUME_REBUILDING
from tonnage.scheduling.volumes.reservations.ledger import Ledger
from tonnage.scheduling.volumes.reservations.object_reservations import Reservations
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

CORDONED = node("old", unschedulable=True)
TOLERANT = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}
WEB = pod_with("web", "data")


def rig_with(*objects: Object, rebuilding: bool = True, selected_node: str = "old", **settings: Any) -> VolumeRig:
    """Two nodes with room for 20 Gi and for 10, and a bound claim of 20 Gi."""
    rig = VolumeRig(
        node("large"), node("small"), capacity("fast", "large", "20Gi"), capacity("fast", "small", "10Gi"), **settings
    )
    rig.put(driver(rebuilding=rebuilding), volume("pv-data", "20Gi", claim="default/data"))
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node=selected_node), *objects)
    return rig


@pytest.fixture(autouse=True, params=BOTH)
def settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here holds by our defaults and by the KEP's letter, unless a test names a setting."""
    monkeypatch.setattr(VolumeRig, "settings", request.param)


# -- KEP-5925, enhancement 3: the unit tests it lists -----------------------------------------------------------------


def test_without_volume_rebuilding_a_claim_stays_bound():
    rig = rig_with(CORDONED, rebuilding=False)
    assert rig.nodes(WEB) == ["large", "small"]
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}


def test_with_a_schedulable_original_node_a_claim_stays_bound():
    rig = rig_with(node("old"), volume("pv-data", "20Gi", claim="default/data", on=["old", "small"]))
    assert rig.nodes(WEB) == ["small", "old"]
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}


def test_with_an_unschedulable_original_node_the_claim_is_reclassified():
    rig = rig_with(CORDONED)
    assert rig.nodes(WEB) == ["large"]
    assert rig.reasons(WEB)["small"] == (FULL,)
    assert rig.planned(WEB, "large") == {"data": "rebuilt of fast-large"}


def test_with_a_deleted_original_node_the_claim_is_reclassified():
    rig = rig_with()
    assert rig.nodes(WEB) == ["large"]
    assert rig.reasons(WEB) == {"small": (FULL,)}


def test_a_pod_may_have_claims_of_all_kinds_and_those_to_be_made_are_packed_together():
    rig = rig_with(CORDONED, volume("pv-logs", claim="default/logs", on=["large", "small"]))
    rig.put(claim("logs", volume="pv-logs", selected_node="large"), claim("new", "20Gi"))
    mixed = pod_with("web", "data", "logs", "new")
    # 20 to be rebuilt and 20 to be made: 40 > 20.
    assert rig.reasons(mixed) == {"old": ("node(s) were unschedulable",), "large": (FULL,), "small": (FULL,)}
    rig.put(capacity("fast", "large", "40Gi"))
    assert rig.nodes(mixed) == ["large"]
    assert rig.planned(mixed, "large") == {
        "data": "rebuilt of fast-large",
        "logs": "bound pv-logs",
        "new": "made of fast-large",
    }
    assert rig.place(mixed) == "large"
    assert [rig.selected_node(name) for name in ("data", "logs", "new")] == ["large"] * 3


def test_the_volumes_node_affinity_is_still_checked_first():
    rig = rig_with(CORDONED, volume("pv-data", "20Gi", claim="default/data", on=["old", "small"]))
    # The driver has not unset it yet: large could hold the volume, but must not; small may, and cannot.
    assert rig.reasons(WEB) == {"old": ("node(s) were unschedulable",), "large": (ELSEWHERE,), "small": (FULL,)}


async def test_selected_node_is_rewritten_to_the_new_node():
    rig = rig_with(CORDONED)
    assert rig.place(WEB) == "large"
    decision = rig.placed["web"]
    assert rig.plugin.pre_bind_pre_flight(decision.cycle, "large").code is Code.SUCCESS
    api = Server(rig)
    # The claim is bound all the while: what was written need only be seen, and the wait is over.
    assert (await rig.plugin.pre_bind(decision.cycle, "large", api)).is_success
    assert api.patches == [
        ("default/data", {"metadata": {"annotations": {SELECTED_NODE: "large", REBUILD_TARGET: "large"}}})
    ]
    known = rig.cluster.storage.claims.api("default/data")
    assert known is not None and known.selected_node == "large" and known.is_bound


def test_without_a_selected_node_annotation_a_claim_stays_bound():
    rig = rig_with(CORDONED, volume("pv-data", "20Gi", claim="default/data", on=["old", "small"]), selected_node="")
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}


# -- what the KEP leaves open -----------------------------------------------------------------------------------------


def test_the_old_annotation_does_not_pin_a_claim_and_its_own_volume_is_no_free_one():
    rig = rig_with(CORDONED)
    reasons = rig.reasons(WEB)
    assert UNBINDABLE not in reasons["small"] and rig.planned(WEB, "large") == {"data": "rebuilt of fast-large"}


def test_a_cordoned_original_node_that_the_pod_tolerates_stays_a_candidate_with_its_volume_where_it_is():
    rig = rig_with(CORDONED, capacity("fast", "old", "0"))
    tolerant = pod_with("web", "data", spec=TOLERANT)
    # There is no room on old, and none is needed: the volume is there.
    assert rig.nodes(tolerant) == ["large", "old"]
    assert rig.planned(tolerant, "old") == {"data": "bound pv-data"}
    assert rig.planned(tolerant, "large") == {"data": "rebuilt of fast-large"}
    # Nothing is used of old's storage, so that nothing is scored; on large 20 of 20 are used.
    assert rig.scores(tolerant) == {"large": 0, "old": 0}
    rig.put(capacity("fast", "large", "40Gi"), capacity("fast", "old", "40Gi"))
    assert rig.scores(tolerant) == {"large": 50, "old": 0}


def test_on_the_original_node_the_other_claims_still_need_room():
    rig = rig_with(CORDONED, capacity("fast", "old", "5Gi"), claim("new", "5Gi"))
    tolerant = pod_with("web", "data", "new", spec=TOLERANT)
    assert rig.nodes(tolerant) == ["old"]  # 25 > 20 on large
    assert rig.planned(tolerant, "old") == {"data": "bound pv-data", "new": "made of fast-old"}
    rig.put(capacity("fast", "old", "4Gi"))
    assert rig.message(tolerant) == refused({FULL: 3}, 3)


def test_claims_of_two_nodes_that_are_out_of_use():
    rig = rig_with(CORDONED, node("older", unschedulable=True), volume("pv-logs", "5Gi", claim="default/logs"))
    rig.put(claim("logs", "5Gi", volume="pv-logs", selected_node="older"), capacity("fast", "older", "20Gi"))
    both = pod_with("web", "data", "logs", spec=TOLERANT)
    # On old the logs are rebuilt and there is no object; on older the data, 20 of 20; on large 25 > 20.
    assert rig.nodes(both) == ["older"]
    assert rig.planned(both, "older") == {"data": "rebuilt of fast-older", "logs": "bound pv-logs"}


def test_either_carrier_says_that_a_driver_rebuilds():
    for marked, rebuilds in ({VOLUME_REBUILDING: "true"}, True), ({VOLUME_REBUILDING: "yes"}, False), ({}, False):
        rig = rig_with(CORDONED, rebuilding=False)
        plain = codec.to_doc(driver())
        plain["metadata"]["annotations"] = marked
        rig.put(codec.convert(type(driver()), plain))
        assert rig.nodes(WEB) == (["large"] if rebuilds else ["large", "small"])


def test_a_driver_that_rebuilds_without_publishing_capacity_goes_anywhere():
    rig = rig_with(CORDONED, driver(rebuilding=True, capacity=False))
    assert rig.nodes(WEB) == ["large", "small"]
    assert rig.planned(WEB, "small") == {"data": "rebuilt"}


def test_a_volume_is_rebuilt_only_where_its_class_may_make_volumes():
    zoned = storage_class(topologies=[{"kubernetes.io/hostname": ["small"]}])
    rig = rig_with(CORDONED, zoned)
    assert rig.reasons(WEB) == {"old": ("node(s) were unschedulable",), "large": (UNBINDABLE,), "small": (FULL,)}


def test_a_claim_whose_class_is_gone_stays_bound():
    rig = rig_with(CORDONED)
    rig.cluster.storage.remove(storage_class())
    assert rig.planned(WEB, "small") == {"data": "bound pv-data"}


def test_a_claim_mounted_twice_is_rebuilt_once():
    rig = rig_with()
    assert rig.nodes(pod_with("web", "data", "data")) == ["large"]


def test_without_the_gate_a_bound_claim_stays_bound():
    rig = rig_with(CORDONED, gates={"CSIStorageCapacityV2": False})
    assert rig.nodes(WEB) == ["large", "small"] and rig.planned(WEB, "small") == {"data": "bound pv-data"}


# -- reserving and writing --------------------------------------------------------------------------------------------


def test_rebuilding_reserves_the_object_and_failing_gives_it_back():
    rig = rig_with(reservation="Object")
    assert rig.place(WEB) == "large"
    assert [hold.capacity for hold in rig.cluster.index(Reservations).holds()] == ["kube-system/fast-large"]
    assert rig.message(rig.pod("db", "20Gi")) == refused({FULL: 2}, 2)
    rig.fail(WEB)
    assert rig.selected_node("data") == "old" and rig.message(rig.pod("kv", "20Gi")) == ""


def test_rebuilding_is_a_promise_of_the_ledger_on_the_new_node():
    rig = rig_with(capacity("fast", "large", "30Gi"), reservation="Ledger")
    assert rig.place(WEB) == "large"
    holds = rig.cluster.index(Ledger).holds()
    assert [(hold.capacity, hold.claims) for hold in holds] == [("kube-system/fast-large", ("default/data",))]
    assert rig.nodes(rig.pod("db", "11Gi")) == [] and rig.nodes(rig.pod("kv", "10Gi")) == ["large", "small"]


def test_what_was_promised_to_a_claim_is_not_in_its_way_when_it_moves_on():
    """Two nodes share an object; the first that the volume was to be rebuilt on is cordoned as well."""
    shared = capacity(name="shared", free="20Gi", topology={})
    rig = VolumeRig(node("a"), node("b", unschedulable=True), shared, driver(rebuilding=True), reservation="Ledger")
    rig.put(volume("pv-data", "20Gi", claim="default/data"))
    rig.put(claim("data", "20Gi", volume="pv-data", selected_node="gone"))
    assert rig.place(WEB) == "a"
    rig.engine.delete(WEB)
    rig.put(node("a", unschedulable=True), node("b"))
    again = pod_with("web-again", "data")
    assert rig.nodes(again) == ["b"]
    assert rig.message(rig.pod("db", "1Gi")) == refused({FULL: 1, "node(s) were unschedulable": 1}, 2)


async def test_one_event_a_claim_tells_of_the_move():
    rig = rig_with(volume("pv-logs", "1Gi", claim="default/logs"), capacity("fast", "large", "40Gi"))
    rig.put(claim("logs", "1Gi", volume="pv-logs", selected_node="gone-too"))
    both = pod_with("web", "data", "logs")
    assert rig.place(both) == "large"
    api = Server(rig)
    await rig.plugin.pre_bind(rig.placed["web"].cycle, "large", api)
    assert sorted(api.events) == [
        (
            "default/data",
            "CapacityAwareRescheduling",
            "Volume of claim default/data will be rebuilt on large: node old is out of use",
        ),
        (
            "default/logs",
            "CapacityAwareRescheduling",
            "Volume of claim default/logs will be rebuilt on large: node gone-too is out of use",
        ),
    ]


def test_a_pod_that_stays_with_its_volumes_has_nothing_to_write():
    rig = rig_with(CORDONED)
    tolerant = pod_with("web", "data", spec={**TOLERANT, "nodeSelector": {"kubernetes.io/hostname": "old"}})
    assert rig.place(tolerant) == "old"
    assert rig.plugin.pre_bind_pre_flight(rig.placed["web"].cycle, "old") is SKIP
    assert rig.selected_node("data") == "old"


@pytest.mark.parametrize("back", [node("old"), node("large", unschedulable=True)], ids=["uncordoned", "cordoned"])
def test_a_decision_that_was_remembered_sees_a_node_go_out_of_use_or_come_back(back: Any):
    rig = rig_with(CORDONED)
    assert rig.nodes(WEB) == ["large"]
    rig.put(back)
    assert rig.nodes(WEB) == (["large", "old"] if back.name == "old" else [])
