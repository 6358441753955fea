"""The node's half of making a volume larger: see `expansion_rules` for when and what is written afterwards."""

from __future__ import annotations

from typing import Final

from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.client.written_objects import MutationCache
from tonnage.errors import TonnageError
from tonnage.node.drivers import Drivers
from tonnage.node.mounts.csi_requests import expand_request
from tonnage.node.mounts.expansion_rules import finished_patch, pending_size
from tonnage.node.mounts.mount_paths import MountPaths
from tonnage.node.mounts.mount_plan import Wish
from tonnage.node.mounts.mounter import Pace, Secrets
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod

_SUCCESS: Final = "FileSystemResizeSuccessful"
_FAILURE: Final = "VolumeResizeFailed"


class Expander:
    """Expands the mounted volumes of one node."""

    def __init__(
        self,
        node: str,
        client: Client,
        paths: MountPaths,
        drivers: Drivers,
        claims: MutationCache[PersistentVolumeClaim],
        recorder: Recorder,
        *,
        secrets: Secrets,
        pace: Pace,
    ) -> None:
        self._node = node
        self._client = client
        self._paths = paths
        self._drivers = drivers
        self._claims = claims
        self._recorder = recorder
        self._secrets = secrets
        self._pace = pace

    async def bring(self, pod: Pod, wish: Wish) -> None:
        """Expand a mounted volume if its claim waits for that. Raises TonnageError; then it is to be tried again."""
        claim = self._claims.get(wish.claim) if wish.claim else None
        if claim is None or wish.volume is None or wish.read_only:
            return
        size = pending_size(claim, wish.volume)
        if size is None:
            return
        await self._pace()
        driver = self._drivers.get(wish.record.driver)
        try:
            if driver.can.expand_volume:
                asked = expand_request(
                    wish,
                    driver.can,
                    staging=self._paths.staging(wish.record),
                    target=self._paths.target(wish.record),
                    size_bytes=size.value(),
                    secrets=await self._secrets(wish.expand_secret),
                )
                await driver.client.node_expand(asked)
        except TonnageError as exc:
            note = f'MountVolume.NodeExpandVolume failed for volume "{wish.record.name}" : {exc.message}'
            self._recorder.event(pod, "Warning", _FAILURE, "Resizing", note)
            raise
        patch = finished_patch(claim, size)
        patched = await self._client.patch(
            PersistentVolumeClaim, claim.key, patch, patch_type="strategic", subresource="status"
        )
        self._claims.store(patched)
        note = f'MountVolume.NodeExpandVolume succeeded for volume "{wish.record.name}" {self._node}'
        self._recorder.event(pod, "Normal", _SUCCESS, "Resizing", note)
        self._recorder.event(claim, "Normal", _SUCCESS, "Resizing", note)
