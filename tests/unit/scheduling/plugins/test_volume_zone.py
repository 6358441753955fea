"""Volumes that are labelled with zones or a region, and the nodes they may be used on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hint_asking import wakes

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.scheduling_cycle import Decider, Pipeline
from tonnage.scheduling.engine.profiles import add_indexes
from tonnage.scheduling.events import ActionType, EventResource
from tonnage.scheduling.framework import SKIP as NOTHING_TO_SAY
from tonnage.scheduling.framework import Cycle
from tonnage.scheduling.plugins.volume_constraints import VolumeZone
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import claim, pod_with, storage_class, volume

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
REASON = "node(s) had no available volume zone"


def world(*objects: Object) -> Cluster:
    cluster = add_indexes(Cluster())
    for each in objects:
        if isinstance(each, Node):
            cluster.put_node(each)
        else:
            cluster.storage.put(each)
    return cluster


def diagnosis(cluster: Cluster, incoming: Pod) -> Diagnosis:
    plugin = VolumeZone()
    decider = Decider(Pipeline(pre_filter=(plugin,), filter=(plugin,)), random.Random(1))
    found = decider.decide(cluster, PodInfo(incoming), diagnose=True).diagnosis
    assert found is not None
    return found


def passes(of_volume: Mapping[str, str], of_node: Mapping[str, str]) -> bool:
    """Whether a node with these labels takes a pod with a volume of those."""
    cluster = world(node("a", labels=of_node), claim("data", volume="v"), volume("v", labels=of_volume))
    found = diagnosis(cluster, pod_with("web", "data"))
    reasons = found.reasons_of(0)
    assert reasons in ((), (REASON,)) and found.resolvable_rows().tolist() == []
    return not reasons


# -- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [BETA_ZONE, BETA_REGION, ZONE, REGION])
def test_a_node_must_have_the_volumes_zone_or_region(key: str):
    assert passes({key: "us-1"}, {key: "us-1"})
    assert not passes({key: "us-1"}, {key: "us-2"})
    assert not passes({key: "us-1"}, {key: ""})


@pytest.mark.parametrize("key", [BETA_ZONE, BETA_REGION, ZONE, REGION])
def test_a_node_that_does_not_speak_of_zones_passes(key: str):
    assert passes({key: "us-1"}, {})
    assert passes({key: "us-1"}, {"disk": "ssd"})


def test_a_node_that_speaks_of_something_else_than_the_volume_is_refused():
    assert not passes({ZONE: "us-1", REGION: "us"}, {ZONE: "us-1"})
    assert not passes({ZONE: "us-1"}, {REGION: "us"})


def test_a_volumes_beta_label_may_match_the_nodes_new_one():
    assert passes({BETA_ZONE: "us-1"}, {ZONE: "us-1"})
    assert passes({BETA_REGION: "us"}, {REGION: "us"})
    assert not passes({BETA_ZONE: "us-1"}, {ZONE: "us-2"})


def test_a_volumes_new_label_does_not_match_the_nodes_beta_one():
    assert not passes({ZONE: "us-1"}, {BETA_ZONE: "us-1"})
    assert not passes({REGION: "us"}, {BETA_REGION: "us"})


def test_a_nodes_beta_label_wins_over_its_new_one_for_a_volumes_beta_label():
    assert not passes({BETA_ZONE: "us-1"}, {BETA_ZONE: "us-2", ZONE: "us-1"})
    assert passes({BETA_ZONE: "us-1"}, {BETA_ZONE: "us-1", ZONE: "us-2"})


def test_a_label_may_list_zones():
    assert passes({ZONE: "us-1__us-2"}, {ZONE: "us-2"})
    assert passes({BETA_ZONE: "us-1__us-2"}, {BETA_ZONE: "us-1"})
    assert not passes({ZONE: "us-1__us-2"}, {ZONE: "us-3"})
    assert not passes({ZONE: "us-1__us-2"}, {ZONE: "us-1__us-2"})


@pytest.mark.parametrize("text", ["", "us-1__", "__us-1", "us-1____us-2"])
def test_a_malformed_list_of_zones_is_ignored(text: str):
    assert passes({ZONE: text}, {ZONE: "us-9"})
    assert not passes({ZONE: text, REGION: "us"}, {REGION: "eu"})


def test_all_volumes_of_a_pod_must_be_reachable():
    cluster = world(
        *[node(name, labels={ZONE: name}) for name in ("z1", "z2", "z3")],
        *[claim("one", volume="v1"), volume("v1", labels={ZONE: "z1__z2"})],
        *[claim("two", volume="v2"), volume("v2", labels={ZONE: "z2__z3"})],
    )
    found = diagnosis(cluster, pod_with("web", "one", "two"))
    assert [found.reasons_of(cluster.row_of[name]) for name in ("z1", "z2", "z3")] == [(REASON,), (), (REASON,)]
    assert diagnosis(cluster, pod_with("web", "one")).counts() == {REASON: 1}


def test_the_message_counts_nodes():
    cluster = world(node("a", labels={ZONE: "z2"}), claim("data", volume="v"), volume("v", labels={ZONE: "z1"}))
    assert diagnosis(cluster, pod_with("web", "data")).message() == f"0/1 nodes are available: 1 {REASON}."


# -- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (claim("other"), 'persistentvolumeclaim "data" not found'),
        (claim("data", namespace="other"), 'persistentvolumeclaim "data" not found'),
        (claim("data", volume="gone"), 'persistentvolume "gone" not found'),
        (claim("data", class_name=""), "PersistentVolumeClaim had no pv name and storageClass name"),
        (claim("data", class_name=None), "PersistentVolumeClaim had no pv name and storageClass name"),
        (claim("data", class_name="unknown"), 'storageclass.storage.k8s.io "unknown" not found'),
        (claim("data", class_name="at-once"), "PersistentVolume had no name"),
    ],
)
def test_a_pod_whose_volume_cannot_be_found_is_refused_as_a_whole(wanted: Object, reason: str):
    cluster = world(node("a"), storage_class("at-once", delayed=False), wanted)
    found = diagnosis(cluster, pod_with("web", "data"))
    assert found.message() == f"0/1 nodes are available: {reason}."
    assert found.resolvable_rows().tolist() == []


def test_the_annotation_of_old_names_the_class():
    old = claim("data", class_name=None, metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}})
    assert pre_filter(pod_with("web", "data"), storage_class("fast"), old) is NOTHING_TO_SAY


def pre_filter(incoming: Pod, *objects: Object) -> object:
    return VolumeZone().pre_filter(Cycle(PodInfo(incoming), world(node("a"), *objects)))


def test_there_is_nothing_to_say_without_a_labelled_volume():
    assert pre_filter(pod("web")) is NOTHING_TO_SAY
    assert pre_filter(pod("web", spec={"volumes": [{"name": "v", "emptyDir": {}}]})) is NOTHING_TO_SAY
    assert pre_filter(pod_with("web", "data"), claim("data", volume="v"), volume("v")) is NOTHING_TO_SAY
    labelled = volume("v", labels={ZONE: "z1"})
    assert pre_filter(pod_with("web", "data"), claim("data", volume="v"), labelled) is None


def test_a_claim_that_waits_for_this_decision_is_left_out():
    assert pre_filter(pod_with("web", "data"), storage_class("fast"), claim("data")) is NOTHING_TO_SAY


def test_a_volume_that_the_binder_has_not_finished_with_is_looked_at_all_the_same():
    waits = claim("data", volume="v", bound=False)
    assert pre_filter(pod_with("web", "data"), waits, volume("v", labels={ZONE: "z1"})) is None


def test_ephemeral_claims_are_none_of_its_business():
    web = pod("web", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    assert pre_filter(web) is NOTHING_TO_SAY
    labelled = volume("v", labels={ZONE: "z1"})
    assert pre_filter(web, claim("web-scratch", volume="v"), labelled) is NOTHING_TO_SAY


# -- waking up --------------------------------------------------------------------------------------------------------

WAITING = pod_with("waiting", "data")


def woken(old: Any, new: Any, waiting: Pod = WAITING) -> bool:
    return wakes(VolumeZone(), waiting, old, new)


def test_it_registers_for_the_events_upstream_registers_for():
    action, resource = ActionType, EventResource
    assert {(event.resource, event.action) for event, _ in VolumeZone().events()} == {
        (resource.STORAGE_CLASS, action.ADD),
        (resource.NODE, action.ADD | action.UPDATE_NODE_LABEL),
        (resource.PERSISTENT_VOLUME_CLAIM, action.ADD | action.UPDATE),
        (resource.PERSISTENT_VOLUME, action.ADD | action.UPDATE),
    }


def test_a_new_class_wakes_the_pod_when_it_waits_for_consumers():
    assert woken(None, storage_class("fast", delayed=True))
    assert not woken(None, storage_class("fast", delayed=False))


def test_a_node_that_is_new_or_has_other_labels_wakes_the_pod():
    assert woken(None, node("a"))
    assert woken(node("a"), node("a", labels={ZONE: "z1"}))
    assert not woken(node("a"), node("a", unschedulable=True))


def test_a_claim_of_the_pod_that_comes_or_changes_wakes_it():
    assert woken(None, claim("data"))
    assert woken(claim("data"), claim("data", volume="v"))
    assert not woken(None, claim("data", namespace="other"))
    assert not woken(None, claim("other"))
    ephemeral = pod("waiting", spec={"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]})
    assert not woken(None, claim("waiting-data"), ephemeral)


def test_a_volume_that_comes_or_moves_wakes_the_pod():
    assert woken(None, volume("v"))
    assert woken(volume("v"), volume("v", labels={ZONE: "z1"}))
    assert woken(volume("v", labels={ZONE: "z1"}), volume("v", labels={ZONE: "z2"}))
    assert not woken(volume("v", labels={ZONE: "z1"}), volume("v", labels={ZONE: "z1", "other": "label"}))
    assert not woken(volume("v", labels={ZONE: "z1__z2"}), volume("v", labels={ZONE: "z2__z1"}))
