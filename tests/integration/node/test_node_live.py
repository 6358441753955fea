"""Nodes over real protocols: the embedded API server, real gRPC sockets, volumes really published."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from node_stage import DRIVER, NodeStage, node_stage

from tonnage.clock import SystemClock, rfc3339
from tonnage.errors import NotFound
from tonnage.faults import Fault
from tonnage.gates import Gates
from tonnage.objects.coordination_v1 import Lease
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import CSIDriver, CSINode
from tonnage.testing.eventually import eventually_async
from tonnage.testing.http import free_port
from tonnage.testing.processes import start_cluster

EXHAUSTED = 8
OTHER = "other.example"
NO_SLOT = "rpc error: code = ResourceExhausted desc = no slot left"


def play(
    story: Callable[[NodeStage], Awaitable[None]],
    *names: str,
    gates: Gates | None = None,
    server_gates: Gates | None = None,
) -> None:
    async def stage_it() -> None:
        async with node_stage(*names, gates=gates, server_gates=server_gates) as stage:
            await story(stage)

    asyncio.run(stage_it())


def no_slot() -> dict[str, object]:
    failure = {"time": rfc3339(SystemClock().now()), "message": NO_SLOT, "errorCode": EXHAUSTED}
    return {"attached": False, "attachError": failure}


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


def test_an_attach_without_a_slot_corrects_the_limit_tells_the_pod_and_fails_it():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=8)
        await stage.csi_driver(period_s=600)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        await stage.volume("data")
        await stage.pod("db", "data")
        driver.max_volumes = 2
        await stage.attach("data", status=no_slot())
        pod = await stage.becomes("db", "Failed")
        assert pod is not None
        account = "unmounted volumes=[v-data], unattached volumes=[v-data], failed to process volumes=[]"
        told = f"Node has reached its volume attachment limit, rejecting pod. {account}: {NO_SLOT}"
        assert (pod.status.reason, pod.status.message) == (
            "VolumeAttachmentLimitExceeded",
            f"Pod was rejected: {told}",
        )
        assert [each.type for each in pod.status.conditions] == ["PodScheduled"]
        assert await stage.count() == 2
        await eventually_async(lambda: was_told(stage, "db", "VolumeAttachmentLimitExceeded", told), "the pod was told")
        await eventually_async(lambda: has_in_use(stage, []), "the volume may be detached")
        labels = {"driver_name": DRIVER, "trigger": "exhausted"}
        assert stage.measures.get_sample_value("csi_node_updates_total", labels) == 1
        reason = {"reason": "VolumeAttachmentLimitExceeded"}
        assert stage.measures.get_sample_value("kubelet_admission_rejections_total", reason) == 1

    play(story)


@pytest.mark.parametrize("what", ["a count that an old server does not let change", "a node id", "a label"])
def test_a_driver_whose_update_is_refused_does_not_keep_others_from_registering(
    what: str, caplog: pytest.LogCaptureFixture
):
    async def story(stage: NodeStage) -> None:
        first = await stage.driver(max_volumes=8, topology={"topology.example/node": "node-1"})
        await stage.csi_driver()
        await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        await stage.stop()
        if what == "a node id":
            first.node_id = "another"
        elif what == "a label":
            first.topology = {"topology.example/node": "elsewhere"}
        else:
            first.max_volumes = 5
        await stage.driver(name=OTHER, socket="other", max_volumes=3)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 3, name=OTHER), "the other driver is registered")
        assert await stage.count() == 8
        await eventually_async(lambda: len(refusals_logged(caplog)) >= 1, "it is told")
        await asyncio.sleep(1.5)  # it was tried again after a second
        [told] = refusals_logged(caplog)
        assert DRIVER in told and "node-1" in told
        # It is the first driver's trouble alone: what it can do, it does again.
        first.node_id, first.max_volumes, first.topology = "node-1", 8, {"topology.example/node": "node-1"}
        await stage.stop()
        await stage.start()
        assert await stage.count() == 8

    old = Gates().with_(MutableCSINodeAllocatableCount=False) if what.startswith("a count") else None
    play(story, server_gates=old)


def refusals_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each for each in caplog.records if "could not be registered" in each.getMessage()]
    return [str(vars(each)) for each in found]


def test_without_a_period_a_count_that_somebody_changed_is_left_alone():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=8)
        await stage.csi_driver()
        stage.settings = dataclasses.replace(stage.settings, status_update_s=0.1)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        for count in (3, None):
            doc = await stage.client.get_doc(CSINode, "node-1")
            doc["spec"]["drivers"][0]["allocatable"] = {} if count is None else {"count": count}
            await stage.client.update_doc(doc)
            await asyncio.sleep(0.5)  # the node has looked several times
            assert await stage.count() == count
        # An entry that is missing is the driver's registration, and comes back with what the driver says.
        doc = await stage.client.get_doc(CSINode, "node-1")
        doc["spec"]["drivers"] = []
        await stage.client.update_doc(doc)
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered again")

    play(story)


def test_pods_that_are_sent_again_to_a_node_without_slots_are_failed_at_growing_intervals():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=1)
        await stage.csi_driver(period_s=600)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 1), "the driver is registered")
        clock, failed_s = SystemClock(), []
        for name in ("first", "second", "third"):
            await stage.volume(name)
            await stage.pod(name, name)
            await stage.attach(name, status=no_slot())
            await stage.becomes(name, "Failed")
            failed_s.append(clock.monotonic())
        # The limit says 1 all the time: at once, then 1 s after the first, 2 s after the second.
        assert failed_s[1] - failed_s[0] > 0.8 and failed_s[2] - failed_s[1] > 1.8
        # The next one waits 4 s; a slot that comes meanwhile is its own, and the refusal after that the first again.
        await stage.volume("fourth")
        await stage.pod("fourth", "fourth")
        await stage.attach("fourth", status=no_slot())
        await stage.attach("fourth")
        await stage.becomes("fourth", "Running")
        began_s = clock.monotonic()
        await stage.volume("fifth")
        await stage.pod("fifth", "fifth")
        await stage.attach("fifth", status=no_slot())
        await stage.becomes("fifth", "Failed")
        assert clock.monotonic() - began_s < 4

    play(story)


def test_without_a_period_or_without_the_gate_an_attach_error_changes_nothing():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=8)
        await stage.csi_driver(period_s=None if stage.settings.gates.MutableCSINodeAllocatableCount else 10)
        program = await stage.start()
        await eventually_async(lambda: has_count(stage, 8), "the driver is registered")
        await stage.volume("data")
        await stage.pod("db", "data")
        driver.max_volumes = 2
        await stage.attach("data", status=no_slot())
        # Attached in the end, it runs: it has waited all the time.
        await stage.attach("data")
        await stage.becomes("db", "Running")
        assert await stage.count() == 8
        assert program.kubelets["node-1"].limits.running == {}

    play(story)
    play(story, gates=Gates().with_(MutableCSINodeAllocatableCount=False))


def test_a_driver_that_attaches_nothing_may_say_the_same_when_it_stages():
    async def story(stage: NodeStage) -> None:
        driver = await stage.driver(max_volumes=3)
        await stage.csi_driver(period_s=600, attachRequired=False)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 3), "the driver is registered")
        driver.refuse("NodeStageVolume", grpc.StatusCode.RESOURCE_EXHAUSTED, "no slot left")
        driver.max_volumes = 1
        await stage.volume("data")
        await stage.pod("db", "data")
        pod = await stage.becomes("db", "Failed")
        assert pod is not None and pod.status.reason == "VolumeAttachmentLimitExceeded"
        assert pod.status.message.endswith(f'MountVolume.MountDevice failed for volume "data" : {NO_SLOT}')
        assert await stage.count() == 1 and await stage.in_use() == []

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


def test_a_node_may_be_stopped_and_removed_on_request_and_comes_back():
    async def story(stage: NodeStage) -> None:
        await stage.driver("node-1", max_volumes=4)
        await stage.csi_driver(attachRequired=False)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 4), "the driver is registered")
        await stage.client.patch(Node, "node-1", {"spec": {"unschedulable": True}, "metadata": {"labels": {"x": "y"}}})
        stage.faults.write([Fault("node-stopped", "node-1")])
        await stage.volume("data")
        await stage.pod("db", "data")
        await stage.pod("other", node="node-2")
        await stage.becomes("other", "Running")
        assert await stage.phase("db") == "Pending"
        stage.faults.write([])
        await stage.becomes("db", "Running")

        stage.faults.write([Fault("node-removed", "node-1")])
        await eventually_async(lambda: is_gone(stage, "node-1"), "the node is gone")
        assert await stage.count() == -1
        stage.faults.write([])
        await eventually_async(lambda: has_count(stage, 4), "the node is back")
        assert not (await stage.client.get(Node, "node-1")).spec.unschedulable

    play(story, "node-1", "node-2")


def test_a_deleted_node_registers_again_and_its_new_csi_node_belongs_to_it():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=4)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 4), "the driver is registered")
        before = await stage.client.get(Node, "node-1")
        await stage.client.delete(Node, "node-1")

        async def is_another() -> bool:
            try:
                node = await stage.client.get(Node, "node-1")
                owners = (await stage.client.get(CSINode, "node-1")).metadata.owner_references
            except NotFound:
                return False
            return node.uid != before.uid and owners[0].uid == node.uid

        await eventually_async(is_another, "a new node, and its own CSINode")
        await eventually_async(lambda: has_count(stage, 4), "with its driver")

    play(story)


def test_a_node_tells_when_it_starts_is_ready_and_is_cordoned():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        told = [("Normal", "Starting", "Starting kubelet."), said("NodeReady")]
        await eventually_async(lambda: has_told(stage, told), "that it starts")
        await stage.client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
        told.append(said("NodeNotSchedulable"))
        await eventually_async(lambda: has_told(stage, told), "that it is cordoned")
        await stage.client.patch(Node, "node-1", {"spec": {"unschedulable": None}})
        told.append(said("NodeSchedulable"))
        await eventually_async(lambda: has_told(stage, told), "that it is not any more")

        # A restart finds a node that has been Ready all the time, and one that somebody cordoned meanwhile.
        await stage.stop()
        await stage.client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
        await stage.start()
        told += [("Normal", "Starting", "Starting kubelet."), said("NodeNotSchedulable")]
        await eventually_async(lambda: has_told(stage, told), "that it starts once more")

    play(story)


def test_a_node_that_comes_back_after_it_was_given_up_tells_that_it_is_ready():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        stage.faults.write([Fault("node-stopped", "node-1")])
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await stage.client.patch(
            Node, "node-1", {"status": {"conditions": [unknown]}}, patch_type="strategic", subresource="status"
        )
        stage.faults.write([])

        async def is_told_twice() -> bool:
            found = (await stage.client.list(Event, namespace="default")).items
            return [each.series.count for each in found if each.reason == "NodeReady" and each.series] == [2]

        await eventually_async(is_told_twice, "a series of two")

    play(story)


def said(reason: str) -> tuple[str, str, str]:
    return "Normal", reason, f"Node node-1 status is now: {reason}"


async def has_told(stage: NodeStage, told: list[tuple[str, str, str]]) -> bool:
    return sorted(await stage.events("node-1")) == sorted(told)


def test_a_driver_whose_socket_goes_is_taken_out_and_its_updates_end():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=4)
        await stage.csi_driver(period_s=10)
        program = await stage.start()
        limits = program.kubelets["node-1"].limits
        await eventually_async(lambda: answer(limits.running == {DRIVER: 10}), "updates run")
        await stage.client.patch(CSIDriver, DRIVER, {"spec": {"nodeAllocatableUpdatePeriodSeconds": 30}})
        await eventually_async(lambda: answer(limits.running == {DRIVER: 30}), "updates follow the period")
        await stage.client.patch(CSIDriver, DRIVER, {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}})
        await eventually_async(lambda: answer(limits.running == {}), "updates end without a period")
        await stage.client.patch(CSIDriver, DRIVER, {"spec": {"nodeAllocatableUpdatePeriodSeconds": 10}})
        await eventually_async(lambda: answer(limits.running == {DRIVER: 10}), "updates run again")
        await stage.stack.aclose()
        await eventually_async(lambda: has_count(stage, -1), "the entry is taken out")
        assert limits.running == {}
        await eventually_async(lambda: answer(not program.kubelets["node-1"].drivers.gone), "and forgotten")

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


def test_the_command_says_ready_serves_metrics_and_stops_in_order(tmp_path: Path):
    server = start_cluster(tmp_path / "data")
    port = free_port()
    flags = ["--node-name", "node-1", "--root-dir", str(tmp_path / "nodes"), "--metrics-address", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "tonnage", "node", "--kubeconfig", str(server.kubeconfig), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            assert server.get("/api/v1/nodes/node-1").body["status"]["capacity"]["cpu"] == "8"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
                assert "csi_node_update_duration_seconds" in reply.read().decode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as reply:
                assert reply.read() == b"ok"
        finally:
            process.terminate()
        assert process.wait(timeout=20) == 0
    server.stop()


# -- questions --------------------------------------------------------------------------------------------------------


async def answer(value: object) -> object:
    return value


async def has_count(stage: NodeStage, count: int | None, *, name: str = DRIVER) -> bool:
    return await stage.count(name=name) == count


async def has_in_use(stage: NodeStage, names: list[str]) -> bool:
    return await stage.in_use() == names


async def is_in_use(stage: NodeStage, name: str) -> bool:
    return name in await stage.in_use()


async def was_told(stage: NodeStage, pod: str, reason: str, note: str) -> bool:
    return any((each[1], each[2]) == (reason, note) for each in await stage.events(pod))


async def is_gone(stage: NodeStage, node: str) -> bool:
    try:
        await stage.client.get(Node, node)
    except NotFound:
        return True
    return False


async def lease_of(stage: NodeStage, node: str) -> Lease | None:
    try:
        return await stage.client.get(Lease, f"kube-node-lease/{node}")
    except NotFound:
        return None
