"""One call of CreateVolume, and what is made of its answer.

An answer that is no use (a volume too small, or empty where it should be a copy) is undone by DeleteVolume, and the
same is asked again: upstream hopes, as we do, that it goes better the next time.
"""

from __future__ import annotations

from tonnage import logs
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError, error_text
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.provisioner.context import ProvisionerContext
from tonnage.provisioner.volumes.provisioning_state import NotProvisioned, ProvisioningState
from tonnage.provisioner.volumes.requests import Prepared, made_bytes, persistent_volume

_CLEANUP_TRIES = 5

_log = logs.logger("tonnage.provisioner")


class VolumeCreator:
    """Asks one driver for volumes. `identity` names this run of the provisioner in what it makes."""

    def __init__(self, context: ProvisionerContext, *, identity: str) -> None:
        self._driver = context.driver
        self._driver_info = context.driver_info
        self._options = context.options
        self._identity = identity

    async def create(self, asked: Prepared) -> PersistentVolume:
        """The volume, not yet written anywhere. Raises CsiError when refused, NotProvisioned when it is no use."""
        made = (await self._driver.create_volume(asked.request)).volume
        wanted_bytes, has_bytes = asked.request.capacity_range.required_bytes, made_bytes(asked.request, made)
        if has_bytes < wanted_bytes:
            why = f"created volume capacity {has_bytes} less than requested capacity {wanted_bytes}"
            raise await self._cleaned_up(asked, made, why, "Cleanup")
        if asked.request.HasField("volume_content_source") and not made.HasField("content_source"):
            raise await self._cleaned_up(asked, made, "volume content source missing", "cleanup")
        return persistent_volume(asked, made, self._driver_info, self._options, identity=self._identity)

    async def _cleaned_up(self, asked: Prepared, made: csi.Volume, why: str, word: str) -> NotProvisioned:
        """Delete a volume that is no use; the failure to raise then."""
        request = csi.DeleteVolumeRequest(volume_id=made.volume_id, secrets=asked.request.secrets)
        for left in reversed(range(_CLEANUP_TRIES)):
            try:
                await self._driver.delete_volume(request)
                break
            except CsiError as exc:
                if not left:
                    why = f"{why}. {word} of volume {asked.name} failed, volume is orphaned: {error_text(exc)}"
                    _log.error("A useless volume could not be deleted", volume=asked.name, error=exc.message)
        return NotProvisioned(why, ProvisioningState.IN_BACKGROUND)
