"""Replicas as copies of one that was created in full: quick, and only where the copy is provably the same.

Replicas of one template differ in what follows from their names: the labels of a StatefulSet's pod, its host name, its
claims. A copy with these exchanged is compared with a replica that was created in full, once for every length that a
name has; for what a server says of an object depends on its names by their letters' kind, which is the same, and by
their length. Where the two differ, replicas are created in full, each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from tonnage.behaviour.workloads.stateful_identity import POD_INDEX, POD_NAME, ordinal_of
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.core_v1.volume import Volume
from tonnage.whatif.stable_uids import stable_uid

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod that would be made, and the claims that would be made with it; those that are there already are not."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...]


def uid_of(kind: str, namespace: str, name: str) -> str:
    """A uid that is the same at every run."""
    return stable_uid(f"expansion/{kind} {namespace}/{name}")


@dataclass(slots=True)
class ReplicaCopies:
    """The replicas of one template."""

    _first: Replica | None = None
    _is_copied: bool = True
    _lengths: set[int] = field(default_factory=set)

    def of(self, name: str, create: Callable[[], Replica]) -> Replica:
        """The replica whose pod has this name; `create` makes it in full."""
        first = self._first
        if first is not None and self._is_copied and len(name) in self._lengths:
            return copied(first, name)
        made = create()
        if first is None:
            self._first = made
        elif self._is_copied:
            self._is_copied = copied(first, name) == made
            self._lengths.add(len(name))
        return made


def copied(replica: Replica, name: str) -> Replica:
    """A replica under another name."""
    old, namespace = replica.pod, replica.pod.namespace
    labels = old.metadata.labels
    if labels.get(POD_NAME) == old.name:
        labels = {**labels, POD_NAME: name}
        if POD_INDEX in labels:
            labels[POD_INDEX] = str(ordinal_of(name))
    metadata = replace(old.metadata, name=name, uid=uid_of("Pod", namespace, name), labels=labels)
    names = {claim.name: _renamed(claim.name, old.name, name) for claim in replica.claims}
    volumes = tuple(_volume(each, names) for each in old.spec.volumes)
    hostname = name if old.spec.hostname == old.name else old.spec.hostname
    pod = replace(old, metadata=metadata, spec=replace(old.spec, hostname=hostname, volumes=volumes))
    claims = tuple(_claim(each, names[each.name], old, pod) for each in replica.claims)
    return Replica(pod, claims)


def _renamed(claim: str, old: str, new: str) -> str:
    """`data-db-0` is `data-db-1` for db-1; the claim of an ephemeral volume begins with the pod's name."""
    if claim.endswith(f"-{old}"):
        return f"{claim.removesuffix(old)}{new}"
    return f"{new}{claim.removeprefix(old)}" if claim.startswith(f"{old}-") else claim


def _volume(volume: Volume, names: dict[str, str]) -> Volume:
    source = volume.persistent_volume_claim
    if source is None or names.get(source.claim_name, source.claim_name) == source.claim_name:
        return volume
    return replace(volume, persistent_volume_claim=replace(source, claim_name=names[source.claim_name]))


def _claim(claim: PersistentVolumeClaim, name: str, old: Pod, new: Pod) -> PersistentVolumeClaim:
    uid = uid_of("PersistentVolumeClaim", claim.namespace, name)
    owners = tuple(
        replace(each, name=new.name, uid=new.uid) if each.uid == old.uid else each
        for each in claim.metadata.owner_references
    )
    return replace(claim, metadata=replace(claim.metadata, name=name, uid=uid, owner_references=owners))
