"""Two classes on the same pools, with everything running: `tonnage up --classes 2`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.objects.document import Doc
from tonnage.stories.objects import claim, pod


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", "1", "--pools", "100Gi", "--classes", "2") as up:
        yield up


def of_class(name: str, size: str, class_name: str) -> Doc:
    made = claim(name, size)
    return {**made, "spec": {**made["spec"], "storageClassName": class_name}}


def test_each_class_has_its_objects_and_says_that_it_shares_its_pools(scene: Scene):
    classes = scene.items("/apis/storage.k8s.io/v1/storageclasses")
    assert [each["metadata"]["name"] for each in classes] == ["pools", "pools-2"]
    assert {each["metadata"]["annotations"]["tonnage.dev/capacity-group"] for each in classes} == {"pools"}
    published = scene.items("/apis/storage.k8s.io/v1/csistoragecapacities")
    assert {each["storageClassName"]: each["availableCapacities"] for each in published} == {
        "pools": ["100Gi"],
        "pools-2": ["100Gi"],
    }


def test_a_pod_with_claims_of_both_that_one_pool_cannot_hold_is_refused_as_a_whole(scene: Scene):
    scene.apply(of_class("one", "80Gi", "pools"), of_class("two", "80Gi", "pools-2"), pod("both", ["one", "two"]))
    told = scene.until("both to be refused", lambda: refusal(scene, "both"))
    assert told.startswith("0/1 nodes are available: 1 node(s) did not have enough free storage.")
    assert scene.volumes() == []
    scene.apply(of_class("less", "20Gi", "pools-2"), pod("fits", ["less"]))
    scene.running("fits")
    assert refusals(scene) == []


def test_what_one_class_takes_the_other_has_no_longer_and_gets_back(scene: Scene):
    docs = [of_class(f"data-{n}", "60Gi", "pools-2" if n else "pools") for n in range(2)]
    scene.apply(*docs, pod("first", ["data-0"]), pod("second", ["data-1"]))
    (running,) = scene.until("one of them to run", lambda: one_running(scene))
    waiting = "second" if running == "first" else "first"
    scene.until("the other to be refused", lambda: refusal(scene, waiting))
    assert refusals(scene) == []
    scene.kubectl("delete", "pod", running)
    scene.kubectl("delete", "pvc", "data-0" if running == "first" else "data-1")
    scene.running(waiting)
    assert refusals(scene) == []


def refusal(scene: Scene, name: str) -> str:
    """Why a pod is not scheduled; empty while nobody has said so."""
    found = next(each for each in scene.pods() if each["metadata"]["name"] == name)
    conditions = {each["type"]: each for each in found["status"].get("conditions", ())}
    told = conditions.get("PodScheduled", {})
    return str(told.get("message", "")) if told.get("status") == "False" else ""


def one_running(scene: Scene) -> list[str]:
    return [each["metadata"]["name"] for each in scene.pods() if each["status"]["phase"] == "Running"]


def refusals(scene: Scene) -> list[str]:
    """What the driver had to refuse."""
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    return [each["message"] for each in told if each["reason"] == "ProvisioningFailed"]
