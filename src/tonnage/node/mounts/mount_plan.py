"""Which volumes of a pod its node must mount where, or why that is not known yet.

Only CSI volumes are mounted, through claims or inline. Checks and messages are upstream's
(desiredStateOfWorldPopulator), with one difference: a claim that is being deleted serves only pods that already have
its volume, because its protection finalizer may go a moment later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from dataclasses import dataclass

from tonnage.node.context import VolumeLookup
from tonnage.node.mounts.mount_paths import MountRecord
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume, persistent_volume
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeToMount:
    """One volume to mount for one pod. `pod_volume` is the pod's name for it; `claim` is empty for inline volumes."""

    pod_volume: str
    record: MountRecord
    claim: Key = ""
    volume: PersistentVolume | None = None
    access_mode: str = "ReadWriteOnce"
    read_only: bool = False
    fs_type: str = ""
    fs_group: int | None = None
    mount_options: tuple[str, ...] = ()
    context: Mapping[str, str]
    pod_info: Mapping[str, str]
    stage_secret: persistent_volume.SecretReference | None = None
    publish_secret: persistent_volume.SecretReference | None = None
    expand_secret: persistent_volume.SecretReference | None = None


@dataclass(frozen=True, slots=True)
class MountPlan:
    """The volumes to mount, and by pod volume name why another one cannot be mounted yet."""

    volumes_to_mount: tuple[VolumeToMount, ...]
    problems: Mapping[str, str]


class NotProcessed(Exception):
    """A volume that cannot be mounted now; the text is for people."""


def plan_mounts(pod: Pod, lookup: VolumeLookup, *, recorded: Container[str] = ()) -> MountPlan:
    """Read a pod's volumes, in order. `recorded`: names of the volumes that this pod already has on this node."""
    volumes_to_mount: list[VolumeToMount] = []
    problems: dict[str, str] = {}
    for volume in pod.spec.volumes:
        try:
            to_mount = plan_volume(pod, volume, lookup, recorded=recorded)
        except NotProcessed as exc:
            problems[volume.name] = str(exc)
        else:
            if to_mount is not None:
                volumes_to_mount.append(to_mount)
    return MountPlan(tuple(volumes_to_mount), problems)


def plan_volume(
    pod: Pod, volume: Volume, lookup: VolumeLookup, *, recorded: Container[str] = ()
) -> VolumeToMount | None:
    """Plan one volume of a pod; None if there is nothing to mount. Raises NotProcessed."""
    if volume.csi is not None:
        return _inline(pod, volume, lookup)
    return _claimed(pod, volume, lookup, recorded)


def waiting_note(unmounted: list[str], unattached: list[str], unprocessed: list[str], reason: str) -> str:
    """Upstream's message for a wait that timed out: names in brackets, as Go prints lists."""
    lists = [f"[{' '.join(names)}]" for names in (unmounted, unattached, unprocessed)]
    return (
        f"unmounted volumes={lists[0]}, unattached volumes={lists[1]}, failed to process volumes={lists[2]}: {reason}"
    )


def _claimed(pod: Pod, volume: Volume, lookup: VolumeLookup, recorded: Container[str]) -> VolumeToMount | None:
    name = volume.claim_name(pod.name)
    if name is None:
        return None
    key = f"{pod.namespace}/{name}"
    claim = lookup.claim(key)
    if claim is None:
        missing = f'persistentvolumeclaims "{name}" not found'
        raise NotProcessed(f"error processing PVC {key}: failed to fetch PVC from API server: {missing}")
    try:
        found = _bound_volume(claim, lookup, recorded)
    except NotProcessed as exc:
        raise NotProcessed(f"error processing PVC {key}: {exc}") from None
    owner = claim.metadata.controller
    if volume.ephemeral is not None and (owner is None or owner.uid != pod.uid):
        raise NotProcessed(f"PVC {key} was not created for pod {pod.key} (pod is not owner)")
    _check_mode(pod, volume.name, found.spec.volume_mode)
    source = found.spec.csi
    if source is None:
        return None
    driver = lookup.driver(source.driver)
    is_block = found.spec.volume_mode == "Block"
    claimed = volume.persistent_volume_claim
    return VolumeToMount(
        pod_volume=volume.name,
        record=MountRecord(
            driver=source.driver,
            handle=source.volume_handle,
            name=found.name,
            pod_uid=pod.uid,
            is_block=is_block,
            # Without a CSIDriver object a driver needs attaching.
            is_attachable=driver is None or driver.spec.attach_required,
        ),
        claim=key,
        volume=found,
        access_mode=next(iter(found.spec.access_modes), "ReadWriteOnce"),
        read_only=source.read_only or (claimed is not None and claimed.read_only),
        fs_type=source.fs_type,
        fs_group=pod.spec.security_context.fs_group,
        mount_options=found.spec.mount_options,
        context=source.volume_attributes,
        pod_info=_pod_info(pod, driver, is_inline=False),
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        expand_secret=source.node_expand_secret_ref,
    )


