"""VolumeBinding through a whole profile: where a pod's volumes fit, and the words for where they do not.

The first part is KEP-5925's list of unit tests for its first enhancement and the five examples of its first story, by
name; what objects say about room in which field is in test_volume_pools.py, reservation in test_volume_reserving.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from volume_rig import ALL_OFF, BOTH, ELSEWHERE, FULL, GONE, UNBINDABLE, VolumeRig, refused

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.framework import Code
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

IN_ZONE = {"matchLabels": {"zone": "z1"}}


@pytest.fixture(autouse=True, params=BOTH)
def settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here holds by our defaults and by the KEP's letter, unless a test names a setting."""
    monkeypatch.setattr(VolumeRig, "settings", request.param)


# -- KEP-5925, enhancement 1: the unit tests it lists -----------------------------------------------------------------


def test_a_single_claim_against_several_pools_passes_when_one_is_large_enough():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["10Gi", "60Gi", "20Gi"]))
    assert rig.place(rig.pod("web", "60Gi")) == "a"


def test_a_single_claim_against_several_pools_fails_when_none_is_large_enough():
    rig = VolumeRig(node("a"), capacity("fast", "a", "90Gi", pools=["10Gi", "60Gi", "20Gi"]))
    assert rig.place(rig.pod("web", "61Gi")) == refused({FULL: 1}, 1)


def test_several_claims_are_placed_across_the_pools():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["50Gi", "50Gi"]))
    # 40 | 30 + 20
    assert rig.place(rig.pod("web", "20Gi", "40Gi", "30Gi")) == "a"


def test_several_claims_are_refused_when_there_are_not_enough_pools_for_them():
    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi", pools=["50Gi", "50Gi"]))
    # 90 of 100, but no two of them share a pool.
    assert rig.place(rig.pod("web", "30Gi", "30Gi", "30Gi")) == refused({FULL: 1}, 1)


def test_two_claims_of_100_are_refused_by_a_single_pool_of_100():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi"]))
    assert rig.place(rig.pod("web", "100Gi", "100Gi")) == refused({FULL: 1}, 1)


def test_without_pools_the_capacity_is_one():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", "100Gi"), capacity("fast", "b", "50Gi"))
    assert rig.nodes(rig.pod("web", "40Gi", "60Gi")) == ["a"]


@pytest.mark.parametrize(
    ("pools", "claims", "fits"),
    [
        pytest.param(1, ["100Gi"] * 2, False, id="2x100Gi into 1x100Gi"),
        pytest.param(3, ["120Gi"], False, id="1x120Gi into 3x100Gi"),
        pytest.param(3, ["100Gi"] * 2, True, id="2x100Gi into 3x100Gi"),
        pytest.param(3, ["80Gi"] * 3, True, id="3x80Gi into 3x100Gi"),
        pytest.param(3, ["80Gi"] * 4, False, id="4x80Gi into 3x100Gi"),
    ],
)
def test_the_five_examples_of_story_1(pools: int, claims: list[str], fits: bool):
    rig = VolumeRig(node("a"), capacity("fast", "a", f"{100 * pools}Gi", pools=["100Gi"] * pools))
    assert rig.place(rig.pod("web", *claims)) == ("a" if fits else refused({FULL: 1}, 1))


def test_packing_is_exact_where_first_fit_decreasing_gives_up():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["10Gi", "9Gi"]))
    # 4 + 3 + 3 | 5 + 4; first fit puts 5 + 4 into the 10 and then finds no place for the last 3.
    assert rig.place(rig.pod("web", "5Gi", "4Gi", "4Gi", "3Gi", "3Gi")) == "a"


def test_claims_of_two_classes_are_packed_apart_and_both_must_fit():
    rig = VolumeRig(
        *(node("a"), node("b"), storage_class("slow")),
        *(capacity("fast", "a", "10Gi"), capacity("slow", "a", "10Gi")),
        *(capacity("fast", "b", "20Gi"), capacity("slow", "b", "9Gi")),
    )
    rig.put(claim("one", "10Gi"), claim("two", "10Gi", class_name="slow"))
    assert rig.nodes(pod_with("web", "one", "two")) == ["a"]
    assert rig.planned(pod_with("web", "one", "two"), "a") == {"one": "made of fast-a", "two": "made of slow-a"}


