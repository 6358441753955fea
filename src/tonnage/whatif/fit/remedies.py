"""The least that would let the next replica in. Every remedy is tried on the engine before it is told.

    uncordon node-5                              costs nothing
    2 more attach slots for DRIVER on node-3     the fewest that do
    one more pool of 80Gi on node-7              the smallest that does
    500m more cpu on node-2                      what it lacks
    one more pool of 80Gi on node-7 and …        two at once, where no single change does
    one more node like node-3                    empty, with its capacity

What is tried for one node leaves the others as they are. On a large cluster not every node is tried: those that came
nearest are (`NODES_TRIED`).

A node refuses a pod by the first thing that is in the way; what else is, shows when that is gone. So for the nodes that
came nearest (`NODES_PAIRED`) all that may be changed about one is changed together first; where that lets the pod in,
each two of the changes are tried, and the first is made as small as it can be, then the second beside it. Of such a
pair nothing less does: with the second as large as may be the first cannot be smaller, and beside the first the second
cannot. More than two at once are not looked for; a node like another is the answer then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import msgspec

from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.node_selectors import UNSCHEDULABLE, Taint
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.amounts import CPU, MEMORY
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.volumes.capacity.pools import free_bytes
from tonnage.whatif.fit.counting import FitCluster
from tonnage.whatif.node_copies import copy_of, own_objects, shape_of, volumes_on, with_more_room, with_more_slots

NODES_PAIRED: Final = 8
MOST_KNOBS: Final = 12
"""What may be changed about one node; of more, the first. Twelve are 66 pairs."""

Fits = Callable[[Iterable[Object]], bool]


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that may be changed about a node, by an amount from 1 to `most`."""

    rank: int
    kind: str
    target: Object
    changed: Callable[[Any, int], Object]
    """The object with so much more, whatever else was changed about it before."""
    told: Callable[[int], str]
    most: int = 1


@dataclass(frozen=True, slots=True)
class ChangePair:
    """Two changes that let the pod in together, and no less of either does."""

    changes: tuple[tuple[Knob, int], tuple[Knob, int]]

    @property
    def cost(self) -> tuple[tuple[int, int], ...]:
        """The cheaper kinds first, of the same kinds the smaller amounts."""
        return tuple(sorted((knob.rank, amount) for knob, amount in self.changes))

    @property
    def text(self) -> str:
        return " and ".join(knob.told(amount) for knob, amount in self.changes)

    def objects(self) -> list[Object]:
        return turned(self.changes)


def turned(changes: Iterable[tuple[Knob, int]]) -> list[Object]:
    """The objects as they are with these changes; two of one object add up."""
    found: dict[tuple[type[Object], str], Object] = {}
    for knob, amount in changes:
        place = (type(knob.target), knob.target.key)
        found[place] = knob.changed(found.get(place, knob.target), amount)
    return list(found.values())


def pairs(knobs: Sequence[Knob], fits: Fits) -> Iterator[ChangePair]:
    """Every pair of changes of one node that does, each as small as it can be."""
    knobs = knobs[:MOST_KNOBS]
    if len(knobs) < 2 or not fits(turned((knob, knob.most) for knob in knobs)):
        return
    for one, other in combinations(knobs, 2):
        first = least(one.most, lambda amount, a=one, b=other: fits(turned(((a, amount), (b, b.most)))))  # type: ignore[misc]
        if first is None:
            continue
        second = least(other.most, lambda amount, a=one, n=first, b=other: fits(turned(((a, n), (b, amount)))))  # type: ignore[misc]
        if second is not None:
            yield ChangePair(((one, first), (other, second)))


def least(most: int, does: Callable[[int], bool]) -> int | None:
    """The smallest amount from 1 on that does, by halving: more is never worse. None when even the most does not."""
    if not does(most):
        return None
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if does(middle):
            high = middle
        else:
            low = middle
    return high


NODES_TRIED: Final = 64
"""Of each kind of refusal; where there are more nodes, those with the most room."""
SHOWN: Final = 5
_MOST_SLOTS: Final = 256

