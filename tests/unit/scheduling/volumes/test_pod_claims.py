"""A pod's claims, looked up and sorted; and the refusals for those that no node can help."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.objects.core_v1 import BETA_STORAGE_CLASS, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.framework import Code, Status
from tonnage.scheduling.volumes.demand import PodClaims, sorted_claims
from tonnage.testing.builders import pod
from tonnage.testing.storage_builders import claim, pod_with, storage_class, volume

OWNED = {
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "default-web", "controller": True}]
}
EPHEMERAL: dict[str, Any] = {
    "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]
}


def storage_of(*objects: Object) -> Storage:
    storage = Storage()
    for each in (storage_class(), storage_class("now", delayed=False), *objects):
        storage.put(each)
    return storage


def names(claims: tuple[PersistentVolumeClaim, ...]) -> list[str]:
    return [each.name for each in claims]


def look_up(asking: Pod, *objects: Object) -> PodClaims:
    found = sorted_claims(PodInfo(asking), storage_of(*objects))
    assert isinstance(found, PodClaims)
    return found


def refusal(asking: Pod, *objects: Object) -> str:
    found = sorted_claims(PodInfo(asking), storage_of(*objects))
    assert isinstance(found, Status) and found.code is Code.UNRESOLVABLE
    return found.message


def test_claims_are_sorted_by_how_far_they_are_in_the_pods_order():
    found = look_up(
        pod_with("web", "b2", "d2", "b1", "i1", "d1"),
        *(claim("b1", volume="pv-1"), claim("b2", volume="pv-2")),
        *(claim("d1"), claim("d2"), claim("i1", class_name="now")),
    )
    assert (names(found.bound), names(found.delayed), names(found.immediate)) == (["b2", "b1"], ["d2", "d1"], ["i1"])


def test_a_pod_without_claims_has_none():
    assert look_up(pod("web")) == PodClaims()


def test_a_claim_mounted_twice_stands_there_twice():
    assert names(look_up(pod_with("web", "data", "data"), claim("data")).delayed) == ["data", "data"]


def test_bound_means_that_the_binder_has_finished_whatever_the_phase_says():
    assert names(look_up(pod_with("web", "data"), claim("data", volume="pv", phase="Pending")).bound) == ["data"]
    assert names(look_up(pod_with("web", "data"), claim("data", volume="pv", bound=False)).immediate) == ["data"]


@pytest.mark.parametrize("class_name", ["now", "unheard-of", "", None])
def test_what_does_not_wait_for_its_first_consumer_is_immediate(class_name: str | None):
    assert names(look_up(pod_with("web", "data"), claim("data", class_name=class_name)).immediate) == ["data"]


def test_the_class_annotation_of_old_wins():
    old = claim("data", class_name="fast", metadata={"annotations": {BETA_STORAGE_CLASS: "now"}})
    assert old.class_name == "now"
    assert names(look_up(pod_with("web", "data"), old).immediate) == ["data"]
    assert volume("pv", class_name="slow", metadata={"annotations": {BETA_STORAGE_CLASS: "fast"}}).class_name == "fast"
    assert claim("data", class_name=None).class_name == ""


def test_claims_are_those_of_the_pods_namespace():
    other = claim("data", namespace="other")
    assert refusal(pod_with("web", "data"), other) == 'persistentvolumeclaim "data" not found'
    assert names(look_up(pod_with("web", "data", namespace="other"), other).delayed) == ["data"]


def test_a_claim_of_a_generic_ephemeral_volume_is_named_after_pod_and_volume():
    assert names(look_up(pod("web", spec=EPHEMERAL), claim("web-scratch", metadata=OWNED)).delayed) == ["web-scratch"]


def test_a_claim_that_the_ephemeral_controller_has_not_made_yet_is_waited_for():
    told = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"'
    assert refusal(pod("web", spec=EPHEMERAL)) == told


@pytest.mark.parametrize(
    "metadata", [{}, {"ownerReferences": [{**OWNED["ownerReferences"][0], "uid": "an-older-web"}]}]
)
def test_an_ephemeral_claim_must_be_this_very_pods(metadata: dict[str, Any]):
    told = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    made = claim("web-scratch", metadata=metadata)
    assert refusal(pod("web", spec=EPHEMERAL), made) == told
    assert not made.is_for_pod(pod("web"))
    # Mounted by its name it is a claim like any other.
    assert names(look_up(pod_with("web", "web-scratch"), made).delayed) == ["web-scratch"]


def test_the_first_claim_in_the_pods_order_that_cannot_be_helped_is_told_of():
    lost = claim("lost", volume="pv-7", phase="Lost")
    going = claim("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    told = 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "pv-7"'
    assert refusal(pod_with("web", "lost", "going", "missing"), lost, going) == told
    assert refusal(pod_with("web", "going", "lost"), lost, going) == 'persistentvolumeclaim "going" is being deleted'
    # A missing one is told of before an immediate one is: that is not a refusal here, but the plugin's.
    assert refusal(pod_with("web", "later", "gone"), claim("later", class_name="now")) == (
        'persistentvolumeclaim "gone" not found'
    )


def test_decisions_see_claims_as_they_are_assumed():
    storage = storage_of(claim("data", metadata={"resourceVersion": "5"}))
    storage.claims.assume(claim("data", selected_node="a", metadata={"resourceVersion": "5"}))
    found = sorted_claims(PodInfo(pod_with("web", "data")), storage)
    assert isinstance(found, PodClaims) and found.delayed[0].selected_node == "a"
