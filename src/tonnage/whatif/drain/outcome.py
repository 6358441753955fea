"""Where pods are before a drain, and its result: pods that move or are stuck and why, data rebuilt, lost or left
behind.

A volume that only drained nodes reach stays where it is unless its driver rebuilds; so does a pod's hostPath. An
emptyDir and the claim of an ephemeral volume end with the pod. The structs are the answer's JSON: names and order of
their fields are a contract (docs/reference/json.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from tonnage.behaviour.workloads.stateful_set_plan import is_member
from tonnage.keyed import grouped
from tonnage.objects.apps_v1 import ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, is_out_of_use
from tonnage.objects.meta import Condition, Object, OwnerReference, changed
from tonnage.objects.selectors import InvalidSelector, selects
from tonnage.whatif.simulate.controllers import is_mirror
from tonnage.whatif.simulate.nodes import stays
from tonnage.whatif.simulate.world import World

EMPTY_DIR: Final = "emptyDir"
DELETED: Final = "it is a bare pod, which is deleted and not created again; kubectl drain needs --force"
PREEMPTED: Final = "preempted by a pod that had to move; it is a bare pod, which is not created again"


class VolumeMove(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """A claim of an evicted pod: its volume is rebuilt at the pod's new node, reattached there, or stays behind."""

    claim: str
    action: Literal["rebuild", "reattach", "stays"]
    size_bytes: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A pod that moved from one node to another, by itself or as its successor."""

    pod: str
    workload: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    volumes: tuple[VolumeMove, ...]
    equally_good: tuple[str, ...] = ()
    """Other nodes with the same score: the scheduler chooses among them at random."""
    step: str = msgspec.field(default="", name="during")
    """The drained node, when nodes are drained one after the other."""


class Stuck(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A pod that may not be evicted, or that fits nowhere."""

    pod: str
    workload: str
    source: str = msgspec.field(name="from")
    message: str
    is_evicted: bool = msgspec.field(name="evicted")
    """False if a budget keeps the pod where it is."""
    volumes: tuple[VolumeMove, ...]
    step: str = msgspec.field(default="", name="during")
    comes_back: bool | None = None
    """One after the other: whether it runs again once the node is back."""


class BlockingBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget that keeps pods on a node."""

    name: str
    pods: tuple[str, ...]
    why: str


class LostPod(msgspec.Struct, frozen=True, rename={"source": "from"}):
    """A pod without a controller that was `DELETED` or `PREEMPTED`: nothing recreates it."""

    pod: str
    source: str
    message: str


class DataLeftBehind(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """Data that stays on a node: where it is, what holds it, and which pods use it."""

    node: str
    what: str
    volume: str | None
    claim: str | None
    size_bytes: int | None
    pods: tuple[str, ...]


class LostData(msgspec.Struct, frozen=True, rename={"size_bytes": "bytes"}):
    """Data that ends with its pod."""

    pod: str
    volume: str
    what: str
    size_bytes: int | None


@dataclass(slots=True)
class DrainOutcome:
    """The result of a drain. Lists are ordered by drained node, then by pod name."""

    drained: tuple[str, ...]
    moves: list[Move] = field(default_factory=list)
    preempted: list[Move] = field(default_factory=list)
    """Pods of other nodes that were preempted, and where they went."""
    stuck: list[Stuck] = field(default_factory=list)
    budgets: list[BlockingBudget] = field(default_factory=list)
    lost: list[LostPod] = field(default_factory=list)
    daemons: list[tuple[str, str]] = field(default_factory=list)
    """(pod, node) of DaemonSet and static pods, which stay."""
    left_behind: list[DataLeftBehind] = field(default_factory=list)
    lost_data: list[LostData] = field(default_factory=list)
    rebuilds: list[tuple[str, str, int]] = field(default_factory=list)
    """(from, to, bytes) of every rebuilt volume."""
    waiting_before: list[str] = field(default_factory=list)
    """Pods without a node before the drain."""

    @property
    def holds(self) -> bool:
        return not self.stuck

    @property
    def cost(self) -> tuple[int, int]:
        """The cost of an order: stuck pods, then rebuilt bytes."""
        return len(self.stuck), self.bytes_rebuilt

    @property
    def bytes_rebuilt(self) -> int:
        return sum(size_bytes for _, _, size_bytes in self.rebuilds)

    def rebuilt(self) -> list[tuple[str, str, int, int]]:
        """(from, to, bytes, volumes) of rebuilds, by source and target."""
        sizes = grouped(((source, target), size_bytes) for source, target, size_bytes in self.rebuilds)
        return [(*places, sum(found), len(found)) for places, found in sorted(sizes.items())]

    def flags(self) -> list[str]:
        """The flags that `kubectl drain` needs for this drain."""
        asked = {
            "--ignore-daemonsets": bool(self.daemons),
            "--delete-emptydir-data": any(each.what == EMPTY_DIR for each in self.lost_data),
            "--force": any(lost_pod.message == DELETED for lost_pod in self.lost),
        }
        return [flag for flag, is_asked in asked.items() if is_asked]

    def document(self) -> dict[str, Any]:
        return {
            "drained": list(self.drained),
            "moves": documents(self.moves),
            "stuck": documents(self.stuck),
            "holds": self.holds,
            "budgets": documents(self.budgets),
            "preempted": documents(self.preempted),
            "lost": documents(self.lost),
            "daemons": [{"pod": pod, "node": node} for pod, node in self.daemons],
            "dataLeftBehind": documents(self.left_behind),
            "dataLost": documents(self.lost_data),
            "bytesRebuilt": {
                "total": self.bytes_rebuilt,
                "moves": [
                    {"from": source, "to": target, "bytes": size, "volumes": count}
                    for source, target, size, count in self.rebuilt()
                ],
            },
            "waitingBefore": self.waiting_before,
            "kubectlFlags": self.flags(),
        }


def documents(found: Sequence[msgspec.Struct]) -> list[dict[str, Any]]:
    return msgspec.json.decode(msgspec.json.encode(found), type=list[dict[str, Any]])


EPHEMERAL = "claim of an ephemeral volume"


def left_behind(world: World, drained: Collection[str]) -> list[DataLeftBehind]:
    """Data that will stay on these nodes, by node and volume. Call it before the drain."""
    users = _users(world)
    found = [behind for volume in world.all(PersistentVolume) for behind in _of_volume(world, volume, drained, users)]
    for name in drained:
        for pod in world.pods_on(name):
            if not stays(pod):
                found += (
                    DataLeftBehind(name, f"hostPath {volume.host_path.path}", None, None, None, (pod.key,))
                    for volume in pod.spec.volumes
                    if volume.host_path is not None
                )
    return sorted(found, key=lambda each: (each.node, not each.volume, each.volume or "", each.pods, each.what))


def lost_data(world: World, pod: Pod) -> Iterator[LostData]:
    for each in pod.spec.volumes:
        if each.empty_dir is not None:
            yield LostData(pod.key, each.name, EMPTY_DIR, None)
        elif each.ephemeral is not None:
            volume = world.volume_of(f"{pod.namespace}/{each.claim_name(pod.name)}")
            yield LostData(pod.key, each.name, EPHEMERAL, volume.size.value() if volume is not None else None)


def _users(world: World) -> dict[str, list[Pod]]:
    """By claim: the pods that use it and have not ended."""
    return grouped((key, pod) for pod in world.pods() if not pod.is_terminal for key in pod.claim_keys())


def _of_volume(
    world: World, volume: PersistentVolume, drained: Collection[str], users: dict[str, list[Pod]]
) -> Iterator[DataLeftBehind]:
    owner = volume.spec.claim_ref
    claim = owner.key if owner is not None and world.get(PersistentVolumeClaim, owner.key) is not None else ""
    pods = users.get(claim, []) if claim else []
    homes = _homes(world, volume, pods)
    if not homes or not homes <= set(drained) or world.storage.rebuilds(volume):
        return
    if owner is not None and any(
        each.ephemeral and each.claim_name(pod.name) == owner.name for pod in pods for each in pod.spec.volumes
    ):
        return  # it ends with its pod
    what = kind_of(volume) if len(homes) == 1 else f"{kind_of(volume)}, reached from drained nodes only"
    keys = tuple(sorted(pod.key for pod in pods))
    yield DataLeftBehind(",".join(sorted(homes)), what, volume.name, claim or None, volume.size.value(), keys)


def _homes(world: World, volume: PersistentVolume, pods: list[Pod]) -> set[str]:
    """The nodes that can use a volume; empty if all can."""
    if volume.spec.node_affinity.required is not None:
        return set(world.storage.reach().admitted(volume.spec.node_affinity.required))
    if volume.spec.host_path is not None:  # a hostPath is only where its pod is
        return {pod.spec.node_name for pod in pods if pod.spec.node_name}
    return set()


def kind_of(volume: PersistentVolume) -> str:
    if volume.spec.csi is not None:
        return f"volume of {volume.spec.csi.driver}, which does not rebuild"
    if volume.spec.local is not None:
        return "local volume"
    return "hostPath volume" if volume.spec.host_path is not None else "volume"


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod before a drain: its volumes by claim name, and the data that ends with the pod."""

    pod: Pod
    volumes: tuple[tuple[str, PersistentVolume], ...]
    lost_data: tuple[LostData, ...]

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(slots=True)
class Places:
    """All pods before a drain of `nodes`: pods on these nodes first, in the nodes' order, then by name."""

    nodes: tuple[str, ...]
    places: list[PodPlace]
    homes: dict[str, str]
    """By volume: the drained or unusable node that holds its contents."""
    told: set[str] = field(default_factory=set)
    """Volumes whose rebuild is already reported: pods may share one."""


