"""The pods of one node: their volumes up, their status told, their volumes down.

    bound ──► creating: volumes brought up (`pod_mounting`) ──► running ──► deleted: unpublish, unstage, gone
                 └─ rejected: event, Failed: VolumeAttachmentLimitExceeded, for its controller to make another

`bring(uid)` looks at what is there and does what is missing; see `client.reconciler`. It never waits for others: a pod
whose volume is not attached yet is looked at again when its VolumeAttachment changes. Pods that have ended or are gone
lose their mounts, those that were force-deleted or went while we were not running too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tonnage import logs
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.errors import NotFound
from tonnage.node.csinode.attach_limits import LimitUpdater
from tonnage.node.injected_faults import NodeFaults
from tonnage.node.metrics import Meter
from tonnage.node.mounts.expansion import Expander
from tonnage.node.mounts.mount_plan import Known, plan
from tonnage.node.mounts.mounter import Mounts
from tonnage.node.mounts.pod_volumes import PodMounter, Work
from tonnage.node.mounts.volumes_in_use import VolumesInUse
from tonnage.node.pods.index import PodIndex
from tonnage.node.pods.status import came_at, creating_patch, pod_ip, rejected_patch, running_patch, terminated_patch
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc
from tonnage.objects.storage_v1 import VolumeAttachment

LIMIT_EXCEEDED: Final = "VolumeAttachmentLimitExceeded"

_log = logs.logger(__name__)


class PodWorker:
    """Looks after the pods of one node."""

    def __init__(
        self,
        node: str,
        client: Client,
        *,
        clock: Clock,
        index: PodIndex,
        known: Known,
        nodes: MutationCache[Node],
        attachments: Cache[VolumeAttachment],
        mounts: Mounts,
        limits: LimitUpdater,
        expander: Expander,
        recorder: Recorder,
        faults: NodeFaults,
        meter: Meter,
        host_ip: str,
        attach_error_grace_s: float,
    ) -> None:
        self._node = node
        self._client = client
        self._clock = clock
        self._index = index
        self._known = known
        self._mounts = mounts
        self._expander = expander
        self._recorder = recorder
        self._faults = faults
        self._meter = meter
        self._host_ip = host_ip
        self._works: dict[str, Work] = {}
        self._in_use = VolumesInUse(client, node, nodes, self._names_in_use)
        self._mounter = PodMounter(
            node,
            clock=clock,
            nodes=nodes,
            attachments=attachments,
            mounts=mounts,
            limits=limits,
            in_use=self._in_use,
            recorder=recorder,
            grace_s=attach_error_grace_s,
        )

    async def bring(self, uid: str) -> float | None:
        """Bring one pod to what its spec asks; seconds after which to look again, None when news will come.

        Raises TonnageError; then it is to be tried again.
        """
        if self._faults.is_idle(self._node):
            return None
        pod = self._index.pod(uid)
        if pod is None:
            await self._leave(uid)
        elif pod.metadata.is_terminating:
            await self._end(pod)
        elif pod.is_terminal:
            await self._leave(uid)
        else:
            return await self._keep(pod)
        return None

    async def unstage_unused(self) -> None:
        """Undo every staging that nobody has or wants."""
        for volume in self._mounts.unused():
            await self._mounts.unstage(volume, is_wanted=self._is_wanted)
        await self.report_in_use()

    async def report_in_use(self) -> None:
        """See that the Node names what must not be detached."""
        with suppress(NotFound):  # without a Node there is nothing to hold anybody back
            await self._in_use.report()

    # -- up -----------------------------------------------------------------------------------------------------------

    async def _keep(self, pod: Pod) -> float | None:
        now = self._clock.now()
        work = self._works.setdefault(pod.uid, Work(came_at(pod, now=now), self._clock.monotonic()))
        drawn = plan(pod, self._known)
        work.wishes = drawn.wishes
        if drawn.problems or not all(map(self._mounts.is_mounted, drawn.wishes)):
            pod = await self._write(pod, creating_patch(pod, host_ip=self._host_ip, now=now))
            outcome = await self._mounter.bring(pod, work, drawn)
            if outcome.rejection:
                await self._reject(pod, outcome.rejection)
                return 0.0
            if not outcome.is_mounted:
                return outcome.again_s
        await self._run(pod)
        for wish in drawn.wishes:
            await self._expander.bring(pod, wish)
        return None

    async def _run(self, pod: Pod) -> None:
        ip = self._host_ip if pod.spec.host_network else pod_ip(pod.uid, self._index.ips)
        patch = running_patch(pod, host_ip=self._host_ip, pod_ip=ip, now=self._clock.now())
        if patch is None:
            return
        await self._faults.pace(self._node)
        await self._write(pod, patch)
        if pod.status.phase == "Running":
            return  # it ran before; somebody had written something else
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            present = f'Container image "{container.image}" already present on machine'
            self._recorder.event(pod, "Normal", "Pulled", "Pulling", f"{present} and can be accessed by the pod")
            self._recorder.event(pod, "Normal", "Created", "Creating", "Container created")
            self._recorder.event(pod, "Normal", "Started", "Starting", "Container started")

    async def _reject(self, pod: Pod, message: str) -> None:
        """Fail the pod for good. It is not deleted: whoever made it sees it fail, and makes another."""
        await self._faults.pace(self._node)
        await self._write(pod, rejected_patch(pod, reason=LIMIT_EXCEEDED, message=message))
        self._recorder.event(pod, "Warning", LIMIT_EXCEEDED, "Rejecting", message)
        self._meter.rejected(LIMIT_EXCEEDED)
        _log.info("Pod rejected", pod=pod.key, node=self._node, reason=LIMIT_EXCEEDED)

    async def _write(self, pod: Pod, patch: Doc | None) -> Pod:
        """Patch the status, if there is anything to patch. The patch carries the uid: a namesake is not touched."""
        if patch is None:
            return pod
        written = await self._client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        return self._index.note(written)

    # -- down ---------------------------------------------------------------------------------------------------------

    async def _end(self, pod: Pod) -> None:
        """A pod that is being deleted: nothing runs, so that its grace period need not be waited for."""
        patch = terminated_patch(pod, now=self._clock.now())
        if patch is not None:
            await self._faults.pace(self._node)
            for container in pod.spec.containers:
                self._recorder.event(pod, "Normal", "Killing", "Stopping", f"Stopping container {container.name}")
            await self._write(pod, patch)
        await self._leave(pod.uid)
        if pod.metadata.finalizers and pod.metadata.deletion_grace_period_seconds == 0:
            return  # we have done our part; others hold it
        with suppress(NotFound):
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_s=0)

    async def _leave(self, uid: str) -> None:
        """Unmount whatever is mounted for a pod, and unstage what nobody needs any more."""
        records = self._mounts.of_pod(uid)
        for record in records:
            await self._mounts.unpublish(record)
        work = self._works.pop(uid, None)
        if records or (work is not None and work.wishes):
            self._mounts.forget_pod(uid)
            await self.unstage_unused()

    def _names_in_use(self) -> set[str]:
        wishes = (wish for work in self._works.values() for wish in work.wishes)
        return self._mounts.in_use() | {wish.record.unique_name for wish in wishes if wish.record.is_attachable}

    def _is_wanted(self, volume: str) -> bool:
        """Whether a pod that is here to stay mounts a volume; read off the pods, since work may not have begun."""
        return any(
            wish.record.volume_id == volume
            for pod in self._index.on_node(self._node)
            if not pod.is_terminal and not pod.metadata.is_terminating
            for wish in plan(pod, self._known).wishes
        )
