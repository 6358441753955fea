"""Nodes that come, go, come back and tell of it, and their drivers, over real protocols."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

from node_questions import answer, has_count, play
from node_stage import DRIVER, NodeStage

from support.eventually import eventually_async
from support.http import free_port
from support.processes import start_cluster
from tonnage.errors import NotFound
from tonnage.faults import Fault
from tonnage.objects.core_v1 import Node
from tonnage.objects.events_v1 import Event
from tonnage.objects.storage_v1 import CSIDriver, CSINode


def said(reason: str) -> tuple[str, str, str]:
    return "Normal", reason, f"Node node-1 status is now: {reason}"


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


def test_a_csi_node_that_somebody_deletes_is_made_again_at_once_with_its_drivers():
    async def story(stage: NodeStage) -> None:
        await stage.driver(max_volumes=4)
        await stage.start()
        await eventually_async(lambda: has_count(stage, 4), "the driver is registered")
        before = await stage.client.get(CSINode, "node-1")
        await stage.client.delete(CSINode, "node-1")
        await eventually_async(lambda: has_count(stage, 4), "it is back, with its limit")
        assert (await stage.client.get(CSINode, "node-1")).uid != before.uid

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


async def is_gone(stage: NodeStage, node: str) -> bool:
    try:
        await stage.client.get(Node, node)
    except NotFound:
        return True
    return False
