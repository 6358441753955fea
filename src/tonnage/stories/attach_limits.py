"""KEP-4876's stories: attach limits follow what is really there, by and by and at once when it hurts."""

from __future__ import annotations

from tonnage.faults import Fault
from tonnage.objects.core_v1 import Pod
from tonnage.objects.storage_v1 import CSIDriver, CSINode
from tonnage.plane.starter_objects import DRIVER
from tonnage.stories.objects import claim, deployment, pod, pod_spec
from tonnage.stories.stage import Stage

TOO_MANY = "node(s) exceed max volume count"
LIMIT = 4
"""Attach slots of node-2 in the play."""


async def limits_follow_reality(stage: Stage) -> None:
    """KEP-4876, stories 1 to 3: slots that others take, and give back, are seen within the period"""
    await period(stage, 10)
    stage.faults(Fault("slots-taken", "node-2", 3))
    await stage.until("CSINode of node-2 to say 1", lambda: says(stage, "node-2", 1))
    stage.holds("node-2 has one slot left, and CSINode says so", True, f"allocatable.count {LIMIT} -> 1")
    await stage.apply(claim("a", "1Gi"), claim("b", "1Gi"), pod("db", ["a", "b"], node="node-2"))
    message = await stage.refused("db")
    stage.holds("a pod with two volumes is not sent there", f"1 {TOO_MANY}" in message)
    stage.faults()
    node = await stage.bound("db")
    await stage.running("db")
    stage.holds(
        "the slots are given back, and the pod goes there by itself", node == "node-2", "allocatable.count -> 4"
    )


async def a_refused_attachment_corrects_the_limit(stage: Stage) -> None:
    """KEP-4876: an attachment that finds no slot corrects the limit at once, and the pod is replaced elsewhere"""
    await period(stage, 3600)
    stage.faults(Fault("slots-taken", "node-2", 3))
    count = await counted(stage, "node-2")
    stage.holds(
        "CSINode still believes in all slots", count == LIMIT, f"allocatable.count {count}; next look in an hour"
    )
    web = deployment("web", pod_spec(ephemeral=["1Gi", "1Gi"], prefers="node-2"))
    await stage.apply(web)
    failed = await stage.until("a pod to be failed", lambda: rejected(stage))
    stage.holds("the pod that cannot be attached is failed", True, f"{failed.status.reason}: {failed.status.message}")
    stage.holds("it was on node-2, whose slots were gone", failed.spec.node_name == "node-2", failed.spec.node_name)
    count = await counted(stage, "node-2")
    stage.holds("CSINode was corrected at once", count == 1, f"allocatable.count {count}")

    async def replaced() -> Pod | None:
        return next((each for each in await stage.pods("web") if each.status.phase == "Running"), None)

    await stage.foretell(web)
    found = await stage.until("another pod to run", replaced)
    stage.holds(
        "its Deployment made another, which runs elsewhere", found.spec.node_name != "node-2", found.spec.node_name
    )
    await period(stage, 10)


async def rejected(stage: Stage) -> Pod | None:
    found = [each for each in await stage.pods("web") if each.status.reason == "VolumeAttachmentLimitExceeded"]
    return found[0] if found else None


async def says(stage: Stage, node: str, count: int) -> bool:
    return await counted(stage, node) == count


async def counted(stage: Stage, node: str) -> int | None:
    """The attach limit that is published."""
    driver = (await stage.client.get(CSINode, node)).driver(DRIVER)
    return driver.allocatable.count if driver is not None else None


async def period(stage: Stage, seconds: int) -> None:
    await stage.client.patch(CSIDriver, DRIVER, {"spec": {"nodeAllocatableUpdatePeriodSeconds": seconds}})
