"""One call of CreateVolume, and what is made of its answer.

An answer that is no use (a volume too small, or empty where it should be a copy) is undone by DeleteVolume, and a
volume is asked for again after a pause; so is a volume that no API server stores. A volume that another
PersistentVolume names is never deleted here, whatever the driver answers.

What a failed CreateVolume means: whether there may be a volume now, and what is to be asked next.

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

from tonnage import logs
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import Code, CsiError, error_text, is_in_doubt
from tonnage.errors import BadRequest, InternalError, Invalid, RequestEntityTooLarge, TonnageError
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.provisioner.context import ProvisionerContext
from tonnage.provisioner.volumes.requests import Prepared, made_bytes, persistent_volume


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


_CLEANUP_TRIES = 5
_MOST_BYTES = 1 << 20
"""What a driver may tell of a volume: etcd stores objects of 1.5 MiB by default, and ours have more in them."""

_log = logs.logger("tonnage.provisioner")


class VolumeCreator:
    """Asks one driver for volumes. `identity` names this run of the provisioner in what it makes."""

    def __init__(self, context: ProvisionerContext, *, identity: str) -> None:
        self._driver = context.driver
        self._driver_info = context.driver_info
        self._volumes = context.caches.volumes
        self._options = context.options
        self._identity = identity

    async def create(self, asked: Prepared) -> PersistentVolume:
        """The volume, not yet written anywhere. Raises CsiError when refused, NotProvisioned when it is no use."""
        made = (await self._driver.create_volume(asked.request)).volume
        wanted_bytes, has_bytes = asked.request.capacity_range.required_bytes, made_bytes(asked.request, made)
        if not made.volume_id:
            # There may be a volume, and nobody knows by which name: only the same question can find it.
            raise NotProvisioned("the driver made a volume and did not tell its id", ProvisioningState.IN_BACKGROUND)
        why = ""
        if has_bytes < wanted_bytes:
            why = f"created volume capacity {has_bytes} less than requested capacity {wanted_bytes}"
        elif asked.request.HasField("volume_content_source") and not made.HasField("content_source"):
            why = "volume content source missing"
        elif made.ByteSize() > _MOST_BYTES:
            why = f"the driver tells {made.ByteSize()} bytes about the volume, more than can be stored ({_MOST_BYTES})"
        if not why:
            return persistent_volume(asked, made, self._driver_info, self._options, identity=self._identity)
        try:
            await self.discard(asked, made.volume_id)
        except NotProvisioned as exc:
            raise NotProvisioned(f"{why}. {exc.message}", exc.state) from exc
        raise NotProvisioned(why, ProvisioningState.FINISHED)

    async def discard(self, asked: Prepared, volume_id: str) -> None:
        """Delete a volume that was made for this request and is no use. Raises NotProvisioned when it is still there.

        One that is another PersistentVolume's as well is left to that.
        """
        ours = self._driver_info.name, volume_id
        others = (each.spec.csi for each in self._volumes if each.name != asked.name)
        if any(other is not None and (other.driver, other.volume_handle) == ours for other in others):
            _log.error("A useless volume is another's too, and stays", volume=asked.name)
            return
        request = csi.DeleteVolumeRequest(volume_id=volume_id, secrets=asked.request.secrets)
        for left in reversed(range(_CLEANUP_TRIES)):
            try:
                await self._driver.delete_volume(request)
                return
            except CsiError as exc:
                if not left:
                    _log.error("A useless volume could not be deleted", volume=asked.name, error=exc.message)
                    why = f"Cleanup of volume {asked.name} failed, volume is orphaned: {error_text(exc)}"
                    raise NotProvisioned(why, ProvisioningState.IN_BACKGROUND) from exc
