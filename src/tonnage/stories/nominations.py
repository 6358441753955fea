"""KEP-5278's stories: the decision is there to be seen before the pod is bound, and others may propose one."""

from __future__ import annotations

import os
import signal

from tonnage.faults import Fault
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc
from tonnage.stories.objects import claim, pod
from tonnage.stories.story_runner import StoryRunner


async def the_decision_is_seen_and_survives(runner: StoryRunner) -> None:
    """KEP-5278, stories 1 and 2: everyone sees where a pod is expected, and a killed scheduler goes on there"""
    runner.faults(Fault("slow", value=2.0))
    await runner.apply(claim("data", "10Gi"), pod("db", ["data"]))

    async def nominated() -> str:
        found = await runner.pod("db")
        return "" if found.spec.node_name else found.status.nominated_node_name

    expected = await runner.until("the decision to be seen", nominated)
    runner.check("the node is known while the volume is still being made", bool(expected), expected)
    scheduler = runner.plane.supervisor["scheduler"]
    runner.say(f"  $ kill -9 {scheduler.pid}   (the scheduler)", style="yellow")
    os.kill(scheduler.pid, signal.SIGKILL)
    node = await runner.bound("db")
    runner.check("its successor binds the pod to the same node", node == expected, node)
    runner.check("and it really was another process", runner.plane.supervisor["scheduler"].starts > 1)
    left = (await runner.pod("db")).status.nominated_node_name
    runner.check("after the binding there is no nomination any more", left == "", left or "none")


async def others_may_propose(runner: StoryRunner) -> None:
    """KEP-5278, stories 3 and 4: an autoscaler or a queue names a node, and its room is kept until the pod comes"""
    planned = pod("planned", ["mine"], is_gated=True)
    await runner.apply(claim("mine", "90Gi"), planned)
    await _propose(runner, "planned", "node-1")
    runner.say("  + status.nominatedNodeName of planned: node-1", style="cyan")
    await runner.apply(claim("theirs", "90Gi"), pod("other", ["theirs"], node="node-1"))
    message = await runner.refused("other")
    runner.check(
        "node-1's only disk is kept for the pod that is expected", "did not have enough free storage" in message
    )
    runner.say("  - the scheduling gate of planned", style="cyan")
    await runner.client.patch(Pod, f"{runner.namespace}/planned", {"spec": {"schedulingGates": None}})
    node = await runner.bound("planned")
    runner.check("the pod goes where it was expected, though node-2 has more room", node == "node-1", node)


async def _propose(runner: StoryRunner, name: str, node: str) -> None:
    patch: Doc = {"status": {"nominatedNodeName": node}}
    await runner.client.patch(Pod, f"{runner.namespace}/{name}", patch, subresource="status")
