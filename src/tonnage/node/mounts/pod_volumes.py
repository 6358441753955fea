"""The volumes of one pod, brought up: in use, attached, staged, published, or the reason why not.

    for each volume:  waiting for its attachment ──► attached ──► mounted
                              └─► no slot left (KEP-4876)  ◄── a driver without attaching says so when it stages
    of the pod:       MOUNTED · WAITING (look again then) · REJECTED (it cannot be here)

No slot left, and the driver's CSIDriver asks for updates: the limit in CSINode is corrected at once, so that the next
pod is placed by the true one. When it is still so after the grace, the pod is rejected. Upstream looks only when its
wait of 2 min 3 s is over; the KEP does not ask for that, and until then the pod would help nobody. Without a period
nothing of this happens: the pod waits until a slot is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.client.cache import Cache
from tonnage.client.recorder import Recorder
from tonnage.client.written_objects import MutationCache
from tonnage.clock import Clock
from tonnage.csi.errors import Code, CsiError
from tonnage.errors import TonnageError
from tonnage.node.csinode.attach_limits import LimitUpdater
from tonnage.node.injected_faults import NodeIdle
from tonnage.node.mounts.attachments import Attach, attach_state
from tonnage.node.mounts.mount_plan import Plan, Wish, waiting_note
from tonnage.node.mounts.mounter import Mounts, PublishFailed, StageFailed
from tonnage.node.mounts.volumes_in_use import VolumesInUse
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.storage_v1 import VolumeAttachment, attachment_name

_UNCLEAR_S: Final = 2.0
"""How long a claim may seem unbound before people are told: informers do not all bring their news at the same time."""
_LOOK_AGAIN_S: Final = 30.0
"""How soon a pod that waits is looked at though nothing was heard."""


class MountFailed(TonnageError):
    """Some volumes of a pod could not be mounted; people have been told, and it is to be tried again."""


@dataclass(slots=True)
class Work:
    """What is remembered of a pod while it is here. All of it may be lost: it is only times, and what was said."""

    came_at: datetime
    since_s: float
    wishes: tuple[Wish, ...] = ()
    exhausted_since_s: dict[str, float] = field(default_factory=dict)
    told_unclear: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far the volumes of a pod are: all there, or to be looked at again, or never to be had on this node."""

    again_s: float | None = None
    rejection: str = ""

    @property
    def is_mounted(self) -> bool:
        return self.again_s is None and not self.rejection


MOUNTED: Final = Outcome()