# -- poolFit and the grade of a fit -----------------------------------------------------------------------------------


def test_a_driver_that_may_place_the_claims_badly_is_refused_only_when_the_fit_must_be_guaranteed():
    objects = (node("a"), node("b"), capacity("fast", "a", pools=["100Gi", "60Gi"]), capacity("fast", "b", "160Gi"))
    # On a the driver may put 60 into the 100, and 100 finds no place. On b both go into the one pool.
    rig = VolumeRig(*objects)
    assert rig.nodes(rig.pod("web", "60Gi", "100Gi")) == ["a", "b"]
    rig = VolumeRig(*objects, poolFit="Guaranteed")
    assert rig.nodes(rig.pod("web", "60Gi", "100Gi")) == ["b"]
    rig.cluster.remove_node("b")
    assert rig.place(rig.pod("db", "60Gi", "100Gi")) == refused({FULL: 1}, 1)


def test_of_nodes_with_the_same_score_the_one_where_nothing_can_go_wrong_is_taken():
    rig = VolumeRig(*(node(f"n{i}") for i in range(8)), reservation="None")
    for i in range(8):
        # As many bytes everywhere: only n5 takes both claims whatever pools the driver picks.
        rig.put(capacity("fast", f"n{i}", "160Gi", pools=["160Gi"] if i == 5 else ["100Gi", "60Gi"]))
    for number in range(6):
        assert rig.decide(rig.pod(f"web-{number}", "60Gi", "100Gi")).node == "n5"
    # One claim fits wherever it fits: the nodes are alike, and lots decide.
    assert {rig.decide(rig.pod(f"db-{number}", "60Gi")).node for number in range(30)} > {"n5"}


PREFER: dict[str, Any] = {"poolFit": "Prefer"}
POSSIBLE: dict[str, Any] = {"poolFit": "Possible"}


def test_a_better_grade_goes_before_any_score_unless_scores_alone_decide():
    # By free storage the emptiest node is best, and that is where the driver may spoil it: 60 into the 100.
    objects = (
        *(node("roomy"), node("sure")),
        capacity("fast", "roomy", "760Gi", pools=["100Gi", "60Gi", *["50Gi"] * 12]),
        capacity("fast", "sure", "160Gi", pools=["160Gi"]),
    )
    rig = VolumeRig(*objects, **POSSIBLE)
    assert rig.decide(rig.pod("web", "60Gi", "100Gi")).node == "roomy"
    rig = VolumeRig(*objects, **PREFER)
    for number in range(3):  # equal pods share answers
        assert rig.decide(rig.pod(f"web-{number}", "60Gi", "100Gi")).node == "sure"
    assert rig.decide(rig.pod("db", "60Gi")).node == "roomy", "one claim fits wherever it fits"


def test_an_ordered_fit_goes_before_one_that_is_only_possible():
    # Claims 7, 5, 3, 3 in pools 10 and 8: no order is safe. In pools 11 and 8 the largest first is.
    objects = (
        *(node("luck"), node("order")),
        capacity("fast", "luck", "1018Gi", pools=["10Gi", "8Gi", *["2Gi"] * 500]),
        capacity("fast", "order", "19Gi", pools=["11Gi", "8Gi"]),
    )
    sizes = ("7Gi", "5Gi", "3Gi", "3Gi")
    rig = VolumeRig(*objects, **POSSIBLE)
    assert rig.decide(rig.pod("web", *sizes)).node == "luck"
    rig = VolumeRig(*objects, **PREFER)
    assert [rig.decide(rig.pod(f"web-{number}", *sizes)).node for number in range(3)] == ["order"] * 3


def test_the_grade_of_a_node_is_the_worst_of_its_groups():
    rig = VolumeRig(
        *(node("a"), node("b"), storage_class("slow")),
        *(capacity("fast", "a", "500Gi", pools=["500Gi"]), capacity("slow", "a", "760Gi", pools=["100Gi", "60Gi"])),
        *(capacity("fast", "b", "130Gi", pools=["130Gi"]), capacity("slow", "b", "160Gi", pools=["160Gi"])),
        **PREFER,
    )
    rig.put(claim("one", "60Gi"), claim("two", "70Gi"))
    rig.put(claim("three", "60Gi", class_name="slow"), claim("four", "100Gi", class_name="slow"))
    assert rig.decide(pod_with("web", "one", "two", "three", "four")).node == "b"


