"""KEP-4876's stories: attach limits follow what is really there, by and by and at once when it hurts."""

from __future__ import annotations

from tonnage.driver import DRIVER_NAME
from tonnage.faults import Fault
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSIDriver, CSINode
from tonnage.stories.objects import claim, deployment, pod, pod_spec
from tonnage.stories.story_runner import StoryRunner

TOO_MANY = "node(s) exceed max volume count"
LIMIT = 4
"""Attach slots of node-2 in the play."""


async def limits_follow_reality(runner: StoryRunner) -> None:
    """KEP-4876, stories 1 to 3: slots that others take, and give back, are seen within the period"""
    await period(runner, 10)
    runner.faults(Fault("slots-taken", "node-2", 3))
    await runner.until("CSINode of node-2 to say 1", lambda: says(runner, "node-2", 1))
    runner.check("node-2 has one slot left, and CSINode says so", True, f"allocatable.count {LIMIT} -> 1")
    await runner.apply(claim("a", "1Gi"), claim("b", "1Gi"), pod("db", ["a", "b"], node="node-2"))
    message = await runner.refused("db")
    runner.check("a pod with two volumes is not sent there", f"1 {TOO_MANY}" in message)
    runner.faults()
    node = await runner.bound("db")
    await runner.running("db")
    runner.check(
        "the slots are given back, and the pod goes there by itself", node == "node-2", "allocatable.count -> 4"
    )


async def a_refused_attachment_corrects_the_limit(runner: StoryRunner) -> None:
    """KEP-4876: an attachment that finds no slot corrects the limit at once, and the pod is replaced elsewhere"""
    await period(runner, 3600)
    runner.faults(Fault("slots-taken", "node-2", 3))
    count = await counted(runner, "node-2")
    runner.check(
        "CSINode still believes in all slots", count == LIMIT, f"allocatable.count {count}; next look in an hour"
    )
    web = deployment("web", pod_spec(ephemeral=["1Gi", "1Gi"], prefers="node-2"))
    await runner.apply(web)
    failed = await runner.until("a pod to be failed", lambda: rejected(runner))
    when = "after a second; by default after 15, --attach-error-grace-seconds"
    runner.check(
        f"the pod that cannot be attached is failed ({when})", True, f"{failed.status.reason}: {failed.status.message}"
    )
    runner.check("it was on node-2, whose slots were gone", failed.spec.node_name == "node-2", failed.spec.node_name)
    count = await counted(runner, "node-2")
    runner.check("CSINode was corrected at once", count == 1, f"allocatable.count {count}")

    async def replaced() -> Pod | None:
        return next((each for each in await runner.pods("web") if each.status.phase == "Running"), None)

    await runner.explain(web)
    found = await runner.until("another pod to run", replaced)
    runner.check(
        "its Deployment made another, which runs elsewhere", found.spec.node_name != "node-2", found.spec.node_name
    )
    await period(runner, 10)


async def rejected(runner: StoryRunner) -> Pod | None:
    found = [each for each in await runner.pods("web") if each.status.reason == "VolumeAttachmentLimitExceeded"]
    return found[0] if found else None


async def says(runner: StoryRunner, node: str, count: int) -> bool:
    return await counted(runner, node) == count


async def counted(runner: StoryRunner, node: str) -> int | None:
    """The attach limit that is published."""
    driver = (await runner.client.get(CSINode, node)).driver(DRIVER_NAME)
    return driver.allocatable.count if driver is not None else None


async def period(runner: StoryRunner, seconds: int) -> None:
    await runner.client.patch(CSIDriver, DRIVER_NAME, {"spec": {"nodeAllocatableUpdatePeriodSeconds": seconds}})
