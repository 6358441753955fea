"""From a claim and its class to CreateVolume, and from the answer to a PersistentVolume.

The volume's name contains the claim's uid, so a second try finds the first one's work. What an answer means:

      asked ──► no clear answer ─► in doubt: the same request is repeated, whatever happens to claim, class or node
        ├─────► made ────────────► the PersistentVolume is written; if the server refuses it for good, it is deleted
        ├─────► not made ────────► a new request from the claim as it is then, after a pause
        └─────► no room ─────────► with a selected node: the selection is removed (reschedule)

A class's parameters are for the driver, or for us alone (`csi.storage.k8s.io/…`). Templates name Secrets, such as
`${pvc.name}-key`; a template for a namespace knows only `pv.name` and `pvc.namespace`.

Mirrors external-provisioner's checkError, getSecretReference and removePrefixedParameters, messages included. An
unusable volume (too small, or not a copy) is deleted again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal

from msgspec.structs import replace

from tonnage import logs, quantity
from tonnage.client.recorder import reference_to
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.conversion import AccessMode, UnsupportedAccessModes, access_mode, volume_capability
from tonnage.csi.driver_capabilities import DriverInfo
from tonnage.csi.errors import Code, CsiError, error_text, is_in_doubt
from tonnage.errors import BadRequest, InternalError, Invalid, RequestEntityTooLarge, TonnageError
from tonnage.objects import core_v1, storage_v1
from tonnage.objects.core_v1 import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim, SecretReference
from tonnage.objects.meta import ObjectMeta
from tonnage.objects.names import dns_label, dns_subdomain
from tonnage.provisioner.context import InvalidClaim, ProvisionerContext, ProvisionerOptions, ProvisionerPart
from tonnage.provisioner.volumes import topology

_log = logs.logger("tonnage.provisioner")


PREFIX: Final = "csi.storage.k8s.io/"
FSTYPE: Final = f"{PREFIX}fstype"
CLAIM_NAME: Final = f"{PREFIX}pvc/name"
CLAIM_NAMESPACE: Final = f"{PREFIX}pvc/namespace"
VOLUME_NAME: Final = f"{PREFIX}pv/name"
"""What --extra-create-metadata adds for the driver."""


class InvalidParameters(TonnageError):
    """Parameters that contradict each other, or a template that cannot be filled in."""


class SecretKind(Enum):
    """The Secret of one call: its name in messages, its key without the prefix, and its older key, if any."""

    DEFAULT = "Default", "secret", ""
    PROVISIONER = "Provisioner", "provisioner-secret", "csiProvisionerSecret"
    CONTROLLER_PUBLISH = "ControllerPublish", "controller-publish-secret", "csiControllerPublishSecret"
    NODE_STAGE = "NodeStage", "node-stage-secret", "csiNodeStageSecret"
    NODE_PUBLISH = "NodePublish", "node-publish-secret", "csiNodePublishSecret"
    CONTROLLER_EXPAND = "ControllerExpand", "controller-expand-secret", ""
    NODE_EXPAND = "NodeExpand", "node-expand-secret", ""
    CONTROLLER_MODIFY = "ControllerModify", "controller-modify-secret", ""

    def keys(self, part: Literal["name", "namespace"]) -> tuple[str, ...]:
        """The parameters that may hold this part of the reference, the current one first."""
        _, key, old_key = self.value
        return (f"{PREFIX}{key}-{part}", *((f"{old_key}{part.capitalize()}",) if old_key else ()))


_OURS: Final = frozenset(
    (FSTYPE, *(key for kind in SecretKind for key in (*kind.keys("name"), *kind.keys("namespace"))))
)
# Go's os.Expand: ${anything}, $word, and the shell's one-letter names; a "$" before anything else stays.
_TOKEN: Final = re.compile(r"\$(?:\{([^}]*)\}|([*#$@!?\-0-9])|([A-Za-z_][A-Za-z0-9_]*))")


def for_driver(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without ours. Raises InvalidParameters for an unknown key with our prefix."""
    for key in parameters:
        if key.startswith(PREFIX) and key not in _OURS:
            raise InvalidParameters(
                "failed to strip CSI Parameters of prefixed keys: "
                f'found unknown parameter key "{key}" with reserved namespace {PREFIX}'
            )
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def fstype_of(parameters: Mapping[str, str], default: str) -> str:
    """The requested file system, by the new key or the old one. Raises InvalidParameters for both at once."""
    found = [value for key, value in parameters.items() if key.lower() == "fstype" or key == FSTYPE]
    if len(found) > 1:
        raise InvalidParameters(f'fstype specified in parameters with both "fstype" and "{FSTYPE}" keys')
    return (found[0] if found else "") or default