def test_a_pod_with_a_volume_already_is_graded_by_what_is_left_to_be_made():
    rig = VolumeRig(
        *(node("roomy"), node("sure")),
        capacity("fast", "roomy", "760Gi", pools=["100Gi", "60Gi", *["50Gi"] * 12]),
        capacity("fast", "sure", "160Gi", pools=["160Gi"]),
        *(claim("old", "5Gi", volume="pv-old"), volume("pv-old", "5Gi", claim="default/old")),
        **PREFER,
    )
    rig.put(claim("one", "60Gi"), claim("two", "100Gi"))
    assert rig.decide(pod_with("web", "old", "one", "two")).node == "sure"
    rig.put(volume("free", "100Gi", on="roomy"))  # one claim is left to be made there: it fits wherever it fits
    assert rig.decide(pod_with("web", "old", "one", "two")).node == "roomy"


def test_a_node_that_is_nominated_or_alone_is_taken_whatever_its_grade():
    rig = VolumeRig(node("a"), capacity("fast", "a", pools=["100Gi", "60Gi"]), **PREFER)
    assert rig.decide(rig.pod("web", "60Gi", "100Gi")).node == "a"
    rig.put(node("b"), capacity("fast", "b", "160Gi", pools=["160Gi"]))
    web = rig.pod("db", "60Gi", "100Gi", status={"nominatedNodeName": "a"})
    assert rig.decide(web).node == "a"


# -- what reaches a node ----------------------------------------------------------------------------------------------


def test_an_object_without_topology_reaches_nobody_and_an_empty_selector_everybody():
    rig = VolumeRig(node("a"), node("b"), capacity(name="nowhere", free="100Gi"))
    assert rig.message(rig.pod("web", "1Gi")) == refused({FULL: 2}, 2)
    rig.put(capacity(name="everywhere", free="1Gi", topology={}))
    assert rig.nodes(rig.pod("db", "1Gi")) == ["a", "b"]


def test_an_object_of_a_zone_is_shared_by_its_nodes():
    rig = VolumeRig(
        *(node(name, labels={"zone": zone}) for name, zone in (("a", "z1"), ("b", "z1"), ("c", "z2"))),
        capacity(name="zonal", free="100Gi", topology=IN_ZONE),
        reservation="Object",
    )
    web = rig.pod("web", "60Gi")
    assert rig.nodes(web) == ["a", "b"]
    assert rig.place(web) in ("a", "b")
    # Reserved for one of them it is reserved for both.
    assert rig.message(rig.pod("db", "1Gi")) == refused({FULL: 3}, 3)


