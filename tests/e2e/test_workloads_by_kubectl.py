"""What people do with workloads and their volumes every day, by kubectl, on a whole cluster.

Pools: node-1 has one of 100Gi, node-2 three of 100Gi, node-3 two of 60Gi.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.faults import Fault
from tonnage.objects.document import Doc
from tonnage.scheduling.volumes.explain.refusal_notes import half_made_in
from tonnage.stories.story_runner import claim, deployment, pod, pod_spec, stateful_set

pytestmark = pytest.mark.kubectl

POOLS = ("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Up]:
    with whole_cluster(*(text for pools in POOLS for text in ("--pools", pools))) as running:
        yield running


def growing(name: str, size: str) -> tuple[str, ...]:
    return ("patch", "pvc", name, "-p", json.dumps({"spec": {"resources": {"requests": {"storage": size}}}}))


def conditions(doc: Doc | None) -> list[str]:
    return [each["type"] for each in (doc or {}).get("status", {}).get("conditions", [])]


def capacity(doc: Doc | None) -> str:
    return str((doc or {}).get("status", {}).get("capacity", {}).get("storage", ""))


def test_a_claim_grows_in_place_and_its_pool_has_that_much_less(scene: Scene):
    scene.apply(claim("data", "20Gi"), pod("db", ["data"], node="node-1"))
    scene.running("db")
    scene.has_room("node-1", "80Gi")
    scene.kubectl(*growing("data", "60Gi"))
    scene.until("the claim to have 60Gi", lambda: capacity(scene.claim("data")) == "60Gi")
    scene.has_room("node-1", "40Gi")
    scene.until("the claim to be at rest", lambda: not conditions(scene.claim("data")))
    assert scene.volume_of("data")["spec"]["capacity"]["storage"] == "60Gi"
    # A folder has no file system to grow on the node: the driver says so, and it is done.
    assert scene.event("VolumeResizeSuccessful", "data")["message"] == "Resize volume succeeded"


def test_a_claim_that_cannot_grow_says_why_and_may_ask_for_less(scene: Scene):
    scene.apply(claim("data", "20Gi"), pod("db", ["data"], node="node-1"))
    scene.running("db")
    scene.kubectl(*growing("data", "120Gi"))
    volume = scene.volume_of("data")
    refusal = (
        f"rpc error: code = OutOfRange desc = volume {volume['spec']['csi']['volumeHandle']} cannot grow to 120Gi: "
        "its pool has 100Gi in all"
    )
    told = scene.event("VolumeResizeFailed", "data")
    name = volume["metadata"]["name"]
    assert (told["type"], told["message"]) == (
        "Warning",
        f'resize volume "{name}" by resizer "pools.tonnage.dev" failed: {refusal}',
    )
    shown = scene.until("the claim to say so", lambda: "ControllerResizeError" in conditions(scene.claim("data")))
    assert shown and f"failed to expand pvc with {refusal}" in scene.kubectl("describe", "pvc", "data")
    assert capacity(scene.claim("data")) == "20Gi"
    scene.kubectl(*growing("data", "90Gi"))
    scene.until("the claim to have 90Gi", lambda: capacity(scene.claim("data")) == "90Gi")
    scene.has_room("node-1", "10Gi")


def test_a_clone_has_the_contents_of_its_source(scene: Scene):
    scene.apply(claim("data", "20Gi"), pod("db", ["data"], node="node-2"))
    scene.running("db")
    scene.mount("db", scene.volume_of("data")["metadata"]["name"]).joinpath("note").write_text("once only")
    copy = claim("copy", "20Gi")
    copy["spec"]["dataSource"] = {"kind": "PersistentVolumeClaim", "name": "data"}
    scene.apply(copy, pod("reader", ["copy"]))
    found = scene.running("reader")
    note = scene.mount("reader", scene.volume_of("copy")["metadata"]["name"]) / "note"
    assert (found["spec"]["nodeName"], note.read_text()) == ("node-2", "once only")


def test_a_raw_block_claim_is_a_device_of_its_size(scene: Scene):
    block = claim("raw", "1Gi")
    block["spec"]["volumeMode"] = "Block"
    user = pod("db", ["raw"])
    container: Any = user["spec"]["containers"][0]
    del container["volumeMounts"]
    container["volumeDevices"] = [{"name": "raw", "devicePath": "/dev/xvda"}]
    scene.apply(block, user)
    uid = scene.running("db")["metadata"]["uid"]
    volume = scene.volume_of("raw")
    assert volume["spec"]["volumeMode"] == "Block"
    device = next((scene.up.folder / "nodes").glob(f"*/pods/{uid}/volumeDevices/kubernetes.io~csi/*"))
    assert device.name == volume["metadata"]["name"] and device.resolve().stat().st_size == 1 << 30


def test_an_ephemeral_volume_goes_with_its_pod(scene: Scene):
    scratch = pod("job")
    scratch["spec"] = pod_spec(ephemeral=["10Gi"], node="node-3")
    scene.apply(scratch)
    owner = scene.running("job")["metadata"]["uid"]
    made = scene.claim("job-scratch-0")
    assert made is not None and made["metadata"]["ownerReferences"][0]["uid"] == owner
    scene.has_room("node-3", "50Gi", "60Gi")
    scene.kubectl("delete", "pod", "job")
    scene.until("its claim to be gone", lambda: scene.claim("job-scratch-0") is None)
    scene.until("its volume to be gone", lambda: not scene.volumes())
    scene.has_room("node-3", "60Gi", "60Gi")


def test_a_stateful_set_grows_and_shrinks_and_keeps_the_claims_it_was_told_to_keep(scene: Scene):
    wanted = stateful_set("db", "10Gi")
    wanted["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    scene.apply(wanted)
    scene.kubectl("scale", "sts", "db", "--replicas", "3")
    scene.kubectl("rollout", "status", "sts", "db", "--timeout", "30s")
    first = scene.volume_of("data-db-0")["metadata"]["name"]
    scene.kubectl("scale", "sts", "db", "--replicas", "1")
    scene.until(
        "the claims of what is gone to go", lambda: scene.claim("data-db-1") is scene.claim("data-db-2") is None
    )
    scene.until("their volumes to go", lambda: len(scene.volumes()) == 1)
    scene.kubectl("delete", "sts", "db")
    scene.until("the pods to go", lambda: not scene.pods())
    assert [each["metadata"]["name"] for each in scene.volumes()] == [first]
    scene.apply(wanted)
    scene.running("db-0")
    assert scene.volume_of("data-db-0")["metadata"]["name"] == first


def test_a_deployment_rolls_out_with_volumes_of_each_pod_and_rolls_back(scene: Scene):
    scene.apply(deployment("web", pod_spec(ephemeral=["1Gi"])))
    scene.kubectl("scale", "deploy", "web", "--replicas", "3")
    scene.kubectl("rollout", "status", "deploy", "web", "--timeout", "30s")
    before = {each["metadata"]["name"] for each in scene.pods("app=web")}
    scene.kubectl("set", "image", "deploy/web", "main=pause:3.11")
    assert "successfully rolled out" in scene.kubectl("rollout", "status", "deploy", "web", "--timeout", "30s")
    after = {each["metadata"]["name"] for each in scene.pods("app=web") if "deletionTimestamp" not in each["metadata"]}
    assert len(before) == len(after) == 3 and not before & after
    scene.kubectl("rollout", "undo", "deploy/web")
    assert "successfully rolled out" in scene.kubectl("rollout", "status", "deploy", "web", "--timeout", "30s")
    scene.until("the old ones to be gone", lambda: len(scene.pods("app=web")) == 3)
    images = {each["spec"]["containers"][0]["image"] for each in scene.pods("app=web")}
    assert images == {"pause:3.10"}


def test_a_deleted_namespace_leaves_nothing(scene: Scene):
    scene.apply(stateful_set("db", "10Gi"), deployment("web", pod_spec(ephemeral=["1Gi"])), claim("idle", "1Gi"))
    scene.kubectl("rollout", "status", "sts", "db", "--timeout", "30s")
    scene.kubectl("rollout", "status", "deploy", "web", "--timeout", "30s")
    handles = {each["spec"]["csi"]["volumeHandle"] for each in scene.volumes()}
    uids = {each["metadata"]["uid"] for each in scene.pods()}
    assert len(handles) == 2 and len(uids) == 2
    scene.kubectl("delete", "ns", scene.namespace, "--timeout", "30s")
    scene.until("the volumes to be gone", lambda: not scene.volumes())
    gone = scene.items("/apis/storage.k8s.io/v1/volumeattachments")
    assert [each for each in gone if each["spec"]["source"]["persistentVolumeName"] in handles] == []
    left = {path.name.removesuffix(".json") for path in (scene.up.folder / "driver").rglob("*")}
    left |= {path.name for path in (scene.up.folder / "nodes").rglob("*")}
    assert not left & (handles | uids)


def test_drain_keeps_to_a_disruption_budget(scene: Scene):
    wanted = deployment("web", pod_spec(node="node-3"))
    wanted["spec"]["replicas"] = 2
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    scene.apply(wanted, budget)
    scene.kubectl("rollout", "status", "deploy", "web", "--timeout", "30s")
    path = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets/web"
    scene.until("the budget to count", lambda: scene.up.get(path).body["status"].get("currentHealthy") == 2)
    drain = ("drain", "node-3", "--ignore-daemonsets")
    with scene.kubectl_goes_on(*drain) as complaints:
        told = "Cannot evict pod as it would violate the pod's disruption budget."
        scene.until("kubectl to say that it waits", lambda: complaints.read_text().count(told) == 2)
        assert ["deletionTimestamp" in each["metadata"] for each in scene.pods("app=web")] == [False, False]
    scene.kubectl("patch", "pdb", "web", "-p", '{"spec":{"minAvailable":0}}')
    scene.until("the budget to allow", lambda: scene.up.get(path).body["status"].get("disruptionsAllowed") == 2)
    assert "node/node-3 drained" in scene.kubectl(*drain, "--timeout", "30s")


def test_a_budget_counts_pods_that_are_not_ready_and_says_whether_they_may_go(scene: Scene):
    wanted = deployment("web", pod_spec(node="node-3"))
    wanted["spec"]["replicas"] = 2
    probe = {"initialDelaySeconds": 600, "tcpSocket": {"port": 80}}
    wanted["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    scene.apply(wanted, budget)
    scene.until("both to run", lambda: [each["status"].get("phase") for each in scene.pods()] == ["Running"] * 2)
    path = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets/web"

    def counted() -> tuple[int, int, int]:
        status = scene.up.get(path).body["status"]
        return status.get("currentHealthy"), status.get("desiredHealthy"), status.get("disruptionsAllowed")

    scene.until("the budget to count none as healthy", lambda: counted() == (0, 1, 0))
    drain = ("drain", "node-3", "--ignore-daemonsets")
    with scene.kubectl_goes_on(*drain) as complaints:
        told = "Cannot evict pod as it would violate the pod's disruption budget."
        scene.until("kubectl to say that it waits", lambda: complaints.read_text().count(told) == 2)
    scene.kubectl("patch", "pdb", "web", "-p", '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}')
    assert "node/node-3 drained" in scene.kubectl(*drain, "--timeout", "30s")


def test_a_daemon_set_has_a_pod_with_its_volume_on_every_node_and_stays_when_one_is_drained(scene: Scene):
    wanted = deployment("agent", pod_spec(ephemeral=["10Gi"]))
    wanted["kind"] = "DaemonSet"
    del wanted["spec"]["replicas"]
    scene.apply(wanted)
    scene.kubectl("rollout", "status", "ds", "agent", "--timeout", "30s")
    on = {each["spec"]["nodeName"]: each["metadata"]["uid"] for each in scene.pods("app=agent")}
    assert sorted(on) == ["node-1", "node-2", "node-3"]
    scene.has_room("node-1", "90Gi")  # 100 - 10
    assert "node/node-1 drained" in scene.kubectl("drain", "node-1", "--ignore-daemonsets", "--timeout", "30s")
    # On a cordoned node a daemon pod stays, and one that is deleted comes back there.
    gone = next(each["metadata"]["name"] for each in scene.pods("app=agent") if each["spec"]["nodeName"] == "node-1")
    scene.kubectl("delete", "pod", gone)

    def is_back() -> bool:
        pods = [each for each in scene.pods("app=agent") if each["spec"].get("nodeName") == "node-1"]
        return [each["status"].get("phase") for each in pods] == ["Running"] and pods[0]["metadata"]["name"] != gone

    scene.until("the daemon of node-1 to come back", is_back)
    scene.kubectl("delete", "ds", "agent")
    scene.until("its pods to go", lambda: not scene.pods("app=agent"))
    scene.until("their volumes to go", lambda: not scene.volumes())


def test_a_pod_tied_to_a_node_without_room_says_so(scene: Scene):
    scene.apply(claim("first", "60Gi"), pod("once", ["first"], node="node-1"))
    scene.running("once")
    scene.kubectl("delete", "pod", "once")
    scene.apply(claim("second", "50Gi"), pod("db", ["first", "second"]))
    # 100 - 60 = 40Gi are free on node-1, and the other nodes have not got the first claim.
    told = scene.waits("db")
    if new_volume := half_made_in(told):  # both are of one second: the volume may have been made after the pod was
        told = told.replace(f"{new_volume} ", "")
    assert told == (
        "0/3 nodes are available: 1 node(s) did not have enough free storage, "
        "2 node(s) didn't match PersistentVolume's node affinity. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_a_pod_whose_second_claim_finds_no_room_is_told_which_and_what_to_do(scene: Scene):
    scene.apply(claim("first", "60Gi"), pod("once", ["first"], node="node-1"))
    scene.running("once")
    scene.kubectl("delete", "pod", "once")
    # The figures promise 40Gi; the driver has other news.
    scene.fault(Fault("out-of-space", "node-1"))
    scene.apply(claim("second", "20Gi"), pod("db", ["first", "second"]))
    told = scene.event("VolumeProvisioningStuck", "db")
    volume = scene.volume_of("first")["metadata"]["name"]
    assert (told["type"], told["involvedObject"]["kind"], told["message"]) == (
        "Warning",
        "Pod",
        "the volume of claim second (20Gi) found no room on node node-1 (rpc error: code = ResourceExhausted desc = no "
        "pool of node-1 has room for 20Gi: the most that one has free is 0), and the pod can go nowhere else: claim "
        f"first (volume {volume}) is reachable from there only. Free storage of class pools on node node-1; or delete "
        "second, which is still empty, and ask for less; or delete claim first, whose data is lost then, and the pod, "
        "so that all its volumes are made together on another node",
    )
    scene.fault()
    assert scene.running("db")["spec"]["nodeName"] == "node-1"
