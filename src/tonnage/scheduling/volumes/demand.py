"""A pod's claims, what they still need of storage, and the plan for a chosen node.

    bound       has its volume; the node must be able to reach it
    pinned      is being provisioned for a node (selected-node); only that node will do
    loose       its class waits for this decision: it takes an existing free volume, or one is created
    rebuilds    is bound, but its driver can rebuild the volume on other nodes; there it counts like a loose claim of
                the volume's size that takes no existing volume
    immediate   must be bound by somebody else first; until then the pod waits

The texts of refusals are upstream's (VolumeBinding.podHasPVCs).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key
from tonnage.objects.size_rules import NO_RULES, driver_size, rules_of, taken_by
from tonnage.objects.storage_v1 import CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.pod_info import PodInfo, fingerprint
from tonnage.scheduling.cluster.storage import Storage
from tonnage.scheduling.framework import Status, unresolvable
from tonnage.scheduling.volumes.attach.attached_volumes import AttachedVolumes
from tonnage.scheduling.volumes.packing import pool_fits, pool_policies
from tonnage.scheduling.volumes.static_volumes import StaticBinding, StaticVolumes
from tonnage.scheduling.volumes.volume_reach import Rebuild, rebuilds_of


class PodClaims(NamedTuple):
    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    immediate: tuple[PersistentVolumeClaim, ...] = ()


def sorted_claims(pod: PodInfo, storage: Storage) -> PodClaims | Status:
    """Look a pod's claims up. Returns a Status if a claim is missing, lost, terminating, or made for another pod."""
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate: list[PersistentVolumeClaim] = []
    for volume in pod.pod.spec.volumes:
        name = volume.claim_name(pod.pod.name)
        if name is None:
            continue
        is_ephemeral = volume.ephemeral is not None
        claim = storage.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            missing = f'persistentvolumeclaim "{name}" not found'
            awaited = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return unresolvable(awaited if is_ephemeral else missing)
        if problem := _problem(claim, pod.pod, is_ephemeral):
            return unresolvable(problem)
        if claim.is_bound:
            bound.append(claim)
        elif not claim.spec.volume_name and is_delayed(claim, storage):
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _problem(claim: PersistentVolumeClaim, pod: Pod, is_ephemeral: bool) -> str:
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{lost}"'
    if claim.metadata.is_terminating:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if is_ephemeral and not claim.is_for_pod(pod):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def is_delayed(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """True if the claim's volume is chosen when its pod is placed. False without a class, or with an unknown one."""
    storage_class = storage.classes.get(claim.class_name)
    return storage_class is not None and storage_class.waits_for_consumer


_NOTHING = Quantity.from_int(0)


class ClaimGroup(NamedTuple):
    """Claims of one class, or of several that share pools (`joint_name`). `sizes`: bytes, descending."""

    class_name: str
    sizes: pool_fits.Sizes
    pool_policy: pool_policies.PoolPolicy = pool_policies.PoolPolicy.UNKNOWN
    """How the driver chooses pools. Part of the key: answers for another policy do not hold for this one."""


class Demand(NamedTuple):
    bound: tuple[tuple[PersistentVolumeClaim, PersistentVolume | None], ...] = ()
    """Claims with their volumes (None: deleted), also claims that may be rebuilt: all volumes must be reachable."""
    pinned: tuple[PersistentVolumeClaim, ...] = ()
    loose: tuple[PersistentVolumeClaim, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()
    sharers: tuple[tuple[Key, frozenset[int]], ...] = ()
    """Bound claims that other pods use, with the rows of those pods: the pod must go to one of these rows."""

    @property
    def is_settled(self) -> bool:
        """True if every claim is bound and stays where it is."""
        return not self.pinned and not self.loose and not self.rebuilds


def demand_of(cluster: Cluster, claims: PodClaims, *, is_joint: bool) -> Demand:
    """Sort a pod's claims. `is_joint` (KEP-5925): a claim mounted twice counts once, and claims may be rebuilt."""
    bound, delayed = claims.bound, claims.delayed
    if is_joint:
        bound, delayed = (tuple({claim.key: claim for claim in each}.values()) for each in (bound, delayed))
    storage = cluster.storage
    found = tuple([(claim, storage.volumes.get(claim.spec.volume_name)) for claim in bound])
    return Demand(
        found,
        tuple([claim for claim in delayed if claim.selected_node]),
        tuple([claim for claim in delayed if not claim.selected_node]),
        tuple(rebuilds_of(cluster, found)) if is_joint and bound else (),
    )


def by_size(claims: Iterable[PersistentVolumeClaim]) -> list[PersistentVolumeClaim]:
    """Smallest first, by exact quantity; equal claims keep the pod's order."""
    return sorted(claims, key=lambda claim: claim.requested or _NOTHING)


def counted_bytes(claim: PersistentVolumeClaim, storage: Storage, *, is_rebuild: bool = False) -> int | None:
    """The bytes that must be free for a claim; with `is_rebuild`, its volume's size. None if capacity is not checked:
    neither driver nor class asks for it, nothing is published for an Immediate class, or the claim has no size."""
    of_class = storage.classes.get(claim.class_name)
    if of_class is None or not of_class.checks_capacity(storage.drivers.get(of_class.provisioner)):
        return None
    if not is_rebuild:
        return driver_bytes(claim, of_class) if claim.requested is not None else None
    is_published = of_class.waits_for_consumer or any(
        capacity.storage_class_name == of_class.name for capacity in storage.capacities.values()
    )
    return size_to_make(claim, storage, is_rebuild=True) if is_published else None


def size_to_make(claim: PersistentVolumeClaim, storage: Storage, *, is_rebuild: bool) -> int | None:
    """The bytes that a new volume takes: what the driver makes of the claim's request, or for a rebuild what the old
    volume takes. None if the claim has no size."""
    volume = storage.volumes.get(claim.spec.volume_name) if is_rebuild else None
    if volume is not None and volume.size.value():
        return volume_bytes(volume, storage.classes.get(volume.class_name))
    return driver_bytes(claim, storage.classes.get(claim.class_name)) if claim.requested is not None else None


def driver_bytes(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> int:
    """The bytes that the driver of a class takes for a claim's request; 0 without one."""
    asked, rules = claim.requested, rules_of(storage_class)
    requested = asked.value() if asked is not None else 0
    return requested if rules is NO_RULES else driver_size(rules, requested, is_block=claim.spec.is_block)


def volume_bytes(volume: PersistentVolume, storage_class: StorageClass | None) -> int:
    """The bytes that a volume takes from its pool."""
    return taken_by(rules_of(storage_class), volume.size.value())


class Provision(NamedTuple):
    """A claim whose volume will be created from `capacity` (None: capacity is not checked). `is_rebuild`: the claim is
    bound, and its volume will be rebuilt here (KEP-5925)."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None
    is_rebuild: bool = False


@dataclass(slots=True)
class ClaimSequence:
    """The claims of one group that are sent one after the other to the chosen node, and the progress."""

    unit: ClaimGroup
    row: int
    unsent: dict[Key, int]
    """Bytes by claim."""
    order: list[Key] = field(default_factory=list)
    """The order of all unsent claims; empty while it is decided claim by claim."""
    under_way: list[Key] = field(default_factory=list)
    """The claims sent last; the next claims wait for their volumes."""
    made: list[Key] = field(default_factory=list)
    """Claims sent earlier, whose volumes exist."""

    def send(self, keys: Collection[Key]) -> None:
        """Note that these claims were given their node."""
        self.made += self.under_way
        self.under_way = list(keys)
        self.order = [key for key in self.order if key not in keys]
        for key in keys:
            self.unsent.pop(key, None)


class VolumePlan(NamedTuple):
    static: tuple[StaticBinding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    sequences: tuple[ClaimSequence, ...] = ()
    """The groups of `provisions` whose claims are sent one after the other (`claim_sequences.py`)."""

    @property
    def is_done(self) -> bool:
        """True if nothing has to be written: every claim is bound and stays where it is."""
        return not self.static and not self.provisions

    def claims_by_object(self) -> list[tuple[CSIStorageCapacity, list[PersistentVolumeClaim]]]:
        """The capacity objects that volumes will be created from, with their claims."""
        found: dict[Key, tuple[CSIStorageCapacity, list[PersistentVolumeClaim]]] = {}
        for provision in self.provisions:
            if provision.capacity is not None:
                found.setdefault(provision.capacity.key, (provision.capacity, []))[1].append(provision.claim)
        return list(found.values())


def volume_sign(pod: PodInfo, cluster: Cluster, *, by_class_alone: bool = False) -> Hashable | None:
    """A key that is equal for pods with equal volume needs; None for a pod like no other. `by_class_alone` leaves out
    sizes and all else but the class of a claim."""
    found: list[Hashable] = []
    names: dict[str, int] = {}
    for volume in pod.pod.spec.volumes:
        name = volume.claim_name(pod.pod.name)
        if name is None:
            found.append(fingerprint(volume))
            continue
        key = f"{pod.namespace}/{name}"
        claim = cluster.storage.claims.get(key)
        if claim is not None and _is_like_no_other(claim, pod, cluster, is_ephemeral=volume.ephemeral is not None):
            return None
        # A claim that is mounted twice counts once: note which of the pod's claims it is.
        place = names.setdefault(name, len(names))
        asked = None if claim is None else (claim.class_name, None if by_class_alone else fingerprint(claim.spec))
        found.append((place, fingerprint(volume.ephemeral), asked))
    return tuple(found)


def _is_like_no_other(claim: PersistentVolumeClaim, pod: PodInfo, cluster: Cluster, *, is_ephemeral: bool) -> bool:
    if claim.spec.volume_name or claim.selected_node or claim.metadata.is_terminating or claim.status.phase == "Lost":
        return True
    if is_ephemeral and not claim.is_for_pod(pod.pod):
        return True
    if cluster.has_index(StaticVolumes) and cluster.index(StaticVolumes).is_kept_for(claim):
        return True
    return cluster.has_index(AttachedVolumes) and bool(cluster.index(AttachedVolumes).users_of(claim.key))
