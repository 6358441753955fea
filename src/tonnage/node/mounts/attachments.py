"""What a VolumeAttachment tells the node that waits for it.

    waiting ──► attached
        └─────► exhausted: the driver answered ResourceExhausted (8), no slot is left on this node (KEP-4876)

Only the code counts: not the error's text, and nothing of detaching. An error may be older than the pod that looks at
it: the pod before it failed, and the attachment has not gone yet. So one that was noted before the pod came only counts
as upstream counts all of them, when it is still there after the long wait.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Final

from tonnage.objects.storage_v1 import VolumeAttachment

RESOURCE_EXHAUSTED: Final = 8
"""The number of the gRPC code."""
LONG_WAIT_S: Final = 123.0
"""Upstream's podAttachAndMountTimeout, 2 min 3 s."""


class AttachState(Enum):
    WAITING = "waiting"
    ATTACHED = "attached"
    EXHAUSTED = "exhausted"


def is_resource_exhausted(attachment: VolumeAttachment | None) -> bool:
    """Whether attaching failed for want of slots."""
    if attachment is None or attachment.status.attach_error is None:
        return False
    return attachment.status.attach_error.error_code == RESOURCE_EXHAUSTED


def attach_state(attachment: VolumeAttachment | None, *, pod_came_at: datetime, waited_s: float) -> AttachState:
    """How far an attachment is, for a pod that came at `pod_came_at` and has waited `waited_s`.

    One that is being deleted is not attached for long, whatever its status still says.
    """
    if attachment is None or attachment.metadata.is_terminating:
        return AttachState.WAITING
    if attachment.status.attached:
        return AttachState.ATTACHED
    if not is_resource_exhausted(attachment):
        return AttachState.WAITING
    failure = attachment.status.attach_error
    # Times on the wire are whole seconds: an error of the second in which the pod came is taken for its own.
    is_ours = failure is None or failure.time is None or failure.time >= pod_came_at.replace(microsecond=0)
    return AttachState.EXHAUSTED if is_ours or waited_s >= LONG_WAIT_S else AttachState.WAITING
