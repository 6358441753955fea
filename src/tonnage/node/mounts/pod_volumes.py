"""Mounts the volumes of one pod: reports them in use, waits for the attachment, stages and publishes, or says why not.

    every volume:  waiting for its attachment ──► attached ──► mounted
                           ├─► no slot left (KEP-4876)  ◄── a driver without attaching says so when it stages
                           └─► confined to other nodes (KEP-5381)

If no slot is left and the CSIDriver asks for updates, the limit in CSINode is corrected at once, and the pod is
rejected if there is still none after the grace. A pod whose volume stays confined elsewhere is rejected, too. Before
the first mount of a volume for a pod, claim and volume are read from the server: informers may still show a deleted
claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from tonnage.behaviour.nodes.kubelet_admission import PodRejection
from tonnage.csi.errors import Code, CsiError
from tonnage.errors import TonnageError
from tonnage.node.context import NodeContext, NodeIdle, NodePart, VolumeLookup
from tonnage.node.drivers import AttachLimitUpdater
from tonnage.node.mounts.mount_plan import MountPlan, NotProcessed, VolumeToMount, plan_volume, waiting_note
from tonnage.node.mounts.mounter import Mounter, MountStepFailed
from tonnage.objects import core_v1
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeNodeAffinity
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment, attachment_name

RESOURCE_EXHAUSTED: Final = 8
"""The number of the gRPC code."""
LONG_WAIT_S: Final = 123.0
"""Upstream's podAttachAndMountTimeout, 2 min 3 s."""


class AttachState(Enum):
    WAITING = "waiting"
    ATTACHED = "attached"
    EXHAUSTED = "exhausted"


def attach_state(attachment: VolumeAttachment | None, *, pod_came_at: datetime, waited_s: float) -> AttachState:
    """The state of an attachment for a pod that came at `pod_came_at` and has waited `waited_s`.

    An error from before the pod came counts only after upstream's long wait.
    """
    if attachment is None or attachment.metadata.is_terminating:
        return AttachState.WAITING
    if attachment.status.attached:
        return AttachState.ATTACHED
    failure = attachment.status.attach_error
    if failure is None or failure.error_code != RESOURCE_EXHAUSTED:  # it did not fail for lack of slots
        return AttachState.WAITING
    # Times on the wire are whole seconds: an error in the second in which the pod came counts as the pod's own.
    is_ours = failure.time is None or failure.time >= pod_came_at.replace(microsecond=0)
    return AttachState.EXHAUSTED if is_ours or waited_s >= LONG_WAIT_S else AttachState.WAITING


def is_confined_elsewhere(volume: PersistentVolume, node: Node, csi_node: CSINode | None) -> bool:
    """True if the node's labels rule a CSI volume out; False while its driver is not registered."""
    source = volume.spec.csi
    driver = csi_node.driver(source.driver) if source is not None and csi_node is not None else None
    labels = node.metadata.labels
    if driver is None or not all(key in labels for key in driver.topology_keys):
        return False
    return not volume.spec.node_affinity.admits(node.name, labels)


def rejection(volume: PersistentVolume, claim: str) -> str:
    return (
        f'Node does not match the node affinity of volume "{volume.name}", rejecting pod: '
        f"claim {claim} can be used on other nodes only"
    )


_UNPROCESSED_S: Final = 2.0
"""How long a claim may seem unbound before an event says so: informers are not all equally up to date."""
_LOOK_AGAIN_S: Final = 30.0
"""How soon a waiting pod is synced again without an event."""


@dataclass(slots=True)
class PodProgress:
    """What the node remembers of a pod: times, and which events were sent. A restart may lose it."""

    came_at: datetime
    since_s: float
    volumes_to_mount: tuple[VolumeToMount, ...] = ()
    exhausted_since_s: dict[str, float] = field(default_factory=dict)
    confined_since_s: float | None = None
    told_unprocessed: bool = False