class PodMounter:
    """Mounts for the pods of one node."""

    def __init__(
        self,
        node: str,
        *,
        clock: Clock,
        nodes: MutationCache[Node],
        attachments: Cache[VolumeAttachment],
        mounts: Mounts,
        limits: LimitUpdater,
        in_use: VolumesInUse,
        recorder: Recorder,
        grace_s: float,
    ) -> None:
        self._node = node
        self._clock = clock
        self._nodes = nodes
        self._attachments = attachments
        self._mounts = mounts
        self._limits = limits
        self._in_use = in_use
        self._recorder = recorder
        self._grace_s = grace_s

    async def bring(self, pod: Pod, work: Work, drawn: Plan) -> Outcome:
        """Mount what can be mounted. Raises MountFailed, and what the API server answers."""
        if any(wish.record.is_attachable for wish in drawn.wishes):
            await self._in_use.report()
        waited_s = self._clock.monotonic() - work.since_s
        unattached: list[str] = []
        exhausted: dict[str, str] = {}  # the pod's name of a volume, and what the driver said
        failures: list[TonnageError] = []
        for wish in drawn.wishes:
            if self._mounts.is_mounted(wish):
                continue
            attachment, state = None, Attach.ATTACHED
            if wish.record.is_attachable:
                attachment = self._attachment(wish)
                state = attach_state(attachment, pod_came_at=work.came_at, waited_s=waited_s)
            if state is not Attach.ATTACHED:
                unattached.append(wish.pod_volume)
                if state is Attach.EXHAUSTED:
                    exhausted[wish.pod_volume] = _error_of(attachment)
                continue
            failure = await self._mount(wish, attachment)
            if failure is None:
                continue
            if not wish.record.is_attachable and _says_no_slot(failure):
                exhausted[wish.pod_volume] = failure.message
            failures.append(failure)
        self._tell_unclear(pod, work, drawn, unattached, waited_s)
        by_name = {wish.pod_volume: wish.record.driver for wish in drawn.wishes}
        noticed = {name: told for name, told in exhausted.items() if self._limits.period_s(by_name[name])}
        if noticed:
            left_s = await self._correct_limits(work, {name: by_name[name] for name in noticed})
            if left_s > 0:
                return Outcome(again_s=left_s)
            account = self._account(drawn, unattached, next(iter(noticed.values())))
            return Outcome(rejection=f"Node has reached its volume attachment limit, rejecting pod. {account}")
        work.exhausted_since_s.clear()
        if failures:
            for failure in failures:
                if not isinstance(failure, NodeIdle):
                    self._recorder.event(pod, "Warning", "FailedMount", "Mounting", failure.message)
            raise MountFailed(f"pod {pod.key}: {failures[0].message}")
        if drawn.problems and not work.told_unclear:
            return Outcome(again_s=_UNCLEAR_S)
        return Outcome(again_s=_LOOK_AGAIN_S) if drawn.problems or unattached else MOUNTED

    async def _correct_limits(self, work: Work, drivers: dict[str, str]) -> float:
        """Update the limits behind volumes that found no slot, once each; what is left of the grace, in seconds.

        An update that fails for good is logged and does not save the pod, as upstream has it.
        """
        for name, driver in drivers.items():
            if name not in work.exhausted_since_s:
                work.exhausted_since_s[name] = self._clock.monotonic()
                await self._limits.exhausted(driver)
        since_s = min(work.exhausted_since_s[name] for name in drivers)
        return since_s + self._grace_s - self._clock.monotonic()

    async def _mount(self, wish: Wish, attachment: VolumeAttachment | None) -> TonnageError | None:
        """Mount one volume; what went wrong, in words for people."""
        node = self._nodes.get(self._node)
        required = None if wish.volume is None else wish.volume.spec.node_affinity.required
        if required is not None and node is not None and not required.matches(node.name, node.metadata.labels):
            step = "MapVolume" if wish.record.is_block else "MountVolume"
            told = f'failed for volume "{wish.record.name}" : no matching NodeSelectorTerms'
            return TonnageError(f"{step}.NodeAffinity check {told}")
        try:
            context = {} if attachment is None else attachment.status.attachment_metadata
            await self._mounts.mount(wish, publish_context=context)
        except TonnageError as exc:
            return exc
        return None

    def _attachment(self, wish: Wish) -> VolumeAttachment | None:
        return self._attachments.get(attachment_name(wish.record.handle, wish.record.driver, self._node))

    def _tell_unclear(self, pod: Pod, work: Work, drawn: Plan, unattached: list[str], waited_s: float) -> None:
        if drawn.problems and waited_s >= _UNCLEAR_S:
            work.told_unclear = True
            account = self._account(drawn, unattached, next(iter(drawn.problems.values())))
            note = f"Unable to attach or mount volumes: {account}"
            self._recorder.event(pod, "Warning", "FailedMount", "Mounting", note)

    def _account(self, drawn: Plan, unattached: list[str], reason: str) -> str:
        unmounted = [wish.pod_volume for wish in drawn.wishes if not self._mounts.is_mounted(wish)]
        unclear = list(drawn.problems)
        return waiting_note(unmounted + unclear, unattached, unclear, reason)


def _error_of(attachment: VolumeAttachment | None) -> str:
    failure = None if attachment is None else attachment.status.attach_error
    return "" if failure is None else failure.message


def _says_no_slot(failure: TonnageError) -> bool:
    """Whether a driver that attaches nothing said in its own way that the node can take no more volumes."""
    cause = failure.cause if isinstance(failure, StageFailed | PublishFailed) else failure
    return isinstance(cause, CsiError) and cause.code is Code.RESOURCE_EXHAUSTED
