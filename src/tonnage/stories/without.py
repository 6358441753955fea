"""The same stories with the gates off: what goes wrong today, so that one sees what the enhancements are for.

Here a claim holds when the trouble is there.
"""

from __future__ import annotations

from tonnage.faults import Fault
from tonnage.stories.attach_limits import LIMIT, counted
from tonnage.stories.objects import claim, deployment, pod, pod_spec, stateful_set
from tonnage.stories.pools import ten_pods
from tonnage.stories.stage import Stage

_LONG_ENOUGH_S = 4.0
"""How long nothing happens before the stories say that nothing happens; with the gates on it takes a second."""


async def claims_are_looked_at_one_by_one(stage: Stage) -> None:
    """Without CSIStorageCapacityV2, story 1: two claims of 100Gi are sent to one disk of 100Gi"""
    await stage.apply(claim("left", "100Gi"), claim("right", "100Gi"), pod("db", ["left", "right"], node="node-1"))

    told = await stage.until("the driver to refuse a volume", lambda: stage.events("ProvisioningFailed"))
    found = await stage.pod("db")
    stage.holds("the driver makes one volume and refuses the other", True, told[0].message)
    stage.holds("and the pod hangs", found.status.phase == "Pending", found.status.phase)


async def old_figures_are_used_again_and_again(stage: Stage) -> None:
    """Without CSIStorageCapacityV2, story 2: ten pods of 20Gi are all sent to 100Gi"""
    stage.faults(Fault("slow", value=0.3))
    stage.console.print("  + 10 pods, each with a claim of 20Gi, only on node-1 (100Gi)", style="cyan")
    await stage.create(*ten_pods("node-1"))

    async def refused() -> int:
        found = await stage.events("ProvisioningFailed")
        return len({each.involved_object.name for each in found}) if len(found) >= 3 else 0

    count = await stage.until("the driver to refuse volumes", refused)
    stage.holds("volumes are refused that should never have been asked for", count >= 3, f"{count} claims")


async def a_drained_node_sends_its_pods_anywhere(stage: Stage) -> None:
    """Without CSIStorageCapacityV2, story 3: a drained pod is sent to a node that cannot hold its volume"""
    # CPU makes node-3 the emptiest of the nodes that are left; its disks have 60Gi.
    await stage.apply(stateful_set("db", "80Gi"))
    home = await stage.bound("db-0")
    await stage.running("db-0")
    for node in ("node-1", "node-2"):
        if node != home:
            await stage.create(pod(f"busy-{node}", node=node, cpu="6"))
            await stage.running(f"busy-{node}")
    stage.console.print(f"  $ kubectl drain {home}", style="cyan")
    await stage.cordon(home)
    await stage.client.evict(f"{stage.namespace}/db-0")

    async def elsewhere() -> str:
        found = [each for each in await stage.pods("db") if each.spec.node_name not in ("", home)]
        return found[0].spec.node_name if found else ""

    node = await stage.until("db-0 to be sent elsewhere", elsewhere)
    stage.holds("it is sent to node-3, where no disk holds 80Gi", node == "node-3", node)

    told = await stage.until("the attachment to fail", lambda: stage.events("FailedAttachVolume"))
    stage.holds("and hangs there", (await stage.pod("db-0")).status.phase == "Pending", told[0].message)


async def limits_stay_what_they_were(stage: Stage) -> None:
    """Without MutableCSINodeAllocatableCount: a pod is sent to a node without slots, and stays there"""
    stage.faults(Fault("slots-taken", "node-2", 3))
    await stage.apply(deployment("web", pod_spec(ephemeral=["1Gi", "1Gi"], prefers="node-2")))

    told = await stage.until("the attachment to fail", lambda: stage.events("FailedAttachVolume"))
    await stage.clock.sleep(_LONG_ENOUGH_S)
    found = (await stage.pods("web"))[0]
    stage.holds(
        "the pod hangs on node-2", (found.spec.node_name, found.status.phase) == ("node-2", "Pending"), told[0].message
    )
    stage.holds("CSINode never learns of it", await counted(stage, "node-2") == LIMIT, f"allocatable.count {LIMIT}")
