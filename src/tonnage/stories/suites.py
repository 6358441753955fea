"""The stories of KEP-5925 (pools), KEP-4049 (scoring), KEP-5278 (nominations) and KEP-4876 (attach limits), and which
of them run on which cluster.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from tonnage.driver import DRIVER_NAME
from tonnage.faults import Fault
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import CSIDriver, CSINode
from tonnage.stories.story_runner import StoryRunner, claim, deployment, pod, pod_spec, stateful_set

NO_ROOM = "node(s) did not have enough free storage"


async def claims_are_packed_jointly(runner: StoryRunner) -> None:
    """KEP-5925, story 1: all claims of a pod have to fit into a node's pools together"""
    known = (await runner.capacity()).items()
    published = {node: [str(pool) for pool in each.available_capacities] for node, each in known}
    runner.check(
        "every pool of every node is known to the scheduler",
        published == {"node-1": ["100Gi"], "node-2": ["100Gi"] * 3, "node-3": ["60Gi", "60Gi"]},
        ", ".join(f"{node} {' + '.join(pools)}" for node, pools in sorted(published.items())),
    )
    for count, size, verdict in ((2, "100Gi", True), (1, "120Gi", False), (3, "80Gi", True), (4, "80Gi", False)):
        claims = [claim(f"data-{number}", size) for number in range(count)]
        asked = pod("asked", [each["metadata"]["name"] for each in claims])
        answer = await runner.explanation_of(asked, *claims)
        fits = [each.name for each in answer.nodes if each.feasible]
        where = ", ".join(fits) or "nowhere"
        runner.check(f"{count} x {size} fit {where}", fits == (["node-2"] if verdict else []), answer.message)
    await runner.apply(
        claim("left", "100Gi"),
        claim("right", "100Gi"),
        pod("db", ["left", "right"]),
        claim("huge", "120Gi"),
        pod("too-big", ["huge"]),
    )
    node = await runner.bound("db")
    await runner.running("db")
    runner.check("two claims of 100Gi run where there are three disks", node == "node-2", node)
    message = await runner.refused("too-big")
    runner.check("one of 120Gi is not sent to 300Gi that are three disks", f"3 {NO_ROOM}" in message)


async def old_figures_are_not_used_twice(runner: StoryRunner) -> None:
    """KEP-5925, story 2: ten pods of 20Gi on a disk of 100Gi, with a slow driver"""
    await _five_of_ten_run(runner, "")


async def old_figures_are_not_used_twice_by_the_letter(runner: StoryRunner) -> None:
    """KEP-5925, story 2 by the letter (reservation: Object): the same, one pod for each refresh of the figures"""
    await _five_of_ten_run(runner, "by-the-letter")


async def _five_of_ten_run(runner: StoryRunner, profile: str) -> None:
    runner.faults(Fault("slow", value=0.3))
    docs = ten_pods(scheduler=profile)
    runner.say("  + 10 pods, each with a claim of 20Gi, only on node-1 (100Gi)", style="cyan")
    await runner.create(*docs)

    async def settled() -> bool:
        found = await runner.pods()
        running = sum(each.status.phase == "Running" for each in found)
        waiting = sum(
            any(c.type == "PodScheduled" and NO_ROOM in c.message for c in each.status.conditions) for each in found
        )
        return running == 5 and running + waiting == 10

    await runner.until("five pods to run and five to wait for room", settled)
    failed = await runner.events("ProvisioningFailed")
    runner.check("five pods run, five wait with a reason", True)
    waiting = next(each.name for each in await runner.pods() if not each.spec.node_name)
    await runner.explain_anew(waiting)
    runner.check("not one volume was refused by the driver", not failed, f"{len(failed)} x ProvisioningFailed")


def ten_pods(*, scheduler: str = "") -> list[Doc]:
    docs = []
    for number in range(10):
        asking = pod(f"batch-{number}", [f"data-{number}"], node="node-1", scheduler=scheduler)
        docs += [claim(f"data-{number}", "20Gi"), asking]
    return docs


