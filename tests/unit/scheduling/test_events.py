"""Cluster events: what a mask includes, and what a step from one object to the next means."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tonnage.objects.core_v1 import Namespace, Node
from tonnage.objects.meta import Condition, Object, ObjectMeta
from tonnage.objects.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from tonnage.scheduling.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    EVERY_EVENT,
    FORCE_ACTIVATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    Change,
    ClusterEvent,
    EventResource,
    changes_of,
    node_events,
    pod_events,
)
from tonnage.testing.builders import node, pod

A, R = ActionType, EventResource


def labels(*events: ClusterEvent) -> list[str]:
    return [event.label for event in events]


# -- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "seen", "is_covered"),
    [
        (ClusterEvent(R.NODE, A.ADD | A.UPDATE_NODE_LABEL), ClusterEvent(R.NODE, A.UPDATE_NODE_LABEL), True),
        (ClusterEvent(R.NODE, A.ADD | A.UPDATE_NODE_LABEL), ClusterEvent(R.NODE, A.UPDATE_NODE_TAINT), False),
        (ClusterEvent(R.NODE, A.UPDATE), ClusterEvent(R.NODE, A.UPDATE_NODE_TAINT), True),
        # "Some update" is less specific than the mask: were it about labels, it would have said so.
        (ClusterEvent(R.NODE, A.UPDATE_NODE_LABEL), ClusterEvent(R.NODE, A.UPDATE), False),
        (ClusterEvent(R.NODE, A.ALL), ClusterEvent(R.CSI_NODE, A.ADD), False),
        (ClusterEvent(R.POD, A.DELETE), ASSIGNED_POD_DELETE, True),
        (ClusterEvent(R.POD, A.UPDATE), UNSCHEDULED_POD_UPDATE, True),
        (ClusterEvent(R.ASSIGNED_POD, A.ALL), UNSCHEDULED_POD_UPDATE, False),
        (ClusterEvent(R.WILDCARD, A.ADD), NODE_ADD, True),
        (ClusterEvent(R.WILDCARD, A.ADD), NODE_DELETE, False),
        (EVERY_EVENT, NODE_DELETE, True),
        (EVERY_EVENT, UNSCHEDULABLE_TIMEOUT, True),
        (ClusterEvent(R.NODE, A.ALL), UNSCHEDULABLE_TIMEOUT, False),
    ],
)
def test_a_mask_covers_events_as_specific_as_itself_or_more(
    mask: ClusterEvent, seen: ClusterEvent, is_covered: bool
) -> None:
    assert mask.covers(seen) is is_covered


def test_labels_are_those_of_upstreams_metrics() -> None:
    assert labels(
        NODE_ADD,
        ClusterEvent(R.NODE, A.UPDATE_NODE_ALLOCATABLE),
        ClusterEvent(R.UNSCHEDULED_POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        ASSIGNED_POD_UPDATE,
        ClusterEvent(R.CSI_STORAGE_CAPACITY, A.UPDATE),
        UNSCHEDULABLE_TIMEOUT,
        FORCE_ACTIVATE,
        ClusterEvent(R.NODE, A.ADD | A.DELETE),
    ) == [
        "NodeAdd",
        "NodeUpdateNodeAllocatable",
        "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        "AssignedPodUpdate",
        "storage.k8s.io/CSIStorageCapacityUpdate",
        "UnschedulableTimeout",
        "ForceActivate",
        "NodeAdd|Delete",
    ]


def test_only_the_event_of_all_actions_on_all_resources_is_a_wildcard() -> None:
    assert UNSCHEDULABLE_TIMEOUT.is_wildcard
    assert EVERY_EVENT.is_wildcard
    assert not ClusterEvent(R.WILDCARD, A.UPDATE).is_wildcard
    assert not ClusterEvent(R.NODE, A.ALL).is_wildcard


# -- nodes ------------------------------------------------------------------------------------------------------------


def ready(status: str, reason: str = "") -> Node:
    condition = Condition(type="Ready", status=status, reason=reason)
    return replace(node("a"), status=replace(node("a").status, conditions=(condition,)))


def annotated(**annotations: str) -> Node:
    return replace(node("a"), metadata=replace(node("a").metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (node("a", cpu="4"), node("a", cpu="8"), ["NodeUpdateNodeAllocatable"]),
        (node("a", cpu="1"), node("a", cpu="1000m"), []),  # the same amount in other words
        (node("a"), node("a", labels={"zone": "z1"}), ["NodeUpdateNodeLabel"]),
        (node("a", taints=["k:NoSchedule"]), node("a"), ["NodeUpdateNodeTaint"]),
        (node("a", unschedulable=True), node("a"), ["NodeUpdateNodeTaint"]),
        # Cordoned: upstream says nothing; a volume that can be rebuilt elsewhere may leave such a node.
        (node("a"), node("a", unschedulable=True), ["NodeUpdateNodeTaint"]),
        # Uncordoned, and the taint that goes with it: one event, not two.
        (node("a", unschedulable=True, taints=["k:NoSchedule"]), node("a"), ["NodeUpdateNodeTaint"]),
        (ready("False"), ready("True"), ["NodeUpdateNodeCondition"]),
        (ready("True"), ready("True", "KubeletReady"), []),
        (node("a"), annotated(note="x"), ["NodeUpdateNodeAnnotation"]),
        (
            node("a"),
            node("a", cpu="8", labels={"zone": "z1"}),
            ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
        ),
        (node("a"), node("a", images={"app:1": 7}), []),
    ],
)
def test_a_nodes_update_is_told_by_its_parts(old: Node, new: Node, expected: list[str]) -> None:
    assert labels(*node_events(old, new)) == expected


def test_a_nodes_declared_features_are_an_update_of_their_own() -> None:
    old = node("a")
    new = replace(old, status=replace(old.status, declared_features=("GuaranteedQoSPodCPUResize",)))
    assert labels(*node_events(old, new)) == ["NodeUpdateNodeDeclaredFeature"]


# -- pods -------------------------------------------------------------------------------------------------------------


def test_a_waiting_pods_update_is_told_by_its_parts() -> None:
    old = pod("web", cpu="2", spec={"schedulingGates": [{"name": "quota"}]})
    new = pod("web", cpu="1", labels={"app": "web"}, tolerations=[{"operator": "Exists"}])
    assert labels(*pod_events(old, new)) == [
        "UnschedulablePodUpdatePodLabel",
        "UnschedulablePodUpdatePodScaleDown",
        "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        "UnschedulablePodUpdatePodToleration",
    ]


def test_one_gate_of_two_removed_is_just_some_update() -> None:
    old = pod("web", spec={"schedulingGates": [{"name": "quota"}, {"name": "budget"}]})
    new = pod("web", spec={"schedulingGates": [{"name": "budget"}]})
    assert pod_events(old, new) == (UNSCHEDULED_POD_UPDATE,)


def test_a_request_that_goes_away_is_a_scale_down_and_one_that_grows_is_not() -> None:
    # cpu 2 -> 2, memory 1Gi -> none: less of something.  cpu 2 -> 3, memory 1Gi -> 2Gi: more of everything.
    old = pod("web", cpu="2", memory="1Gi", on="a")
    assert labels(*pod_events(old, pod("web", cpu="2", on="a"))) == ["AssignedPodUpdatePodScaleDown"]
    assert pod_events(old, pod("web", cpu="3", memory="2Gi", on="a")) == (ASSIGNED_POD_UPDATE,)


# -- from one object to the next --------------------------------------------------------------------------------------


def test_a_pods_life_in_events() -> None:
    waiting, bound = pod("web"), pod("web", on="a")
    ended = pod("web", on="a", status={"phase": "Succeeded"})
    assert changes_of(None, waiting) == (Change(UNSCHEDULED_POD_ADD, None, waiting),)
    assert changes_of(waiting, bound) == (Change(ASSIGNED_POD_ADD, None, bound),)
    assert changes_of(bound, bound) == (Change(ASSIGNED_POD_UPDATE, bound, bound),)
    assert changes_of(bound, ended) == (Change(ASSIGNED_POD_DELETE, bound, None),)
    assert changes_of(ended, ended) == ()
    assert changes_of(ended, None) == ()
    assert changes_of(None, ended) == ()
    assert changes_of(bound, None) == (Change(ASSIGNED_POD_DELETE, bound, None),)
    assert changes_of(waiting, None) == (Change(UNSCHEDULED_POD_DELETE, waiting, None),)


def test_a_pod_made_again_under_its_name_is_a_deletion_and_an_addition() -> None:
    first, second = pod("web", on="a"), pod("web", on="b", metadata={"uid": "another"})
    assert changes_of(first, second) == (
        Change(ASSIGNED_POD_DELETE, first, None),
        Change(ASSIGNED_POD_ADD, None, second),
    )


def test_nodes_come_and_go() -> None:
    assert changes_of(None, node("a")) == (Change(NODE_ADD, None, node("a")),)
    assert changes_of(node("a"), None) == (Change(NODE_DELETE, node("a"), None),)
    assert changes_of(node("a"), node("a")) == ()


@pytest.mark.parametrize(
    ("thing", "resource"),
    [
        (CSINode(metadata=ObjectMeta(name="a")), "storage.k8s.io/CSINode"),
        (CSIDriver(metadata=ObjectMeta(name="pools.example")), "storage.k8s.io/CSIDriver"),
        (CSIStorageCapacity(storage_class_name="fast"), "storage.k8s.io/CSIStorageCapacity"),
        (StorageClass(provisioner="pools.example"), "storage.k8s.io/StorageClass"),
    ],
)
def test_storage_objects_are_added_updated_and_deleted(thing: Object, resource: str) -> None:
    steps = [(None, thing), (thing, thing), (thing, None)]
    told = [change.event.label for old, new in steps for change in changes_of(old, new)]
    assert told == [f"{resource}Add", f"{resource}Update", f"{resource}Delete"]


def test_nobody_waits_for_a_namespace() -> None:
    assert changes_of(None, Namespace(metadata=ObjectMeta(name="prod"))) == ()
