"""What a failed CreateVolume means: whether there may be a volume now, and what is to be asked next.

                              ┌────────────────────────────────────────────────────────┐
                              │ in doubt: the very same is asked again, whatever       │
      asked ──► no clear ────►│ becomes of claim, class or node, until there is a      │
        │       answer        │ clear answer; only then is it known what to clean up   │
        │                     └───────────────┬────────────────────────────────────────┘
        │◄────────────────────────────────────┘
        ├──► made ──────────────► the PersistentVolume is written, as often as that takes; if a server refuses it for
        │                         good, the volume is deleted: not made
        ├──► not made ──────────► asked anew from the claim as it is then, after a pause
        └──► not made, no room ─► with a selected node: the choice of that node is taken back (reschedule)

Mirrors external-provisioner's checkError and the states of its library's controller. "No change" is a failure before
the driver was asked: what was in doubt stays in doubt.
"""

from __future__ import annotations

from enum import StrEnum

from tonnage.csi.errors import Code, CsiError, is_in_doubt
from tonnage.errors import BadRequest, InternalError, Invalid, RequestEntityTooLarge, TonnageError


class ProvisioningState(StrEnum):
    """What is known after an attempt that failed; names as upstream's ProvisioningState."""

    FINISHED = "Finished"
    IN_BACKGROUND = "InBackground"
    NO_CHANGE = "NoChange"
    RESCHEDULE = "Reschedule"


class NotProvisioned(TonnageError):
    """An attempt that ended before the driver was asked, or after an answer that is no use; `state` is what is known.

    `is_ours` False: somebody else is expected to make the volume, and nothing is to be told about it.
    """

    def __init__(self, message: str, state: ProvisioningState, *, is_ours: bool = True) -> None:
        self.state = state
        self.is_ours = is_ours
        super().__init__(message)


def state_of(code: Code, *, may_reschedule: bool) -> ProvisioningState:
    """Read a gRPC code as CSI means it. ResourceExhausted is taken for "no room", not for a message too long."""
    if code is Code.RESOURCE_EXHAUSTED:
        return ProvisioningState.RESCHEDULE if may_reschedule else ProvisioningState.FINISHED
    return ProvisioningState.IN_BACKGROUND if is_in_doubt(code) else ProvisioningState.FINISHED


def is_infeasible(failure: TonnageError) -> bool:
    """Whether the same request can never succeed, so that it is repeated rarely."""
    return isinstance(failure, CsiError) and failure.code is Code.INVALID_ARGUMENT


def is_refused_for_good(failure: TonnageError) -> bool:
    """Whether a server refuses a PersistentVolume for what is in it, so that it would refuse it again.

    Kubernetes' server hands on as an internal error that an object is too large for etcd, or for the way there.
    """
    if isinstance(failure, InternalError):
        return any(words in failure.message for words in ("request is too large", "message larger than max"))
    return isinstance(failure, BadRequest | Invalid | RequestEntityTooLarge)


def is_out_of_room(failure: TonnageError) -> bool:
    return isinstance(failure, CsiError) and failure.code is Code.RESOURCE_EXHAUSTED
