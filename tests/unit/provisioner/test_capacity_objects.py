"""Work items, what drivers report, and capacity objects. Cases by KEP-5925 and by external-provisioner's list."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import Int64Value

from tonnage.csi import csi_pb2 as csi
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.objects import codec
from tonnage.objects.meta import OwnerReference
from tonnage.objects.storage_v1 import AVAILABLE_CAPACITIES, POOL_IDS, CSIStorageCapacity, StorageClass
from tonnage.provisioner.capacity.objects import (
    Included,
    InvalidCapacity,
    ReportedCapacity,
    Segment,
    WorkItem,
    capacity_request,
    key_of,
    labels_of,
    manager_on,
    new_object,
    patch_for,
    read_response,
    work_items,
)
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.testing.storage_builders import capacity, storage_class

DRIVER = "pools.tonnage.dev"
GI = 1 << 30
NODE_1 = Segment.of({"node": "node-1"})
QUESTION = WorkItem("pools", NODE_1)
OWNER = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="u1", controller=True)
POOLS = ReportedCapacity(300 * GI, None, (100 * GI, 200 * GI))


def made(
    reported: ReportedCapacity, *, owner: OwnerReference | None = None, is_dropped: bool = False
) -> CSIStorageCapacity:
    return new_object(
        QUESTION,
        reported,
        namespace="kube-system",
        labels=labels_of(DRIVER, "external-provisioner"),
        owner=owner,
        is_dropped=is_dropped,
    )


def changed(
    found: CSIStorageCapacity,
    reported: ReportedCapacity,
    *,
    owner: OwnerReference | None = None,
    is_dropped: bool = False,
) -> Any:
    return patch_for(found, reported, owner=owner, is_dropped=is_dropped)


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_every_class_of_the_driver_is_asked_about_in_every_segment():
    classes = [
        storage_class("pools", provisioner=DRIVER),
        storage_class("gold", provisioner=DRIVER),
        storage_class("other", provisioner="another"),
        storage_class("at-once", provisioner=DRIVER, delayed=False),
    ]
    segments = [NODE_1, Segment.of({"node": "node-2"})]
    found = work_items(DRIVER, classes, segments, for_immediate_binding=False)
    assert sorted(found) == ["gold/node=node-1", "gold/node=node-2", "pools/node=node-1", "pools/node=node-2"]
    found = work_items(DRIVER, classes, [NODE_1], for_immediate_binding=True)
    assert sorted(found) == ["at-once/node=node-1", "gold/node=node-1", "pools/node=node-1"]


def test_the_driver_is_asked_with_the_parameters_of_the_class_and_no_capabilities():
    recipe = StorageClass(provisioner=DRIVER, parameters={"type": "ssd"})
    assert capacity_request(QUESTION, recipe) == csi.GetCapacityRequest(
        parameters={"type": "ssd"}, accessible_topology=csi.Topology(segments={"node": "node-1"})
    )


def test_a_driver_without_topology_is_asked_for_an_empty_one():
    asked = capacity_request(WorkItem("pools", Segment()), StorageClass(provisioner=DRIVER))
    assert asked.HasField("accessible_topology") and not asked.accessible_topology.segments


def test_an_object_is_found_again_by_class_and_topology():
    assert key_of(capacity("pools", topology={"matchLabels": {"node": "node-1"}})) == QUESTION.key
    assert key_of(capacity("pools", topology={})) == WorkItem("pools", Segment()).key


@pytest.mark.parametrize(
    "topology", [None, {"matchExpressions": [{"key": "node", "operator": "In", "values": ["node-1"]}]}]
)
def test_an_object_with_a_topology_that_we_never_write_answers_no_question(topology: Any):
    assert key_of(capacity("pools", topology=topology, name="odd")) == "pools/object kube-system/odd"


# -- what is answered -------------------------------------------------------------------------------------------------


def test_without_pools_the_answer_is_as_upstream_reads_it():
    response = csi.GetCapacityResponse(available_capacity=5 * GI, maximum_volume_size=Int64Value(value=2 * GI))
    assert read_response(QUESTION, response, with_pools=True) == ReportedCapacity(5 * GI, 2 * GI, ())


def test_a_maximum_of_zero_is_said_and_an_absent_one_is_not():
    zero = csi.GetCapacityResponse(available_capacity=GI, maximum_volume_size=Int64Value(value=0))
    assert read_response(QUESTION, zero, with_pools=True).maximum_bytes == 0
    assert read_response(QUESTION, csi.GetCapacityResponse(), with_pools=True).maximum_bytes is None


def test_with_pools_capacity_is_their_sum_whatever_else_the_driver_says():
    # 100 + 200 = 300; the driver's own 7 is for those who know nothing of pools.
    response = csi.GetCapacityResponse(available_capacity=7 * GI, available_capacities=[100 * GI, 200 * GI])
    assert read_response(QUESTION, response, with_pools=True) == POOLS
    without_gate = ReportedCapacity(7 * GI, None, POOLS.pools, adds_pools=False)
    assert read_response(QUESTION, response, with_pools=False) == without_gate


def test_pools_that_are_full_are_pools():
    response = csi.GetCapacityResponse(available_capacities=[0, 0])
    assert read_response(QUESTION, response, with_pools=True) == ReportedCapacity(0, None, (0, 0))


def test_a_sum_beyond_64_bits_stops_there():
    most = (1 << 63) - 1
    response = csi.GetCapacityResponse(available_capacities=[most, most])
    assert read_response(QUESTION, response, with_pools=True).capacity_bytes == most


@pytest.mark.parametrize(
    "response",
    [
        csi.GetCapacityResponse(available_capacity=-1),
        csi.GetCapacityResponse(available_capacities=[GI, -1]),
        csi.GetCapacityResponse(maximum_volume_size=Int64Value(value=-1)),
    ],
)
def test_less_than_nothing_is_no_answer(response: csi.GetCapacityResponse):
    with pytest.raises(InvalidCapacity) as refused:
        read_response(QUESTION, response, with_pools=True)
    assert refused.value.message == (
        "GetCapacity for pools/node=node-1 was answered with -1 bytes; the last good answer is kept"
    )


# -- what is made -----------------------------------------------------------------------------------------------------


def test_an_object_says_whose_it_is_where_it_holds_and_what_there_is():
    assert codec.to_doc(made(ReportedCapacity(5 * GI, 2 * GI), owner=OWNER)) == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "generateName": "csisc-",
            "namespace": "kube-system",
            "labels": {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "driver", "uid": "u1", "controller": True}
            ],
        },
        "storageClassName": "pools",
        "nodeTopology": {"matchLabels": {"node": "node-1"}},
        "capacity": "5Gi",
        "maximumVolumeSize": "2Gi",
    }


def test_pools_are_written_as_the_field_beside_their_sum():
    doc = codec.to_doc(made(POOLS))
    assert (doc["capacity"], doc["availableCapacities"]) == ("300Gi", ["100Gi", "200Gi"])
    assert "annotations" not in doc["metadata"]


def test_where_the_field_is_dropped_pools_are_written_as_an_annotation():
    doc = codec.to_doc(made(POOLS, is_dropped=True))
    assert doc["metadata"]["annotations"] == {"tonnage.dev/available-capacities": "100Gi,200Gi"}
    assert "availableCapacities" not in doc and doc["capacity"] == "300Gi"


def test_the_scheduler_reads_the_same_pools_from_either():
    assert listed_pools(made(POOLS)) == listed_pools(made(POOLS, is_dropped=True)) == (200 * GI, 100 * GI)


def test_a_topology_that_is_everywhere_is_written_as_an_empty_selector_and_not_as_none():
    found = new_object(WorkItem("pools", Segment()), POOLS, namespace="n", labels={}, owner=None, is_dropped=False)
    assert codec.to_doc(found)["nodeTopology"] == {}


def test_no_room_is_written_as_zero_and_not_as_unknown():
    assert codec.to_doc(made(ReportedCapacity(0)))["capacity"] == "0"


# -- what is changed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reported", [ReportedCapacity(5 * GI), ReportedCapacity(5 * GI, 2 * GI), POOLS, ReportedCapacity(0, None, (0,))]
)
@pytest.mark.parametrize("is_dropped", [True, False])
def test_what_was_just_made_needs_no_change(reported: ReportedCapacity, is_dropped: bool):
    assert (
        changed(made(reported, owner=OWNER, is_dropped=is_dropped), reported, owner=OWNER, is_dropped=is_dropped) == {}
    )


def test_the_same_amount_in_other_words_is_not_written():
    assert changed(capacity("pools", "node-1", "1024Mi", maximum="2048Mi"), ReportedCapacity(GI, 2 * GI)) == {}


def test_pools_in_another_order_are_not_written():
    assert changed(made(POOLS), ReportedCapacity(300 * GI, None, (200 * GI, 100 * GI))) == {}
    told_otherwise = ReportedCapacity(300 * GI, None, (200 * GI, 100 * GI))
    assert changed(made(POOLS, is_dropped=True), told_otherwise, is_dropped=True) == {}


def test_ids_are_written_with_the_pools_whose_ids_they_are():
    told = replace(POOLS, ids=("a", "b"))
    assert made(told).metadata.annotations == {POOL_IDS: "a,b"}
    assert changed(made(told), told) == {}
    assert changed(made(POOLS), told) == {"metadata": {"annotations": {POOL_IDS: "a,b"}}}
    # In another order the pools are written, too: an id is that of the pool in its place.
    turned = replace(POOLS, pools=(200 * GI, 100 * GI), ids=("b", "a"))
    ids = {"metadata": {"annotations": {POOL_IDS: "b,a"}}}
    assert changed(made(told), turned) == {"availableCapacities": ["200Gi", "100Gi"], **ids}
    found = made(told, is_dropped=True)
    assert changed(found, turned, is_dropped=True) == {
        "metadata": {"annotations": {AVAILABLE_CAPACITIES: "200Gi,100Gi", POOL_IDS: "b,a"}}
    }


@pytest.mark.parametrize(
    ("ids", "with_pools"), [(["a"], True), (["a", "a"], True), (["a", "b" * 100_000], True), (["a", "b"], False)]
)
def test_ids_that_are_not_one_for_each_pool_are_not_taken(ids: list[str], with_pools: bool):
    response = csi.GetCapacityResponse(available_capacities=[GI, 2 * GI])
    assert read_response(QUESTION, response, with_pools=with_pools, ids=ids).ids == ()
    assert read_response(QUESTION, response, with_pools=True, ids=["a", "b"]).ids == ("a", "b")


def test_a_new_capacity_is_written_and_nothing_else():
    assert changed(made(ReportedCapacity(5 * GI, 2 * GI)), ReportedCapacity(4 * GI, 2 * GI)) == {"capacity": "4Gi"}


def test_a_maximum_comes_and_goes():
    assert changed(made(ReportedCapacity(5 * GI)), ReportedCapacity(5 * GI, GI)) == {"maximumVolumeSize": "1Gi"}
    assert changed(made(ReportedCapacity(5 * GI, GI)), ReportedCapacity(5 * GI)) == {"maximumVolumeSize": None}


def test_other_pools_of_the_same_sum_are_written():
    # 100 + 200 = 150 + 150
    assert changed(made(POOLS), ReportedCapacity(300 * GI, None, (150 * GI, 150 * GI))) == {
        "availableCapacities": ["150Gi", "150Gi"]
    }


def test_pools_that_are_gone_are_taken_out_of_the_field():
    assert changed(made(POOLS), ReportedCapacity(300 * GI)) == {"availableCapacities": None}


def test_pools_that_are_gone_are_taken_out_of_the_annotation():
    found = made(POOLS, is_dropped=True)
    assert changed(found, ReportedCapacity(300 * GI), is_dropped=True) == {
        "metadata": {"annotations": {AVAILABLE_CAPACITIES: None}}
    }


def test_a_field_that_was_dropped_is_followed_by_the_annotation():
    dropped = made(ReportedCapacity(300 * GI))
    assert changed(dropped, POOLS, is_dropped=True) == {
        "metadata": {"annotations": {AVAILABLE_CAPACITIES: "100Gi,200Gi"}}
    }


def test_while_the_field_is_offered_again_the_annotation_stays_and_stays_right():
    found = made(POOLS, is_dropped=True)
    assert changed(found, POOLS) == {"availableCapacities": ["100Gi", "200Gi"]}
    less = ReportedCapacity(200 * GI, None, (0, 200 * GI))
    assert changed(found, less) == {
        "capacity": "200Gi",
        "availableCapacities": ["0", "200Gi"],
        "metadata": {"annotations": {AVAILABLE_CAPACITIES: "0,200Gi"}},
    }


def test_once_the_field_is_kept_the_annotation_goes():
    both = merged(made(POOLS, is_dropped=True), {"availableCapacities": ["100Gi", "200Gi"]})
    for is_dropped in (False, True):
        assert changed(both, POOLS, is_dropped=is_dropped) == {
            "metadata": {"annotations": {AVAILABLE_CAPACITIES: None}}
        }


def test_an_object_that_has_the_field_keeps_it_where_new_ones_lose_theirs():
    # A server whose gate was turned off keeps what it has, and lets it be changed.
    less = ReportedCapacity(200 * GI, None, (0, 200 * GI))
    assert changed(made(POOLS), less, is_dropped=True) == {"capacity": "200Gi", "availableCapacities": ["0", "200Gi"]}


def test_with_the_gate_off_pools_that_are_found_stay_and_stay_right():
    # A rollback preserves stored fields (KEP-5925); a scheduler whose gate is on must not read old figures in them.
    off = replace(POOLS, adds_pools=False)
    less = ReportedCapacity(200 * GI, None, (0, 200 * GI), adds_pools=False)
    for is_dropped in (False, True):
        assert changed(made(POOLS), off, is_dropped=is_dropped) == {}
        assert changed(made(POOLS), less, is_dropped=is_dropped) == {
            "capacity": "200Gi",
            "availableCapacities": ["0", "200Gi"],
        }
        annotated = made(POOLS, is_dropped=True)
        assert changed(annotated, off, is_dropped=is_dropped) == {}
        assert changed(annotated, less, is_dropped=is_dropped) == {
            "capacity": "200Gi",
            "metadata": {"annotations": {AVAILABLE_CAPACITIES: "0,200Gi"}},
        }


def test_with_the_gate_off_pools_are_added_to_no_object():
    off = replace(POOLS, adds_pools=False)
    for is_dropped in (False, True):
        doc = codec.to_doc(made(off, is_dropped=is_dropped))
        assert "availableCapacities" not in doc and "annotations" not in doc["metadata"]
        assert changed(made(ReportedCapacity(300 * GI)), off, is_dropped=is_dropped) == {}


def test_with_the_gate_off_pools_that_the_driver_no_longer_tells_go():
    assert changed(made(POOLS), ReportedCapacity(300 * GI, adds_pools=False)) == {"availableCapacities": None}


def test_an_answer_says_whose_volumes_it_includes():
    reported = replace(POOLS, included=Included(("u1", "u2")))
    assert made(reported).metadata.annotations == {"tonnage.dev/included-claims": "u1,u2"}
    assert changed(made(POOLS), reported) == {"metadata": {"annotations": {"tonnage.dev/included-claims": "u1,u2"}}}


def test_a_claim_that_is_no_longer_worth_a_word_goes_with_the_next_write_and_is_no_reason_for_one():
    found = made(replace(POOLS, included=Included(("u1", "u2"))))
    assert changed(found, replace(POOLS, included=Included(("u2",)))) == {}
    less = replace(POOLS, maximum_bytes=1, included=Included(("u2",)))
    assert changed(found, less)["metadata"] == {"annotations": {"tonnage.dev/included-claims": "u2"}}
    assert changed(found, replace(less, included=Included(())))["metadata"] == {
        "annotations": {"tonnage.dev/included-claims": None}
    }


def test_an_answer_says_until_when_volumes_are_included_and_each_later_time_is_news():
    first, later = (datetime(2026, 11, 15, 2, 29, second, tzinfo=UTC) for second in (13, 14))
    reported = replace(POOLS, included=Included(("u1",), first))
    told = {"tonnage.dev/included-claims": "u1", "tonnage.dev/included-until": "2026-11-15T02:29:13Z"}
    found = made(reported)
    assert found.metadata.annotations == told
    assert changed(found, reported) == {}
    assert changed(made(POOLS), reported) == {"metadata": {"annotations": told}}
    later_told = changed(found, replace(POOLS, included=Included(("u1",), later)))["metadata"]["annotations"]
    assert later_told["tonnage.dev/included-until"] == "2026-11-15T02:29:14Z"
    # It goes when there are few again, with the next write.
    few = replace(POOLS, included=Included(("u1",)))
    assert changed(found, few) == {}
    assert changed(found, replace(few, maximum_bytes=1))["metadata"]["annotations"] == {
        "tonnage.dev/included-until": None
    }


def test_our_owner_is_added_beside_others():
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="theirs", uid="u2")
    found = made(POOLS, owner=other)
    patch = changed(found, POOLS, owner=OWNER)
    assert [each["uid"] for each in patch["metadata"]["ownerReferences"]] == ["u2", "u1"]
    assert changed(merged(found, patch), POOLS, owner=OWNER) == {}


def test_a_manager_of_before_makes_room_for_ours():
    # An API server refuses a second controller: the driver was installed anew, and its old owner is gone.
    before = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="u0", controller=True)
    patch = changed(made(POOLS, owner=before), POOLS, owner=OWNER)
    assert [each["uid"] for each in patch["metadata"]["ownerReferences"]] == ["u1"]


def test_a_reference_to_our_owner_that_is_not_its_manager_becomes_one():
    weak = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="driver", uid="u1")
    patch = changed(made(POOLS, owner=weak), POOLS, owner=OWNER)
    assert patch == {"metadata": {"ownerReferences": [codec.to_doc(OWNER)]}}


def test_without_an_owner_of_ours_those_that_are_there_stay():
    assert changed(made(POOLS, owner=OWNER), POOLS, owner=None) == {}


def merged(found: CSIStorageCapacity, patch: Any) -> CSIStorageCapacity:
    return codec.convert(CSIStorageCapacity, merge_patch(codec.to_doc(found), patch))


# -- who manages ------------------------------------------------------------------------------------------------------


def test_a_provisioner_on_a_node_is_told_apart_by_its_name():
    assert manager_on("node-1") == "external-provisioner-node-1"


@pytest.mark.parametrize(
    ("node", "manager"),
    [
        # 20 + 1 + 42 = 63, the longest that fits; then 63 - 10 - 43 = 10 letters are left for what comes first.
        ("node" + "a" * 38, "external-provisioner-node" + "a" * 38),
        ("node" + "a" * 39, "external-p-53f40b57-node" + "a" * 39),
        ("node" + "a" * 48, "e-53f40b57-node" + "a" * 48),
        ("node" + "a" * 49, "external-provisioner-a3607ff1"),
        ("node" + "a" * 63, "external-provisioner-df38e37f"),
    ],
)
def test_long_node_names_are_shortened_as_upstream_shortens_them(node: str, manager: str):
    assert manager_on(node) == manager


KEPT = {
    AVAILABLE_CAPACITIES: "1Gi,1Gi",
    "tonnage.dev/free-volumes": "3",
    "tonnage.dev/pools-source": "openebs-lvm",
    "tonnage.dev/pools-observed-at": "x",
    "tonnage.dev/pools-checked-at": "x",
}


def kept() -> CSIStorageCapacity:
    """An object whose pools `tonnage pools` keeps."""
    return capacity("pools", "node-1", "1Gi", metadata={"annotations": KEPT})


def test_pools_that_another_keeps_are_not_taken_away_by_a_driver_that_tells_none():
    assert changed(kept(), ReportedCapacity(GI)) == {}
    assert changed(kept(), ReportedCapacity(2 * GI)) == {"capacity": "2Gi"}


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_driver_that_tells_pools_takes_over_from_whoever_kept_them(is_dropped: bool):
    annotations = changed(kept(), POOLS, is_dropped=is_dropped)["metadata"]["annotations"]
    assert annotations == {AVAILABLE_CAPACITIES: "100Gi,200Gi", **dict.fromkeys(list(KEPT)[1:])}
