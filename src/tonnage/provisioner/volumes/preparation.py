"""Looks up everything that CreateVolume needs: source, topology, attributes, secrets.

Raises NotProvisioned: a mistake in the claim or its class is final until it is corrected; a missing object changes
nothing. A claim that is being cloned gets a finalizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage import errors, quantity
from tonnage.client.cache import add_finalizer
from tonnage.csi import csi_pb2 as csi
from tonnage.objects import codec, decode_errors
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, persistent_volume
from tonnage.objects.document import Doc, dig
from tonnage.objects.storage_v1 import CSINode, StorageClass, VolumeAttributesClass
from tonnage.provisioner.context import InvalidClaim, ProvisionerPart, SecretUnavailable
from tonnage.provisioner.volumes import create_volume, topology
from tonnage.provisioner.volumes.create_volume import NotProvisioned, ProvisioningState

CLONE_FINALIZER: Final = "provisioner.storage.kubernetes.io/cloning-protection"
"""Finalizer of a claim that is being cloned."""
ALLOW_MODE_CHANGE: Final = "snapshot.storage.kubernetes.io/allow-volume-mode-change"
SNAPSHOT: Final = "VolumeSnapshot"
CLAIM: Final = "PersistentVolumeClaim"
_SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
_SNAPSHOTS: Final = f"/apis/{_SNAPSHOT_GROUP}/v1"
_NOT_BOUND: Final = "claim in dataSource not bound or invalid"


class NoSource(errors.TonnageError):
    """The source cannot be used now, or ever."""


Source = persistent_volume.TypedObjectReference


def source_of(claim: PersistentVolumeClaim) -> Source | None:
    """The source by either of its two names; None for an empty volume. Raises NotProvisioned for another namespace."""
    referred = claim.spec.data_source_ref
    if claim.spec.data_source is not None or referred is None:
        return claim.spec.data_source
    if referred.namespace and referred.namespace != claim.namespace:
        raise NotProvisioned(
            "dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled",
        )
    return referred


def check_kind(claim: PersistentVolumeClaim, source: Source) -> None:
    """Raises NotProvisioned for a source of another kind or group, or without a name."""
    if not source.name:
        raise NotProvisioned(f"the PVC source not found for PVC {claim.name}")
    if source.kind == SNAPSHOT and source.api_group != _SNAPSHOT_GROUP:
        raise NotProvisioned(
            f"the PVC source does not belong to the right APIGroup. Expected {_SNAPSHOT_GROUP}, Got {source.api_group}",
        )
    if source.kind not in (SNAPSHOT, CLAIM):
        raise NotProvisioned(
            f"data source ({source.kind}) is not handled by the provisioner, assuming an external populator will "
            "provision it",
            is_ours=False,
        )


def clone_source(
    claim: PersistentVolumeClaim,
    source: PersistentVolumeClaim,
    volume: PersistentVolume | None,
    storage_class: StorageClass,
) -> csi.VolumeContentSource:
    """The volume to clone. Raises NoSource. Mirrors getPVCSource."""
    if source.status.phase != "Bound":
        raise NoSource(f"the PVC DataSource {source.name} must have a status of Bound.  Got {source.status.phase}")
    if source.metadata.is_terminating:
        raise NoSource(f"the PVC DataSource {source.name} is currently being deleted")
    if source.spec.storage_class_name is None:
        raise NoSource(f"the source PVC ({source.name}) storageclass cannot be empty")
    if claim.spec.storage_class_name is None:
        raise NoSource(f"the requested PVC ({claim.name}) storageclass cannot be empty")
    asked_bytes, source_bytes = _bytes(claim.requested), _bytes(source.requested)
    if asked_bytes < source_bytes:
        raise NoSource(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested "
            f"{asked_bytes} but source is {source_bytes}"
        )
    if not source.spec.volume_name:
        raise NoSource(f"volume name is empty in source PVC {source.name}")
    if volume is None or volume.spec.csi is None or volume.spec.csi.driver != storage_class.provisioner:
        raise NoSource(_NOT_BOUND)
    owner = volume.spec.claim_ref
    if owner is None or owner.uid != source.uid or owner.key != source.key or volume.status.phase != "Bound":
        raise NoSource(_NOT_BOUND)
    if claim.spec.volume_mode != volume.spec.volume_mode:
        raise NoSource(
            "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is "
            f"{volume.spec.volume_mode}, but new PVC requested {claim.spec.volume_mode}"
        )
    return csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=volume.spec.csi.volume_handle))


def snapshot_source(
    claim: PersistentVolumeClaim,
    snapshot: Doc,
    content: Doc,
    storage_class: StorageClass,
    *,
    prevents_mode_conversion: bool,
) -> csi.VolumeContentSource:
    """The snapshot to restore. Raises NoSource. Mirrors getSnapshotSource, without its finalizer."""
    name, content_name = str(dig(snapshot, "metadata", "name")), str(dig(content, "metadata", "name"))
    if dig(snapshot, "metadata", "deletionTimestamp"):
        raise NoSource(f"snapshot {name} is being deleted")
    referred = dig(content, "spec", "volumeSnapshotRef") or {}
    if any(referred.get(key) != dig(snapshot, "metadata", key) for key in ("uid", "namespace", "name")):
        raise NoSource(f"snapshotcontent {content_name} for snapshot {name} is bound to a different snapshot")
    if dig(content, "spec", "driver") != storage_class.provisioner:
        raise NoSource(
            f"snapshotcontent {content_name} for snapshot {name} is not handled by CSI driver of StorageClass "
            f"{storage_class.name}"
        )
    if not dig(snapshot, "status", "readyToUse"):
        raise NoSource(f"snapshot {name} is not Ready")
    handle = dig(content, "status", "snapshotHandle")
    if not handle:
        raise NoSource(f"snapshot handle {name} is not available")
    restored, asked_bytes = dig(snapshot, "status", "restoreSize"), _bytes(claim.requested)
    if restored is not None and asked_bytes < (size := quantity.Quantity.of(restored).value()):
        raise NoSource(
            f"requested volume size {asked_bytes} is less than the size {size} for the source snapshot {name}"
        )
    mode = dig(content, "spec", "sourceVolumeMode")
    if prevents_mode_conversion and mode and mode != claim.spec.volume_mode:
        refused = f"requested volume {claim.key} modifies the mode of the source volume but does not have permission to"
        allowed = (dig(content, "metadata", "annotations") or {}).get(ALLOW_MODE_CHANGE)
        if allowed is None:
            what = f"annotation is not present on snapshotcontent {content_name}"
            raise NoSource(f"{refused} do so. {ALLOW_MODE_CHANGE} {what}")
        if allowed not in ("1", "t", "T", "TRUE", "true", "True"):
            raise NoSource(f"{refused} do so. {ALLOW_MODE_CHANGE} is set to false on snapshotcontent {content_name}")
    return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=str(handle)))


def _bytes(size: quantity.Quantity | None) -> int:
    return size.value() if size is not None else 0


class Preparation(ProvisionerPart):
    async def request_for(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, selected_node: str
    ) -> create_volume.Prepared:
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
        lack = create_volume.missing_capability(
            self._driver_info, snapshot=kind == SNAPSHOT, clone=kind == CLAIM, modify=bool(attributes)
        )
        if lack:
            raise NotProvisioned(lack)
        content = await self._content(claim, source, storage_class) if source is not None else None
        requirements = (
            await self.accessibility_requirements(claim, storage_class, selected_node) if self._has_topology else None
        )
        mutable = await self._attributes(attributes) if attributes else {}
        try:
            asked = create_volume.prepared(
                claim,
                storage_class,
                self._driver_info,
                self._options,
                content=content,
                accessibility_requirements=requirements,
                mutable_parameters=mutable,
                selected_node=selected_node,
            )
        except (InvalidClaim, create_volume.InvalidParameters) as exc:
            raise NotProvisioned(exc.message) from exc
        try:
            asked.request.secrets.update(await self._read_secret(asked.provisioner_secret))
        except SecretUnavailable as exc:
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc
        return asked

    async def accessibility_requirements(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, selected_node: str
    ) -> csi.TopologyRequirement | None:
        """Where the volume may be. Raises NotProvisioned, with Reschedule if the selected node is gone."""
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
                # A node that our cache does not show yet looks like a deleted one: ask the server.
                for kind in (Node, CSINode):
                    if await self._client.find(kind, selected_node) is None:
                        raise NotProvisioned(exc.message, ProvisioningState.RESCHEDULE) from exc
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc

    async def _attributes(self, name: str) -> Mapping[str, str]:
        try:
            found = await self._client.get(VolumeAttributesClass, name)
        except (errors.ApiError, decode_errors.Unreadable) as exc:
            raise NotProvisioned(exc.message, ProvisioningState.NO_CHANGE) from exc
        driver = found.driver_name
        if driver != self._driver_info.name:
            raise NotProvisioned(
                f"VAC {name} referenced in PVC is for driver {driver} which does not match driver name "
                f"{self._driver_info.name}",
            )
        return dict(found.parameters)

    async def _content(
        self, claim: PersistentVolumeClaim, source: Source, storage_class: StorageClass
    ) -> csi.VolumeContentSource:
        """The content source for CreateVolume. Raises NotProvisioned if the source is not ready or not valid."""
        try:
            if source.kind == CLAIM:
                return await self._clone(claim, source, storage_class)
            return await self._snapshot(claim, source, storage_class)
        except (NoSource, errors.ApiError) as exc:
            raise NotProvisioned(
                f"error getting handle for DataSource Type {source.kind} by Name {source.name}: {exc.message}",
                ProvisioningState.NO_CHANGE,
            ) from exc

    async def _clone(
        self, claim: PersistentVolumeClaim, source: Source, storage_class: StorageClass
    ) -> csi.VolumeContentSource:
        key = f"{claim.namespace}/{source.name}"
        found = self._claims.get(key) or await self._client.get(PersistentVolumeClaim, key)
        name = found.spec.volume_name
        volume = await self._client.get(PersistentVolume, name) if name else None
        content = clone_source(claim, found, volume, storage_class)
        patch = add_finalizer(found, CLONE_FINALIZER)
        if patch is not None:
            # Before the clone begins, so that its source is not deleted meanwhile; `CloningProtectionController`
            # removes it.
            await self._client.patch(PersistentVolumeClaim, key, patch)
        return content

    async def _snapshot(
        self, claim: PersistentVolumeClaim, source: Source, storage_class: StorageClass
    ) -> csi.VolumeContentSource:
        snapshot = await self._read(f"{_SNAPSHOTS}/namespaces/{claim.namespace}/volumesnapshots/{source.name}")
        bound = dig(snapshot, "status", "boundVolumeSnapshotContentName")
        if not bound:
            raise NoSource(f"snapshot {source.name} not bound")
        content = await self._read(f"{_SNAPSHOTS}/volumesnapshotcontents/{bound}")
        is_prevented = self._options.prevent_volume_mode_conversion
        return snapshot_source(claim, snapshot, content, storage_class, prevents_mode_conversion=is_prevented)

    async def _read(self, path: str) -> Doc:
        return codec.read_doc("VolumeSnapshot", await self._client.raw("GET", path))
