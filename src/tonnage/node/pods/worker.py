"""The pods of one node: volumes mounted, status written, volumes unmounted when the pod goes.

    bound ──► admitted ──► creating: volumes mounted ──► running ──► deleted: unpublish, unstage, gone
                 │                  │                       └─ of a Job: ended (`containers`)
                 └─ OutOfcpu,       └─ VolumeAttachmentLimitExceeded, VolumeNodeAffinity
                    NodeAffinity       rejected: event, Failed, for its controller to make another

`sync_pod` never waits for an attachment: the pod is synced again when its VolumeAttachment changes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from tonnage import clock, errors, logs
from tonnage.behaviour.nodes import kubelet_admission
from tonnage.behaviour.nodes.kubelet_admission import KubeletPreemption, PodRejection
from tonnage.node import drivers, node_objects
from tonnage.node.context import NodeContext, NodePart
from tonnage.node.mounts.mount_plan import plan_mounts
from tonnage.node.mounts.mounter import Mounter
from tonnage.node.mounts.pod_volumes import PodMounter, PodProgress
from tonnage.node.pods import containers, status
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.document import Doc

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CREATING_S: Final = 1.0
"""How long a pod's volumes may take before its status says ContainerCreating. Most pods run by then, and one write is
enough; upstream's status manager, too, skips states that are over."""
_CREATING_IN_A_BURST_S: Final = 5.0
"""The same while this program writes other pods, too: all of them take longer, and running pods' writes go first."""
STAGED: Final = "staged volume "
"""Prefix of the queue key of a volume to unstage; no uid looks like it. Such a volume delays no pod, as upstream."""
_LOOK_EVERY_S: Final = 0.25
"""How often the worker looks whether this program still writes other pods."""
_PREEMPTION_CHECK_S: Final = 0.1
"""How often a critical pod looks whether the pods in its way have ended."""

_log = logs.logger(__name__)


