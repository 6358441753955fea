"""DaemonSets on the embedded server: the controllers beside it in this process, stand-in kubelets, the real kubectl."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.workload_stage import WorkloadStage, stage_in, template
from tonnage.behaviour.workloads.pod_states import is_active
from tonnage.objects.apps_v1 import ControllerRevision, DaemonSet
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc


def daemons(image: str = "app:1", **spec: Any) -> Doc:
    return {"selector": {"matchLabels": {"app": "agent"}}, "template": template(image, "agent"), **spec}


async def nodes_of(stage: WorkloadStage) -> list[str]:
    return sorted(pod.spec.node_name for pod in await stage.pods() if is_active(pod))


async def test_a_daemon_set_follows_the_nodes(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create_node("a")
        await stage.create_node("b")
        await stage.create("apps/v1", "DaemonSet", "agent", daemons())
        found = await stage.until_daemons_run("agent", 2)
        assert await nodes_of(stage) == ["a", "b"]
        pod = (await stage.pods())[0]
        assert pod.metadata.controller is not None and pod.metadata.controller.uid == found.uid
        assert pod.metadata.labels["controller-revision-hash"]

        await stage.create_node("c")
        await stage.until_daemons_run("agent", 3)

        # A taint that a daemon does not tolerate takes a node out of the count; its pod stays, and is misscheduled.
        await stage.client.patch(Node, "c", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})

        async def is_misscheduled() -> bool:
            status = (await stage.client.get(DaemonSet, "default/agent")).status
            return (status.desired_number_scheduled, status.number_misscheduled) == (2, 1)

        await stage.until(is_misscheduled)
        assert await nodes_of(stage) == ["a", "b", "c"]
        await stage.client.patch(Node, "c", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})

        async def has_left() -> bool:
            return await nodes_of(stage) == ["a", "b"]

        await stage.until(has_left)

        failed = next(pod for pod in await stage.pods() if pod.spec.node_name == "a")
        await stage.client.patch(Pod, failed.key, {"status": {"phase": "Failed"}}, subresource="status")

        async def is_replaced() -> bool:
            there = [pod for pod in await stage.pods() if pod.spec.node_name == "a" and pod.status.phase == "Running"]
            return len(there) == 1 and there[0].uid != failed.uid

        await stage.until(is_replaced)
        assert await stage.until(lambda: stage.notes("FailedDaemonPod")) == {
            f"Found failed daemon pod {failed.key} on node a, will try to kill it"
        }


@pytest.mark.parametrize(("surge", "unavailable", "most"), [(0, 1, 3), (1, 0, 4)])
async def test_a_daemon_set_is_updated_node_by_node(tmp_path: Path, surge: int, unavailable: int, most: int) -> None:
    async with stage_in(tmp_path) as stage:
        for name in ("a", "b", "c"):
            await stage.create_node(name)
        rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await stage.create("apps/v1", "DaemonSet", "agent", daemons(updateStrategy=rolling))
        await stage.until_daemons_run("agent", 3)
        seen = stage.informers.of(Pod)
        live: list[int] = []
        on_one_node: list[int] = []

        def look(_: Pod) -> None:
            active = [pod for pod in seen if is_active(pod)]
            live.append(len(active))
            on_one_node.extend(Counter(pod.spec.node_name for pod in active if pod.spec.node_name).values())

        seen.on_change(look)
        await stage.client.patch(DaemonSet, "default/agent", {"spec": {"template": template("app:2", "agent")}})
        await stage.until_daemons_run("agent", 3)

        async def are_new() -> bool:
            images = [pod.spec.containers[0].image for pod in await stage.pods() if is_active(pod)]
            return images == ["app:2"] * 3

        await stage.until(are_new)
        assert max(live) == most
        assert min(live) >= 3 - unavailable
        assert max(on_one_node) == 1 + surge
        revisions = (await stage.client.list(ControllerRevision)).items
        assert sorted(each.revision for each in revisions) == [1, 2]


async def test_a_set_that_is_deleted_with_orphans_leaves_its_pods_to_the_next_one(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        await stage.create_node("a")
        await stage.create("apps/v1", "DaemonSet", "agent", daemons())
        was = await stage.until_daemons_run("agent", 1)
        pod = (await stage.pods())[0]
        await stage.kill()
        # As the garbage collector, which is not on this stage, would leave them.
        await stage.client.delete(DaemonSet, was.key)
        revision = (await stage.client.list(ControllerRevision)).items[0]
        for each in (pod, revision):
            await stage.client.patch(type(each), each.key, {"metadata": {"ownerReferences": None}})
        await stage.create("apps/v1", "DaemonSet", "agent", daemons())
        await stage.start()
        found = await stage.until_daemons_run("agent", 1)
        adopted = (await stage.pods())[0]
        assert adopted.uid == pod.uid and adopted.metadata.controller is not None
        assert adopted.metadata.controller.uid == found.uid
        revisions = (await stage.client.list(ControllerRevision)).items
        assert [each.uid for each in revisions] == [revision.uid]


async def test_revisions_that_others_make_and_delete_restart_no_pod(tmp_path: Path) -> None:
    """As "should manage the lifecycle of a ControllerRevision" of Kubernetes' own suite goes."""
    async with stage_in(tmp_path) as stage:
        await stage.create_node("a")
        await stage.create("apps/v1", "DaemonSet", "agent", daemons())
        await stage.until_daemons_run("agent", 1)
        pod = (await stage.pods())[0]
        first = (await stage.client.list(ControllerRevision)).items[0]
        doc = await stage.client.get_doc(ControllerRevision, first.key)
        labels = {**doc["metadata"]["labels"], "controller-revision-hash": "copy"}
        metadata = {"name": "agent-copy", "namespace": "default", "labels": labels}
        owners = doc["metadata"]["ownerReferences"]
        await stage.client.create_doc({**doc, "metadata": {**metadata, "ownerReferences": owners}, "revision": 2})
        await stage.client.delete(ControllerRevision, first.key)
        await stage.client.patch(ControllerRevision, "default/agent-copy", {"metadata": {"labels": {"x": "y"}}})

        async def revisions() -> list[tuple[str, int]]:
            return sorted((each.name, each.revision) for each in (await stage.client.list(ControllerRevision)).items)

        assert await revisions() == [("agent-copy", 2)]
        # Whatever its revision is called, the pod is of the present template, and the status goes on saying so.
        await stage.create_node("b")
        await stage.until_daemons_run("agent", 2)
        assert pod.uid in {each.uid for each in await stage.pods() if is_active(each)}
        change = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
        await stage.client.patch(DaemonSet, "default/agent", change, patch_type="strategic")

        async def is_third() -> bool:
            return sorted(number for _, number in await revisions()) == [2, 3]

        await stage.until(is_third)
        await stage.until_daemons_run("agent", 2)
        await stage.client.delete(ControllerRevision, "default/agent-copy")
        await stage.until_daemons_run("agent", 2)
        assert [number for _, number in await revisions()] == [3]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
