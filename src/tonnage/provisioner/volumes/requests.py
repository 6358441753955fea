"""From a claim and its class to a CreateVolumeRequest, and from the answer to a PersistentVolume. No I/O.

The volume's name is made of the claim's uid, so that a second try, by whomever and whenever, asks for the same volume,
and finds the first one's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.csi import csi_pb2 as csi
from tonnage.csi.access_modes import AccessMode, UnsupportedAccessModes, access_mode
from tonnage.csi.driver_capabilities import DriverInfo
from tonnage.csi.volume_capabilities import volume_capability
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import (
    PROVISIONED_BY,
    PV_PROTECTION,
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    SecretReference,
    VolumeNodeAffinity,
)
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.storage_v1 import StorageClass
from tonnage.provisioner.options import ProvisionerOptions
from tonnage.provisioner.volumes import parameters, topology
from tonnage.quantity import Quantity

FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Of a volume: what the driver keeps of it has to be deleted first."""
IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
DELETION_SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
MODIFY_SECRET_NAME: Final = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE: Final = "volume.kubernetes.io/controller-modify-secret-namespace"


class InvalidClaim(TonnageError):
    """A claim that no volume can be made for as it is."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is asked of the driver for one claim, and what the volume will need to know of it."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    request: csi.CreateVolumeRequest
    fstype: str
    source: CSIPersistentVolumeSource
    provisioner_secret: SecretReference | None
    modify_secret: SecretReference | None
    selected_node: str

    @property
    def name(self) -> str:
        return self.request.name


def volume_name(prefix: str, uid: str, uuid_length: int) -> str:
    """`pvc-<uid>`; the uid without dashes and cut where a length is given. Raises InvalidClaim."""
    if not prefix:
        raise InvalidClaim("volume name prefix cannot be of length 0")
    if not uid:
        raise InvalidClaim("corrupted PVC object, it is missing UID")
    return f"{prefix}-{uid}" if uuid_length == -1 else f"{prefix}-{uid.replace('-', '')[:uuid_length]}"


def capability(
    modes: Sequence[str], volume_mode: str, fstype: str, mount_options: Iterable[str], driver: DriverInfo
) -> csi.VolumeCapability:
    """How a volume is used: mounted or as a block device, by whom. Raises InvalidClaim."""
    try:
        mode = access_mode(modes, single_node_multi_writer=driver.controller.single_node_multi_writer)
    except UnsupportedAccessModes as exc:
        raise InvalidClaim(exc.message) from exc
    return volume_capability(mode, is_block=volume_mode == "Block", fs_type=fstype, mount_flags=mount_options)


def prepared(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    driver_info: DriverInfo,
    options: ProvisionerOptions,
    *,
    content: csi.VolumeContentSource | None = None,
    accessibility_requirements: csi.TopologyRequirement | None = None,
    mutable_parameters: Mapping[str, str] | None = None,
    selected_node: str = "",
) -> Prepared:
    """The request for a claim, all but the secrets themselves. Raises InvalidClaim or InvalidParameters."""
    if claim.spec.selector is not None:
        raise InvalidClaim("claim Selector is not supported")
    name = volume_name(options.volume_name_prefix, claim.uid, options.volume_name_uuid_length)
    given = storage_class.parameters
    fstype = parameters.fstype_of(given, options.default_fstype)
    # One capability for each mode of the claim, as upstream: a driver has to agree to all of them.
    capabilities = [
        capability((mode,), claim.spec.volume_mode, fstype, storage_class.mount_options, driver_info)
        for mode in claim.spec.access_modes
    ]
    asked = claim.requested

    def secret(kind: parameters.SecretKind) -> SecretReference | None:
        return parameters.secret_reference(kind, given, name, claim)

    provisioner_secret = secret(parameters.PROVISIONER)
    source = CSIPersistentVolumeSource(
        driver=driver_info.name,
        volume_handle="",
        controller_publish_secret_ref=secret(parameters.CONTROLLER_PUBLISH),
        node_stage_secret_ref=secret(parameters.NODE_STAGE),
        node_publish_secret_ref=secret(parameters.NODE_PUBLISH),
        controller_expand_secret_ref=secret(parameters.CONTROLLER_EXPAND),
        node_expand_secret_ref=secret(parameters.NODE_EXPAND),
    )
    modify_secret = secret(parameters.CONTROLLER_MODIFY)
    passed = parameters.for_driver(given)
    if options.extra_create_metadata:
        passed |= {
            parameters.CLAIM_NAME: claim.name,
            parameters.CLAIM_NAMESPACE: claim.namespace,
            parameters.VOLUME_NAME: name,
        }
    request = csi.CreateVolumeRequest(
        name=name,
        capacity_range=csi.CapacityRange(required_bytes=asked.value() if asked is not None else 0),
        volume_capabilities=capabilities,
        parameters=passed,
        mutable_parameters=dict(mutable_parameters or {}),
        volume_content_source=content,
        accessibility_requirements=accessibility_requirements,
    )
    return Prepared(claim, storage_class, request, fstype, source, provisioner_secret, modify_secret, selected_node)


def made_bytes(request: csi.CreateVolumeRequest, made: csi.Volume) -> int:
    """The size of what was made; a driver that does not say (0) made what was asked."""
    return made.capacity_bytes or request.capacity_range.required_bytes


def persistent_volume(
    asked: Prepared, made: csi.Volume, driver_info: DriverInfo, options: ProvisionerOptions, *, identity: str
) -> PersistentVolume:
    """The volume that a driver made, for its claim."""
    claim, storage_class = asked.claim, asked.storage_class
    provisioner_secret = asked.provisioner_secret or SecretReference()
    annotations = {
        PROVISIONED_BY: storage_class.provisioner,
        DELETION_SECRET_NAME: provisioner_secret.name,
        DELETION_SECRET_NAMESPACE: provisioner_secret.namespace,
    }
    if asked.modify_secret is not None:
        annotations[MODIFY_SECRET_NAME] = asked.modify_secret.name
        annotations[MODIFY_SECRET_NAMESPACE] = asked.modify_secret.namespace
    capabilities = asked.request.volume_capabilities
    is_read_only = (
        options.controller_publish_readonly
        and len(capabilities) == 1
        and capabilities[0].access_mode.mode == AccessMode.MULTI_NODE_READER_ONLY
    )
    source = CSIPersistentVolumeSource(
        driver=driver_info.name,
        volume_handle=made.volume_id,
        read_only=is_read_only,
        fs_type="" if claim.spec.volume_mode == "Block" else asked.fstype,
        volume_attributes={IDENTITY: identity, **made.volume_context},
        controller_publish_secret_ref=asked.source.controller_publish_secret_ref,
        node_stage_secret_ref=asked.source.node_stage_secret_ref,
        node_publish_secret_ref=asked.source.node_publish_secret_ref,
        controller_expand_secret_ref=asked.source.controller_expand_secret_ref,
        node_expand_secret_ref=asked.source.node_expand_secret_ref,
    )
    has_topology = driver_info.plugin.volume_accessibility_constraints and options.topology
    return PersistentVolume(
        metadata=ObjectMeta(name=asked.name, annotations=annotations, finalizers=(FINALIZER, PV_PROTECTION)),
        spec=PersistentVolumeSpec(
            capacity={"storage": Quantity.from_bytes(made_bytes(asked.request, made))},
            access_modes=claim.spec.access_modes,
            claim_ref=ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=claim.namespace,
                name=claim.name,
                uid=claim.uid,
                resource_version=claim.metadata.resource_version,
            ),
            storage_class_name=storage_class.name,
            volume_attributes_class_name=(
                claim.spec.volume_attributes_class_name if options.volume_attributes_class else ""
            ),
            volume_mode=claim.spec.volume_mode,
            node_affinity=topology.node_affinity_of(made.accessible_topology) if has_topology else VolumeNodeAffinity(),
            persistent_volume_reclaim_policy=storage_class.reclaim_policy,
            mount_options=storage_class.mount_options,
            csi=source,
        ),
    )