class PodMounter(NodePart):
    def __init__(
        self, context: NodeContext, mounter: Mounter, limits: AttachLimitUpdater, names_in_use: Callable[[], set[str]]
    ) -> None:
        """`names_in_use` returns the volumes that must not be detached: mounted, or about to be."""
        super().__init__(context)
        self._attachments = context.attachments
        self._mounter = mounter
        self._limits = limits
        self._names_in_use = names_in_use
        self._reporting = asyncio.Lock()

    async def report_in_use(self) -> None:
        """Return when Node.status.volumesInUse is up to date, before attachments are looked at. Raises NotFound."""
        async with self._reporting:
            wanted = self._names_in_use()
            shown = self._nodes.get(self._node)
            if shown is None or set(shown.status.volumes_in_use) != wanted:
                patch = {"status": {"volumesInUse": sorted(wanted) or None}}
                self._nodes.store(await self._client.patch(Node, self._node, patch, subresource="status"))

    async def mount(self, pod: Pod, progress: PodProgress, plan: MountPlan) -> PodRejection | float | None:
        """Mount what can be mounted. Returns None if that is all, else seconds until the next look or a rejection.

        Raises TonnageError when it must be retried.
        """
        if any(to_mount.record.is_attachable for to_mount in plan.volumes_to_mount):
            await self.report_in_use()
        waited_s = self._clock.monotonic() - progress.since_s
        unattached: list[str] = []
        not_here: list[VolumeToMount] = []
        exhausted: dict[str, str] = {}  # the driver's message by the pod's name for the volume
        failures: list[TonnageError] = []
        problems: dict[str, str] = {}
        for to_mount in plan.volumes_to_mount:
            if self._mounter.is_mounted(to_mount):
                continue
            attachment, state = None, AttachState.ATTACHED
            if to_mount.record.is_attachable:
                name = attachment_name(to_mount.record.handle, to_mount.record.driver, self._node)
                attachment = self._attachments.get(name)
                state = attach_state(attachment, pod_came_at=progress.came_at, waited_s=waited_s)
            if state is not AttachState.ATTACHED or not to_mount.record.is_attachable:
                not_here.append(to_mount)
            if state is not AttachState.ATTACHED:
                unattached.append(to_mount.pod_volume)
                if state is AttachState.EXHAUSTED:
                    error = None if attachment is None else attachment.status.attach_error
                    exhausted[to_mount.pod_volume] = "" if error is None else error.message
                continue
            if problem := await self._claim_problem(pod, to_mount):
                problems[to_mount.pod_volume] = problem
                continue
            failure = await self._mount(to_mount, attachment)
            if failure is None:
                continue
            # A driver without attaching says by its answer that the node can take no more volumes.
            cause = failure.cause if isinstance(failure, MountStepFailed) else failure
            is_out_of_slots = isinstance(cause, CsiError) and cause.code is Code.RESOURCE_EXHAUSTED
            if not to_mount.record.is_attachable and is_out_of_slots:
                exhausted[to_mount.pod_volume] = failure.message
            failures.append(failure)
        others = tuple(mount for mount in plan.volumes_to_mount if mount.pod_volume not in problems)
        plan = MountPlan(others, {**plan.problems, **problems})
        if plan.problems and waited_s >= _UNPROCESSED_S:
            progress.told_unprocessed = True
            account = self._account(plan, unattached, next(iter(plan.problems.values())))
            note = f"Unable to attach or mount volumes: {account}"
            self._recorder.event(pod, "Warning", "FailedMount", "Mounting", note)
        outcome = await self._confined_outcome(pod, progress, not_here)
        if outcome is not None:
            return outcome
        by_name = {to_mount.pod_volume: to_mount.record.driver for to_mount in plan.volumes_to_mount}
        noticed = {name: told for name, told in exhausted.items() if self._limits.period_s(by_name[name])}
        if noticed:
            left_s = await self._correct_limits(progress, {name: by_name[name] for name in noticed})
            drivers = {by_name[name] for name in noticed}
            refusals = self._limits.refusals
            left_s = max(left_s, *(refusals.wait_s(driver, progress.since_s) for driver in drivers))
            if left_s > 0:
                return min(left_s, _LOOK_AGAIN_S)
            for driver in drivers:
                refusals.failed(driver, progress.since_s)
            account = self._account(plan, unattached, next(iter(noticed.values())))
            told = f"Node has reached its volume attachment limit, rejecting pod. {account}"
            return PodRejection(core_v1.VOLUME_ATTACHMENT_LIMIT_EXCEEDED, told)
        progress.exhausted_since_s.clear()
        if failures:
            for failure in failures:
                if not isinstance(failure, NodeIdle):
                    self._recorder.event(pod, "Warning", "FailedMount", "Mounting", failure.message)
            raise TonnageError(f"pod {pod.key}: {failures[0].message}")
        if plan.problems and not progress.told_unprocessed:
            return _UNPROCESSED_S
        if plan.problems or unattached:
            return _LOOK_AGAIN_S
        # Not per attached volume: a pod of two volumes might get one slot every time it is recreated, and never two.
        for driver in set(by_name.values()):
            self._limits.refusals.succeeded(driver)
        return None

    async def _confined_outcome(
        self, pod: Pod, progress: PodProgress, not_here: list[VolumeToMount]
    ) -> PodRejection | float | None:
        """Decide on a pod that waits for a volume confined to other nodes: wait or reject; None if there is none."""
        confined = [mount for mount in not_here if self._is_confined(mount.volume)]
        if not confined or pod.status.phase == "Running":
            progress.confined_since_s = None
            return None
        now_s = self._clock.monotonic()
        if progress.confined_since_s is None:
            progress.confined_since_s = now_s
        left_s = progress.confined_since_s + self._settings.confined_grace_s - now_s
        if left_s > 0:
            return left_s
        volume = await self._client.find(
            PersistentVolume, confined[0].record.name
        )  # our watch may be behind the pods' watch
        if volume is None:
            return None
        if not self._is_confined(volume):
            return _UNPROCESSED_S
        return PodRejection(core_v1.VOLUME_NODE_AFFINITY, rejection(volume, confined[0].claim))

    def _is_confined(self, volume: PersistentVolume | None) -> bool:
        node = self._nodes.get(self._node)
        if volume is None or node is None or not self._settings.gates.MutablePVNodeAffinity:
            return False
        return is_confined_elsewhere(volume, node, self._csi_nodes.get(self._node))

    async def _correct_limits(self, progress: PodProgress, drivers: dict[str, str]) -> float:
        """Update the limits of drivers without a free slot, once per volume; returns the grace that is left, in
        seconds."""
        for name, driver in drivers.items():
            if name not in progress.exhausted_since_s:
                progress.exhausted_since_s[name] = self._clock.monotonic()
                await self._limits.update_now(driver)
        since_s = min(progress.exhausted_since_s[name] for name in drivers)
        return since_s + self._settings.attach_error_grace_s - self._clock.monotonic()

    async def _claim_problem(self, pod: Pod, to_mount: VolumeToMount) -> str:
        """Why a volume must not be mounted for a pod, by the API server's claim and volume; empty if it may be."""
        if not to_mount.claim or to_mount.record.name in self._mounter.recorded(pod.uid):
            return ""
        claim = await self._client.find(PersistentVolumeClaim, to_mount.claim)
        name = "" if claim is None else claim.spec.volume_name
        volume = await self._client.find(PersistentVolume, name) if name else None
        live = VolumeLookup(claim=lambda _: claim, volume=lambda _: volume, driver=self._csi_drivers.get)
        asked = next(each for each in pod.spec.volumes if each.name == to_mount.pod_volume)
        try:
            volume_to_mount = plan_volume(pod, asked, live)
        except NotProcessed as exc:
            return str(exc)
        if volume_to_mount is None or volume_to_mount.record != to_mount.record:
            return f"error processing PVC {to_mount.claim}: PVC is bound to another volume than {to_mount.record.name}"
        return ""

    async def _mount(self, to_mount: VolumeToMount, attachment: VolumeAttachment | None) -> TonnageError | None:
        node = self._nodes.get(self._node)
        affinity = VolumeNodeAffinity() if to_mount.volume is None else to_mount.volume.spec.node_affinity
        if node is not None and not affinity.admits(node.name, node.metadata.labels):
            step = "MapVolume" if to_mount.record.is_block else "MountVolume"
            told = f'failed for volume "{to_mount.record.name}" : no matching NodeSelectorTerms'
            return TonnageError(f"{step}.NodeAffinity check {told}")
        try:
            context = {} if attachment is None else attachment.status.attachment_metadata
            await self._mounter.mount(to_mount, publish_context=context)
        except TonnageError as exc:
            return exc
        return None

    def _account(self, plan: MountPlan, unattached: list[str], reason: str) -> str:
        unmounted = [
            to_mount.pod_volume for to_mount in plan.volumes_to_mount if not self._mounter.is_mounted(to_mount)
        ]
        unprocessed = list(plan.problems)
        return waiting_note(unmounted + unprocessed, unattached, unprocessed, reason)
