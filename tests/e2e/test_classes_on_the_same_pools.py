"""Two classes on the same pools, with everything running: `tonnage up --classes 2`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from scene import Scene, whole_cluster
from test_up_goes_on import NoKubectl

from support.processes import Up
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import POOL_IDS
from tonnage.stories.story_runner import claim, pod


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


def test_classes_that_share_some_pools_are_packed_pool_by_pool(tmp_path: Path):
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "pools.tonnage.dev",
            "volumeBindingMode": "WaitForFirstConsumer",
            "parameters": {"pools": pools},
        }
        for name, pools in (("left", "0,1"), ("right", "1,2"))
    ]
    file = tmp_path / "classes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": classes}))
    with whole_cluster("--nodes", "1", "--pools", "3x100Gi", "-f", str(file)) as up:
        scene = Scene(up, NoKubectl(up), "default")
        ids = scene.until("ids", lambda: ids_by_class(scene))
        assert ids == {"pools": "node-1/0,node-1/1,node-1/2", "left": "node-1/0,node-1/1", "right": "node-1/1,node-1/2"}
        # Two volumes of 80Gi of each class are four, and there are three pools.
        names = [("a", "left"), ("b", "left"), ("c", "right"), ("d", "right")]
        NoKubectl(up).create(
            *[of_class(each, "80Gi", of) for each, of in names], pod("all", [each for each, _ in names])
        )
        told = scene.until("all to be refused", lambda: refusal(scene, "all"))
        assert told.startswith("0/1 nodes are available: 1 node(s) did not have enough free storage.")
        NoKubectl(up).create(of_class("e", "80Gi", "left"), of_class("f", "80Gi", "right"), pod("two", ["e", "f"]))
        scene.running("two")
        assert refusals(scene) == []


def ids_by_class(scene: Scene) -> dict[str, str]:
    """The ids of the pools of every class; empty while one has none."""
    published = scene.items("/apis/storage.k8s.io/v1/csistoragecapacities")
    found = {each["storageClassName"]: each["metadata"].get("annotations", {}).get(POOL_IDS) for each in published}
    return found if len(found) == 3 and all(found.values()) else {}


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
