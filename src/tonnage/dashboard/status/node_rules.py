"""Rules about nodes and pods: nodes that are not ready, and pods that do not run although they should.

A pod that waits for a volume in trouble is not reported beside that volume: the volume's trouble names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final

from tonnage.dashboard.status.sight import Sight, Trouble, capital, describe, explain, trouble
from tonnage.dashboard.wire import NodeRow, PodRow, VolumeRow
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.meta import Key
from tonnage.objects.requirements import UNSCHEDULABLE
from tonnage.scheduling.volumes.explain.refusal_notes import half_made_in
from tonnage.whatif.page import count_text

WAITS_S: Final = 30.0
"""A scheduler tries a new pod within a second; a pod that waits longer is pending."""
STARTS_S: Final = 300.0
"""How long a pod with claims may take to start on its node: volumes are attached, images pulled."""
_PREEMPTION: Final = " preemption: "
"""Where the words about nodes end in a scheduler's message."""
STOPS_S: Final = 60.0
"""How long after its grace period a pod may still be there."""


def node_troubles(sight: Sight) -> Iterator[Trouble]:
    lying: dict[str, int] = {}
    for volume in sight.rows.of(VolumeRow).values():
        lying[volume.node] = lying.get(volume.node, 0) + (volume.state == "bound")
    for name, row in sight.rows.of(NodeRow).items():
        node = sight.objects.nodes.get(name)
        if node is None:
            continue  # a node that is gone: volumes that are left behind are found by themselves
        if not row.ready:
            yield _not_ready(node, row, lying.get(name, 0))
        elif row.cordoned:
            yield trouble(
                "node-cordoned",
                f"Node {name}",
                f"{name} is cordoned",
                f"No new pod goes there until you run kubectl uncordon {name}.",
                describe("Node", name),
                since=next((taint.time_added for taint in node.spec.taints if taint.key == UNSCHEDULABLE), None),
            )


def _not_ready(node: Node, row: NodeRow, volumes: int) -> Trouble:
    ready = node.condition("Ready")
    what = [count_text(row.pods, "pod")] if row.pods else []
    what += [count_text(volumes, "volume")] if volumes else []
    held = f" It has {' and '.join(what)}." if what else ""
    return trouble(
        "node-not-ready",
        f"Node {node.name}",
        f"{node.name} is not ready",
        f"{capital(row.reason)}{held} Its pods may stop, and nothing new starts there.",
        describe("Node", node.name),
        since=ready.last_transition_time if ready is not None else None,
    )


def pod_troubles(sight: Sight, told: AbstractSet[Key], unserved: Collection[str]) -> Iterator[Trouble]:
    """`told`: claims whose trouble is reported already. `unserved`: names of schedulers that are reported as silent."""
    waiting: dict[str, list[Pod]] = {}
    messages: dict[str, str] = {}
    for key, pod in sight.objects.pods.items():
        if pod.is_terminal:
            continue
        if pod.metadata.is_terminating:
            if sight.is_over(pod.metadata.deletion_timestamp, STOPS_S):
                yield _terminating(sight, pod)
            continue
        row = sight.rows.of(PodRow).get(key)
        if row is None or not told.isdisjoint(row.claims):
            continue
        if row.state in ("waiting", "decided") and sight.is_over(row.created, WAITS_S):
            if stuck := half_made_in(row.message):
                yield _half_made(key, stuck, row.created)
            elif row.state == "waiting" and pod.spec.scheduler_name not in unserved:
                message = row.message.partition(_PREEMPTION)[0]
                message = messages.setdefault(row.workload, message) if row.workload else message
                waiting.setdefault(message, []).append(pod)
        elif row.state == "bound" and row.claims:
            volumes = [found for claim in row.claims if (found := sight.rows.of(VolumeRow).get(claim)) is not None]
            refused = next((volume for volume in volumes if volume.attach_error), None)
            if refused is not None or sight.is_over(_bound_at(pod), STARTS_S):
                yield _not_starting(pod, row, volumes, refused)
    for message, pods in waiting.items():
        yield _pending(
            message, sorted(pods, key=lambda each: (each.metadata.creation_timestamp or sight.now, each.key))
        )


def _terminating(sight: Sight, pod: Pod) -> Trouble:
    node = sight.rows.of(NodeRow).get(pod.spec.node_name)
    if node is None or not pod.spec.node_name:
        why = "Its node is gone, so nothing confirms that it stopped."
    elif not node.ready:
        why = f"Its node {node.name} is not ready, so nothing confirms that it stopped."
    else:
        why = f"Its node {node.name} does not confirm that it stopped, or a finalizer holds it."
    held = " Its volumes stay with it until then." if pod.claim_names() else ""
    return trouble(
        "pod-terminating",
        f"Pod {pod.key}",
        f"{pod.key} does not end",
        f"{why}{held}",
        describe("Pod", pod.key),
        since=pod.metadata.deletion_timestamp,
    )


def _half_made(key: Key, sentence: str, since: datetime | None) -> Trouble:
    return trouble(
        "pod-half-made", f"Pod {key}", f"{key} has only some of its volumes", sentence, explain(key), since=since
    )


def _bound_at(pod: Pod) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    return scheduled.last_transition_time if scheduled is not None else pod.metadata.creation_timestamp


def _not_starting(pod: Pod, row: PodRow, volumes: Sequence[VolumeRow], refused: VolumeRow | None) -> Trouble:
    if refused is not None:
        why = f"The volume of {refused.claim} cannot be attached to {row.node}: {refused.attach_error}"
    else:
        slow = [volume.claim for volume in volumes if row.node in volume.attaching]
        why = f"The volume of {slow[0]} is still being attached" if slow else row.message or "Its node does not say why"
    return trouble(
        "pod-not-starting",
        f"Pod {pod.key}",
        f"{pod.key} does not start on {row.node}",
        capital(why),
        describe("Pod", pod.key),
        since=_bound_at(pod),
    )


def _pending(message: str, pods: Sequence[Pod]) -> Trouble:
    first, count = pods[0].key, len(pods)
    several = f"{first} and {count_text(count - 1, 'more pod')} are pending"
    return trouble(
        "pods-pending",
        f"Pod {first}",
        f"{first} is pending" if count == 1 else several,
        capital(message) or "No scheduler has said why yet.",
        explain(first) if count == 1 else "tonnage explain --pending",
        since=pods[0].metadata.creation_timestamp,
        count=count,
    )
