"""A node's own objects: what it writes, and what it leaves to others."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of
from tonnage.node.node_objects import (
    missing_labels,
    new_lease,
    new_node,
    renewal,
    require_no_collision,
    require_storable,
    status_patch,
    topology_patch,
)
from tonnage.node.settings import NodeSettings
from tonnage.objects.codec import convert, to_doc
from tonnage.objects.core_v1 import Node
from tonnage.objects.document import Doc

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
SETTINGS = NodeSettings(names=("node-1",), root_dir=Path("/r"), capacity={"cpu": "8", "memory": "32Gi", "pods": "110"})


def registered(now: datetime = NOW, **metadata: Any) -> Node:
    doc = new_node("node-1", SETTINGS, now=now)
    doc["metadata"] |= {"uid": "u1", **metadata}
    return convert(Node, doc)


def with_status(node: Node, status: Doc) -> Node:
    doc = {"apiVersion": "v1", **to_doc(node)}
    return convert(Node, strategic_merge(schema_of("", "v1", "Node"), doc, {"status": status}))


def test_a_new_node_is_ready_and_has_the_standard_labels():
    node = registered()
    assert {each.type: (each.status, each.reason) for each in node.status.conditions} == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }
    assert node.metadata.labels["kubernetes.io/hostname"] == "node-1"
    assert node.metadata.labels["kubernetes.io/os"] == "linux"
    assert node.status.capacity == node.status.allocatable and str(node.status.capacity["cpu"]) == "8"


def test_a_status_that_is_right_is_repeated_every_five_minutes_and_not_before():
    assert status_patch(registered(), SETTINGS, now=NOW + timedelta(seconds=299)) is None
    assert status_patch(registered(), SETTINGS, now=NOW + timedelta(seconds=300)) is not None


def test_a_node_that_was_given_up_says_at_once_that_it_is_ready():
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    node = with_status(registered(), {"conditions": [unknown], "volumesInUse": ["v"]})
    later = NOW + timedelta(seconds=50)
    patch = status_patch(node, SETTINGS, now=later)
    assert patch is not None
    back = with_status(node, patch["status"])
    ready = {each.type: each for each in back.status.conditions}
    assert (ready["Ready"].status, ready["Ready"].last_transition_time) == ("True", later)
    assert ready["MemoryPressure"].last_transition_time == NOW
    assert back.status.volumes_in_use == ("v",)


def test_labels_of_others_stay_and_only_ours_are_set_right():
    labels = {**registered().metadata.labels, "kubernetes.io/hostname": "x", "team": "a"}
    assert missing_labels(registered(labels=labels)) == {"kubernetes.io/hostname": "node-1"}
    assert missing_labels(registered()) == {}


def test_a_drivers_topology_becomes_labels_once():
    patch = topology_patch(registered(), {"topology.x/node": "n1"}, {"d": "id-1"})
    assert patch == {
        "metadata": {
            "uid": "u1",
            "labels": {"topology.x/node": "n1"},
            "annotations": {"csi.volume.kubernetes.io/nodeid": '{"d":"id-1"}'},
        }
    }
    labels = {**registered().metadata.labels, **patch["metadata"]["labels"]}
    known = registered(labels=labels, annotations=patch["metadata"]["annotations"])
    assert topology_patch(known, {"topology.x/node": "n1"}, {"d": "id-1"}) is None


def test_node_ids_are_written_as_json_whatever_is_in_them():
    odd = {"d": 'a"b\\c', "a": "ü"}
    patch = topology_patch(registered(), {}, odd)
    assert patch is not None and json.loads(patch["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"]) == odd


@pytest.mark.parametrize(
    ("node_id", "topology", "told"),
    [
        ("", {}, "the driver's node id has 0 bytes; it must have 1 to 256"),
        ("n" * 257, {}, "the driver's node id has 257 bytes; it must have 1 to 256"),
        ("n", {"no label!": "x"}, 'the driver\'s topology segment "no label!": "x" is not a label: '),
        ("n", {"zone": "-"}, 'the driver\'s topology segment "zone": "-" is not a label: '),
    ],
)
def test_what_a_driver_tells_of_its_node_must_be_storable(node_id: str, topology: dict[str, str], told: str):
    with pytest.raises(ValueError) as found:
        require_storable(node_id, topology)
    assert str(found.value).startswith(told)


def test_two_who_say_where_a_node_is_cannot_both_be_right():
    node = registered(labels={"zone": "a"})
    with pytest.raises(ValueError) as found:
        require_no_collision(node.metadata.labels, {"zone": "b"})
    assert str(found.value) == (
        'detected topology value collision: driver reported "zone":"b" but existing label is "zone":"a"'
    )


def test_a_lease_is_held_by_its_node_and_goes_with_it():
    lease = new_lease(registered(), SETTINGS, now=NOW)
    assert lease["metadata"]["namespace"] == "kube-node-lease"
    assert [owner["uid"] for owner in lease["metadata"]["ownerReferences"]] == ["u1"]
    assert lease["spec"] == renewal("node-1", SETTINGS, now=NOW)["spec"]
    assert lease["spec"] == {
        "holderIdentity": "node-1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T12:00:00.000000Z",
    }


def repeated(node: Node, settings: NodeSettings = SETTINGS) -> Node:
    """The node after its next status update, which then has nothing more to say."""
    patch = status_patch(node, settings, now=NOW)
    assert patch is not None
    written = with_status(node, patch["status"])
    assert status_patch(written, settings, now=NOW) is None
    return written


def test_a_resource_that_somebody_put_into_the_capacity_becomes_allocatable_and_stays():
    node = repeated(with_status(registered(), {"capacity": {"example.com/gpu": "1000"}}))
    assert str(node.status.allocatable["example.com/gpu"]) == "1k"
    assert node.status.allocatable == node.status.capacity
    later = status_patch(node, SETTINGS, now=NOW + timedelta(hours=1))
    assert later is not None
    assert with_status(node, later["status"]).status.allocatable == node.status.allocatable


def test_an_extended_resource_that_left_the_capacity_leaves_allocatable():
    node = repeated(with_status(registered(), {"capacity": {"example.com/gpu": "2"}}))
    node = repeated(with_status(node, {"capacity": {"example.com/gpu": None}}))
    assert "example.com/gpu" not in node.status.allocatable


def test_what_somebody_wrote_over_the_nodes_own_figures_is_set_right():
    node = with_status(registered(), {"capacity": {"cpu": "1000"}, "allocatable": {"cpu": "1000", "pods": "1"}})
    assert repeated(node).status.allocatable == registered().status.allocatable


def test_huge_pages_are_taken_off_the_memory_and_nothing_is_negative():
    node = repeated(with_status(registered(), {"capacity": {"hugepages-2Mi": "2Gi", "example.com/gpu": "-1"}}))
    amounts = {name: str(node.status.allocatable[name]) for name in ("memory", "hugepages-2Mi", "example.com/gpu")}
    assert amounts == {"memory": "30Gi", "hugepages-2Mi": "2Gi", "example.com/gpu": "0"}
    node = repeated(with_status(node, {"capacity": {"hugepages-1Gi": "64Gi"}}))
    assert str(node.status.allocatable["memory"]) == "0"
