"""Everything that has to be looked up before CreateVolume can be called: source, places, attributes, secrets.

Nothing is changed here but the finalizer of a claim that is to be cloned. What fails is raised as NotProvisioned, with
what is known then (`provisioning_state`): a mistake in the claim or its class is final until somebody corrects it, a
thing that is not there yet changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.csi import csi_pb2 as csi
from tonnage.errors import ApiError, NotFound
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttributesClass
from tonnage.provisioner.context import ProvisionerContext, SecretUnavailable, read_secret
from tonnage.provisioner.driver_probe import missing_capability
from tonnage.provisioner.volumes import topology
from tonnage.provisioner.volumes.create_volume import NotProvisioned, ProvisioningState
from tonnage.provisioner.volumes.data_sources import CLAIM, SNAPSHOT, DataSources, check_kind, source_of
from tonnage.provisioner.volumes.parameters import InvalidParameters
from tonnage.provisioner.volumes.requests import InvalidClaim, Prepared, prepared


class Preparation:
    """Puts requests together for one driver."""

    def __init__(self, context: ProvisionerContext) -> None:
        self._client = context.client
        self._driver_info = context.driver_info
        self._options = context.options
        self._recorder = context.recorder
        self._nodes = context.caches.nodes
        self._csi_nodes = context.caches.csi_nodes
        self._sources = DataSources(context.client, context.caches.claims, context.options)
        self._rng = context.rng
        self._has_topology = context.has_topology

    async def request_for(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, selected_node: str
    ) -> Prepared:
        """All that CreateVolume needs for a claim. Raises NotProvisioned. Mirrors prepareProvision."""
        source = source_of(claim)
        if source is not None:
            try:
                check_kind(claim, source)
            except NotProvisioned as exc:
                if not exc.is_ours:
                    note = "Assuming an external populator will provision the volume"
                    self._recorder.event(claim, "Normal", "Provisioning", "Provisioning", note)
                raise
        attributes = claim.spec.volume_attributes_class_name if self._options.volume_attributes_class else ""
        kind = source.kind if source is not None else ""
        lack = missing_capability(
            self._driver_info, snapshot=kind == SNAPSHOT, clone=kind == CLAIM, modify=bool(attributes)
        )
        if lack:
            raise NotProvisioned(lack, ProvisioningState.FINISHED)
        content = await self._sources.content(claim, source, storage_class) if source is not None else None
        requirements = (
            await self.accessibility_requirements(claim, storage_class, selected_node) if self._has_topology else None
        )
        mutable = await self._attributes(attributes) if attributes else {}
        try:
            asked = prepared(
                claim,
                storage_class,
                self._driver_info,
                self._options,
                content=content,
                accessibility_requirements=requirements,
                mutable_parameters=mutable,
                selected_node=selected_node,
            )
        except (InvalidClaim, InvalidParameters) as exc:
            raise NotProvisioned(exc.message, ProvisioningState.FINISHED) from exc
        try:
            asked.request.secrets.update(await read_secret(self._client, asked.provisioner_secret))
        except SecretUnavailable as exc:
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc
        return asked

    async def accessibility_requirements(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, selected_node: str
    ) -> csi.TopologyRequirement | None:
        """Where the volume may be. Raises NotProvisioned, with Reschedule when the selected node is gone."""
        try:
            return topology.requirement(
                self._driver_info.name,
                claim.name,
                storage_class.allowed_topologies,
                selected_node,
                strict=self._options.strict_topology,
                immediate=self._options.immediate_topology,
                csi_nodes=self._csi_nodes,
                nodes=self._nodes,
                rng=self._rng,
            )
        except topology.NoTopology as exc:
            raise NotProvisioned(
                f"error generating accessibility requirements: {exc.message}", ProvisioningState.NO_CHANGE
            ) from exc
        except topology.NodeGone as exc:
            if self._options.node_deployment is None:
                # A node that is new to us looks like one that is gone: the server knows.
                for kind in (Node, CSINode):
                    if not await self._exists(kind, selected_node):
                        raise NotProvisioned(exc.message, ProvisioningState.RESCHEDULE) from exc
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc

    async def _exists(self, kind: type[Object], key: Key) -> bool:
        try:
            await self._client.get_doc(kind, key)
        except NotFound:
            return False
        return True

    async def _attributes(self, name: str) -> Mapping[str, str]:
        """The parameters of a VolumeAttributesClass. Raises NotProvisioned."""
        try:
            found = await self._client.get(VolumeAttributesClass, name)
        except (ApiError, Unreadable) as exc:
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc
        driver = found.driver_name
        if driver != self._driver_info.name:
            raise NotProvisioned(
                f"VAC {name} referenced in PVC is for driver {driver} which does not match driver name "
                f"{self._driver_info.name}",
                ProvisioningState.FINISHED,
            )
        return dict(found.parameters)
