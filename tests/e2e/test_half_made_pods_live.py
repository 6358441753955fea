"""Claims are sent in the order that works to a driver that takes the pool with most room, on a whole cluster; and a pod
that is stuck half-made says which claim to delete."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.stories.story_runner import claim, pod


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", "2", "--pools", "100Gi,60Gi", "--pool-policy", "most-free") as up:
        yield up


def test_the_larger_claim_goes_first_and_every_pod_runs(scene: Scene):
    # 40 first would go into the 100, and the 80 would find no room. Two such pods fill both nodes.
    for name in ("one", "two"):
        scene.apply(claim(f"{name}-small", "40Gi"), claim(f"{name}-large", "80Gi"))
        scene.apply(pod(name, [f"{name}-small", f"{name}-large"]))
    for name in ("one", "two"):
        scene.running(name)
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    assert [each["message"] for each in told if each["reason"] == "ProvisioningFailed"] == []


def test_a_pod_that_is_stuck_half_made_names_the_claim_that_can_go(scene: Scene):
    """Somebody says that nobody knows how the driver picks: then no order of these claims is safe."""
    scene.kubectl("annotate", "csidriver", "pools.tonnage.dev", "tonnage.dev/pool-policy=unknown", "--overwrite")
    # 60 | 50 + 45 is the only packing. The 60 goes first, into the 100: 40 and 60 do not hold 50 and 45.
    names = {"a": "60Gi", "b": "50Gi", "c": "45Gi"}
    scene.apply(*(claim(name, size) for name, size in names.items()))
    scene.apply(pod("web", list(names)))
    message = scene.until("the pod to say that it is stuck", lambda: stuck(scene, "web"), timeout_s=60.0)
    assert message.startswith("0/2 nodes are available: ")
    assert f"kubectl delete pvc -n {scene.namespace} a)" in message
    assert [name for name in names if scene.claim(name)["status"]["phase"] == "Bound"] == ["a"]  # type: ignore[index]
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    assert [each["message"] for each in told if each["reason"] == "ProvisioningFailed"] == [], "the rest is not sent"


def stuck(scene: Scene, name: str) -> str:
    for each in scene.pods():
        if each["metadata"]["name"] == name:
            for condition in each["status"].get("conditions", ()):
                if "that no pod uses" in condition.get("message", ""):
                    return str(condition["message"])
    return ""
