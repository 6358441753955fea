"""Who is where before a drain: pods with their nodes, the volumes of their claims, and what would end with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import PersistentVolume, Pod, is_out_of_use
from tonnage.objects.meta import Object
from tonnage.whatif.drain.outcome import LostData
from tonnage.whatif.drain.tied_data import lost_data
from tonnage.whatif.simulate.node_events import NodeEvents
from tonnage.whatif.simulate.world import World

_MADE_BY_OTHERS: Final[dict[str, type[Object]]] = {"ReplicaSet": ReplicaSet, "Job": Job}


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod before a drain: the volumes of its claims by the claims' names, and the data that ends when it goes."""

    pod: Pod
    volumes: tuple[tuple[str, PersistentVolume], ...]
    lost_data: tuple[LostData, ...]

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(slots=True)
class Places:
    """Everybody before a drain of `nodes`: those that are on them first, in the nodes' order, then by name."""

    nodes: tuple[str, ...]
    places: list[PodPlace]
    homes: dict[str, str]
    """By volume: which of the nodes that are drained or out of use has its contents."""
    told: set[str] = field(default_factory=set)
    """Volumes whose rebuild was told already: pods may share one."""


def places_of(world: World, events: NodeEvents, nodes: Sequence[str]) -> Places:
    out_of_use = [each.name for each in world.nodes() if is_out_of_use(each) and each.name not in nodes]
    homes = {volume.name: name for name in (*out_of_use, *nodes) for volume in events.volumes_on(name)}
    order = {name: number for number, name in enumerate(nodes)}
    found = []
    for pod in world.pods():
        if pod.spec.node_name and not pod.is_terminal and not pod.metadata.is_terminating:
            is_concerned = pod.spec.node_name in order
            lost = tuple(lost_data(world, pod)) if is_concerned else ()
            found.append(PodPlace(pod, tuple(_volumes(world, pod)), lost))
    found.sort(key=lambda each: (order.get(each.node, len(order)), each.pod.key))
    return Places(tuple(nodes), found, homes)


def _volumes(world: World, pod: Pod) -> Iterable[tuple[str, PersistentVolume]]:
    """By claim, the volumes that outlive the pod."""
    for each in pod.spec.volumes:
        name = each.claim_name(pod.name)
        if name and each.ephemeral is None:
            volume = world.volume_of(f"{pod.namespace}/{name}")
            if volume is not None:
                yield name, volume


def workload_of(world: World, pod: Pod) -> str:
    """Who makes this pod; for a set that a Deployment made, or a Job of a CronJob, whoever made that."""
    owner = pod.metadata.controller
    if owner is None:
        return ""
    above = _MADE_BY_OTHERS.get(owner.kind)
    found = world.find(above, f"{pod.namespace}/{owner.name}") if above is not None else None
    if found is not None and found.uid == owner.uid and found.metadata.controller is not None:
        owner = found.metadata.controller
    return f"{owner.kind}/{pod.namespace}/{owner.name}"