def test_of_objects_that_overlap_on_a_node_one_must_hold_the_whole_group():
    rig = VolumeRig(
        *(node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z1"})),
        *(capacity("fast", "a", "50Gi"), capacity(name="zonal", free="60Gi", topology=IN_ZONE)),
    )
    # 110 Gi together, but 55 + 55 do not fit either of them.
    assert rig.message(rig.pod("web", "55Gi", "55Gi")) == refused({FULL: 2}, 2)
    assert rig.planned(rig.pod("db", "50Gi"), "a") == {"db-0": "made of fast-a"}
    assert rig.planned(rig.pod("kv", "60Gi"), "a") == {"kv-0": "made of zonal"}


def test_objects_of_all_namespaces_count():
    rig = VolumeRig(
        node("a"), node("b"), capacity("fast", "a", "9Gi", namespace="x"), capacity("fast", "b", "9Gi", namespace="y")
    )
    assert rig.nodes(rig.pod("web", "9Gi")) == ["a", "b"]


def test_an_old_provisioner_that_reports_only_capacity_is_understood():
    rig = VolumeRig(node("a"), capacity("fast", "a", "100Gi"))
    assert rig.message(rig.pod("web", "60Gi", "60Gi")) == refused({FULL: 1}, 1)
    assert rig.place(rig.pod("db", "60Gi", "40Gi")) == "a"


def test_an_object_that_says_only_how_large_a_volume_may_be_is_one_pool_of_that():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", maximum="50Gi"), capacity("fast", "b", maximum="60Gi"))
    assert rig.nodes(rig.pod("web", "55Gi")) == ["b"]
    # 0 % free after 50 of 50 scores 0; 50 of 60 is 83 % and scores 17.
    assert rig.scores(rig.pod("db", "50Gi")) == {"a": 0, "b": 17}


# -- who is not counted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gates", [{}, ALL_OFF], ids=["gates on", "gates off"])
def test_without_a_request_or_a_driver_that_publishes_capacity_nothing_is_checked(gates: dict[str, bool]):
    rig = VolumeRig(
        *(node("a"), storage_class("quiet", provisioner="quiet.example"), driver("quiet.example", capacity=False)),
        storage_class("unknown", provisioner="nobody.example"),
        gates=gates,
    )
    assert rig.place(rig.pod("web", None)) == "a"
    assert rig.place(rig.pod("db", "1Ei", class_name="quiet")) == "a"
    assert rig.place(rig.pod("kv", "1Ei", class_name="unknown")) == "a"
    assert rig.message(rig.pod("fs", "1Gi")) == refused({FULL: 1}, 1)


# -- where volumes may be made ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gates", [{}, ALL_OFF], ids=["gates on", "gates off"])
def test_allowed_topologies_come_before_capacity(gates: dict[str, bool]):
    rig = VolumeRig(
        *(node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"}), node("c", labels={"zone": "z1"})),
        storage_class("zoned", topologies=[{"zone": ["z1"]}]),
        capacity("zoned", "a", "9Gi"),
        gates=gates,
    )
    web = rig.pod("web", "9Gi", class_name="zoned")
    assert rig.reasons(web) == {"b": (UNBINDABLE,), "c": (FULL,)}
    assert rig.place(web) == "a"


def test_without_the_gate_the_first_claim_that_fails_is_told_of_also_after_classes_changed():
    rig = VolumeRig(node("a"), storage_class("slow"), gates=ALL_OFF)
    elsewhere = [{"zone": ["elsewhere"]}]

    def pod_of(name: str) -> Pod:
        rig.put(claim(f"{name}-1", "1Gi", class_name="fast"), claim(f"{name}-2", "1Gi", class_name="slow"))
        return pod_with(name, f"{name}-1", f"{name}-2")

    rig.put(storage_class("fast", topologies=elsewhere))
    assert rig.reasons(pod_of("web")) == {"a": (UNBINDABLE,)}
    # Now the other class is for elsewhere: the first claim may be made here, but there is no room.
    rig.put(storage_class("fast"), storage_class("slow", topologies=elsewhere))
    assert rig.reasons(pod_of("db")) == {"a": (FULL,)}


def test_a_class_that_makes_no_volumes_needs_one_that_exists():
    rig = VolumeRig(node("a"), node("b"), storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    web = rig.pod("web", "10Gi", class_name="local")
    assert rig.message(web) == refused({UNBINDABLE: 2}, 2)
    rig.put(volume("disk-1", "20Gi", class_name="local", on="b"), volume("disk-2", "15Gi", class_name="local", on="b"))
    assert rig.planned(web, "b") == {"web-0": "static disk-2"}
    assert rig.place(web) == "b"
    assert rig.message(rig.pod("db", "20Gi", class_name="local")) == ""
    assert rig.message(rig.pod("kv", "21Gi", class_name="local")) == refused({UNBINDABLE: 2}, 2)


def test_what_finds_no_free_volume_on_a_node_is_made_there():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "b", "10Gi"), volume("disk", "10Gi", on="a"))
    web = rig.pod("web", "5Gi", "6Gi")
    # On a the smaller claim takes the disk, and nothing is left to make the larger one of; on b 5 + 6 > 10.
    assert rig.message(web) == refused({FULL: 2}, 2)
    rig.put(capacity("fast", "a", "6Gi"))
    assert rig.planned(web, "a") == {"web-0": "static disk", "web-1": "made of fast-a"}
    assert rig.place(web) == "a"


def test_a_pod_may_have_more_claims_than_a_number_has_bits():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", "1Gi"))
    web = rig.pod("web", *["1Gi"] * 70)
    rig.put(*(volume(f"disk-{i}", "1Gi", on="a") for i in range(69)))
    assert rig.reasons(web) == {"b": (FULL,)}
    plan = rig.planned(web, "a")
    assert len(plan) == 70 and list(plan.values()).count("made of fast-a") == 1


# -- claims that a node was selected for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"reservation": "Ledger"}, {"gates": ALL_OFF}], ids=["Object", "Ledger", "off"]
)
def test_a_claim_with_a_selected_node_fits_only_there(settings: dict[str, Any]):
    rig = VolumeRig(*(node(name) for name in "abc"), **settings)
    rig.put(*(capacity("fast", name, "20Gi") for name in "abc"), claim("data", "20Gi", selected_node="b"))
    web = pod_with("web", "data")
    # In mode Ledger these 20 Gi are promised already, to this very claim: they are not in its way.
    assert rig.reasons(web) == {"a": (UNBINDABLE,), "c": (UNBINDABLE,)}
    assert rig.place(web) == "b"


