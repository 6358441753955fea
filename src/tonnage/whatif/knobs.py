"""What may be changed to let a pod in, each by an amount: about a node, its storage, or the workload itself.

A claim with a volume that no pod uses may be deleted (`unused_claims`): the room of its volume comes back. Which pool a
driver gives it back to is not known before: a pod is helped only if it fits whichever pool it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from tonnage.objects.core_v1 import BIND_COMPLETED, SELECTED_NODE, Node, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, Object, changed
from tonnage.objects.requirements import UNSCHEDULABLE, Taint
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY
from tonnage.whatif import creation, page
from tonnage.whatif.node_copies import copy_of, emptied, room_given_back, shape_of, with_more_room, with_more_slots

Rank = IntEnum("Rank", "CLAIM UNCORDON TAINT LABEL GATE DELETE CLASS REQUEST SLOTS POOL RESOURCE PAIR NODE", start=0)
"""Kinds of changes: what costs nothing comes first, a change of a size after that, another node last."""
CLAIM, UNCORDON, TAINT, LABEL, GATE, DELETE, CLASS, REQUEST, SLOTS, POOL, RESOURCE, PAIR, NODE = Rank
_MOST_SLOTS: Final = 256
_MOST_CLASSES: Final = 8
_PHYSICAL: Final = re.compile(r"(.*\.)?(kubernetes\.io|k8s\.io)/|topology\.")
"""Labels that tell what and where a node is: nobody is helped by a node that says otherwise."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that may be changed, by an amount from 1 to `most`."""

    rank: int
    targets: tuple[Object, ...]
    changed: Callable[[Any, int], Object]
    """A target with so much more, whatever else was changed about it before."""
    told: Callable[[int], str]
    """In words, with `{node}` where its node is named."""
    most: int = 1
    node: str = ""
    unit: int = 1
    """What its amount is a multiple of, as small as it can be."""
    gone: tuple[Object, ...] = ()
    """What is deleted besides."""
    or_else: tuple[Sequence[Object], ...] = ()
    """What may come of it instead; it helps a pod that fits in every case."""

    def turned(self, amount: int) -> list[Object]:
        """The objects as they are then, the cluster having been as it is."""
        return turned(((self, amount),))

    def text(self, amount: int) -> str:
        return self.told(amount).replace("{node}", self.node)