def secret_reference(
    kind: SecretKind, parameters: Mapping[str, str], volume_name: str, claim: PersistentVolumeClaim
) -> SecretReference | None:
    """The Secret for a kind of call, else the class's default one, else None. Raises InvalidParameters."""
    for asked, word in ((kind, ""), (SecretKind.DEFAULT, "default ")):
        try:
            templates = _templates(asked, parameters)
        except InvalidParameters as exc:
            told = f"failed to get {word}name and namespace template from params: {exc.message}"
            raise InvalidParameters(told) from exc
        if templates is not None:
            break
    else:
        return None
    name, namespace = templates
    values = {"pv.name": volume_name, "pvc.namespace": claim.namespace}
    annotations = {f"pvc.annotations['{key}']": value for key, value in claim.metadata.annotations.items()}
    return SecretReference(
        namespace=_filled(namespace, values, "namespace"),
        name=_filled(name, {**values, "pvc.name": claim.name, **annotations}, "secret"),
    )


def resolved(template: str, values: Mapping[str, str]) -> str:
    """A template with its tokens filled in. Raises InvalidParameters for an unknown token."""
    missing: set[str] = set()

    def fill(token: re.Match[str]) -> str:
        name = token[1] if token[1] is not None else token[2] or token[3]
        if name and name not in values:
            missing.add(name)
        return values.get(name, "")

    text = _TOKEN.sub(fill, template)
    if missing:
        listed = " ".join(f'"{name}"' for name in sorted(missing))
        raise InvalidParameters(f"invalid tokens: [{listed}]")
    return text


def _templates(kind: SecretKind, parameters: Mapping[str, str]) -> tuple[str, str] | None:
    """Templates of name and namespace; None if the class has neither. Raises InvalidParameters."""
    called = kind.value[0]
    names = [parameters[key] for key in kind.keys("name") if key in parameters]
    namespaces = [parameters[key] for key in kind.keys("namespace") if key in parameters]
    if len(names) > 1 or len(namespaces) > 1:
        raise InvalidParameters(f'{called} secrets specified in parameters with both "csi" and "{PREFIX}" keys')
    if len(names) != len(namespaces):
        raise InvalidParameters(f"either name and namespace for {called} secrets specified, Both must be specified")
    if not names:
        return None
    if not names[0] or not namespaces[0]:
        raise InvalidParameters(
            f"{called} secrets specified in parameters but value of either namespace or name is empty"
        )
    return names[0], namespaces[0]


def _filled(template: str, values: Mapping[str, str], what: str) -> str:
    try:
        text = resolved(template, values)
    except InvalidParameters as exc:
        raise InvalidParameters(f'error resolving value "{template}": {exc.message}') from exc
    if (dns_label if what == "namespace" else dns_subdomain)(text):
        became = f' resolved to "{text}" which' if text != template else ""
        raise InvalidParameters(f'"{template}"{became} is not a valid {what} name')
    return text


FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
"""Finalizer of a PersistentVolume: the driver's volume must be deleted first."""
IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
DELETION_SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
DELETION_SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
MODIFY_SECRET_NAME: Final = "volume.kubernetes.io/controller-modify-secret-name"
MODIFY_SECRET_NAMESPACE: Final = "volume.kubernetes.io/controller-modify-secret-namespace"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The CreateVolume request for one claim, and what the PersistentVolume needs of claim and class."""

    claim: PersistentVolumeClaim
    storage_class: storage_v1.StorageClass
    request: csi.CreateVolumeRequest
    fstype: str
    source: CSIPersistentVolumeSource
    provisioner_secret: SecretReference | None
    modify_secret: SecretReference | None
    selected_node: str

    @property
    def name(self) -> str:
        return self.request.name


def missing_capability(driver: DriverInfo, *, snapshot: bool = False, clone: bool = False, modify: bool = False) -> str:
    """Why a driver cannot create such volumes, in upstream's words; empty if it can. See checkDriverCapabilities."""
    dynamic = "CSI driver does not support dynamic provisioning: "
    if not driver.plugin.controller_service:
        return f"{dynamic}plugin CONTROLLER_SERVICE capability is not reported"
    if not driver.controller.create_delete_volume:
        return f"{dynamic}controller CREATE_DELETE_VOLUME capability is not reported"
    if snapshot and not driver.controller.create_delete_snapshot:
        return (
            "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported"
        )
    if clone and not driver.controller.clone_volume:
        return "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    if modify and not driver.controller.modify_volume:
        return "CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported"
    return ""


