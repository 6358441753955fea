"""A cluster of a hundred nodes on one machine, with a volume for each of two hundred pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.stories.story_runner import deployment, pod_spec

pytestmark = [pytest.mark.kubectl, pytest.mark.slow]

NODES, PODS = 100, 200
ALL_RUN_WITHIN_S = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster("--nodes", str(NODES), "--pools", "2x50Gi") as running:
        yield running


def test_two_hundred_pods_run_with_a_volume_each_and_leave_nothing(scene: Scene):
    wanted = deployment("web", pod_spec(ephemeral=["10Gi"]))
    wanted["spec"]["replicas"] = PODS
    scene.apply(wanted)
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/web"

    def are_ready() -> bool:
        return bool(scene.up.get(path).body["status"].get("readyReplicas", 0) == PODS)

    scene.until(f"{PODS} pods to run", are_ready, ALL_RUN_WITHIN_S)
    used = Counter(each["spec"]["nodeName"] for each in scene.pods())
    assert sum(used.values()) == PODS and len(used) == NODES
    # Every volume is 10Gi, and a node has 100Gi.
    assert max(used.values()) <= 10
    assert len(scene.volumes()) == PODS
    scene.kubectl("delete", "deploy", "web")
    scene.until("the volumes to be gone", lambda: not scene.volumes(), ALL_RUN_WITHIN_S)
    assert list((scene.up.folder / "driver").glob("node-*/pool-*/*")) == []