def switch(rank: int, told: str, objects: Sequence[Object], gone: tuple[Object, ...] = (), node: str = "") -> Knob:
    """A change without an amount: to these objects, and without those that are gone."""
    return Knob(rank, tuple(objects), lambda of, more: of, lambda more: told, node=node, gone=gone)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that was tried and lets pods in."""

    rank: int
    amount: int
    pattern: str
    """The words, with `{node}` where the nodes are named."""
    nodes: tuple[str, ...] = ()
    """Any one of them does; empty for what is changed about the workload."""
    changes: tuple[Remedy, ...] = ()
    """Of a pair, the two."""
    pods: tuple[Key, ...] = ()
    """The pods that it lets in, where many were asked about."""

    @property
    def kind(self) -> str:
        return Rank(self.rank).name.lower()

    @property
    def node(self) -> str:
        """The first of its nodes, or none."""
        return next(iter(self.nodes), "")

    @property
    def text(self) -> str:
        return self.pattern.replace("{node}", page.any_of(self.nodes))

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"kind": self.kind, "node": self.node, "amount": self.amount, "text": self.text}
        told["nodes"] = list(self.nodes)
        return {**told, "changes": [change.document() for change in self.changes]} if self.changes else told


def merged(found: Iterable[Remedy], key: Callable[[Remedy], Hashable]) -> list[Remedy]:
    """Those with the same key are one, on any of their nodes."""
    by_key: dict[Hashable, Remedy] = {}
    for remedy in found:
        before = by_key.get(key(remedy), remedy)
        nodes = tuple(sorted({*before.nodes, *remedy.nodes}, key=page.natural))
        by_key[key(remedy)] = replace(before, nodes=nodes)
    return list(by_key.values())


Changes = tuple[tuple[Knob, int], ...]


def turned(changes: Iterable[tuple[Knob, int]]) -> list[Object]:
    """The objects as they are with these changes; two of one object add up."""
    found: dict[tuple[type[Object], str], Object] = {}
    for knob, amount in changes:
        for target in knob.targets:
            place = (type(target), target.key)
            found[place] = knob.changed(found.get(place, target), amount)
    return list(found.values())


def least(most: int, does: Callable[[int], bool]) -> int | None:
    """The smallest amount from 1 on that does, by halving: more is never worse. None when even the most does not."""
    if most < 1 or not does(most):
        return None
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if does(middle):
            high = middle
        else:
            low = middle
    return high


# -- a node -----------------------------------------------------------------------------------------------------------


def uncordon_knob(node: Node) -> Knob:
    def uncordoned(of: Node, more: int) -> Node:
        taints = tuple(taint for taint in of.spec.taints if taint.key != UNSCHEDULABLE)
        return changed(of, spec={"unschedulable": False, "taints": taints})

    return Knob(UNCORDON, (node,), uncordoned, lambda more: "uncordon {node}", node=node.name)


def state_knobs(node: Node, pod: Pod) -> Iterator[Knob]:
    """A node that is cordoned, tainted, or lacks labels that the pod selects nodes by."""
    if node.spec.unschedulable:
        yield uncordon_knob(node)
    yield from (_taint_knob(node, taint) for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
    missing = {key: value for key, value in pod.spec.node_selector.items() if node.metadata.labels.get(key) != value}
    if missing and not any(map(_PHYSICAL.match, missing)):
        told = ", ".join(f"{key}={value}" for key, value in sorted(missing.items()))
        words = f"label {told} on {{node}}"

        def labelled(of: Node, more: int) -> Node:
            return changed(of, metadata={"labels": {**of.metadata.labels, **missing}})

        yield Knob(LABEL, (node,), labelled, lambda more: words, node=node.name)


def _taint_knob(node: Node, taint: Taint) -> Knob:
    def without(of: Node, more: int) -> Node:
        return changed(of, spec={"taints": tuple(each for each in of.spec.taints if each != taint)})

    told = f"the taint {taint.key}:{taint.effect} off {{node}}"
    return Knob(TAINT, (node,), without, lambda more: told, node=node.name)


def slots_knobs(csi_node: CSINode) -> Iterator[Knob]:
    for driver in csi_node.spec.drivers:
        if driver.allocatable.count is not None:
            yield slots_knob(csi_node, driver.name)


def slots_knob(csi_node: CSINode, driver: str, most: int = _MOST_SLOTS) -> Knob:
    def told(more: int) -> str:
        return f"{page.count_text(more, 'more attach slot')} for {driver} on {{node}}"

    return Knob(SLOTS, (csi_node,), lambda of, more: with_more_slots(of, driver, more), told, most, node=csi_node.name)


def pool_knob(sharing: Sequence[CSIStorageCapacity], most: int, node: str = "", where: str = "on {node}") -> Knob:
    """One purchase for all classes that share the pools."""
    classes = " and ".join(sorted({capacity.storage_class_name for capacity in sharing}))

    def told(more: int) -> str:
        return f"one more pool of {Quantity.from_bytes(more)} of class {classes} {where}"

    return Knob(POOL, tuple(sharing), lambda of, more: with_more_room(of, more, as_pool=True), told, most, node)


def resource_knob(node: Node, name: str) -> Knob:
    def with_more(of: Node, more: int) -> Node:
        allocatable = {**of.status.allocatable, name: of.status.allocatable[name] + _amount(name, more)}
        return changed(of, status={"allocatable": allocatable})

    def told(more: int) -> str:
        return f"{_amount(name, more) if name in (CPU, MEMORY) else more} more {name} on {{node}}"

    most = max(_number(name, node.status.allocatable[name]), 1) * 2**10
    return Knob(RESOURCE, (node,), with_more, told, most, node.name)


def _amount(resource: str, number: int) -> Quantity:
    return Quantity.parse(f"{number}m") if resource == CPU else Quantity.from_bytes(number)


def _number(resource: str, amount: Quantity) -> int:
    return amount.milli_value() if resource == CPU else amount.value()


def more_nodes(nodes: Iterable[Node], objects: creation.ObjectsByKind, most: int) -> Iterator[Knob]:
    """One more node like one of these, empty, with the room of its volumes free: `most` kinds of nodes at most, of each
    the first."""
    seen: set[Any] = set()
    for node in nodes:
        copied = copy_of(emptied(node, objects), f"{node.name}-like")
        shape = shape_of(copied)
        if shape not in seen:
            seen.add(shape)
            yield switch(NODE, "one more node like {node}", copied, node=node.name)
        if len(seen) >= most:
            return


# -- the workload -----------------------------------------------------------------------------------------------------


def class_knobs(claims: Sequence[PersistentVolumeClaim], classes: Iterable[StorageClass]) -> Iterator[Knob]:
    """The claims of one class in another."""
    known = sorted(storage_class.name for storage_class in classes if storage_class.waits_for_consumer)[:_MOST_CLASSES]
    for old in sorted({claim.class_name for claim in claims}):
        mine = tuple(claim for claim in claims if claim.class_name == old)
        yield from (_class_knob(mine, old, new) for new in known if new != old)


def _class_knob(claims: tuple[PersistentVolumeClaim, ...], old: str, new: str) -> Knob:
    return Knob(
        CLASS,
        claims,
        lambda of, more: changed(of, spec={"storage_class_name": new}),
        lambda more: f"class {new} instead of {old}",
    )


def request_knobs(pod: Pod, claims: Sequence[PersistentVolumeClaim]) -> Iterator[Knob]:
    """Less of one thing, down to half of it: more than that would be another workload."""
    yield from (claim_knob(claim) for claim in claims)
    for place, container in enumerate(pod.spec.containers):
        for name in (CPU, MEMORY):
            if name in container.resources.requests:
                yield _container_knob(pod, place, name)


def claim_knob(claim: PersistentVolumeClaim) -> Knob:
    size = claim.requested_size.value()

    def smaller(of: PersistentVolumeClaim, less: int) -> PersistentVolumeClaim:
        requests = {**of.spec.resources.requests, "storage": Quantity.from_bytes(size - less)}
        return changed(of, spec={"resources": {"requests": requests}})

    def told(less: int) -> str:
        return f"{Quantity.from_bytes(size - less)} instead of {Quantity.from_bytes(size)} for claim {claim.name}"

    return Knob(REQUEST, (claim,), smaller, told, size // 2)


def _container_knob(pod: Pod, place: int, name: str) -> Knob:
    container = pod.spec.containers[place]
    asked = _number(name, container.resources.requests[name])

    def smaller(of: Pod, less: int) -> Pod:
        containers = list(of.spec.containers)
        requests = {**containers[place].resources.requests, name: _amount(name, asked - less)}
        containers[place] = changed(containers[place], resources={"requests": requests})
        return changed(of, spec={"containers": tuple(containers)})

    def told(less: int) -> str:
        now, before = _amount(name, asked - less), _amount(name, asked)
        return f"{now} {name} instead of {before} for container {container.name}"

    return Knob(REQUEST, (pod,), smaller, told, asked // 2)


def unbound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """A claim as it is made again after it was deleted."""
    told = claim.metadata.annotations.items()
    kept = {key: value for key, value in told if key not in (BIND_COMPLETED, SELECTED_NODE)}
    return changed(claim, metadata={"annotations": kept}, spec={"volume_name": ""}, status={"phase": "Pending"})


_MOST_UNUSED: Final = 16


def unused_claims(
    objects: creation.ObjectsByKind, own: Collection[PersistentVolumeClaim] = (), but_by: Key = ""
) -> Iterator[Knob]:
    """Delete a claim that no pod uses, but for the pod `but_by`, and whose volume is deleted with it. A claim of its
    `own` is made again, without a volume."""
    pods = [each for each in objects.all(Pod) if not each.is_terminal and each.key != but_by]
    used = {key for pod in pods for key in pod.claim_keys()}
    claims = objects.all(PersistentVolumeClaim)
    unused = [each for each in claims if each.spec.volume_name and each.key not in used]
    for claim in sorted(unused, key=lambda each: each.key)[:_MOST_UNUSED]:
        volume = objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None or volume.spec.persistent_volume_reclaim_policy != "Delete":
            continue
        affinity = volume.spec.node_affinity
        nodes = objects.all(Node) if affinity.required is not None else ()
        homes = [node for node in nodes if affinity.admits(node.name, node.metadata.labels)]
        if len(homes) == 1:
            here = (
                each
                for each in objects.all(CSIStorageCapacity)
                if each.storage_class_name == volume.class_name
                and each.node_topology is not None
                and each.node_topology.matches(homes[0].metadata.labels)
            )
            first = next(here, None)
            again = [unbound(claim)] if claim in own else []
            room = room_given_back(volume, first, objects) if first is not None else [[]]
            case, *others = [(*again, *each) for each in room]
            told = f"delete claim {claim.key}, which has {volume.size} on {{node}} and which no pod uses"
            change = switch(CLAIM, told, case, (volume,) if again else (claim, volume), homes[0].name)
            yield replace(change, or_else=tuple(others))
