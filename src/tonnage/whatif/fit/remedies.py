"""The least that would let the next replica in. Every remedy is tried on the engine before it is told.

    uncordon node-5                              costs nothing
    2 more attach slots for DRIVER on node-3     the fewest that do
    one more pool of 80Gi on node-7              the smallest that does
    500m more cpu on node-2                      what it lacks
    one more pool of 80Gi on node-7 and …        two at once, where no single change does
    one more node like node-3                    empty, with its capacity

On a large cluster the nodes that came nearest are tried. A node refuses a pod by the first thing that is in the way;
what else is, shows when that is gone. So where no single change helps, each two changes of one node are tried: the
first is made as small as it can be beside the largest second, then the second as small as it can be beside the first.
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
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PodInfo
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.volumes.capacity.pools import free_bytes
from tonnage.whatif.node_copies import copy_of, own_objects, shape_of, volumes_on, with_more_room, with_more_slots
from tonnage.whatif.replay import Replay, renewed

NODES_TRIED: Final = 64
"""Of each kind of refusal; where there are more nodes, those with the most room."""
NODES_PAIRED: Final = 8
MOST_KNOBS: Final = 12
"""What may be changed about one node; of more, the first. Twelve are 66 pairs."""
SHOWN: Final = 5
_MOST_SLOTS: Final = 256
_KNOB_OF: Final = {"NodeVolumeLimits": "slots", "VolumeBinding": "pool", "NodeResourcesFit": "resource"}
"""By the plugin that refused a node, the kind of change that may help by itself."""


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


Changes = tuple[tuple[Knob, int], ...]


def turned(changes: Iterable[tuple[Knob, int]]) -> list[Object]:
    """The objects as they are with these changes; two of one object add up."""
    found: dict[tuple[type[Object], str], Object] = {}
    for knob, amount in changes:
        place = (type(knob.target), knob.target.key)
        found[place] = knob.changed(found.get(place, knob.target), amount)
    return list(found.values())


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
        replay: Replay,
        pod: Pod,
        refusal: Explanation,
        step: Callable[[float], object] = lambda amount: None,
    ) -> None:
        self._step = step
        self._replay = replay
        self._holds = replay.engine.held.holds()
        self._pod = pod
        self._refusal = refusal
        self._objects = {(type(each), each.key): each for each in replay.objects}
        self._nodes: dict[str, Node] = {each.name: each for each in self._of(Node)}
        asked = (replay.objects.get("PersistentVolumeClaim", key) for key in PodInfo(pod).claim_keys)
        self._classes = {claim.class_name for claim in asked if isinstance(claim, PersistentVolumeClaim)}
        """Of the pod's claims."""

    def found(self) -> list[Remedy]:
        if self._refusal.held_back:
            return []
        tried = [each for answer in self._refusal.nodes for each in self._by_state(answer)]
        for plugin, kind in _KNOB_OF.items():
            for node in self._refused_by(plugin):
                tried += self._by_knobs(node, kind)
        return [*(sorted(tried) or self._pairs()), *sorted(self._another_node())]

    def _of(self, kind: type[Any]) -> Iterator[Any]:
        return (each for each in self._objects.values() if isinstance(each, kind))

    def _refused_by(self, plugin: str) -> list[Node]:
        return self._nearest(NODES_TRIED, lambda answer: answer.rejected_by == plugin)

    def _nearest(self, most: int, is_meant: Callable[[NodeAnswer], bool]) -> list[Node]:
        """Nodes with such answers, those with the most room first."""
        names = [answer.name for answer in self._refusal.nodes if is_meant(answer)]
        nodes = [self._nodes[name] for name in names if name in self._nodes]
        return sorted(nodes, key=lambda node: (-self._room(node), node.name))[:most]

    def _room(self, node: Node) -> int:
        return sum(free_bytes(each) or 0 for each in self.capacities_of(node.name))

    def capacities_of(self, node_name: str) -> list[CSIStorageCapacity]:
        """Objects that reach the node, of the classes that the pod's claims want."""
        labels = self._nodes[node_name].metadata.labels
        return [
            each
            for each in self._of(CSIStorageCapacity)
            if each.node_topology is not None
            and each.node_topology.matches(labels)
            and (not self._classes or each.storage_class_name in self._classes)
        ]

    def fits(self, changes: Iterable[Object]) -> bool:
        """Whether the pod fits with these objects changed or added; afterwards everything is as before."""
        self._step(1)
        replay, changed = self._replay, list[Object]()
        try:
            for each in changes:
                replay.apply(renewed(each))
                changed.append(each)
            replay.hold(self._holds)
            engine = replay.engine
            profile = engine.profile_of(self._pod)
            return profile is not None and profile.decider.decide(engine.cluster, PodInfo(self._pod), ()).fits
        finally:
            for each in reversed(changed):
                before = self._objects.get((type(each), each.key))
                if before is None:
                    replay.delete(type(each).__name__, each.namespace, each.name)
                else:
                    replay.apply(renewed(before))
            replay.hold(self._holds)

    # -- one change ---------------------------------------------------------------------------------------------------

    def _by_state(self, answer: NodeAnswer) -> Iterator[Remedy]:
        """A node that is out of use, or tainted."""
        node = self._nodes.get(answer.name)
        if node is None or answer.rejected_by not in ("NodeUnschedulable", "TaintToleration"):
            return
        if node.spec.unschedulable and self.fits([_with_spec(node, unschedulable=False)]):
            yield Remedy(0, 0, node.name, "uncordon", f"uncordon {node.name}")
        for taint in node.spec.taints:
            if self.fits([_without_taint(node, taint)]):
                yield Remedy(1, 0, node.name, "taint", _told_taint(taint, node.name))

    def _by_knobs(self, node: Node, kind: str) -> Iterator[Remedy]:
        """Changes of a kind, each as small as it can be; a node that lacks two things is helped by none of them."""
        for knob in self._knobs(node):
            if knob.kind == kind:
                amount = least(knob.most, lambda more, knob=knob: self.fits(turned(((knob, more),))))  # type: ignore[misc]
                if amount is not None:
                    yield _remedy(knob, amount, node.name)

    def _knobs(self, node: Node) -> Iterator[Knob]:
        name = node.name
        if node.spec.unschedulable:
            yield Knob(0, "uncordon", node, lambda of, more: _uncordoned(of), lambda more: f"uncordon {name}")
        yield from (_taint_knob(node, taint) for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
        csi_node = self._objects.get((CSINode, name))
        for driver in csi_node.spec.drivers if isinstance(csi_node, CSINode) else ():
            if isinstance(csi_node, CSINode) and driver.allocatable.count is not None:
                yield _slots_knob(csi_node, driver.name)
        if self._classes:
            # Room for all that is promised and asked for: whatever the driver does with the promises, this is enough.
            wanted = sum(claim.requested_size.value() for claim in self._of(PersistentVolumeClaim))
            yield from (_pool_knob(capacity, name, max(wanted, 1)) for capacity in self.capacities_of(name))
        asked = {CPU, MEMORY, "pods", *PodInfo(self._pod).requests}
        yield from (_resource_knob(node, resource) for resource in node.status.allocatable if resource in asked)

    # -- more than one ------------------------------------------------------------------------------------------------

    def _pairs(self) -> list[Remedy]:
        """Two changes of one node; the cheaper kinds first, of the same kinds the smaller amounts."""
        found = []
        for node in self._nearest(NODES_PAIRED, lambda answer: not answer.feasible):
            for changes in self._pairs_of(list(self._knobs(node))[:MOST_KNOBS]):
                parts = tuple(_remedy(knob, amount, node.name) for knob, amount in changes)
                told = " and ".join(each.text for each in parts)
                cost = sorted((each.rank, each.amount) for each in parts)
                found.append((cost, Remedy(5, len(parts), node.name, "pair", told, parts)))
        return [remedy for _, remedy in sorted(found, key=lambda each: (each[0], each[1].node, each[1].text))]

    def _pairs_of(self, knobs: Sequence[Knob]) -> Iterator[Changes]:
        """Every pair of changes that does, each as small as it can be; none where not even all together do."""
        if len(knobs) < 2 or not self.fits(turned((knob, knob.most) for knob in knobs)):
            return
        for one, other in combinations(knobs, 2):
            first = least(one.most, lambda n, a=one, b=other: self.fits(turned(((a, n), (b, b.most)))))  # type: ignore[misc]
            if first is None:
                continue
            second = least(other.most, lambda n, a=(one, first), b=other: self.fits(turned((a, (b, n)))))  # type: ignore[misc]
            if second is not None:
                yield (one, first), (other, second)

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


def _remedy(knob: Knob, amount: int, node: str) -> Remedy:
    return Remedy(knob.rank, amount, node, knob.kind, knob.told(amount))


# -- what may be changed ----------------------------------------------------------------------------------------------


def _taint_knob(node: Node, taint: Taint) -> Knob:
    return Knob(
        1, "taint", node, lambda of, more: _without_taint(of, taint), lambda more: _told_taint(taint, node.name)
    )


def _slots_knob(csi_node: CSINode, driver: str) -> Knob:
    def told(more: int) -> str:
        slots = "1 more attach slot" if more == 1 else f"{more} more attach slots"
        return f"{slots} for {driver} on {csi_node.name}"

    return Knob(2, "slots", csi_node, lambda of, more: with_more_slots(of, driver, more), told, _MOST_SLOTS)


def _pool_knob(capacity: CSIStorageCapacity, node: str, most: int) -> Knob:
    def told(more: int) -> str:
        return f"one more pool of {Quantity.from_bytes(more)} of class {capacity.storage_class_name} on {node}"

    return Knob(3, "pool", capacity, lambda of, more: with_more_room(of, more, as_pool=True), told, most)


def _resource_knob(node: Node, name: str) -> Knob:
    def added(more: int) -> Quantity:
        return Quantity.parse(f"{more}m") if name == CPU else Quantity.from_bytes(more)

    def changed(of: Node, more: int) -> Node:
        allocatable = {**of.status.allocatable, name: of.status.allocatable[name] + added(more)}
        return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, allocatable=allocatable))

    def told(more: int) -> str:
        return f"{added(more) if name in (CPU, MEMORY) else more} more {name} on {node.name}"

    has = node.status.allocatable[name]
    return Knob(4, "resource", node, changed, told, max(has.milli_value() if name == CPU else has.value(), 1) * 2**10)


def _uncordoned(node: Node) -> Node:
    taints = tuple(each for each in node.spec.taints if each.key != UNSCHEDULABLE)
    return _with_spec(node, unschedulable=False, taints=taints)


def _without_taint(node: Node, taint: Taint) -> Node:
    return _with_spec(node, taints=tuple(each for each in node.spec.taints if each != taint))


def _with_spec(node: Node, **changes: Any) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, **changes))


def _told_taint(taint: Taint, node: str) -> str:
    return f"the taint {taint.key}:{taint.effect} off {node}"