def test_a_promise_to_another_claim_is_in_the_way():
    rig = VolumeRig(node("b"), capacity("fast", "b", "20Gi"), reservation="Ledger")
    rig.put(claim("data", "20Gi", selected_node="b"), claim("more", "1Gi", selected_node="b"))
    # 20 + 1 are promised of 20.
    assert rig.message(pod_with("web", "data")) == refused({FULL: 1}, 1)


def test_claims_selected_for_two_nodes_or_for_one_that_is_gone_fit_nowhere():
    rig = VolumeRig(node("a"), node("b"), capacity(name="all", free="9Gi", topology={}))
    rig.put(claim("one", selected_node="a"), claim("two", selected_node="b"), claim("lost", selected_node="gone"))
    assert rig.message(pod_with("web", "one", "two")) == refused({UNBINDABLE: 2}, 2)
    assert rig.message(pod_with("web", "lost")) == refused({UNBINDABLE: 2}, 2)


def test_a_claim_with_a_selected_node_takes_no_free_volume():
    rig = VolumeRig(node("a"), volume("disk", "9Gi", on="a"), claim("data", "9Gi", selected_node="a"))
    assert rig.message(pod_with("web", "data")) == refused({FULL: 1}, 1)
    rig.put(capacity("fast", "a", "9Gi"))
    assert rig.planned(pod_with("web", "data"), "a") == {"data": "made of fast-a"}


# -- claims that are bound --------------------------------------------------------------------------------------------


def test_a_bound_claim_goes_where_its_volume_is():
    rig = VolumeRig(node("a"), node("b"), volume("pv", on="b", claim="default/data"), claim("data", volume="pv"))
    web = pod_with("web", "data")
    assert rig.reasons(web) == {"a": (ELSEWHERE,)}
    assert rig.place(web) == "b"
    assert rig.notes(web).assumed is None  # nothing to write, nothing to wait for


def test_a_bound_volume_that_is_gone_is_told_of():
    # VolumeZone would speak first, in PreFilter.
    rig = VolumeRig(node("a"), claim("data", volume="pv"), plugins="{multiPoint: {disabled: [{name: VolumeZone}]}}")
    assert rig.message(pod_with("web", "data")) == refused({GONE: 1}, 1)


def test_bound_and_unbound_claims_may_both_stand_against_a_node():
    rig = VolumeRig(*(node(name) for name in "abc"), volume("pv", on=["b", "c"], claim="default/data"))
    rig.put(claim("data", volume="pv"), claim("new", "5Gi"), capacity("fast", "c", "5Gi"))
    web = pod_with("web", "data", "new")
    assert rig.reasons(web) == {"a": (ELSEWHERE, FULL), "b": (FULL,)}
    assert rig.decide(web).node == "c"
    rig.cluster.remove_node("c")
    assert rig.message(web) == refused({ELSEWHERE: 1, FULL: 2}, 2)


# -- a claim mounted twice --------------------------------------------------------------------------------------------