Try = Callable[[Iterable[Object]], bool]
"""Whether the pod fits once these objects are as they say."""


@dataclass(frozen=True, slots=True, order=True)
class Remedy:
    """One thing that lets the pod in, by what it costs: the cheaper kind first, of one kind the smaller first."""

    rank: int
    amount: int
    node: str
    kind: str
    text: str
    changes: tuple[Remedy, ...] = ()
    """Of a pair, the two."""

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"kind": self.kind, "node": self.node, "amount": self.amount, "text": self.text}
        return {**told, "changes": [each.document() for each in self.changes]} if self.changes else told


class Remedies:
    """What would let a pod in that fits nowhere now. `step` is called at each try, and may end it by raising."""

    def __init__(
        self,
        cluster: FitCluster,
        pod: Pod,
        refusal: Explanation,
        step: Callable[[float], object] = lambda amount: None,
    ) -> None:
        self._step = step
        self._cluster = cluster
        self._pod = pod
        self._refusal = refusal
        self._objects = {(type(each), each.key): each for each in cluster.replay.objects}
        self._nodes = {each.name: each for each in self._of(Node)}

    def found(self) -> list[Remedy]:
        """All that was found, the least first."""
        if self._refusal.held_back:
            return []
        tried: list[Remedy] = []
        for answer in self._refusal.nodes:
            tried += self._by_state(answer)
        tried += self._slots()
        tried += self._pools()
        tried += self._resources()
        tried = sorted(tried) or list(self._pairs())
        return [*tried, *sorted(self._another_node())]

    def _of(self, kind: type[Any]) -> Iterator[Any]:
        return (each for each in self._objects.values() if isinstance(each, kind))

    def _refused_by(self, plugin: str) -> list[Node]:
        names = [answer.name for answer in self._refusal.nodes if answer.rejected_by == plugin]
        found = [self._nodes[name] for name in names if name in self._nodes]
        return sorted(found, key=lambda node: (-self._room(node), node.name))[:NODES_TRIED]

    def _room(self, node: Node) -> int:
        return sum(free_bytes(each) or 0 for each in self._capacities(node))

    # -- trying -------------------------------------------------------------------------------------------------------

    def fits(self, changes: Iterable[Object]) -> bool:
        """Whether the pod fits with these objects changed or added; afterwards everything is as before."""
        self._step(1)
        replay, undo = self._cluster.replay, list[Callable[[], object]]()
        try:
            for each in changes:
                before = self._objects.get((type(each), each.key))
                replay.apply(_renewed(each))
                if before is None:
                    kind, namespace, name = type(each).__name__, each.namespace, each.name
                    undo.append(lambda k=kind, ns=namespace, n=name: replay.delete(k, ns, n))  # type: ignore[misc]
                else:
                    undo.append(lambda old=before: replay.apply(_renewed(old)))  # type: ignore[misc]
            engine = replay.engine
            profile = engine.profile_of(self._pod)
            if profile is None:
                return False
            return profile.decider.decide(engine.cluster, PodInfo(self._pod), ()).fits
        finally:
            for step in reversed(undo):
                step()

    def _least(self, most: int, change: Callable[[int], Iterable[Object]]) -> int | None:
        """The smallest amount that does, by halving: more is never worse. None when even the most does not."""
        return least(most, lambda amount: self.fits(change(amount)))

    # -- kinds --------------------------------------------------------------------------------------------------------

    def _by_state(self, answer: NodeAnswer) -> Iterator[Remedy]:
        """A node that is out of use, or tainted."""
        node = self._nodes.get(answer.name)
        if node is None or answer.rejected_by not in ("NodeUnschedulable", "TaintToleration"):
            return
        if node.spec.unschedulable:
            spec = msgspec.structs.replace(node.spec, unschedulable=False)
            if self.fits([msgspec.structs.replace(node, spec=spec)]):
                yield Remedy(0, 0, node.name, "uncordon", f"uncordon {node.name}")
        for taint in node.spec.taints:
            kept = tuple(each for each in node.spec.taints if each is not taint)
            spec = msgspec.structs.replace(node.spec, taints=kept)
            if self.fits([msgspec.structs.replace(node, spec=spec)]):
                text = f"the taint {taint.key}:{taint.effect} off {node.name}"
                yield Remedy(1, 0, node.name, "taint", text)

    def _slots(self) -> Iterator[Remedy]:
        for node in self._refused_by("NodeVolumeLimits"):
            found = self._objects.get((CSINode, node.name))
            if not isinstance(found, CSINode):
                continue
            for driver in found.spec.drivers:
                if driver.allocatable.count is None:
                    continue
                fewest = self._least(_MOST_SLOTS, lambda more, d=driver.name, f=found: [with_more_slots(f, d, more)])  # type: ignore[misc]
                if fewest is not None:
                    yield Remedy(2, fewest, node.name, "slots", _told_slots(fewest, driver.name, node.name))

    def _pools(self) -> Iterator[Remedy]:
        if not any(self._claims()):
            return
        # Room for all that is promised and asked for: whatever the driver does with the promises, this is enough.
        wanted = sum(claim.requested_size.value() for claim in self._of(PersistentVolumeClaim))
        for node in self._refused_by("VolumeBinding"):
            for capacity in self._capacities(node):
                smallest = self._least(wanted, lambda size, c=capacity: [with_more_room(c, size, as_pool=True)])  # type: ignore[misc]
                if smallest is None:
                    continue
                yield Remedy(3, smallest, node.name, "pool", _told_pool(smallest, capacity, node.name))

    def _resources(self) -> Iterator[Remedy]:
        """What a node lacks of one resource; one that lacks two is not helped by either."""
        for node in self._refused_by("NodeResourcesFit"):
            for name, amount in node.status.allocatable.items():
                most = max(amount.milli_value() if name == CPU else amount.value(), 1) * 2**10
                least = self._least(most, lambda more, n=name, of=node: [_with_more(of, n, more)])  # type: ignore[misc]
                if least is not None:
                    yield Remedy(4, least, node.name, "resource", f"{_amount(name, least)} more {name} on {node.name}")

    # -- two at once --------------------------------------------------------------------------------------------------

    def _pairs(self) -> list[Remedy]:
        """Two changes of one node; the cheapest pair first."""
        names = [answer.name for answer in self._refusal.nodes if not answer.feasible]
        nodes = [self._nodes[name] for name in names if name in self._nodes]
        nearest = sorted(nodes, key=lambda node: (-self._room(node), node.name))[:NODES_PAIRED]
        found = [(pair, node.name) for node in nearest for pair in pairs(list(self._knobs(node)), self.fits)]
        found.sort(key=lambda each: (each[0].cost, each[1], each[0].text))
        return [_of_pair(pair, node) for pair, node in found]

    def _knobs(self, node: Node) -> Iterator[Knob]:
        name = node.name
        if node.spec.unschedulable:
            yield Knob(0, "uncordon", node, lambda of, more: _uncordoned(of), lambda more: f"uncordon {name}")
        for taint in node.spec.taints:
            if taint.key != UNSCHEDULABLE:
                yield Knob(
                    1,
                    "taint",
                    node,
                    lambda of, more, t=taint: _without_taint(of, t),  # type: ignore[misc]
                    lambda more, t=taint: f"the taint {t.key}:{t.effect} off {name}",  # type: ignore[misc]
                )
        csi_node = self._objects.get((CSINode, name))
        for driver in csi_node.spec.drivers if isinstance(csi_node, CSINode) else ():
            if csi_node is not None and driver.allocatable.count is not None:
                yield Knob(
                    2,
                    "slots",
                    csi_node,
                    lambda of, more, d=driver.name: with_more_slots(of, d, more),  # type: ignore[misc]
                    lambda more, d=driver.name: _told_slots(more, d, name),  # type: ignore[misc]
                    _MOST_SLOTS,
                )
        wanted = sum(claim.requested_size.value() for claim in self._of(PersistentVolumeClaim))
        for capacity in self._capacities(node) if any(self._claims()) else ():
            yield Knob(
                3,
                "pool",
                capacity,
                lambda of, more: with_more_room(of, more, as_pool=True),
                lambda more, c=capacity: _told_pool(more, c, name),  # type: ignore[misc]
                max(wanted, 1),
            )
        asked = {CPU, MEMORY, "pods", *PodInfo(self._pod).requests}
        for resource, amount in node.status.allocatable.items():
            if resource in asked:
                yield Knob(
                    4,
                    "resource",
                    node,
                    lambda of, more, n=resource: _with_more(of, n, more),  # type: ignore[misc]
                    lambda more, n=resource: f"{_amount(n, more)} more {n} on {name}",  # type: ignore[misc]
                    max(amount.milli_value() if resource == CPU else amount.value(), 1) * 2**10,
                )

    def _another_node(self) -> Iterator[Remedy]:
        """A node like one that is there; of equal nodes the first."""
        seen: set[Any] = set()
        for node in sorted(self._nodes.values(), key=lambda each: each.name)[: NODES_TRIED * 4]:
            own = own_objects(node, self._objects.values())
            copied = copy_of(own, f"{node.name}-like", volumes_on(node, self._objects.values()))
            shape = shape_of(copied)
            if shape in seen or len(seen) >= NODES_TRIED:
                continue
            seen.add(shape)
            if self.fits(copied):
                yield Remedy(6, 1, node.name, "node", f"one more node like {node.name}")

    def _capacities(self, node: Node) -> list[CSIStorageCapacity]:
        """Objects that reach the node, of the classes that the pod's claims want."""
        classes = self._classes()
        return [
            each
            for each in self._of(CSIStorageCapacity)
            if each.node_topology is not None
            and each.node_topology.matches(node.metadata.labels)
            and (not classes or each.storage_class_name in classes)
        ]

    def capacities_of(self, node_name: str) -> list[CSIStorageCapacity]:
        """The objects that tell of room for the pod on a node."""
        return self._capacities(self._nodes[node_name])

    def _claims(self) -> Iterator[Any]:
        for key in PodInfo(self._pod).claim_keys:
            found = self._cluster.replay.objects.get("PersistentVolumeClaim", key)
            if found is not None:
                yield found

    def _classes(self) -> set[str]:
        return {claim.class_name for claim in self._claims()}