def capability(
    modes: Sequence[str], volume_mode: str, fstype: str, mount_options: Iterable[str], driver: DriverInfo
) -> csi.VolumeCapability:
    """How a volume is used: mounted or as a block device, and its access mode. Raises InvalidClaim."""
    try:
        mode = access_mode(modes, single_node_multi_writer=driver.controller.single_node_multi_writer)
    except UnsupportedAccessModes as exc:
        raise InvalidClaim(exc.message) from exc
    return volume_capability(mode, is_block=volume_mode == "Block", fs_type=fstype, mount_flags=mount_options)


def prepared(
    claim: PersistentVolumeClaim,
    storage_class: storage_v1.StorageClass,
    driver_info: DriverInfo,
    options: ProvisionerOptions,
    *,
    content: csi.VolumeContentSource | None = None,
    accessibility_requirements: csi.TopologyRequirement | None = None,
    mutable_parameters: Mapping[str, str] | None = None,
    selected_node: str = "",
) -> Prepared:
    """The request for a claim, without the secrets' values. Raises InvalidClaim or InvalidParameters."""
    if claim.spec.selector is not None:
        raise InvalidClaim("claim Selector is not supported")
    name = options.volume_name(claim.uid)
    given = storage_class.parameters
    fstype = fstype_of(given, options.default_fstype)
    # One capability per access mode of the claim, as upstream: the driver must accept all of them.
    capabilities = [
        capability((mode,), claim.spec.volume_mode, fstype, storage_class.mount_options, driver_info)
        for mode in claim.spec.access_modes
    ]
    asked = claim.requested

    def secret(kind: SecretKind) -> SecretReference | None:
        return secret_reference(kind, given, name, claim)

    provisioner_secret = secret(SecretKind.PROVISIONER)
    source = CSIPersistentVolumeSource(
        driver=driver_info.name,
        volume_handle="",
        controller_publish_secret_ref=secret(SecretKind.CONTROLLER_PUBLISH),
        node_stage_secret_ref=secret(SecretKind.NODE_STAGE),
        node_publish_secret_ref=secret(SecretKind.NODE_PUBLISH),
        controller_expand_secret_ref=secret(SecretKind.CONTROLLER_EXPAND),
        node_expand_secret_ref=secret(SecretKind.NODE_EXPAND),
    )
    modify_secret = secret(SecretKind.CONTROLLER_MODIFY)
    passed = for_driver(given)
    if options.extra_create_metadata:
        passed |= {
            CLAIM_NAME: claim.name,
            CLAIM_NAMESPACE: claim.namespace,
            VOLUME_NAME: name,
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
    """The size of a new volume; a driver that reports 0 made the requested size."""
    return made.capacity_bytes or request.capacity_range.required_bytes


def persistent_volume(
    asked: Prepared, made: csi.Volume, driver_info: DriverInfo, options: ProvisionerOptions, *, identity: str
) -> PersistentVolume:
    claim, storage_class = asked.claim, asked.storage_class
    provisioner_secret = asked.provisioner_secret or SecretReference()
    annotations = {
        core_v1.PROVISIONED_BY: storage_class.provisioner,
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
    source = replace(
        asked.source,
        volume_handle=made.volume_id,
        read_only=is_read_only,
        fs_type="" if claim.spec.volume_mode == "Block" else asked.fstype,
        volume_attributes={IDENTITY: identity, **made.volume_context},
    )
    has_topology = driver_info.plugin.volume_accessibility_constraints and options.topology
    return PersistentVolume(
        metadata=ObjectMeta(name=asked.name, annotations=annotations, finalizers=(FINALIZER, core_v1.PV_PROTECTION)),
        spec=core_v1.PersistentVolumeSpec(
            capacity={"storage": quantity.Quantity.from_bytes(made_bytes(asked.request, made))},
            access_modes=claim.spec.access_modes,
            claim_ref=reference_to(claim),
            storage_class_name=storage_class.name,
            volume_attributes_class_name=(
                claim.spec.volume_attributes_class_name if options.volume_attributes_class else ""
            ),
            volume_mode=claim.spec.volume_mode,
            node_affinity=topology.node_affinity_of(made.accessible_topology)
            if has_topology
            else core_v1.VolumeNodeAffinity(),
            persistent_volume_reclaim_policy=storage_class.reclaim_policy,
            mount_options=storage_class.mount_options,
            csi=source,
        ),
    )


class ProvisioningState(StrEnum):
    """What is known after a failed attempt; upstream's names."""

    FINISHED = "Finished"
    IN_BACKGROUND = "InBackground"
    NO_CHANGE = "NoChange"
    RESCHEDULE = "Reschedule"


class NotProvisioned(TonnageError):
    """No volume was provisioned; `state` is what is known. `is_ours` False: another provisioner should do it."""

    def __init__(
        self, message: str, state: ProvisioningState = ProvisioningState.FINISHED, *, is_ours: bool = True
    ) -> None:
        self.state = state
        self.is_ours = is_ours
        super().__init__(message)


def state_of(code: Code, *, may_reschedule: bool) -> ProvisioningState:
    """Read a gRPC code as CSI means it. ResourceExhausted means "no capacity", never "message too long"."""
    if code is Code.RESOURCE_EXHAUSTED:
        return ProvisioningState.RESCHEDULE if may_reschedule else ProvisioningState.FINISHED
    return ProvisioningState.IN_BACKGROUND if is_in_doubt(code) else ProvisioningState.FINISHED


def is_infeasible(failure: TonnageError) -> bool:
    """True if the same request can never succeed, so that it is repeated rarely."""
    return isinstance(failure, CsiError) and failure.code is Code.INVALID_ARGUMENT


def is_refused_for_good(failure: TonnageError) -> bool:
    """True if the server would refuse the same PersistentVolume again."""
    if isinstance(failure, InternalError):
        return any(words in failure.message for words in ("request is too large", "message larger than max"))
    return isinstance(failure, BadRequest | Invalid | RequestEntityTooLarge)


def is_out_of_room(failure: TonnageError) -> bool:
    return isinstance(failure, CsiError) and failure.code is Code.RESOURCE_EXHAUSTED


_CLEANUP_TRIES = 5
_MOST_BYTES = 1 << 20
"""How much a driver may report of a volume: etcd's default limit is 1.5 MiB, and a PersistentVolume has more in it."""


class VolumeCreator(ProvisionerPart):
    """Asks one driver for volumes. Their annotation `IDENTITY` names this run of the provisioner."""

    def __init__(self, context: ProvisionerContext) -> None:
        super().__init__(context)
        at_ms, deployment = int(self._clock.now().timestamp() * 1000), self._options.node_deployment
        node = f"-{deployment.node_name}" if deployment is not None else ""
        self._identity = f"{at_ms}-{self._rng.randrange(10000)}-{self._driver_info.name}{node}"

    async def create(self, asked: Prepared) -> PersistentVolume:
        """The volume, not yet written. Raises CsiError if refused, NotProvisioned if the volume is unusable."""
        made = (await self._driver.create_volume(asked.request)).volume
        wanted_bytes, has_bytes = asked.request.capacity_range.required_bytes, made_bytes(asked.request, made)
        if not made.volume_id:
            # A volume may exist without a known id: only the same request can find it.
            raise NotProvisioned("the driver made a volume and did not report its id", ProvisioningState.IN_BACKGROUND)
        why = ""
        if has_bytes < wanted_bytes:
            why = f"created volume capacity {has_bytes} less than requested capacity {wanted_bytes}"
        elif asked.request.HasField("volume_content_source") and not made.HasField("content_source"):
            why = "volume content source missing"
        elif made.ByteSize() > _MOST_BYTES:
            why = f"the driver describes the volume in {made.ByteSize()} bytes, more than can be stored ({_MOST_BYTES})"
        if not why:
            return persistent_volume(asked, made, self._driver_info, self._options, identity=self._identity)
        try:
            await self.discard(asked, made.volume_id)
        except NotProvisioned as exc:
            raise NotProvisioned(f"{why}. {exc.message}", exc.state) from exc
        raise NotProvisioned(why)

    async def discard(self, asked: Prepared, volume_id: str) -> None:
        """Delete an unusable volume, unless another PersistentVolume names it. Raises NotProvisioned if it remains."""
        ours = self._driver_info.name, volume_id
        others = (volume.spec.csi for volume in self._volumes if volume.name != asked.name)
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
