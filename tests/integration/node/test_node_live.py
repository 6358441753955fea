"""Pods with volumes on nodes: the embedded API server, real gRPC sockets, volumes really published."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import grpc
import pytest
from node_questions import answer, has_count, has_in_use, play, was_told
from node_stage import DRIVER, NodeStage

from support.eventually import eventually_async
from tonnage.errors import NotFound
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.small_groups import Lease
from tonnage.objects.storage_v1 import CSINode


def confined_to(node: str) -> dict[str, object]:
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def files_below(folder: Path) -> list[str]:
    """What is left of mounts: everything but the list of drivers."""
    return [str(path) for path in folder.rglob("*") if "plugins_registry" not in path.parts and path.is_file()]


def test_a_pod_runs_once_its_volume_is_attached_and_published_and_leaves_nothing_behind():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=8, topology={"topology.example/node": "node-1"})
        await stage.csi_driver(podInfoOnMount=True)
        await stage.start()
        node = await stage.client.get(Node, "node-1")
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        labels = (await stage.client.get(Node, "node-1")).metadata.labels
        assert labels["topology.example/node"] == labels["kubernetes.io/hostname"] == "node-1"
        owner = (await stage.client.get(CSINode, "node-1")).metadata.owner_references[0]
        assert (owner.kind, owner.uid) == ("Node", node.uid)
        lease = await eventually_async(lambda: lease_of(stage, "node-1"), "it says that it lives")
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("node-1", 40)

        await stage.volume("data")
        bound = await stage.pod("db", "data")
        name = f"kubernetes.io/csi/{DRIVER}^handle-data"
        await eventually_async(lambda: is_in_use(stage, name), "it is reported before it is attached")
        assert driver.asked("NodeStageVolume") == [] and await stage.phase("db") == "Pending"
        await stage.attach("data")
        pod = await stage.becomes("db", "Running")
        assert pod is not None and pod.status.pod_ip.startswith("10.") and pod.status.host_ip == "127.0.0.1"
        assert {each.type for each in pod.status.conditions if each.is_true} == {
            "PodScheduled",
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
        }
        published = driver.asked("NodePublishVolume")[0]
        target = stage.folder / "nodes/node-1/pods" / bound.uid / "volumes/kubernetes.io~csi/data/mount"
        assert published.target_path == str(target) and target.is_dir()
        assert published.publish_context == {"device": "/dev/sda"}
        assert published.volume_context["pool"] == "p1"
        assert published.volume_context["csi.storage.k8s.io/pod.name"] == "db"
        assert published.volume_capability.mount.fs_type == "ext4"

        await stage.client.delete(Pod, "default/db")
        await stage.becomes("db", "gone")
        assert (driver.staged, driver.published, await stage.in_use()) == (set(), set(), [])
        assert files_below(stage.folder / "nodes") == []

    play(story)


@pytest.mark.parametrize("attaches", [True, False], ids=["attached by a controller", "attached by nobody"])
def test_a_pod_whose_volume_is_confined_to_another_node_is_turned_away(attaches: bool):
    async def story(stage: NodeStage) -> None:
        stage.settings = dataclasses.replace(stage.settings, confined_grace_s=0.05)
        driver = await stage.driver()
        await stage.csi_driver(attachRequired=attaches)
        await stage.start()
        await eventually_async(lambda: has_count(stage, None), "the driver is registered")
        await stage.volume("data", nodeAffinity=confined_to("node-2"))
        await stage.pod("db", "data")
        pod = await stage.becomes("db", "Failed")
        told = (
            'Node does not match the node affinity of volume "data", rejecting pod: '
            "claim default/data can be used on other nodes only"
        )
        assert pod is not None
        assert (pod.status.reason, pod.status.message) == ("VolumeNodeAffinity", f"Pod was rejected: {told}")
        await eventually_async(lambda: was_told(stage, "db", "VolumeNodeAffinity", told), "the pod was told")
        await eventually_async(lambda: has_in_use(stage, []), "the volume may be detached")
        assert driver.staged == set()

    play(story)


def test_a_volume_that_is_attached_here_and_confined_elsewhere_is_waited_for():
    """Its driver has brought it here, and says so a moment later."""

    async def story(stage: NodeStage) -> None:
        stage.settings = dataclasses.replace(stage.settings, confined_grace_s=0.0)
        await stage.driver()
        await stage.csi_driver()
        await stage.start()
        await eventually_async(lambda: has_count(stage, None), "the driver is registered")
        await stage.volume("data", nodeAffinity=confined_to("node-2"))
        await stage.attach("data")
        await stage.pod("db", "data")
        note = 'MountVolume.NodeAffinity check failed for volume "data" : no matching NodeSelectorTerms'
        await eventually_async(lambda: was_told(stage, "db", "FailedMount", note), "the pod was told")
        await stage.client.patch(PersistentVolume, "data", {"spec": {"nodeAffinity": confined_to("node-1")}})
        await stage.becomes("db", "Running")

    play(story)


def test_without_the_gate_a_pod_waits_for_a_volume_that_is_confined_elsewhere():
    async def story(stage: NodeStage) -> None:
        stage.settings = dataclasses.replace(stage.settings, confined_grace_s=0.0)
        await stage.driver()
        await stage.csi_driver(attachRequired=False)
        await stage.start()
        await eventually_async(lambda: has_count(stage, None), "the driver is registered")
        await stage.volume("data", nodeAffinity=confined_to("node-2"))
        await stage.pod("db", "data")
        note = 'MountVolume.NodeAffinity check failed for volume "data" : no matching NodeSelectorTerms'
        await eventually_async(lambda: was_told(stage, "db", "FailedMount", note), "the pod was told")
        await stage.client.patch(PersistentVolume, "data", {"spec": {"nodeAffinity": confined_to("node-1")}})
        await stage.becomes("db", "Running")

    play(story, gates=Gates().with_(MutablePVNodeAffinity=False), server_gates=Gates())


def test_a_mount_that_fails_is_told_and_tried_again():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await stage.csi_driver(attachRequired=False)
        await stage.start()
        driver.refuse("NodePublishVolume", grpc.StatusCode.INTERNAL, "disk on fire")
        await stage.volume("data")
        await stage.pod("db", "data")
        note = 'MountVolume.SetUp failed for volume "data" : rpc error: code = Internal desc = disk on fire'
        await eventually_async(lambda: was_told(stage, "db", "FailedMount", note), "the pod was told")
        driver.allow("NodePublishVolume")
        await stage.becomes("db", "Running")
        assert len(driver.asked("NodeStageVolume")) == 1

    play(story)


def test_a_volume_stays_staged_until_its_last_pod_on_the_node_is_gone():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await stage.csi_driver()
        await stage.start()
        await stage.volume("data")
        await stage.attach("data")
        for name in ("a", "b"):
            await stage.pod(name, "data")
            await stage.becomes(name, "Running")
        await stage.client.delete(Pod, "default/a")
        await stage.becomes("a", "gone")
        assert driver.staged == {"handle-data"} and len(driver.published) == 1
        await stage.client.delete(Pod, "default/b", grace_s=0)  # forced: it is gone before anything is unmounted
        await eventually_async(lambda: answer(driver.staged == set()), "it is unstaged")
        await eventually_async(lambda: has_in_use(stage, []), "it may be detached")
        assert len(driver.asked("NodeStageVolume")) == 1

    play(story)


def test_after_a_kill_mounts_are_found_again_and_those_of_pods_that_are_gone_are_undone():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await stage.csi_driver()
        await stage.start()
        for volume, pod in (("kept", "stays"), ("left", "goes")):
            await stage.volume(volume)
            await stage.attach(volume)
            await stage.pod(pod, volume)
            await stage.becomes(pod, "Running")
        await stage.stop()
        await stage.client.delete(Pod, "default/goes", grace_s=0)
        await stage.start()
        await eventually_async(lambda: answer(driver.staged == {"handle-kept"}), "the orphan is undone")
        assert [handle for handle, _ in driver.published] == ["handle-kept"]
        await eventually_async(lambda: has_in_use(stage, [f"kubernetes.io/csi/{DRIVER}^handle-kept"]), "one is in use")
        await stage.client.delete(Pod, "default/stays")
        await stage.becomes("stays", "gone")
        assert driver.staged == set() and files_below(stage.folder / "nodes") == []

    play(story)


def test_a_pod_is_ready_by_its_gates_and_probes_and_what_others_say_of_it_stands():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        gated = await stage.pod("gated", readinessGates=[{"conditionType": "x/lb"}])
        plain = await stage.pod("plain")
        probe = {"readinessProbe": {"initialDelaySeconds": 2, "tcpSocket": {"port": 80}}}
        await stage.pod("probed", containers=[{"name": "c", "image": "i", **probe}])

        async def ready(name: str) -> str:
            condition = (await stage.client.get(Pod, f"default/{name}")).condition("Ready")
            return f"{condition.status} {condition.reason}".strip() if condition is not None else ""

        async def say(name: str, type_: str, status: str) -> None:
            said = {"type": type_, "status": status}
            patch = {"status": {"conditions": [said]}}
            await stage.client.patch(Pod, f"default/{name}", patch, patch_type="strategic", subresource="status")

        for name in ("gated", "plain", "probed"):
            await stage.becomes(name, "Running")
        assert await ready("gated") == "False ReadinessGatesNotReady"
        assert await ready("probed") == "False ContainersNotReady"
        await eventually_async(lambda: ready("plain"), holds=lambda told: told == "True")
        await say("plain", "x/told", "True")
        await say("plain", "Ready", "False")
        await say("gated", "x/lb", "True")
        await eventually_async(lambda: ready("gated"), holds=lambda told: told == "True")
        # The node has looked at both meanwhile, and the other's word stands until it next compares.
        assert await ready("plain") == "False"
        told = (await stage.client.get(Pod, plain.key)).condition("x/told")
        assert told is not None and told.is_true
        await say("gated", "x/lb", "False")
        await eventually_async(lambda: ready("gated"), holds=lambda told: told == "False ReadinessGatesNotReady")
        await eventually_async(lambda: ready("probed"), holds=lambda told: told == "True")
        assert (await stage.client.get(Pod, gated.key)).status.phase == "Running"

    play(story, "node-1")


def test_a_volume_that_grew_is_expanded_on_the_node_and_its_claim_says_so():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await stage.csi_driver(attachRequired=False)
        await stage.start()
        await stage.volume("data")
        await stage.pod("db", "data")
        await stage.becomes("db", "Running")
        pending = {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        patch = {"status": {"conditions": [pending], "allocatedResourceStatuses": {"storage": "NodeResizePending"}}}
        await stage.client.patch(PersistentVolumeClaim, "default/data", patch, subresource="status")
        await stage.client.patch(PersistentVolume, "data", {"spec": {"capacity": {"storage": "2Gi"}}})

        async def grown() -> bool:
            claim = await stage.client.get(PersistentVolumeClaim, "default/data")
            return str(claim.status.capacity["storage"]) == "2Gi" and claim.status.conditions == ()

        await eventually_async(grown, "the claim is as large as its volume")
        asked = driver.asked("NodeExpandVolume")
        assert [each.capacity_range.required_bytes for each in asked] == [2 * 2**30]
        note = 'MountVolume.NodeExpandVolume succeeded for volume "data" node-1'
        await eventually_async(lambda: was_told(stage, "db", "FileSystemResizeSuccessful", note), "the pod was told")

    play(story)


def test_a_block_volume_is_published_as_a_file_and_linked_for_its_pod():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        await stage.csi_driver(attachRequired=False)
        await stage.start()
        await stage.volume("raw", volumeMode="Block")
        container = {"name": "c", "image": "app:1", "volumeDevices": [{"name": "v-raw", "devicePath": "/dev/x"}]}
        pod = await stage.pod("db", "raw", containers=[container])
        await stage.becomes("db", "Running")
        root = stage.folder / "nodes/node-1"
        link = root / "pods" / pod.uid / "volumeDevices/kubernetes.io~csi/raw"
        target = root / "plugins/kubernetes.io/csi/volumeDevices/publish/raw" / pod.uid
        assert link.readlink() == target and target.is_file()
        assert driver.asked("NodePublishVolume")[0].volume_capability.HasField("block")
        await stage.client.delete(Pod, "default/db")
        await stage.becomes("db", "gone")
        assert files_below(root) == [] and not link.is_symlink()

    play(story)


def test_a_volume_is_reported_in_use_before_it_is_staged():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver()
        seen: dict[str, list[str]] = {}

        async def look(method: str) -> None:
            seen[method] = await stage.in_use()

        await stage.csi_driver()
        await stage.start()
        await stage.volume("data")
        await stage.attach("data")
        driver.before_call = look
        await stage.pod("db", "data")
        await stage.becomes("db", "Running")
        await stage.client.delete(Pod, "default/db")
        await stage.becomes("db", "gone")
        name = f"kubernetes.io/csi/{DRIVER}^handle-data"
        assert seen["NodeStageVolume"] == seen["NodeUnstageVolume"] == [name]
        assert await stage.in_use() == []

    play(story)


async def is_in_use(stage: NodeStage, name: str) -> bool:
    return name in await stage.in_use()


async def lease_of(stage: NodeStage, node: str) -> Lease | None:
    try:
        return await stage.client.get(Lease, f"kube-node-lease/{node}")
    except NotFound:
        return None