class PodWorker(NodePart):
    def __init__(
        self,
        context: NodeContext,
        mounter: Mounter,
        limits: drivers.AttachLimitUpdater,
        enqueue: Callable[[str], None],
    ) -> None:
        """`enqueue` takes a pod's uid to sync it, or a volume's key to unstage it."""
        super().__init__(context)
        self._lookup = context.lookup
        self._host_ip = context.settings.node_ip
        self._mounter = mounter
        self._progress: dict[str, PodProgress] = {}
        self._reports: defaultdict[str, status.StatusReport] = defaultdict(status.StatusReport)
        self._ages = clock.StampAges(context.clock)
        self._without_room: set[str] = set()
        """Uids of pods that are as large as an object may be: their status is shortened."""
        self._pod_mounter = PodMounter(context, mounter, limits, self._names_in_use)
        self._enqueue = enqueue
        self._admitted = kubelet_admission.AdmittedPods()
        self._preempted: set[str] = set()
        """Pods that must end for a critical pod."""

    async def sync_pod(self, uid: str) -> float | None:
        """Reconcile one pod; returns seconds until the next sync, None to wait for an event."""
        if self._context.is_idle:
            # When a dead node comes back, statuses that others wrote are replaced at once.
            self._reports.clear()
            return None
        pod = self._pods.pod(uid)
        if pod is None:
            await self._unmount_pod(uid)
        elif pod.metadata.is_terminating:
            await self._sync_terminating_pod(pod)
        elif pod.is_terminal:
            await self._unmount_pod(uid)
        else:
            return await self._sync_active_pod(pod)
        return None

    async def unstage(self, volume: str) -> None:
        await self._mounter.unstage(volume, is_wanted=self._is_wanted)
        await self.report_in_use()

    async def report_in_use(self) -> None:
        """Write the volumes that must not be detached into the Node."""
        with suppress(errors.NotFound):  # without a Node nothing can be detached
            await self._pod_mounter.report_in_use()

    # -- admission: the rules are in `behaviour.nodes.kubelet_admission` ----------------------------------------------

    def restore(self) -> None:
        """Admit the pods that are here at the start and fit: first pods that ran before, then by age.

        The others are rejected when synced. A pod keeps its share until it has ended or is gone.
        """
        active = [pod for pod in self._pods.on_node(self._node) if not pod.is_terminal]
        node = self._node_object()
        active.sort(key=lambda pod: (pod.status.start_time is None, pod.metadata.creation_timestamp or _EPOCH, pod.key))
        for pod in active:
            if not pod.metadata.is_terminating:
                self._judge(pod, node)
            elif pod.status.start_time is not None:
                self._admitted.admit(pod)

    async def _admit(self, pod: Pod) -> PodRejection | KubeletPreemption | None:
        """None if the pod is or was admitted. Raises TonnageError."""
        verdict = self._judge(pod, self._node_object())
        if isinstance(verdict, PodRejection) and verdict.reason == kubelet_admission.NODE_AFFINITY:
            with suppress(errors.NotFound):  # the scheduler may have seen labels that our watch has not shown yet
                verdict = self._judge(pod, await self._client.get(Node, self._node))
        return verdict

    def _judge(self, pod: Pod, node: Node) -> PodRejection | KubeletPreemption | None:
        def is_active(uid: str) -> bool:
            known = self._pods.pod(uid)
            return known is not None and not known.is_terminal

        return self._admitted.judge(pod, node, is_active)

    def _node_object(self) -> Node:
        """The Node, or the one that registration will create."""
        node = self._nodes.get(self._node)
        return node or convert(Node, node_objects.new_node(self._node, self._settings, now=self._clock.now()))

    # -- up -----------------------------------------------------------------------------------------------------------

    async def _sync_active_pod(self, pod: Pod) -> float | None:
        if pod.uid in self._preempted:
            await self._preempt(pod)
            return 0.0
        match await self._admit(pod):
            case PodRejection() as rejection:
                await self._reject(pod, rejection)
                return 0.0
            case KubeletPreemption(victims):
                self._preempted.update(victims)
                for victim in victims:
                    self._enqueue(victim)
                return _PREEMPTION_CHECK_S
        now = self._clock.now()
        progress = self._progress.setdefault(
            pod.uid, PodProgress(status.came_at(pod, now=now), self._clock.monotonic())
        )
        plan = plan_mounts(pod, self._lookup, recorded=self._mounter.recorded(pod.uid))
        progress.volumes_to_mount = plan.volumes_to_mount
        if plan.problems or not all(map(self._mounter.is_mounted, plan.volumes_to_mount)):
            async with self._said_to_be_created(pod, progress) as is_said:
                outcome = await self._pod_mounter.mount(pod, progress, plan)
            latest = self._pods.pod(pod.uid)
            if latest is None or latest.metadata.is_terminating or latest.is_terminal:
                return 0.0  # the pod went or ended while its volumes were mounted
            pod = latest
            if isinstance(outcome, PodRejection):
                await self._reject(pod, outcome)
                return 0.0
            if outcome is not None:
                if is_said:
                    return outcome
                # The burst of other writes may end before.
                return min(outcome, max(self._unsaid_for_s(progress), 0.0), _CREATING_S)
        again_s = await self._start_pod(pod, progress)
        for to_mount in plan.volumes_to_mount:
            await self._mounter.expand(pod, to_mount)
        return again_s

    @asynccontextmanager
    async def _said_to_be_created(self, pod: Pod, progress: PodProgress) -> AsyncIterator[bool]:
        """Write that the pod is being created, unless the block ends soon; yields True if it was written before."""
        left_s = self._unsaid_for_s(progress)
        if pod.status.start_time is not None or left_s <= 0:
            await self._say_creating(pod, progress)
            yield True
            return
        is_due = False

        async def say_later() -> None:
            nonlocal is_due
            await self._clock.sleep(min(left_s, _CREATING_S))
            while (still_s := self._unsaid_for_s(progress)) > 0:
                await self._clock.sleep(min(still_s, _LOOK_EVERY_S))
            is_due = True
            await self._say_creating(pod, progress)

        failure: BaseException | None = None
        saying = asyncio.create_task(say_later(), name=f"creating {pod.key}")
        try:
            yield False
        finally:
            if not is_due:
                saying.cancel()
            # A write under way is not cancelled: it might reach the server after the next one.
            await asyncio.wait((saying,))
            # Always read it, or asyncio complains; an error in the block wins over it.
            failure = None if saying.cancelled() else saying.exception()
        if failure is not None:
            raise failure

    def _unsaid_for_s(self, progress: PodProgress) -> float:
        """Seconds until the status must say that the pod is being created."""
        patience_s = max(_CREATING_S, _CREATING_IN_A_BURST_S) if self._client.is_writing else _CREATING_S
        return progress.since_s + patience_s - self._clock.monotonic()

    async def _say_creating(self, pod: Pod, progress: PodProgress) -> None:
        now = self._clock.now()
        await self._write(
            pod, status.creating_patch(pod, host_ip=self._host_ip, now=now, seen_at=self._seen_at(progress))
        )

    def _seen_at(self, progress: PodProgress) -> datetime:
        """When the pod was first seen here, which becomes startTime; a node that was away comes to it later."""
        return self._clock.now() - timedelta(seconds=self._clock.monotonic() - progress.since_s)

    def _measured_now(self, pod: Pod) -> datetime:
        """The time by which containers' ages are measured: setting the clock neither ends nor prolongs a container."""
        starts = (containers.started_at(pod, container) for container in containers.kept_running(pod))
        return self._ages.now(pod.uid, max((at for at in starts if at is not None), default=None))

    async def _start_pod(self, pod: Pod, progress: PodProgress) -> float | None:
        """Write that the pod runs and what is ready; returns seconds until the next sync, None to wait for an event."""
        ip = self._host_ip if pod.spec.host_network else status.pod_ip(pod.uid, self._pods.ips)
        now, seen_at = self._measured_now(pod), self._seen_at(progress)
        patch = status.running_patch(pod, host_ip=self._host_ip, pod_ip=ip, now=now, seen_at=seen_at)
        report = self._reports[pod.uid]
        if patch is None or (pod.uid in self._without_room and report.is_said(patch)):
            report.in_step()
            return await self._end_pod(pod)
        pause_s = report.pause_s(patch, self._clock.monotonic())
        if pause_s > 0:
            return pause_s
        await self._context.delay_or_stop()
        written = await self._write(pod, patch)
        report.written(patch)
        again_s = await self._end_pod(written)
        if pod.status.phase == "Running":
            return again_s  # it ran before: it became ready, or another client had written something else
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            present = f'Container image "{container.image}" already present on machine'
            self._recorder.event(pod, "Normal", "Pulled", "Pulling", f"{present} and can be accessed by the pod")
            self._recorder.event(pod, "Normal", "Created", "Creating", "Container created")
            self._recorder.event(pod, "Normal", "Started", "Starting", "Container started")
        return again_s

    async def _end_pod(self, pod: Pod) -> float | None:
        """End a running pod of a Job when its time has come, or restart it; returns seconds until the next look."""
        now, measured_now = self._clock.now(), self._measured_now(pod)
        again_s, ending = containers.next_change_s(pod, measured_now), containers.ending_of(pod, measured_now)
        if ending is None:
            return again_s
        if ending.left_s > 0:
            return ending.left_s if again_s is None else min(again_s, ending.left_s)
        await self._context.delay_or_stop()
        if ending.is_final:
            await self._write(pod, status.ended_patch(pod, exit_code=ending.exit_code, now=now))
        else:
            await self._write(pod, status.restarted_patch(pod, exit_code=ending.exit_code, now=now))
        return 0.0

    async def _reject(self, pod: Pod, rejection: PodRejection) -> None:
        """Fail the pod for good. It is not deleted: its controller sees it fail, and makes another."""
        reason, message = rejection.reason, rejection.message
        await self._context.delay_or_stop()
        await self._write(pod, status.rejected_patch(pod, reason=reason, message=message))
        self._recorder.event(pod, "Warning", reason, "Rejecting", message)
        self._metrics.rejected(reason)
        _log.info("Pod rejected", pod=pod.key, node=self._node, reason=reason)

    async def _preempt(self, pod: Pod) -> None:
        await self._context.delay_or_stop()
        await self._write(pod, status.preempted_patch(pod, now=self._clock.now()))
        self._recorder.event(pod, "Warning", kubelet_admission.PREEMPTING, "Preempting", kubelet_admission.PREEMPTED)
        _log.info("Pod preempted by its node", pod=pod.key, node=self._node)

    async def _write(self, pod: Pod, patch: Doc | None) -> Pod:
        """Patch the status if it differs. A pod that is too large for the patch gets shorter ones from now on."""
        if patch is None:
            return pod
        for attempt in (*(() if pod.uid in self._without_room else (patch,)), *status.shorter_patches(patch)):
            try:
                written = await self._client.patch(Pod, pod.key, attempt, patch_type="strategic", subresource="status")
                return self._pods.note(written)
            except errors.RequestEntityTooLarge as exc:
                failure = exc
                self._without_room.add(pod.uid)
        raise failure

    # -- down ---------------------------------------------------------------------------------------------------------

    async def _sync_terminating_pod(self, pod: Pod) -> None:
        """Finish a pod that is being deleted: nothing runs, so its grace period is not waited for."""
        patch = status.terminated_patch(pod, now=self._clock.now())
        if patch is not None:
            await self._context.delay_or_stop()
            for container in pod.spec.containers:
                self._recorder.event(pod, "Normal", "Killing", "Stopping", f"Stopping container {container.name}")
            try:
                await self._write(pod, patch)
            except (errors.RequestEntityTooLarge, errors.Invalid) as exc:  # the status is about to go with the pod
                _log.warning("A pod ends without a last status", pod=pod.key, node=self._node, error=exc.message)
        await self._unmount_pod(pod.uid)
        if pod.metadata.finalizers and pod.metadata.deletion_grace_period_seconds == 0:
            return  # our part is done; others still have finalizers
        with suppress(errors.NotFound):
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_s=0)

    async def _unmount_pod(self, uid: str) -> None:
        records = self._mounter.of_pod(uid)
        undone = await asyncio.gather(*map(self._mounter.unpublish, records), return_exceptions=True)
        for failure in undone:
            if failure is not None:
                raise failure
        progress = self._progress.pop(uid, None)
        self._reports.pop(uid, None)
        self._ages.forget(uid)
        self._admitted.release(uid)
        self._preempted.discard(uid)
        self._without_room.discard(uid)
        if records or (progress is not None and progress.volumes_to_mount):
            self._mounter.forget_pod(uid)
            wanted = progress.volumes_to_mount if progress is not None else ()
            own = {record.volume_id for record in (*records, *(mount.record for mount in wanted))}
            unused = [volume for volume in self._mounter.unused() if volume in own]
            unstaged = (self._mounter.unstage(volume, is_wanted=self._is_wanted) for volume in unused)
            await asyncio.gather(*unstaged, return_exceptions=True)
            for volume in self._mounter.unused():  # failures are retried and logged there
                self._enqueue(f"{STAGED}{volume}")
            await self.report_in_use()

    def _names_in_use(self) -> set[str]:
        volumes_to_mount = (to_mount for progress in self._progress.values() for to_mount in progress.volumes_to_mount)
        return self._mounter.in_use() | {
            to_mount.record.unique_name for to_mount in volumes_to_mount if to_mount.record.is_attachable
        }

    def _is_wanted(self, volume: str) -> bool:
        """True if a pod that stays mounts the volume. Read from the pods, because work on them may not have begun."""
        return any(
            to_mount.record.volume_id == volume
            for pod in self._pods.on_node(self._node)
            if not pod.is_terminal and not pod.metadata.is_terminating
            for to_mount in plan_mounts(pod, self._lookup).volumes_to_mount
        )