def _bound_volume(claim: PersistentVolumeClaim, lookup: VolumeLookup, recorded: Container[str]) -> PersistentVolume:
    if claim.metadata.is_terminating and claim.spec.volume_name not in recorded:
        raise NotProcessed("PVC is being deleted")
    if claim.status.phase != "Bound":
        raise NotProcessed("PVC is not bound")
    name = claim.spec.volume_name
    if not name:
        raise NotProcessed("PVC has empty pvc.Spec.VolumeName")
    volume = lookup.volume(name)
    if volume is None:
        raise NotProcessed(f'failed to fetch PV {name} from API server: persistentvolumes "{name}" not found')
    owner = volume.spec.claim_ref
    if owner is None:
        raise NotProcessed(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )
    if owner.uid != claim.uid:
        raise NotProcessed(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {owner.uid} does not point to claim.UID {claim.uid}"
        )
    return volume


def _check_mode(pod: Pod, volume: str, mode: str) -> None:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if mode != "Filesystem" and any(volume == mount.name for each in containers for mount in each.volume_mounts):
        raise NotProcessed(f"volume {volume} has volumeMode {mode}, but is specified in volumeMounts")
    if mode != "Block" and any(volume == device.name for each in containers for device in each.volume_devices):
        raise NotProcessed(f"volume {volume} has volumeMode {mode}, but is specified in volumeDevices")


def _inline(pod: Pod, volume: Volume, lookup: VolumeLookup) -> VolumeToMount | None:
    """Plan a volume that its driver creates on the node for this pod alone: published, never attached or staged."""
    source = volume.csi
    if source is None:
        return None
    driver = lookup.driver(source.driver)
    if driver is None or "Ephemeral" not in driver.spec.volume_lifecycle_modes:
        raise NotProcessed(
            f"mounter.SetupAt failed to check volume lifecycle mode: volume mode Ephemeral not supported by "
            f"driver {source.driver}"
        )
    handle = hashlib.sha256(f"{pod.uid}{volume.name}".encode()).hexdigest()
    return VolumeToMount(
        pod_volume=volume.name,
        record=MountRecord(
            driver=source.driver,
            handle=f"csi-{handle}",
            name=volume.name,
            pod_uid=pod.uid,
            is_attachable=False,
            is_inline=True,
        ),
        read_only=source.read_only,
        fs_type=source.fs_type,
        fs_group=pod.spec.security_context.fs_group,
        context=source.volume_attributes,
        pod_info=_pod_info(pod, driver, is_inline=True),
    )


def _pod_info(pod: Pod, driver: CSIDriver | None, *, is_inline: bool) -> Mapping[str, str]:
    """The pod's data for NodePublishVolume, if the driver wants it (podInfoOnMount)."""
    if driver is None or not driver.spec.pod_info_on_mount:
        return {}
    return {
        "csi.storage.k8s.io/pod.name": pod.name,
        "csi.storage.k8s.io/pod.namespace": pod.namespace,
        "csi.storage.k8s.io/pod.uid": pod.uid,
        "csi.storage.k8s.io/serviceAccount.name": pod.spec.service_account_name,
        "csi.storage.k8s.io/ephemeral": "true" if is_inline else "false",
    }
