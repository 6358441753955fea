"""Attach limits that do not cure a refusal: a node whose slots are all taken, by a driver that still reports one.

CSI reads a limit of 0 as "no limit", so that such a driver says 1 (KEP-4876). Pods come, are refused and fail; they
must not do so every second, nor take storage with them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.faults import Fault
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, deployment, pod, pod_spec

pytestmark = pytest.mark.kubectl

WATCHED_S = 8.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", "2", "--max-volumes", "4", "--attach-error-grace-seconds", "1") as running:
        yield running


def claims(scene: Scene) -> list[Doc]:
    return scene.items(f"/api/v1/namespaces/{scene.namespace}/persistentvolumeclaims")


def rejections(scene: Scene) -> set[str]:
    """The pods that were rejected, by their events: the pods themselves go."""
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    return {
        each["involvedObject"]["name"]
        for each in told
        if each["reason"] == "VolumeAttachmentLimitExceeded" and each["involvedObject"]["kind"] == "Pod"
    }


def test_a_limit_that_cures_nothing_fails_pods_at_growing_intervals_and_uses_up_no_storage(scene: Scene):
    scene.fault(Fault("slots-taken", "node-1", 4))
    scene.apply(deployment("web", pod_spec(ephemeral=["5Gi"], node="node-1")))
    scene.until("a pod to be rejected", lambda: rejections(scene))
    most, end = 0, time.monotonic() + WATCHED_S
    while time.monotonic() < end:
        most = max(most, len(claims(scene)), len(scene.volumes()))
        time.sleep(0.2)
    # At 0, 1, 3 and 7 s: four, and not eight.
    assert 2 <= len(rejections(scene)) <= 5
    # One of the pod that waits, one of the last that was rejected, and those of pods that are on their way out.
    assert most <= 4
    scene.fault()

    def runs() -> Doc | None:
        return next((each for each in scene.pods("app=web") if each["status"].get("phase") == "Running"), None)

    found = scene.until("the pod to run once a slot is free", runs)
    assert found["spec"]["nodeName"] == "node-1"


def test_a_limit_that_is_written_by_hand_stays_and_a_limit_that_is_removed_lets_pods_go(scene: Scene):
    csi_driver = "/apis/storage.k8s.io/v1/csidrivers/pools.tonnage.dev"
    csi_node = "/apis/storage.k8s.io/v1/csinodes/node-1"
    period = scene.up.get(csi_driver).body["spec"]["nodeAllocatableUpdatePeriodSeconds"]
    scene.up.patch(csi_driver, {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}})
    drivers = scene.up.get(csi_node).body["spec"]["drivers"]
    scene.up.patch(csi_node, {"spec": {"drivers": [{**drivers[0], "allocatable": {"count": 0}}]}})
    scene.apply(claim("data", "1Gi"), pod("db", ["data"], node="node-1"))
    scene.waits("db", "1 node(s) exceed max volume count")
    time.sleep(11.0)  # a node looks at its objects every ten seconds
    assert scene.up.get(csi_node).body["spec"]["drivers"][0]["allocatable"] == {"count": 0}
    unlimited = {key: value for key, value in drivers[0].items() if key != "allocatable"}
    scene.up.patch(csi_node, {"spec": {"drivers": [unlimited]}})
    scene.running("db", 10.0)
    scene.up.patch(csi_driver, {"spec": {"nodeAllocatableUpdatePeriodSeconds": period}})
