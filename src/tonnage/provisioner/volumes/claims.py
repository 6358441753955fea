"""Which claims this driver provisions, and what it writes on them: finalizers, refusals, the removed selected node.

    protected ──► CreateVolume ──► PersistentVolume written ──► finalizer off, with the binding
                       └──► refused, and the claim is being deleted ──► finalizer off

Without the finalizer a claim deleted while the provisioner is down would leave a volume that nobody finds, as upstream.
Our binder removes it with the binding; with another binder the provisioner does, after `BINDER_S`.

Removing the selected-node annotation asks the scheduler for another node. A pod whose first volume exists on a node
that is full for the second is stuck: an event on the pod names the claims that hold it there, and is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tonnage import errors, logs
from tonnage.client import cache, http
from tonnage.objects import core_v1, storage_v1
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, persistent_volume
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.provisioner.context import ProvisionerContext, ProvisionerPart
from tonnage.provisioner.volumes.preparation import CLAIM, CLONE_FINALIZER

FINALIZER = core_v1.VOLUME_PROTECTION
BINDER_S = 30.0
"""How long a provisioned claim is left to the binder, which removes the finalizer with the binding."""

_log = logs.logger("tonnage.provisioner")


async def protect(client: http.Client, claim: PersistentVolumeClaim) -> None:
    """Add the finalizer, if that is allowed. Raises NotFound, Conflict or Invalid if the claim is being deleted."""
    if not is_protected(claim):
        try:
            await _patch(client, claim, {"finalizers": [FINALIZER]})
        except errors.Forbidden as exc:
            _log.warning("A claim cannot be held while its volume is made", claim=claim.key, error=exc.message)


async def unprotect(client: http.Client, claim: PersistentVolumeClaim) -> None:
    with suppress(errors.NotFound, errors.Conflict):  # gone, or another claim of its name
        await _patch(client, claim, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})


async def _patch(client: http.Client, claim: PersistentVolumeClaim, metadata: Doc) -> None:
    patch = {"metadata": {"uid": claim.uid, **metadata}}
    await client.patch(PersistentVolumeClaim, claim.key, patch, patch_type="strategic")


def is_protected(claim: PersistentVolumeClaim) -> bool:
    """True if the claim may have a volume that is not saved as a PersistentVolume."""
    return FINALIZER in claim.metadata.finalizers


class CloningProtectionController:
    """Removes the cloning finalizer from claims that are being deleted."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._claims = context.caches.claims
        self.work = context.queue("cloning", self.reconcile, context.options.cloning_protection_threads)
        self.work.follow(self._claims, self._keys_of)

    def _keys_of(self, claim: PersistentVolumeClaim) -> Iterator[Key]:
        """The claim itself, and the claim it is cloned from."""
        yield claim.key
        if claim.spec.data_source is not None and claim.spec.data_source.kind == CLAIM:
            yield f"{claim.namespace}/{claim.spec.data_source.name}"

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None or not claim.metadata.is_terminating:
            return None
        patch = cache.remove_finalizer(claim, CLONE_FINALIZER)
        others = (other for other in self._claims if other is not claim and other.status.phase == "Pending")
        if patch is None or any(key in self._keys_of(other) for other in others):
            return None  # the clone's next change queues this claim again
        await self._client.patch(PersistentVolumeClaim, key, patch)
        return None


BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """The provisioner that the binder wrote on the claim; empty while it has not."""
    annotations = claim.metadata.annotations
    return annotations.get(core_v1.STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER, ""))


def is_for(claim: PersistentVolumeClaim, driver: str) -> bool:
    """True if the claim has no volume and this driver provisions it, also while the claim is being deleted."""
    return not claim.spec.volume_name and provisioner_of(claim) == driver


def is_due(claim: PersistentVolumeClaim, storage_class: storage_v1.StorageClass) -> bool:
    """True if the claim can be provisioned now: WaitForFirstConsumer needs the selected node."""
    return bool(claim.selected_node) or not storage_class.waits_for_consumer


async def write_refusal(client: http.Client, claim: PersistentVolumeClaim, told: str) -> None:
    """Write a refusal that capacity does not cure on the claim, so that no scheduler reserves for it.

    Any other text, or none, removes an earlier refusal. A failed write is only logged: the event has the same text.
    """
    text = persistent_volume.refusal_text(claim, told) if persistent_volume.is_for_good(told) else None
    if claim.metadata.annotations.get(persistent_volume.PROVISIONING_REFUSED) == text:
        return
    patch = {"metadata": {"uid": claim.uid, "annotations": {persistent_volume.PROVISIONING_REFUSED: text}}}
    try:
        await client.patch(PersistentVolumeClaim, claim.key, patch)
    except errors.TonnageError as exc:
        _log.info("The last word on a claim could not be written", claim=claim.key, error=exc.message)


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

    def __init__(self, context: ProvisionerContext, volumes: cache.MutationCache[PersistentVolume]) -> None:
        super().__init__(context)
        self._newest_volumes = volumes
        self._has_all_nodes = context.caches.has_all_nodes
        self._refusals: dict[str, _Refusal] = {}

    async def remove_selected_node(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim | None:
        """Remove this selected node if it is still set; returns the claim as it is then. Raises Conflict."""
        current = await self._client.find(PersistentVolumeClaim, claim.key)
        if current is None or current.uid != claim.uid or current.selected_node != node or current.spec.volume_name:
            return current
        version = current.metadata.resource_version
        patch = {"metadata": {"resourceVersion": version, "annotations": {core_v1.SELECTED_NODE: None}}}
        patched = await self._client.patch(PersistentVolumeClaim, claim.key, patch)
        _log.info("Asked the scheduler for another node", claim=claim.key, node=node)
        return patched

    def refused(self, claim: PersistentVolumeClaim, node: str, told: str) -> None:
        refusal = self._refusals.setdefault(claim.uid, _Refusal(claim))
        refusal.claim = claim
        refusal.told_by_node[node] = told

    def forget(self, uid: str) -> None:
        """The claim is gone, or has its volume."""
        self._refusals.pop(uid, None)

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
        except errors.TonnageError as exc:
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
        return self._newest_volumes.get(claim.spec.volume_name or self._options.volume_name(claim.uid))
