"""What the controllers index objects by: functions for `client.indexer`, each from an object to its index keys."""

from __future__ import annotations

from tonnage.objects.core_v1 import PersistentVolume, Pod
from tonnage.objects.meta import Key, Object
from tonnage.objects.storage_v1 import VolumeAttachment


def namespace_of(found: Object) -> tuple[str]:
    return (found.namespace,)


def claims_of_pod(pod: Pod) -> tuple[Key, ...]:
    """The claims that a pod mounts, whether they exist or not."""
    return tuple(f"{pod.namespace}/{name}" for name in pod.claim_names())


def node_of_pod(pod: Pod) -> tuple[str, ...]:
    """The node that a pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def claim_of_volume(volume: PersistentVolume) -> tuple[Key, ...]:
    """The claim that a volume's `claimRef` names."""
    return () if volume.spec.claim_ref is None else (volume.spec.claim_ref.key,)


def volume_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    """The name of the volume that is attached; nothing for the rare inline one."""
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


def node_of_attachment(attachment: VolumeAttachment) -> tuple[str, ...]:
    return (attachment.spec.node_name,)
