"""Everything that has to be looked up before CreateVolume can be called: source, places, attributes, secrets.

Nothing is changed here but the finalizer of a claim that is to be cloned. What fails is raised as NotProvisioned, with
what is known then (`outcomes`): a mistake in the claim or its class is final until somebody corrects it, a thing that
is not there yet changes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.recorder import Recorder
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.driver_capabilities import DriverInfo
from tonnage.errors import ApiError, NotFound
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.document import decode, dig
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import CSINode, StorageClass
from tonnage.provisioner.driver_probe import missing_capability
from tonnage.provisioner.options import Options
from tonnage.provisioner.volumes import topology
from tonnage.provisioner.volumes.data_sources import CLAIM, SNAPSHOT, DataSources, check_kind, source_of
from tonnage.provisioner.volumes.outcomes import NotProvisioned, Outcome
from tonnage.provisioner.volumes.parameters import InvalidParameters
from tonnage.provisioner.volumes.requests import InvalidClaim, Prepared, prepared
from tonnage.provisioner.volumes.secrets import NoCredentials, credentials

_ATTRIBUTES_CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"


class Preparation:
    """Puts requests together for one driver."""

    def __init__(
        self,
        client: Client,
        driver_info: DriverInfo,
        options: Options,
        recorder: Recorder,
        *,
        claims: Cache[PersistentVolumeClaim],
        nodes: Cache[Node],
        csi_nodes: Cache[CSINode],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._driver_info = driver_info
        self._options = options
        self._recorder = recorder
        self._nodes = nodes
        self._csi_nodes = csi_nodes
        self._sources = DataSources(client, claims, options)
        self._rng = rng

    @property
    def has_topology(self) -> bool:
        return self._driver_info.plugin.volume_accessibility_constraints and self._options.topology

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
            raise NotProvisioned(lack, Outcome.FINISHED)
        content = await self._sources.content(claim, source, storage_class) if source is not None else None
        places = await self.places(claim, storage_class, selected_node) if self.has_topology else None
        mutable = await self._attributes(attributes) if attributes else {}
        try:
            asked = prepared(
                claim,
                storage_class,
                self._driver_info,
                self._options,
                content=content,
                places=places,
                mutable_parameters=mutable,
                selected_node=selected_node,
            )
        except (InvalidClaim, InvalidParameters) as exc:
            raise NotProvisioned(exc.message, Outcome.FINISHED) from exc
        try:
            asked.request.secrets.update(await credentials(self._client, asked.provisioner_secret))
        except NoCredentials as exc:
            raise NotProvisioned(exc.message, Outcome.NO_CHANGE) from exc
        return asked

    async def places(
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
                f"error generating accessibility requirements: {exc.message}", Outcome.NO_CHANGE
            ) from exc
        except topology.NodeGone as exc:
            if self._options.node_deployment is None:
                # A node that is new to us looks like one that is gone: the server knows.
                for kind in (Node, CSINode):
                    if not await self._exists(kind, selected_node):
                        raise NotProvisioned(exc.message, Outcome.RESCHEDULE) from exc
            raise NotProvisioned(exc.message, Outcome.NO_CHANGE) from exc

    async def _exists(self, kind: type[Object], key: Key) -> bool:
        try:
            await self._client.get_doc(kind, key)
        except NotFound:
            return False
        return True

    async def _attributes(self, name: str) -> Mapping[str, str]:
        """The parameters of a VolumeAttributesClass, which has no class of ours. Raises NotProvisioned."""
        try:
            found = decode(await self._client.raw("GET", f"{_ATTRIBUTES_CLASSES}/{name}"))
        except ApiError as exc:
            raise NotProvisioned(exc.message, Outcome.NO_CHANGE) from exc
        driver = dig(found, "driverName")
        if driver != self._driver_info.name:
            raise NotProvisioned(
                f"VAC {name} referenced in PVC is for driver {driver} which does not match driver name "
                f"{self._driver_info.name}",
                Outcome.FINISHED,
            )
        return dict(dig(found, "parameters") or {})
