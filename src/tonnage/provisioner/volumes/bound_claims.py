"""Claims whose volumes are changed in place: which are ours, what was written of each, and what was tried and refused.

Expansion and modification walk the same way: look a claim and its volume up, write each step into the claim's status,
pause after a failure. What they have in common is here.
"""

from __future__ import annotations

from collections.abc import Hashable

from tonnage.csi.errors import CsiError
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key
from tonnage.provisioner.context import ProvisionerContext
from tonnage.provisioner.volumes.expansion_steps import belongs_to, is_final, is_infeasible
from tonnage.provisioner.volumes.topology import is_accessible


class BoundClaims:
    """The bound claims of one driver, as one controller sees them; in node-deployment mode those of its node."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._driver_name = context.driver_info.name
        self._retry_max_s = context.options.retry_max_s
        self._claims = context.caches.claims
        self._volumes = context.caches.volumes
        self._own_topology = context.own_topology
        self._backoff = context.new_backoff()
        self._refused: set[Key] = set()
        self._outdated: dict[Key, set[str]] = {}  # states that we have written over; caches lag behind

    def find(self, key: Key) -> tuple[PersistentVolumeClaim, PersistentVolume] | None:
        """A claim and its volume; None when it is nothing to us, or when a newer state of it is on its way."""
        claim = self._claims.get(key)
        volume = self._volumes.get(claim.spec.volume_name) if claim is not None else None
        if claim is None or volume is None or not self._is_ours(claim, volume):
            self.forget(key)
            return None
        if claim.metadata.resource_version in self._outdated.get(key, ()):
            return None
        self._outdated.pop(key, None)
        return claim, volume

    def _is_ours(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
        source = volume.spec.csi
        return (
            source is not None
            and source.driver == self._driver_name
            and belongs_to(volume, claim)
            and is_accessible(volume.spec.node_affinity, self._own_topology)
        )

    def was_refused(self, key: Key) -> bool:
        """The driver's last word about it was a no that ends the attempt."""
        return key in self._refused

    def pause_s(self, key: Key, attempt: Hashable) -> float:
        """What is left of the pause after a failure of this very attempt; 0.0 when it may be tried."""
        return self._backoff.left_s(key, attempt)

    def failed(self, key: Key, attempt: Hashable, failure: TonnageError) -> float:
        """The pause before the next attempt; what can never work is tried rarely."""
        code = failure.code if isinstance(failure, CsiError) else None
        at_least_s = self._retry_max_s if code is not None and is_infeasible(code) else 0.0
        if code is not None and is_final(code):
            self._refused.add(key)
        else:
            self._refused.discard(key)
        return self._backoff.failed(key, attempt, at_least_s=at_least_s)

    def succeeded(self, key: Key) -> None:
        self._backoff.forget(key)
        self._refused.discard(key)

    def forget(self, key: Key) -> None:
        self.succeeded(key)
        self._outdated.pop(key, None)

    async def write(self, claim: PersistentVolumeClaim, patch: Doc) -> PersistentVolumeClaim:
        """Write a step of the status; the claim as it is then. Raises Conflict when it has changed since."""
        if not patch:
            return claim
        written = await self._client.patch(PersistentVolumeClaim, claim.key, patch, subresource="status")
        if written.metadata.resource_version != claim.metadata.resource_version:
            self._outdated.setdefault(claim.key, set()).add(claim.metadata.resource_version)
        return written