def _of_pair(pair: ChangePair, node: str) -> Remedy:
    changes = tuple(Remedy(knob.rank, amount, node, knob.kind, knob.told(amount)) for knob, amount in pair.changes)
    return Remedy(5, len(changes), node, "pair", pair.text, changes)


def _uncordoned(node: Node) -> Node:
    taints = tuple(each for each in node.spec.taints if each.key != UNSCHEDULABLE)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False, taints=taints))


def _without_taint(node: Node, taint: Taint) -> Node:
    kept = tuple(each for each in node.spec.taints if each != taint)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=kept))


def _told_slots(number: int, driver: str, node: str) -> str:
    slots = "1 more attach slot" if number == 1 else f"{number} more attach slots"
    return f"{slots} for {driver} on {node}"


def _told_pool(size_bytes: int, capacity: CSIStorageCapacity, node: str) -> str:
    return f"one more pool of {_size(size_bytes)} of class {capacity.storage_class_name} on {node}"


def _renewed(found: Object) -> Object:
    """The same object as a newer version of itself: the server numbers it."""
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version=""))


def _with_more(node: Node, resource: str, more: int) -> Node:
    added = Quantity.parse(f"{more}m") if resource == CPU else Quantity.from_bytes(more)
    allocatable = {**node.status.allocatable, resource: node.status.allocatable[resource] + added}
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(Quantity.parse(f"{amount}m"))
    return _size(amount) if resource == MEMORY else str(amount)


def _size(size_bytes: int) -> str:
    return str(Quantity.from_bytes(size_bytes))