def test_a_claim_mounted_twice_is_one_volume_with_the_gate_and_two_without():
    local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    disk = volume("disk", "10Gi", class_name="local", on="a")
    objects = (node("a"), local, disk, claim("data", "10Gi", class_name="local"), claim("new", "60Gi"))
    rig = VolumeRig(*objects, capacity("fast", "a", "100Gi"))
    assert rig.planned(pod_with("web", "data", "data"), "a") == {"data": "static disk"}
    assert rig.place(pod_with("db", "new", "new")) == "a"  # 60 and not 120
    rig = VolumeRig(*objects, gates=ALL_OFF)
    assert rig.message(pod_with("web", "data", "data")) == refused({UNBINDABLE: 1}, 1)


# -- pods that are refused as a whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "told"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim("data", class_name="now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", volume="pv", bound=False)], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", class_name=None)], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("data", class_name="unheard-of")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("data", volume="pv", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (
            [claim("data", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "data" is being deleted',
        ),
    ],
    ids=["missing", "immediate", "pre-bound", "no class", "unknown class", "lost", "terminating"],
)
def test_what_no_node_can_help_is_said_once(objects: list[Any], told: str):
    rig = VolumeRig(node("a"), node("b"), storage_class("now", delayed=False), *objects)
    decision = rig.decide(pod_with("web", "data"))
    assert decision.diagnosis is not None and decision.diagnosis.refusal is not None
    assert decision.diagnosis.message() == f"0/2 nodes are available: {told}."
    assert decision.diagnosis.refusal.code is Code.UNRESOLVABLE


def test_no_refusal_of_volumes_can_be_helped_by_preemption():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", "1Gi"))
    diagnosis = rig.decide(rig.pod("web", "2Gi")).diagnosis
    assert diagnosis is not None and diagnosis.resolvable_rows().tolist() == []
    assert diagnosis.rejecting_plugins() == {"VolumeBinding"}


def test_pods_without_claims_are_none_of_its_business():
    rig = VolumeRig(node("a"), node("b"))
    web = pod("web")
    assert rig.nodes(web) == ["a", "b"] and rig.scores(web) == {}
    assert rig.place(web) in ("a", "b")
    rig.fail(web)


def test_a_profile_without_pre_score_scores_pods_without_claims_all_the_same():
    rig = VolumeRig(node("a"), node("b"), plugins="{preScore: {disabled: [{name: VolumeBinding}]}}")
    assert rig.scores(pod("web")) == {"a": 0, "b": 0}
    assert rig.place(pod("web")) in ("a", "b")


# -- gate by gate -----------------------------------------------------------------------------------------------------


def test_the_gate_of_joint_capacity_on_off_and_on_again():
    """A new scheduler each time, on the same cluster: nothing but the gate decides."""
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", "100Gi", pools=["50Gi", "50Gi"]))
    rig.put(claim("data", volume="pv", selected_node="gone"), volume("pv", claim="default/data"))
    rig.put(driver(rebuilding=True))
    jointly, rebuilt = rig.pod("web", "60Gi"), pod_with("db", "data")
    for is_on in (True, False, True):
        rig.use(gates={"CSIStorageCapacityV2": is_on})
        # With the gate no pool holds 60, and the volume is to be rebuilt where there is room; without it 60 <= 100.
        assert rig.nodes(jointly) == ([] if is_on else ["a"])
        assert rig.nodes(rebuilt) == (["a"] if is_on else ["a", "b"])
        assert rig.message(rig.pod("kv", "60Gi", "60Gi")) == (refused({FULL: 2}, 2) if is_on else "")


def test_without_the_gate_nothing_is_reserved_and_each_claim_is_on_its_own():
    rig = VolumeRig(
        node("a"), capacity("fast", "a", "20Gi"), gates={"CSIStorageCapacityV2": False}, reservation="Object"
    )
    assert [rig.place(rig.pod(f"web-{i}", "20Gi", "20Gi")) for i in range(3)] == ["a"] * 3


def test_the_gate_of_scoring_on_off_and_on_again():
    rig = VolumeRig(node("a"), node("b"), capacity("fast", "a", "100Gi"), capacity("fast", "b", "200Gi"))
    web = rig.pod("web", "50Gi")
    for is_on in (True, False, True):
        rig.use(gates={"StorageCapacityScoring": is_on})
        # 50 of 100 and 50 of 200 Gi used: 100 - 50 and 100 - 25.
        assert rig.scores(web) == ({"a": 50, "b": 75} if is_on else {})
