"""What admission adds to a pod: tolerations, priority, its node's topology."""

from __future__ import annotations

import pytest

from tonnage.documents.admission import (
    carry_topology,
    inherit_topology,
    refuse_second_default,
    resolve_priority,
)
from tonnage.documents.kinds.pods.pod_defaults import tolerate_node_trouble
from tonnage.errors import Forbidden
from tonnage.objects.document import Doc


def pod(**spec: object) -> Doc:
    return {"metadata": {"name": "p"}, "spec": spec}


def priority_class(name: str, value: int, *, default: bool = False, policy: str = "PreemptLowerPriority") -> Doc:
    made: Doc = {"metadata": {"name": name}, "value": value}
    if policy:
        made["preemptionPolicy"] = policy
    return {**made, "globalDefault": True} if default else made


def test_without_any_class_the_priority_is_zero() -> None:
    made = pod()
    resolve_priority(made, [priority_class("high", 1000)])
    assert made["spec"] == {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


def test_a_named_class_gives_its_number_and_policy() -> None:
    made = pod(priorityClassName="high")
    resolve_priority(made, [priority_class("high", 1000, policy="Never")])
    assert made["spec"] == {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}


def test_the_global_default_stands_in_and_of_several_the_lowest() -> None:
    made = pod()
    classes = [priority_class("a", 7, default=True), priority_class("b", 5, default=True), priority_class("c", 1)]
    resolve_priority(made, classes)
    assert made["spec"] == {"priorityClassName": "b", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"}


def test_the_number_may_be_repeated_if_it_is_right() -> None:
    made = pod(priorityClassName="high", priority=1000, preemptionPolicy="Never")
    resolve_priority(made, [priority_class("high", 1000, policy="Never")])
    assert made["spec"]["priority"] == 1000


def test_a_class_without_a_policy_leaves_the_pods_own() -> None:
    made = pod(priorityClassName="old", preemptionPolicy="Never")
    resolve_priority(made, [priority_class("old", 3, policy="")])
    assert made["spec"] == {"priorityClassName": "old", "priority": 3, "preemptionPolicy": "Never"}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_a_priority_that_cannot_be_is_forbidden(spec: Doc, told: str) -> None:
    with pytest.raises(Forbidden) as refused:
        resolve_priority(pod(**spec), [])
    assert refused.value.message == f'pods "p" is forbidden: {told}'
    assert (refused.value.kind, refused.value.name) == ("pods", "p")


def test_a_pod_without_a_name_yet_is_told_by_its_prefix() -> None:
    made = {"metadata": {"generateName": "p-"}, "spec": {"priorityClassName": "nope"}}
    with pytest.raises(Forbidden, match='pods "p-" is forbidden'):
        resolve_priority(made, [])


def test_only_one_class_is_the_global_default() -> None:
    first, second = priority_class("a", 1, default=True), priority_class("b", 2, default=True)
    with pytest.raises(Forbidden) as refused:
        refuse_second_default(second, [first], is_update=False)
    assert refused.value.message == (
        'priorityclasses.scheduling.k8s.io "b" is forbidden: '
        "PriorityClass a is already marked as default. Only one default can exist"
    )
    refuse_second_default(first, [first], is_update=True)
    refuse_second_default(priority_class("c", 3), [first], is_update=False)


def test_a_pod_stays_five_minutes_on_a_node_in_trouble() -> None:
    made = pod()
    tolerate_node_trouble(made)
    tolerate_node_trouble(made)  # a second time adds nothing
    assert [(item["key"], item["tolerationSeconds"]) for item in made["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]


def test_a_pod_that_tolerates_everything_is_left_alone() -> None:
    made = pod(tolerations=[{"operator": "Exists"}])
    tolerate_node_trouble(made)
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_a_toleration_of_another_effect_does_not_count() -> None:
    made = pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}])
    tolerate_node_trouble(made)
    assert len(made["spec"]["tolerations"]) == 3


NODE = {
    "metadata": {
        "name": "n",
        "labels": {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "other": "x"},
    }
}


def test_a_pod_created_on_a_node_takes_its_zone_and_region() -> None:
    made: Doc = {"metadata": {"labels": {"topology.kubernetes.io/zone": "wrong"}}, "spec": {"nodeName": "n"}}
    inherit_topology(made, NODE)
    assert made["metadata"]["labels"] == {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}


def test_a_pod_without_a_node_or_with_an_unknown_one_takes_nothing() -> None:
    loose, lost = pod(), pod(nodeName="gone")
    inherit_topology(loose, NODE)
    inherit_topology(lost, None)
    assert "labels" not in loose["metadata"]
    assert "labels" not in lost["metadata"]


def test_a_binding_carries_the_topology_of_a_target_that_is_a_node() -> None:
    named: Doc = {"metadata": {"labels": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}}
    unnamed: Doc = {"metadata": {}, "target": {"name": "n"}}
    carry_topology(named, NODE)
    carry_topology(unnamed, NODE)
    assert named["metadata"]["labels"] == {
        "a": "b",
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "r",
    }
    assert unnamed["metadata"] == {}
