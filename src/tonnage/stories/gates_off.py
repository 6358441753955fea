"""The same stories with the gates off: what goes wrong today, so that one sees what the enhancements are for.

Here a check passes when it does go wrong.
"""

from __future__ import annotations

from tonnage.faults import Fault
from tonnage.stories.enhancements import LIMIT, counted, ten_pods
from tonnage.stories.objects import claim, deployment, pod, pod_spec, stateful_set
from tonnage.stories.story_runner import StoryRunner

_LONG_ENOUGH_S = 4.0
"""How long nothing happens before the stories say that nothing happens; with the gates on it takes a second."""


async def claims_are_looked_at_one_by_one(runner: StoryRunner) -> None:
    """Without CSIStorageCapacityV2, story 1: two claims of 100Gi are sent to one disk of 100Gi"""
    await runner.apply(claim("left", "100Gi"), claim("right", "100Gi"), pod("db", ["left", "right"], node="node-1"))

    told = await runner.until("the driver to refuse a volume", lambda: runner.events("ProvisioningFailed"))
    found = await runner.pod("db")
    runner.check("the driver makes one volume and refuses the other", True, told[0].message)
    runner.check("and the pod hangs", found.status.phase == "Pending", found.status.phase)


async def old_figures_are_used_again_and_again(runner: StoryRunner) -> None:
    """Without CSIStorageCapacityV2, story 2: ten pods of 20Gi are all sent to 100Gi"""
    runner.faults(Fault("slow", value=0.3))
    runner.say("  + 10 pods, each with a claim of 20Gi, only on node-1 (100Gi)", style="cyan")
    await runner.create(*ten_pods("node-1"))

    async def refused() -> int:
        found = await runner.events("ProvisioningFailed")
        return len({each.involved_object.name for each in found}) if len(found) >= 3 else 0

    count = await runner.until("the driver to refuse volumes", refused)
    runner.check("volumes are refused that should never have been asked for", count >= 3, f"{count} claims")


async def a_drained_node_sends_its_pods_anywhere(runner: StoryRunner) -> None:
    """Without CSIStorageCapacityV2, story 3: a drained pod is sent to a node that cannot hold its volume"""
    # CPU makes node-3 the emptiest of the nodes that are left; its disks have 60Gi.
    await runner.apply(stateful_set("db", "80Gi"))
    home = await runner.bound("db-0")
    await runner.running("db-0")
    for node in ("node-1", "node-2"):
        if node != home:
            await runner.create(pod(f"busy-{node}", node=node, cpu="6"))
            await runner.running(f"busy-{node}")
    runner.say(f"  $ kubectl drain {home}", style="cyan")
    await runner.cordon(home)
    await runner.client.evict(f"{runner.namespace}/db-0")

    async def elsewhere() -> str:
        found = [each for each in await runner.pods("db") if each.spec.node_name not in ("", home)]
        return found[0].spec.node_name if found else ""

    node = await runner.until("db-0 to be sent elsewhere", elsewhere)
    runner.check("it is sent to node-3, where no disk holds 80Gi", node == "node-3", node)

    told = await runner.until("the attachment to fail", lambda: runner.events("FailedAttachVolume"))
    runner.check("and hangs there", (await runner.pod("db-0")).status.phase == "Pending", told[0].message)


async def limits_stay_what_they_were(runner: StoryRunner) -> None:
    """Without MutableCSINodeAllocatableCount: a pod is sent to a node without slots, and stays there"""
    runner.faults(Fault("slots-taken", "node-2", 3))
    await runner.apply(deployment("web", pod_spec(ephemeral=["1Gi", "1Gi"], prefers="node-2")))

    told = await runner.until("the attachment to fail", lambda: runner.events("FailedAttachVolume"))
    await runner.clock.sleep(_LONG_ENOUGH_S)
    found = (await runner.pods("web"))[0]
    runner.check(
        "the pod hangs on node-2", (found.spec.node_name, found.status.phase) == ("node-2", "Pending"), told[0].message
    )
    runner.check("CSINode never learns of it", await counted(runner, "node-2") == LIMIT, f"allocatable.count {LIMIT}")