async def test_kubectl_rolls_out_undoes_and_drains_daemon_sets(tmp_path: Path) -> None:
    async with stage_in(tmp_path) as stage:
        for name in ("a", "b"):
            await stage.create_node(name)
        await stage.create("apps/v1", "DaemonSet", "agent", daemons())
        told = await stage.kubectl("rollout", "status", "daemonset/agent", "--timeout=20s")
        assert told.endswith('daemon set "agent" successfully rolled out\n')
        await stage.kubectl("set", "image", "daemonset/agent", "c=app:2")
        await stage.kubectl("rollout", "status", "daemonset/agent", "--timeout=20s")
        history = await stage.kubectl("rollout", "history", "daemonset/agent")
        assert [line.split()[0] for line in history.splitlines()[2:4]] == ["1", "2"]
        await stage.kubectl("rollout", "undo", "daemonset/agent")
        await stage.kubectl("rollout", "status", "daemonset/agent", "--timeout=20s")
        await stage.until_daemons_run("agent", 2)
        assert {pod.spec.containers[0].image for pod in await stage.pods() if is_active(pod)} == {"app:1"}
        history = await stage.kubectl("rollout", "history", "daemonset/agent")
        assert [line.split()[0] for line in history.splitlines()[2:4]] == ["2", "3"]
        told = await stage.kubectl("drain", "a", "--ignore-daemonsets", "--timeout=20s")
        assert "node/a drained" in told
        assert await nodes_of(stage) == ["a", "b"]
        table = (await stage.kubectl("get", "ds", "agent", "--no-headers")).split()
        assert table[:6] == ["agent", "2", "2", "2", "2", "2"]
        await asyncio.gather(stage.kubectl("delete", "ds", "agent", "--wait=false"))
