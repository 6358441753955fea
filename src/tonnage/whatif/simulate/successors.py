"""Who comes after a pod that went: its controller makes another, of the same template, with the claims that stay.

A pod of a StatefulSet comes back under its name, others under a new one. Claims that people or a StatefulSet made are
still there; those of ephemeral volumes went with the pod, and are made anew, empty. A pod that nobody manages does not
come back: what ran in it is over.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from tonnage.behaviour.workloads.templates import generated_name
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.persistent_volume import BIND_COMPLETED, REBUILD_TARGET, SELECTED_NODE
from tonnage.objects.core_v1.pod import PodStatus

MIRROR: Final = "kubernetes.io/config.mirror"
_OF_THE_OLD_VOLUME = (BIND_COMPLETED, SELECTED_NODE, REBUILD_TARGET)


@dataclass(frozen=True, slots=True)
class Successor:
    """The pod that comes, and the claims that are made for it."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...]


def is_managed(pod: Pod) -> bool:
    return pod.metadata.controller is not None


def is_daemon(pod: Pod) -> bool:
    """A pod of a DaemonSet serves its node and shares its fate: no drain moves it."""
    return pod.metadata.controller is not None and pod.metadata.controller.kind == "DaemonSet"


def is_mirror(pod: Pod) -> bool:
    """A static pod, which its node runs from a file: the API server has only its image, and cannot evict it."""
    controller = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (controller is not None and controller.kind == "Node")


def ephemeral_claim_names(pod: Pod) -> tuple[str, ...]:
    """The names of the claims that go when the pod goes."""
    return tuple(name for each in pod.spec.volumes if each.ephemeral and (name := each.claim_name(pod.name)))


FreeName = Callable[[str, Callable[[random.Random], str]], str]
"""Draws names in a namespace until one is free."""


def successor_of(
    pod: Pod, claims: dict[str, PersistentVolumeClaim], number: int, free_name: FreeName
) -> Successor | None:
    """What a pod's controller makes once it has gone; None for a pod that has none.

    `claims` are those of its ephemeral volumes by name; `number` tells its lives apart.
    """
    controller = pod.metadata.controller
    if controller is None:
        return None
    replace = msgspec.structs.replace
    name = pod.name
    if controller.kind != "StatefulSet":
        name = free_name(pod.namespace, lambda rng: generated_name(_prefix(pod), rng))
    uid = f"{pod.uid.partition('~')[0]}~{number}"
    metadata = replace(
        pod.metadata, name=name, uid=uid, resource_version="", creation_timestamp=None, deletion_timestamp=None
    )
    spec = replace(pod.spec, node_name="", hostname=name if controller.kind == "StatefulSet" else pod.spec.hostname)
    made = replace(pod, metadata=metadata, spec=spec, status=PodStatus())
    fresh = []
    for each in pod.spec.volumes:
        before = claims.get(each.claim_name(pod.name) or "") if each.ephemeral else None
        if before is not None:
            fresh.append(_emptied(before, each.claim_name(name) or "", made))
    return Successor(made, tuple(fresh))


def _prefix(pod: Pod) -> str:
    return pod.metadata.generate_name or f"{pod.name.rpartition('-')[0] or pod.name}-"


def _emptied(claim: PersistentVolumeClaim, name: str, owner: Pod) -> PersistentVolumeClaim:
    """A claim as it was before it was bound, for another pod."""
    replace = msgspec.structs.replace
    owners = tuple(replace(each, name=owner.name, uid=owner.uid) for each in claim.metadata.owner_references)
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key not in _OF_THE_OLD_VOLUME}
    metadata = replace(
        claim.metadata,
        name=name,
        uid=f"{owner.uid}/{name}",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
        owner_references=owners,
        annotations=annotations,
    )
    spec, status = replace(claim.spec, volume_name=""), replace(claim.status, phase="Pending")
    return replace(claim, metadata=metadata, spec=spec, status=status)