async def a_drained_node_gives_its_volumes_away(runner: StoryRunner) -> None:
    """KEP-5925, story 3: a volume is rebuilt where there is room, when its node is drained"""
    await runner.apply(stateful_set("db", "80Gi"))
    home = await runner.bound("db-0")
    await runner.running("db-0")
    volume = await volume_of(runner, "data-db-0")
    note = "remember me"
    (await mounted(runner, "db-0", volume)).joinpath("note").write_text(note)
    # One of the two other nodes has no disk that is large enough: only capacity distinguishes them.
    others = [node for node in ("node-1", "node-2") if node != home]
    runner.say(f"  $ kubectl drain {home}", style="cyan")
    await runner.cordon(home)

    async def is_free() -> bool:
        return (await runner.client.get(PersistentVolume, volume.name)).spec.node_affinity.required is None

    await runner.until("the driver to free the volume from its node", is_free)
    await runner.explain_anew("db-0")
    await runner.client.evict(f"{runner.namespace}/db-0")

    async def moved() -> str:
        found = [each for each in await runner.pods("db") if each.spec.node_name not in ("", home)]
        return found[0].spec.node_name if found and found[0].status.phase == "Running" else ""

    node = await runner.until("db-0 to run elsewhere", moved)
    runner.check(f"db-0 runs on {node}, which has a disk for 80Gi; node-3 has none", node in others, node)
    volume = await runner.client.get(PersistentVolume, volume.key)
    runner.check("the volume is tied to its new node", node in str(volume.spec.node_affinity), volume.name)
    found = (await mounted(runner, "db-0", volume)).joinpath("note").read_text()
    runner.check("and what was in it is still there", found == note, note)
    told = await runner.events("CapacityAwareRescheduling")
    runner.check("an event says so", len(told) == 1, told[0].message if told else "none")


async def volume_of(runner: StoryRunner, name: str) -> PersistentVolume:
    found = await runner.client.get(PersistentVolumeClaim, f"{runner.namespace}/{name}")
    return await runner.client.get(PersistentVolume, found.spec.volume_name)


async def mounted(runner: StoryRunner, pod: str, volume: PersistentVolume) -> Path:
    uid = (await runner.pod(pod)).uid
    nodes = runner.plane.settings.data_dir / "nodes"
    return next(nodes.glob(f"**/pods/{uid}/volumes/kubernetes.io~csi/{volume.name}/mount"))


async def most_free_first(runner: StoryRunner) -> None:
    """KEP-4049, story 1: room to grow, so the node with the most free storage"""
    await _placed(runner, "", "node-2", "300Gi are free on node-2, 100Gi on node-1, 120Gi on node-3")


async def least_free_first(runner: StoryRunner) -> None:
    """KEP-4049, story 2: as few nodes as possible, so the fullest that still has room"""
    await _placed(runner, "least-free", "node-1", "100Gi are free on node-1, less than anywhere else")


async def _placed(runner: StoryRunner, profile: str, wanted: str, why: str) -> None:
    docs = (claim("data", "10Gi"), pod("db", ["data"], scheduler=profile))
    answer = await runner.explanation_of(docs[1], *docs)
    scores = {each.name: each.scores.get("VolumeBinding", 0) for each in answer.nodes}
    shown = ", ".join(f"{name} {score}" for name, score in sorted(scores.items()))
    await runner.apply(*docs)
    node = await runner.bound("db")
    runner.check(f"it goes to {wanted}", node == wanted, why)
    runner.check("by the score for free storage", max(scores, key=lambda name: scores[name]) == wanted, shown)


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
    patch: Doc = {"status": {"nominatedNodeName": "node-1"}}
    await runner.client.patch(Pod, f"{runner.namespace}/planned", patch, subresource="status")
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


TOO_MANY = "node(s) exceed max volume count"
LIMIT = 4


async def limits_follow_reality(runner: StoryRunner) -> None:
    """KEP-4876, stories 1 to 3: slots that others take, and give back, are seen within the period"""
    await period(runner, 10)
    runner.faults(Fault("slots-taken", "node-2", 3))

    async def says_one() -> bool:
        return await counted(runner, "node-2") == 1

    await runner.until("CSINode of node-2 to say 1", says_one)
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

    async def rejected() -> Pod | None:
        found = await runner.pods("web")
        return next((each for each in found if each.status.reason == "VolumeAttachmentLimitExceeded"), None)

    failed = await runner.until("a pod to be failed", rejected)
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


