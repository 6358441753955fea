"""Pods that name their node themselves: admitted as a kubelet admits them, over real protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node_questions import play, was_told
from node_stage import NodeStage

from support.eventually import eventually_async
from tonnage.documents.creation import MAX_OBJECT_BYTES
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc, encode

REASON = "Node didn't have enough resource: cpu, requested: 1000000000, used: 0, capacity: 8000"


def container(cpu: str, **more: Any) -> list[Doc]:
    return [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}, **more}]


async def send(stage: NodeStage, name: str, cpu: str = "1", node: str = "node-1", **spec: Any) -> None:
    """Create a pod that names its node: no scheduler is asked."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    await stage.client.create_doc({**pod, "spec": {"containers": container(cpu), "nodeName": node, **spec}})


def test_a_pod_of_a_million_cpus_is_failed_and_takes_nothing():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        await send(stage, "huge", "1M")
        failed = await stage.becomes("huge", "Failed")
        assert failed is not None
        assert (failed.status.reason, failed.status.message) == ("OutOfcpu", f"Pod was rejected: {REASON}")
        assert (failed.status.start_time, failed.status.container_statuses) == (None, ())
        await eventually_async(lambda: was_told(stage, "huge", "OutOfcpu", REASON), "an event")
        assert stage.measures.get_sample_value("kubelet_admission_rejections_total", {"reason": "OutOfcpu"}) == 1
        await send(stage, "whole", "8")
        await stage.becomes("whole", "Running")
        await send(stage, "late", "1m")
        await stage.becomes("late", "Failed")
        # What a pod held is the next one's when it is gone, and when it has ended.
        await stage.client.delete(Pod, "default/whole")
        await stage.becomes("whole", "gone")
        await send(stage, "next", "8")
        await stage.becomes("next", "Running")
        ended = {"status": {"phase": "Succeeded"}}
        await stage.client.patch(Pod, "default/next", ended, subresource="status")
        await send(stage, "last", "8")
        await stage.becomes("last", "Running")

    play(story, "node-1")


def test_a_pod_must_match_its_node_and_find_its_ports_free():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        await send(stage, "picky", nodeSelector={"disk": "ssd"})
        await send(stage, "sysctl", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})
        await send(stage, "gpu", containers=container("1", ports=[{"containerPort": 80, "hostPort": 80}]))
        await stage.becomes("gpu", "Running")
        await send(stage, "port", containers=container("1", ports=[{"containerPort": 80, "hostPort": 80}]))
        reasons = {"picky": "NodeAffinity", "sysctl": "SysctlForbidden", "port": "NodePorts"}
        for name, reason in reasons.items():
            failed = await stage.becomes(name, "Failed")
            assert failed is not None and failed.status.reason == reason

    play(story, "node-1")


def test_a_label_that_the_nodes_watch_has_not_shown_yet_is_asked_for():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        for number in range(20):
            label = {f"label-{number}": "yes"}
            await stage.client.patch(Node, "node-1", {"metadata": {"labels": label}})
            await send(stage, f"pod-{number}", "1m", nodeSelector=label)
        for number in range(20):
            await stage.becomes(f"pod-{number}", "Running")

    play(story, "node-1")


def test_a_pod_that_ran_before_a_restart_comes_before_newcomers_that_are_older():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        waiting = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "older", "namespace": "default"}}
        await stage.client.create_doc({**waiting, "spec": {"containers": container("6")}})
        await send(stage, "runs", "6", nodeSelector={"kubernetes.io/os": "linux"})
        before = await stage.becomes("runs", "Running")
        await stage.stop()
        await stage.client.bind("default/older", "node-1")
        await stage.start()
        failed = await stage.becomes("older", "Failed")
        assert failed is not None and failed.status.reason == "OutOfcpu"
        assert await stage.phase("runs") == "Running"
        found = await stage.client.get(Pod, "default/runs")
        assert before is not None and found.status.container_statuses == before.status.container_statuses

    play(story, "node-1")


def test_a_critical_pod_preempts_and_the_preempted_pod_is_failed():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        await send(stage, "small", "2")
        await send(stage, "large", "6")
        await stage.becomes("small", "Running")
        await stage.becomes("large", "Running")
        await send(stage, "critical", "2", priorityClassName="system-node-critical")
        failed = await stage.becomes("small", "Failed")
        assert failed is not None
        told = "Preempted in order to admit critical pod"
        assert (failed.status.reason, failed.status.message) == ("Preempting", told)
        target = failed.condition("DisruptionTarget")
        assert target is not None and (target.status, target.reason) == ("True", "TerminationByKubelet")
        await stage.becomes("critical", "Running")
        assert await stage.phase("large") == "Running"
        await eventually_async(lambda: was_told(stage, "small", "Preempting", told), "an event")

    play(story, "node-1")


def test_a_resource_that_somebody_adds_to_a_node_is_allocatable_and_counted():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        capacity = {"status": {"capacity": {"example.com/gpu": "2"}}}
        await stage.client.patch(Node, "node-1", capacity, subresource="status")

        async def is_allocatable() -> bool:
            found = await stage.client.get(Node, "node-1")
            return str(found.status.allocatable.get("example.com/gpu")) == "2"

        await eventually_async(is_allocatable, "the resource is allocatable")
        gpus = {"limits": {"example.com/gpu": "2"}}
        await send(stage, "one", containers=[{"name": "main", "image": "app:1", "resources": gpus}])
        await stage.becomes("one", "Running")
        await send(stage, "two", containers=[{"name": "main", "image": "app:1", "resources": gpus}])
        failed = await stage.becomes("two", "Failed")
        assert failed is not None and failed.status.reason == "OutOfexample.com/gpu"
        counted = {"reason": "OutOfExtendedResources"}
        assert stage.measures.get_sample_value("kubelet_admission_rejections_total", counted) == 1

    play(story, "node-1")


def test_a_pod_as_large_as_may_be_is_failed_too():
    async def story(stage: NodeStage) -> None:
        await stage.start()

        async def send_padded(name: str, node: str, letters: int) -> Doc:
            padded = container("1M", args=["x" * letters])
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
            return await stage.client.create_doc({**pod, "spec": {"containers": padded, "nodeName": node}})

        sample = await send_padded("pod-a", "node-9", 1)
        await send_padded("pod-b", "node-1", 1 + MAX_OBJECT_BYTES - len(encode(sample)))
        failed = await stage.becomes("pod-b", "Failed")
        assert failed is not None and failed.status.reason == "OutOfcpu"

    play(story, "node-1")


def test_a_node_that_comes_back_smaller_keeps_the_oldest_pods_that_ran():
    async def story(stage: NodeStage) -> None:
        await stage.start()
        for name in ("one", "two"):
            await send(stage, name, "3")
            await stage.becomes(name, "Running")
        # A node that shrinks while it runs fails nobody; a kubelet that starts anew admits anew.
        await stage.stop()
        stage.settings = replace(stage.settings, capacity={**stage.settings.capacity, "cpu": "4"})
        await stage.start()
        failed = await stage.becomes("two", "Failed")
        assert failed is not None and failed.status.reason == "OutOfcpu"
        assert await stage.phase("one") == "Running"

    play(story, "node-1")
