"""Events of pods about the attachment of their volumes, in upstream's words, each once.

Success is recorded only for an attachment that was seen before it was attached: otherwise a controller that starts
would record it for every pod of the cluster. Failures are recorded as often as they happen; why a pod waits, once a
minute.

An event names the volume or the attachment as related object, the latter at the version at which this message was first
recorded: two volumes and two different failures are different events, and the same failure again only counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.client.recorder import Recorder, reference_to
from tonnage.clock import Clock
from tonnage.controllers.event_deduplication import DeduplicatingRecorder
from tonnage.objects.core_v1 import ObjectReference, PersistentVolume, Pod
from tonnage.objects.storage_v1 import VolumeAttachment, VolumeError

_ACTION: Final = "AttachVolume"
_FAILED: Final = "FailedAttachVolume"


class AttachmentEvents:
    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._deduplicated = DeduplicatingRecorder(recorder, clock)
        self._unattached: set[str] = set()
        """Names of attachments that were seen before they were attached."""
        self._failures: dict[str, tuple[VolumeError, ObjectReference]] = {}
        """The last failure of each that was recorded, and the attachment at which its message was new."""

    def attach_requested(self, name: str) -> None:
        """An attachment is about to be created: its success will be recorded."""
        self._unattached.add(name)

    def record_status(self, volume: str, attachment: VolumeAttachment, users: Iterable[Pod]) -> None:
        """Record success or failure of an attachment on the pods of its node."""
        name, failure = attachment.name, attachment.status.attach_error
        if attachment.status.attached:
            self._failures.pop(name, None)
            if name in self._unattached:
                self._unattached.discard(name)
                for pod in users:
                    note = attached_note(volume)
                    self._recorder.event(pod, "Normal", "SuccessfulAttachVolume", _ACTION, note, attachment)
            return
        self._unattached.add(name)
        recorded, related = self._failures.get(name, (None, None))
        if failure is None or failure == recorded:
            return
        if recorded is None or related is None or recorded.message != failure.message:
            related = reference_to(attachment)
        self._failures[name] = (failure, related)
        for pod in users:
            self._recorder.event(pod, "Warning", _FAILED, _ACTION, failed_note(volume, failure.message), related)

    def record_missing_driver(self, volume: PersistentVolume, driver: str, pod: Pod) -> None:
        note = failed_note(volume.name, f"CSINode {pod.spec.node_name} does not contain driver {driver}")
        self._deduplicated.event(pod, "Warning", _FAILED, _ACTION, note, volume)

    def record_multi_attach(self, volume: PersistentVolume, pod: Pod, holders: Sequence[Pod]) -> None:
        self._deduplicated.event(pod, "Warning", _FAILED, _ACTION, multi_attach_note(volume.name, pod, holders), volume)

    def forget(self, attachment: VolumeAttachment) -> None:
        self._unattached.discard(attachment.name)
        self._failures.pop(attachment.name, None)


def attached_note(volume: str) -> str:
    # The blank at the end is upstream's, where the rest of the sentence would stand.
    return f'AttachVolume.Attach succeeded for volume "{volume}" '


def failed_note(volume: str, why: str) -> str:
    return f'AttachVolume.Attach failed for volume "{volume}" : {why}'


def multi_attach_note(volume: str, pod: Pod, holders: Sequence[Pod]) -> str:
    """Why a pod has to wait for a volume that another node has. Names no pod of another namespace."""
    prefix = f'Waiting for detach for volume "{volume}" '
    if not holders:
        return (
            f"{prefix}Volume is already exclusively attached to one node, "
            "waiting on detach before it can be attached to another node"
        )
    near = sorted(each.name for each in holders if each.namespace == pod.namespace)
    far = len(holders) - len(near)
    if not near:
        return f"{prefix}Volume is already used by {far} pod(s) in different namespaces"
    note = f"{prefix}Volume is already used by pod(s) {', '.join(near)}"
    return f"{note} and {far} pod(s) in different namespaces" if far else note
