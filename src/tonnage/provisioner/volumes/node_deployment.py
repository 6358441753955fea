"""Node-deployment mode: which of the nodes' provisioners creates a claim's volume.

A claim with a selected node belongs to the provisioner there. For others (immediate binding) provisioners with capacity
compete: the first to write its node into selected-node wins; the losers wait longer the next time.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from tonnage import logs
from tonnage.backoff import exponential_s
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import CsiError
from tonnage.errors import Conflict
from tonnage.objects.core_v1 import SELECTED_NODE, PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.context import ProvisionerContext, ProvisionerPart
from tonnage.provisioner.options import NodeDeployment
from tonnage.provisioner.volumes.create_volume import NotProvisioned
from tonnage.provisioner.volumes.preparation import Preparation

_log = logs.logger("tonnage.provisioner")


class ClaimDecision(NamedTuple):
    is_ours: bool
    again_s: float | None = None
    """When to ask again about a claim without owner; None: when something changes."""


_NOT_OURS: Final = ClaimDecision(False)


def delay_s(tries: int, deployment: NodeDeployment, rng: random.Random) -> float:
    """Seconds before try number `tries` (from 0): doubled every time, less a random part of the first delay."""
    plain_s = exponential_s(deployment.base_delay_s, tries, max_s=deployment.max_delay_s)
    return max(plain_s - deployment.base_delay_s * rng.random(), 0.0)


class Ownership(ProvisionerPart):
    def __init__(self, context: ProvisionerContext, deployment: NodeDeployment, preparation: Preparation) -> None:
        super().__init__(context)
        self._deployment = deployment
        self._preparation = preparation
        self._attempts: dict[str, tuple[int, float]] = {}
        """By claim uid: the number of tries before this one, and when it is due."""

    async def decide(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> ClaimDecision:
        """Whether the claim is ours; after its delay, try to become the owner of a claim that nobody owns."""
        if claim.selected_node:
            self.forget(claim.uid)
            return ClaimDecision(claim.selected_node == self._deployment.node_name)
        if storage_class.waits_for_consumer or not self._deployment.immediate_binding:
            return _NOT_OURS
        if storage_class.allowed_topologies and self._has_topology:
            try:
                await self._preparation.accessibility_requirements(claim, storage_class, self._deployment.node_name)
            except NotProvisioned:
                return _NOT_OURS  # the class does not allow this node
        if claim.uid not in self._attempts:
            return ClaimDecision(False, self._wait(claim.uid, 0))
        tries, due_at_s = self._attempts[claim.uid]
        left_s = due_at_s - self._clock.monotonic()
        if left_s > 0:
            return ClaimDecision(False, left_s)
        if await self._has_room(claim, storage_class) and await self._take(claim):
            self.forget(claim.uid)
            return _NOT_OURS  # our own write arrives as an event, and then it is ours
        return ClaimDecision(False, self._wait(claim.uid, tries + 1))

    def forget(self, uid: str) -> None:
        self._attempts.pop(uid, None)

    def _wait(self, uid: str, tries: int) -> float:
        pause_s = delay_s(tries, self._deployment, self._rng)
        self._attempts[uid] = tries, self._clock.monotonic() + pause_s
        return pause_s

    async def _take(self, claim: PersistentVolumeClaim) -> bool:
        node = self._deployment.node_name
        metadata = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
        try:
            await self._client.patch(PersistentVolumeClaim, claim.key, {"metadata": metadata})
        except Conflict:
            _log.debug("Another was faster, or changed the claim", claim=claim.key, node=node)
            return False
        _log.info("Became the owner of a claim", claim=claim.key, node=node)
        return True

    async def _has_room(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        """Ask the driver; last, because it is expensive. True if that fails: the attempt will report why."""
        try:
            asked = await self._preparation.request_for(claim, storage_class, self._deployment.node_name)
            size_bytes = asked.request.capacity_range.required_bytes
            if not size_bytes:
                return True
            places: list[csi.Topology | None] = list(asked.request.accessibility_requirements.requisite)
            for place in places or [None]:
                request = csi.GetCapacityRequest(
                    volume_capabilities=asked.request.volume_capabilities,
                    parameters=asked.request.parameters,
                    accessible_topology=place,
                )
                if size_bytes <= (await self._driver.get_capacity(request)).available_capacity:
                    return True
        except (NotProvisioned, CsiError) as exc:
            _log.info("It is not known whether there is room; trying", claim=claim.key, reason=exc.message)
            return True
        return False
