"""Removes the selected node when it is full, and reports pods that this does not help.

Removing the selected-node annotation asks the scheduler for another node. A pod whose first volume exists on a node
that is full for the second is stuck: an event on the pod names the claims that hold it there, and is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from tonnage import logs
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import SELECTED_NODE, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.provisioner.context import ProvisionerContext, ProvisionerPart
from tonnage.provisioner.volumes.create_volume import volume_name

REASON: Final = "VolumeProvisioningStuck"
_TOLD_CHARS: Final = 240
"""How much of the driver's message is passed on: an event's note has 1,024 bytes in all."""
_NODES_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class StuckPod:
    """Why a pod cannot move: `claims` (name, volume) exist and are reachable only from `nodes`, which are all full."""

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
    """What ties the pod to nodes without capacity for `refused`; None if it can go elsewhere.

    `volume_of` also knows volumes that are not bound yet. `full_nodes` had no capacity for this claim.
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
    affinities = [volume.spec.node_affinity for _, volume in pinning]
    reachable = sorted(
        node.name for node in nodes if all(affinity.admits(node.name, node.metadata.labels) for affinity in affinities)
    )
    if any(name not in full_nodes for name in reachable):
        return None
    return StuckPod(tuple(reachable), tuple((name, volume.name) for name, volume in pinning))


def stuck_message(refused: PersistentVolumeClaim, stuck: StuckPod, told: str) -> str:
    """The event's text: which claim is refused and why, which claim holds the pod there, and what to do."""
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
    nodes, more = ", ".join(stuck.nodes[:_NODES_NAMED]), len(stuck.nodes) - _NODES_NAMED
    where = f"node {nodes}" if len(stuck.nodes) == 1 else f"nodes {nodes}{f' and {more} more' if more > 0 else ''}"
    return (
        f"the volume of {sized} found no room on {where} ({reason}), and the pod can go nowhere else: {made} {is_are} "
        f"reachable from there only. Free storage of class {refused.spec.storage_class_name or 'the default'} on "
        f"{where}; or delete {refused.name}, which is still empty, and ask for less; or delete {others}, whose data is "
        "lost then, and the pod, so that all its volumes are made together on another node"
    )


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
_REMIND_S = 300.0
"""How often the event is repeated: the server forgets events within the hour."""

_log = logs.logger("tonnage.provisioner")


@dataclass(slots=True)
class _Refusal:
    """The driver's message by node that had no capacity for a claim."""

    claim: PersistentVolumeClaim
    told_by_node: dict[str, str] = field(default_factory=dict)
    told_at_s: float = 0.0
    """When its pods were looked at last."""
    notes: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By pod uid, the last event's note and its time."""


class Rescheduling(ProvisionerPart):
    """Asks the scheduler by annotation, and informs people by events on pods."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        self._has_all_nodes = context.caches.has_all_nodes
        self._refusals: dict[str, _Refusal] = {}
        self._made: dict[str, PersistentVolume] = {}  # by claim uid, until the cache shows them

    async def remove_selected_node(self, claim: PersistentVolumeClaim, node: str) -> str:
        """Remove this selected node if it is still set; returns the claim's old version, or empty. Raises Conflict."""
        current = await self._client.find(PersistentVolumeClaim, claim.key)
        if current is None or current.uid != claim.uid or current.selected_node != node or current.spec.volume_name:
            return ""
        version = current.metadata.resource_version
        patch = {"metadata": {"resourceVersion": version, "annotations": {SELECTED_NODE: None}}}
        await self._client.patch(PersistentVolumeClaim, claim.key, patch)
        _log.info("Asked the scheduler for another node", claim=claim.key, node=node)
        return version

    def refused(self, claim: PersistentVolumeClaim, node: str, told: str) -> None:
        refusal = self._refusals.setdefault(claim.uid, _Refusal(claim))
        refusal.claim = claim
        refusal.told_by_node[node] = told

    def made(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        self._refusals.pop(claim.uid, None)
        self._made[claim.uid] = volume

    def forget(self, uid: str) -> None:
        """The claim is gone, or the caches show its volume."""
        self._refusals.pop(uid, None)
        self._made.pop(uid, None)

    async def remind(self, claim: PersistentVolumeClaim) -> float | None:
        """Repeat the events of a refused claim without a node if it is time; returns seconds until the next time."""
        refusal = self._refusals.get(claim.uid)
        if refusal is None:
            return None
        left_s = refusal.told_at_s + _REMIND_S - self._clock.monotonic()
        if left_s > 0:
            return left_s
        await self.send_events(claim)
        return _REMIND_S

    async def send_events(self, claim: PersistentVolumeClaim) -> None:
        """Send events to the pods of a refused or provisioned claim about what holds them back. Failures are logged."""
        if (about := self._refusals.get(claim.uid)) is not None:
            about.told_at_s = self._clock.monotonic()
        refusals = {
            each.claim.name: each for each in self._refusals.values() if each.claim.namespace == claim.namespace
        }
        if not refusals:
            return
        try:
            pods = await self._client.list(Pod, namespace=claim.namespace, field_selector=_LIVE_PODS)
            nodes = tuple(self._nodes) if self._has_all_nodes else (await self._client.list(Node)).items
        except TonnageError as exc:
            _log.warning("Pods cannot be informed", claim=claim.key, error=exc.message)
            return
        for pod in pods.items:
            names = dict.fromkeys(pod.claim_names())
            if claim.name in names:
                self._tell(pod, [refusals[name] for name in names if name in refusals], nodes)

    def _tell(self, pod: Pod, refusals: Iterable[_Refusal], nodes: Collection[Node]) -> None:
        for refusal in refusals:
            stuck = stuck_pod(
                pod,
                refusal.claim,
                claims=self._claims.get,
                volume_of=self._volume_of,
                nodes=nodes,
                full_nodes=refusal.told_by_node,
            )
            if stuck is not None:
                told = refusal.told_by_node[next(iter(stuck.nodes or refusal.told_by_node))]
                note, now_s = stuck_message(refusal.claim, stuck, told), self._clock.monotonic()
                said, at_s = refusal.notes.get(pod.uid, ("", 0.0))
                if said == note and now_s - at_s < _REMIND_S:
                    continue  # the scheduler tries every few seconds; once is enough
                refusal.notes[pod.uid] = note, now_s
                _log.warning("A pod is stuck", pod=pod.key, note=note)
                self._recorder.event(pod, "Warning", REASON, "Provisioning", note, related=refusal.claim)

    def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """A claim's volume; before the binding it is found by its name."""
        options = self._options
        name = claim.spec.volume_name or volume_name(
            options.volume_name_prefix, claim.uid, options.volume_name_uuid_length
        )
        return self._volumes.get(name) or self._made.get(claim.uid)
