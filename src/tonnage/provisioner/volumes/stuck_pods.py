"""A pod that cannot get all its volumes in one place, and what to tell people about it.

A pod's claims are made one by one. When the first is made on a node and the second finds no room there, taking back the
choice of that node does not help: the first volume holds the pod to it. The scheduler then says only that no node fits;
nobody says which claim is the reason, nor that waiting will not help. That is said here, in an event on the pod.

    stuck_pod(pod, claim, …)   whether it is so, and which claims keep the pod where there is no room
    stuck_message(…)           the sentence

Both are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key

REASON: Final = "VolumeProvisioningStuck"
_TOLD_CHARS: Final = 240
"""How much of the driver's own words is passed on: an event's note has 1,024 bytes for everything."""
_NODES_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class StuckPod:
    """Why a pod cannot move: `claims` (name, volume) are made already, and reachable only from `nodes`, all full."""

    nodes: tuple[str, ...]
    claims: tuple[tuple[str, str], ...]


def stuck_pod(
    pod: Pod,
    refused: PersistentVolumeClaim,
    *,
    claims: Callable[[Key], PersistentVolumeClaim | None],
    volume_of: Callable[[PersistentVolumeClaim], PersistentVolume | None],
    nodes: Iterable[Node],
    full_nodes: Collection[str],
) -> StuckPod | None:
    """What holds the pod to nodes that have no room for `refused`; None when it can go elsewhere.

    `volume_of` is a claim's volume, also one that is made and not bound yet. `full_nodes` are those where the driver
    had no room for this claim. A pod without other volumes, or with volumes
    that can be reached from a node that was not tried, is not stuck: the scheduler will find out.
    """
    if pod.is_terminal or pod.metadata.is_terminating or pod.spec.node_name:
        return None
    names = dict.fromkeys(pod.claim_names())
    if refused.name not in names:
        return None
    pinning: list[tuple[str, PersistentVolume]] = []
    for name in names:
        other = claims(f"{pod.namespace}/{name}") if name != refused.name else None
        volume = volume_of(other) if other is not None else None
        if volume is not None and volume.spec.node_affinity.required is not None:
            pinning.append((name, volume))
    if not pinning:
        return None
    reachable = sorted(node.name for node in nodes if all(_reaches(volume, node) for _, volume in pinning))
    if any(name not in full_nodes for name in reachable):
        return None
    return StuckPod(tuple(reachable), tuple((name, volume.name) for name, volume in pinning))


def stuck_message(refused: PersistentVolumeClaim, stuck: StuckPod, told: str) -> str:
    """The sentence for the pod: which claim is refused and why, which one holds the pod there, and what can be done."""
    size = refused.requested
    sized = f"claim {refused.name} ({size})" if size is not None else f"claim {refused.name}"
    made = _listed([f"claim {name} (volume {volume})" for name, volume in stuck.claims])
    others = _listed([f"claim {name}" for name, _ in stuck.claims])
    is_are = "is" if len(stuck.claims) == 1 else "are"
    reason = told if len(told) <= _TOLD_CHARS else f"{told[:_TOLD_CHARS]}..."
    if not stuck.nodes:
        return (
            f"the volume of {sized} cannot be made where the pod's other volumes are: {made} {is_are} reachable from "
            f"no node of the cluster ({reason}). Bring back the node of {others}, or delete {others}, whose data is "
            "lost then, and the pod, so that all its volumes are made together on another node"
        )
    where = f"node {stuck.nodes[0]}" if len(stuck.nodes) == 1 else f"nodes {_cut_list(stuck.nodes)}"
    return (
        f"the volume of {sized} found no room on {where} ({reason}), and the pod can go nowhere else: {made} {is_are} "
        f"reachable from there only. Free storage of class {refused.spec.storage_class_name or 'the default'} on "
        f"{where}; or delete {refused.name}, which is still empty, and ask for less; or delete {others}, whose data is "
        "lost then, and the pod, so that all its volumes are made together on another node"
    )


def _reaches(volume: PersistentVolume, node: Node) -> bool:
    return volume.spec.node_affinity.admits(node.name, node.metadata.labels)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _cut_list(names: tuple[str, ...]) -> str:
    more = len(names) - _NODES_NAMED
    return ", ".join(names[:_NODES_NAMED]) + (f" and {more} more" if more > 0 else "")