def places_of(world: World, nodes: Sequence[str]) -> Places:
    out_of_use = [node.name for node in world.all(Node) if is_out_of_use(node) and node.name not in nodes]
    homes = {volume.name: name for name in (*out_of_use, *nodes) for volume in world.nodes.volumes_on(name)}
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
    """By claim: the volumes that outlive the pod."""
    for each in pod.spec.volumes:
        name = each.claim_name(pod.name)
        if name and each.ephemeral is None:
            volume = world.volume_of(f"{pod.namespace}/{name}")
            if volume is not None:
                yield name, volume


def as_in_a_cluster(objects: Iterable[Object]) -> Iterator[Object]:
    """The objects, with pods completed as a cluster would have them.

    A pod without a controller is adopted by the workload that selects it; a bound pod without conditions counts as
    ready.
    """
    found = list(objects)
    owners = (each for each in found if isinstance(each, StatefulSet | ReplicaSet))
    sets = grouped((each.namespace, each) for each in owners if not each.metadata.is_terminating)
    for each in found:
        yield _ready(_adopted(each, sets.get(each.namespace, ()))) if isinstance(each, Pod) else each


def _adopted(pod: Pod, sets: Iterable[StatefulSet | ReplicaSet]) -> Pod:
    if pod.metadata.controller is not None or is_mirror(pod) or pod.is_terminal or pod.metadata.is_terminating:
        return pod
    for each in sets:
        if _selects(each, pod):
            owner = OwnerReference(
                api_version="apps/v1", kind=type(each).__name__, name=each.name, uid=each.uid, controller=True
            )
            owners = (*pod.metadata.owner_references, owner)
            return changed(pod, metadata={"owner_references": owners})
    return pod


def _selects(found: StatefulSet | ReplicaSet, pod: Pod) -> bool:
    try:
        is_meant = selects(found.spec.selector, pod.metadata.labels)
    except InvalidSelector:
        return False
    return is_meant and (not isinstance(found, StatefulSet) or is_member(found, pod))


def _ready(pod: Pod) -> Pod:
    if pod.status.phase != "Running" or not pod.spec.node_name or pod.condition("Ready") is not None:
        return pod
    conditions = (*pod.status.conditions, Condition(type="Ready", status="True"))
    return changed(pod, status={"conditions": conditions})