async def counted(runner: StoryRunner, node: str) -> int | None:
    driver = (await runner.client.get(CSINode, node)).driver(DRIVER_NAME)
    return driver.allocatable.count if driver is not None else None


async def period(runner: StoryRunner, seconds: int) -> None:
    await runner.client.patch(CSIDriver, DRIVER_NAME, {"spec": {"nodeAllocatableUpdatePeriodSeconds": seconds}})


# The same stories with the gates off: what goes wrong today. A check passes if it does go wrong.
_LONG_ENOUGH_S = 4.0
"""How long nothing must happen before a story says so; with the gates on it takes a second."""


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
    await runner.create(*ten_pods())

    async def refused() -> int:
        found = await runner.events("ProvisioningFailed")
        return len({event.involved_object.name for event in found}) if len(found) >= 3 else 0

    count = await runner.until("the driver to refuse volumes", refused)
    runner.check("volumes are refused that should never have been asked for", count >= 3, f"{count} claims")


async def a_drained_node_sends_its_pods_anywhere(runner: StoryRunner) -> None:
    """Without CSIStorageCapacityV2, story 3: a drained pod is sent to a node that cannot hold its volume"""
    # CPU makes node-3 the emptiest of the remaining nodes; its disks have 60Gi.
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


class Story(Protocol):
    """An async function: its name is the story's, its docstring the title."""

    __name__: str

    async def __call__(self, runner: StoryRunner, /) -> None: ...


PROFILES = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
profiles:
- schedulerName: default-scheduler
- schedulerName: least-free
  pluginConfig:
  - name: VolumeBinding
    args:
      shape:
      - {utilization: 0, score: 0}
      - {utilization: 100, score: 10}
- schedulerName: by-the-letter
  pluginConfig:
  - name: StorageCapacity
    args: {apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: Object, legacyPools: Strict}
"""
"""The default profile prefers the most free storage and counts bytes; the second prefers the least storage that is
enough; the third reserves whole capacity objects, as KEP-5925 is written."""


@dataclass(frozen=True, slots=True)
class Suite:
    title: str
    gates: str
    stories: tuple[Story, ...]
    nodes: int = 3
    node_pools: tuple[str, ...] = ("node-1=100Gi", "node-2=3x100Gi", "node-3=2x60Gi")
    max_volumes: tuple[str, ...] = ("16", f"node-2={LIMIT}")

    def only(self, names: Collection[str]) -> Suite:
        """The suite with its stories of these names; with all of them if no name is given."""
        chosen = (story for story in self.stories if not names or name_of(story) in names)
        return replace(self, stories=tuple(chosen))


SUITES: tuple[Suite, ...] = (
    Suite(
        "with all four enhancements",
        "",
        (
            claims_are_packed_jointly,
            old_figures_are_not_used_twice,
            old_figures_are_not_used_twice_by_the_letter,
            a_drained_node_gives_its_volumes_away,
            most_free_first,
            least_free_first,
            the_decision_is_seen_and_survives,
            others_may_propose,
            limits_follow_reality,
            a_refused_attachment_corrects_the_limit,
        ),
    ),
    Suite(
        "without: the gates of KEP-5925 and KEP-4876 are off",
        "CSIStorageCapacityV2=false,MutableCSINodeAllocatableCount=false",
        (
            claims_are_looked_at_one_by_one,
            old_figures_are_used_again_and_again,
            a_drained_node_sends_its_pods_anywhere,
            limits_stay_what_they_were,
        ),
    ),
)


def name_of(story: Story) -> str:
    """The name by which `tonnage demo --only` knows a story."""
    return story.__name__.replace("_", "-")


def title_of(story: Story) -> str:
    return (story.__doc__ or "").strip()


STORIES: Final = {name_of(story): story for suite in SUITES for story in suite.stories}
