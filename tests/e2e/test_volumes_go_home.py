"""Drains that are called off, and volumes whose claims do not say where they are (KEP-5925).

A volume of 40Gi fits node-1 and node-4, one of 80Gi node-1 alone; node-2 and node-3 have 30Gi each. Throughout, no pod
is sent where its volume has no room, and none is failed for the node affinity of its volume.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest
import yaml
from click.testing import CliRunner
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.cli.questions import drain_preview
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, deployment, pod_spec, stateful_set

pytestmark = pytest.mark.kubectl

POOLS = ("node-1=100Gi", "node-2=30Gi", "node-3=30Gi", "node-4=60Gi")
NO_ROOM = "node(s) did not have enough free storage"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
SOON: Doc = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "soon"},
    "provisioner": "pools.tonnage.dev",
    "volumeBindingMode": "Immediate",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    manifest = tmp_path_factory.mktemp("class") / "soon.yaml"
    manifest.write_text(yaml.safe_dump(SOON))
    pools = (text for pools in POOLS for text in ("--pools", pools))
    with whole_cluster("--nodes", "4", *pools, "-f", str(manifest)) as running:
        classes = "/apis/storage.k8s.io/v1/storageclasses"
        for each in running.get(classes).body["items"]:  # all of them draw from the same pools
            said = {"metadata": {"annotations": {"tonnage.dev/capacity-group": "disks"}}}
            running.patch(f"{classes}/{each['metadata']['name']}", said)
        yield running


def placements(scene: Scene) -> set[tuple[str, str]]:
    """Where pods were sent and how they ended, by the events of this namespace."""
    told = scene.items(f"/api/v1/namespaces/{scene.namespace}/events")
    sent = {("sent to", each["message"].split(" to ")[-1]) for each in told if each["reason"] == "Scheduled"}
    return sent | {("failed", each["message"]) for each in told if each["reason"] == "VolumeNodeAffinity"}


@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_after_a_drain_that_is_called_off_the_pod_goes_home_at_once(scene: Scene, times: int):
    scene.apply(stateful_set("db", "80Gi"))
    assert scene.running("db-0")["spec"]["nodeName"] == "node-1"
    for _ in range(times):
        scene.kubectl("drain", "node-1", "--timeout", "30s")
        scene.waits("db-0", NO_ROOM)
        waiting = scene.pod("db-0") or {}
        scene.kubectl("uncordon", "node-1")
        # It is the same pod: nobody sent it elsewhere, failed it there and made another.
        assert scene.running("db-0")["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert placements(scene) == {("sent to", "node-1")}


def of_an_immediate_class(scene: Scene, size: str) -> str:
    made = claim("data", size)
    made["spec"]["storageClassName"] = "soon"
    scene.apply(made)
    return str(scene.volume_of("data")["metadata"]["name"])


def bound_anew(scene: Scene, size: str) -> str:
    """The volume of a claim that is gone, given to a new one by name, as after a restore."""
    volume = of_an_immediate_class(scene, size)
    path = f"/api/v1/persistentvolumes/{volume}"
    scene.up.patch(path, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    scene.kubectl("delete", "pvc", "data")
    scene.until("the volume to be released", lambda: scene.up.get(path).body["status"]["phase"] == "Released")
    scene.up.patch(path, {"spec": {"claimRef": None}})
    made = claim("data", size)
    made["spec"] |= {"storageClassName": "soon", "volumeName": volume}
    scene.apply(made)
    scene.volume_of("data")
    scene.up.patch(path, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
    return volume


def with_a_stale_annotation(scene: Scene, size: str) -> str:
    volume = of_an_immediate_class(scene, size)
    apply_an_old_manifest(scene)
    return volume


def apply_an_old_manifest(scene: Scene) -> None:
    """The claim says again what was true once."""
    scene.kubectl("annotate", "--overwrite", "pvc", "data", f"{SELECTED_NODE}=node-2")


def restart_the_scheduler(scene: Scene) -> None:
    """Kill it, and wait until the next one has tried the pod that waits."""
    before = scene.up.log("scheduler").count("Unable to schedule pod")
    os.kill(scene.up.pid("scheduler"), signal.SIGKILL)
    scene.until(
        "the next scheduler to try the pod",
        lambda: scene.up.log("scheduler").count("Unable to schedule pod") > before or None,
    )


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(of_an_immediate_class, marks=pytest.mark.slow),
        bound_anew,
        pytest.param(with_a_stale_annotation, marks=pytest.mark.slow),
    ],
)
def test_a_volume_whose_claim_does_not_say_where_it_is_goes_only_where_it_has_room(
    scene: Scene, made: Callable[[Scene, str], str]
):
    made(scene, "40Gi")
    scene.apply(deployment("web", pod_spec(["data"])))

    def runs_on(*nodes: str) -> str:
        pods = [each for each in scene.pods("app=web") if "deletionTimestamp" not in each["metadata"]]
        runs = [each["spec"]["nodeName"] for each in pods if each["status"].get("phase") == "Running"]
        return runs[0] if runs and runs[0] in nodes else ""

    home = scene.until("web to run", lambda: runs_on("node-1", "node-4"))
    other = ({"node-1", "node-4"} - {home}).pop()
    scene.kubectl("drain", home, "--timeout", "30s")
    scene.until(f"web to run on {other}", lambda: runs_on(other))
    # There is nowhere to go from here: a drain that is called off ends where it began, whoever schedules, and whatever
    # the claim says.
    apply_an_old_manifest(scene)
    scene.kubectl("drain", other, "--timeout", "30s")
    scene.until("web to wait", lambda: any("nodeName" not in each["spec"] for each in scene.pods("app=web")))
    restart_the_scheduler(scene)
    scene.kubectl("uncordon", other)
    scene.until(f"web to run on {other} again", lambda: runs_on(other))
    assert placements(scene) == {("sent to", home), ("sent to", other)}


def test_a_rolling_drain_ends_as_previewed(scene: Scene):
    """Of 80Gi, 40Gi and 25Gi only the last can ever move, from node-2 to node-3 and back; the others wait at home."""
    for name, size, home in (("large", "80Gi", "node-1"), ("middle", "40Gi", "node-4"), ("small", "25Gi", "")):
        scene.apply(stateful_set(name, size))
        assert scene.running(f"{name}-0")["spec"]["nodeName"] in ([home] if home else ["node-2", "node-3"])
    nodes = ["node-1", "node-2", "node-3", "node-4"]
    command = ["--kubeconfig", str(scene.up.kubeconfig), *nodes, "--one-by-one", "-o", "json"]
    answer = json.loads(CliRunner().invoke(drain_preview, command, catch_exceptions=False).stdout)
    moves = {(each["during"], each["pod"]): each["to"] for each in answer["moves"]}
    waits = {(each["during"], each["pod"]): each["comesBack"] for each in answer["stuck"]}
    assert set(waits.values()) == {True} and len(waits) == 2 and moves, answer
    for node in answer["drained"]:
        before = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in scene.pods()}
        here = [name for name, where in before.items() if where == node]
        scene.kubectl("drain", node, "--timeout", "30s")
        for name in here:
            if target := moves.get((node, f"{scene.namespace}/{name}")):
                assert scene.running(name, not_on=node)["spec"]["nodeName"] == target
            else:
                assert (node, f"{scene.namespace}/{name}") in waits
                scene.waits(name, NO_ROOM)
        scene.kubectl("uncordon", node)
        for name, where in before.items():
            assert scene.running(name)["spec"]["nodeName"] == moves.get((node, f"{scene.namespace}/{name}"), where)
    assert not [each for each in placements(scene) if each[0] == "failed"]
