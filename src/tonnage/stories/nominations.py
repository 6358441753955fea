"""KEP-5278's stories: the decision is there to be seen before the pod is bound, and others may propose one."""

from __future__ import annotations

import os
import signal

from tonnage.faults import Fault
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc
from tonnage.stories.objects import claim, pod
from tonnage.stories.stage import Stage


async def the_decision_is_seen_and_survives(stage: Stage) -> None:
    """KEP-5278, stories 1 and 2: everyone sees where a pod is expected, and a killed scheduler goes on there"""
    stage.faults(Fault("slow", value=2.0))
    await stage.apply(claim("data", "10Gi"), pod("db", ["data"]))

    async def nominated() -> str:
        found = await stage.pod("db")
        return "" if found.spec.node_name else found.status.nominated_node_name

    expected = await stage.until("the decision to be seen", nominated)
    stage.holds("the node is known while the volume is still being made", bool(expected), expected)
    scheduler = stage.plane.supervisor["scheduler"]
    stage.console.print(f"  $ kill -9 {scheduler.pid}   (the scheduler)", style="yellow")
    os.kill(scheduler.pid, signal.SIGKILL)
    node = await stage.bound("db")
    stage.holds("its successor binds the pod to the same node", node == expected, node)
    stage.holds("and it really was another process", stage.plane.supervisor["scheduler"].starts > 1)
    left = (await stage.pod("db")).status.nominated_node_name
    stage.holds("after the binding there is no nomination any more", left == "", left or "none")


async def others_may_propose(stage: Stage) -> None:
    """KEP-5278, stories 3 and 4: an autoscaler or a queue names a node, and its room is kept until the pod comes"""
    planned = pod("planned", ["mine"], is_gated=True)
    await stage.apply(claim("mine", "90Gi"), planned)
    await _propose(stage, "planned", "node-1")
    stage.console.print("  + status.nominatedNodeName of planned: node-1", style="cyan")
    await stage.apply(claim("theirs", "90Gi"), pod("other", ["theirs"], node="node-1"))
    message = await stage.refused("other")
    stage.holds(
        "node-1's only disk is kept for the pod that is expected", "did not have enough free storage" in message
    )
    stage.console.print("  - the scheduling gate of planned", style="cyan")
    await stage.client.patch(Pod, f"{stage.namespace}/planned", {"spec": {"schedulingGates": None}})
    node = await stage.bound("planned")
    stage.holds("the pod goes where it was expected, though node-2 has more room", node == "node-1", node)


async def _propose(stage: Stage, name: str, node: str) -> None:
    patch: Doc = {"status": {"nominatedNodeName": node}}
    await stage.client.patch(Pod, f"{stage.namespace}/{name}", patch, subresource="status")
