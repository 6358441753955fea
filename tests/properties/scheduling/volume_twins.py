"""VolumeBinding once more, slow and plain: one node, one claim, one pool after the other.

`judge` follows upstream's FindPodVolumes step by step; with the gate on it knows what KEP-5925 adds: claims of a class
share one object, bound claims may be rebuilt, objects may be held. Packing tries every way to share claims out over
pools; what a driver may do with promised claims is played through in every order and with every choice of pool.
`score` is KEP-4049's arithmetic with Go's division. Nothing here is shared with what it judges but the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf

from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.quantity import InvalidQuantity, Quantity

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
SHARED_ELSEWHERE = "node(s) didn't have the pod(s) that share a ReadWriteOnce PersistentVolumeClaim"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
POOLS = "tonnage.dev/available-capacities"
REBUILDING = "tonnage.dev/volume-rebuilding"
GROUP = "tonnage.dev/capacity-group"
REBUILD_TARGET = "tonnage.dev/rebuild-target"
VOLUME_HOME = "tonnage.dev/volume-home"
ZERO = Quantity.from_int(0)

Shape = tuple[tuple[int, int], ...]
"""Points of (utilisation in percent, score 0..100)."""
Pools = tuple[float, ...]
"""Free bytes; a pool may be without bounds."""


@dataclass(frozen=True)
class Rules:
    """How a profile reads capacity."""

    is_joint: bool = True
    legacy: str = "Strict"
    must_be_sure: bool = False


@dataclass
class Seen:
    """The world as a decision sees it."""

    nodes: Mapping[str, Node]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    drivers: Mapping[str, CSIDriver]
    capacities: Sequence[CSIStorageCapacity]
    is_reserved: Callable[[CSIStorageCapacity, Collection[str]], bool] = lambda capacity, group: False
    promised: Callable[[CSIStorageCapacity], Mapping[str, int]] = lambda capacity: {}
    refused: Collection[tuple[str, str]] = ()
    """Volumes and nodes that they could not be attached to."""
    attached: Collection[tuple[str, str]] = ()
    """Volumes and nodes that they are attached to."""
    users: Collection[tuple[str, str]] = ()
    """Claims that living pods mount, and the nodes those are on."""


@dataclass
class Outcome:
    """What one node says: reasons against it, or what it would do; claims, volumes and objects by their keys."""

    reasons: set[str] = field(default_factory=set)
    bound: list[tuple[str, str]] = field(default_factory=list)
    static: list[tuple[PersistentVolumeClaim, PersistentVolume]] = field(default_factory=list)
    provisions: list[tuple[PersistentVolumeClaim, CSIStorageCapacity | None, bool]] = field(default_factory=list)
    scored_bytes: dict[str, int] = field(default_factory=dict)
    """With the gate, by class or group: the most that an object which would do has free, less what is promised."""
    is_home: bool = False
    """In use, with all volumes of the pod, at least one of which would be rebuilt on any other node."""


# -- one node ---------------------------------------------------------------------------------------------------------


def judge(seen: Seen, rules: Rules, claims: Sequence[PersistentVolumeClaim], node: Node) -> Outcome:
    """A pod's claims, bound ones and such as wait for their first consumer, on one node."""
    if rules.is_joint:  # mounted twice, it is one volume all the same
        claims = list({claim.key: claim for claim in claims}.values())
    outcome = Outcome()
    bound = [claim for claim in claims if is_bound(claim)]
    if rules.is_joint and any(is_in_use_elsewhere(seen, claim, node) for claim in bound):
        outcome.reasons.add(SHARED_ELSEWHERE)
        return outcome
    for claim in bound:
        volume = seen.volumes.get(claim.spec.volume_name)
        if volume is None:
            outcome.reasons.add(VOLUME_GONE)
            break
        if not reaches(volume, node):
            outcome.reasons.add(NODE_CONFLICT)
            break
    rebuilt = [claim for claim in bound if rules.is_joint and is_to_be_rebuilt(seen, claim, node)]
    outcome.bound = [(claim.key, claim.spec.volume_name) for claim in bound if claim not in rebuilt]
    outcome.reasons |= _unbound(seen, rules, [claim for claim in claims if not is_bound(claim)], rebuilt, node, outcome)
    is_all_there = rules.is_joint and len(bound) == len(claims) and not rebuilt and not is_out_of_use(node)
    outcome.is_home = is_all_there and any(is_movable(seen, each) for each in bound)
    return outcome


def is_in_use_elsewhere(seen: Seen, claim: PersistentVolumeClaim, node: Node) -> bool:
    """Pods that share a claim of one node stay together while it may be rebuilt, where the volume can be reached."""
    volume = seen.volumes.get(claim.spec.volume_name)
    if volume is None or not is_movable(seen, claim) or "ReadWriteOnce" not in claim.spec.access_modes:
        return False
    if any(mode.endswith("Many") for mode in (*claim.spec.access_modes, *volume.spec.access_modes)):
        return False
    users = [seen.nodes[name] for key, name in seen.users if key == claim.key and name in seen.nodes]
    places = [each.name for each in users if reaches(volume, each)]
    return bool(places) and node.name not in places


def is_to_be_rebuilt(seen: Seen, claim: PersistentVolumeClaim, node: Node) -> bool:
    """KEP-5925's shouldReclassify, with our laws; on the node where the volume is, there is nothing to rebuild."""
    return is_movable(seen, claim) and node.name != home_of(seen, claim, seen.volumes[claim.spec.volume_name])


def is_movable(seen: Seen, claim: PersistentVolumeClaim) -> bool:
    """Its driver rebuilds, and its affinity is unset, or admits several nodes while selected-node is out of use."""
    of_class = seen.classes.get(class_name(claim))
    driver = seen.drivers.get(of_class.provisioner) if of_class is not None else None
    volume = seen.volumes.get(claim.spec.volume_name)
    if driver is None or volume is None:
        return False
    if not (driver.spec.volume_rebuilding or driver.metadata.annotations.get(REBUILDING) == "true"):
        return False
    if volume.spec.node_affinity.required is None:
        return True
    selected = claim.metadata.annotations.get(SELECTED_NODE, "")
    if not selected or not is_out_of_use(seen.nodes.get(selected)):
        return False
    return confined_to(seen, volume, selected) is None


def is_out_of_use(node: Node | None) -> bool:
    if node is None or node.spec.unschedulable:
        return True
    return "node.kubernetes.io/out-of-service" in [taint.key for taint in node.spec.taints]


def home_of(seen: Seen, claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """The node where a volume that may move needs no room; empty if there is none."""
    selected = claim.metadata.annotations.get(SELECTED_NODE, "")
    if volume.spec.node_affinity.required is not None:
        return selected
    attached = sorted(node for name, node in seen.attached if name == volume.name)
    if attached:
        return selected if selected in attached else attached[0]
    has_arrived_not = (volume.name, selected) in seen.refused
    if selected and not has_arrived_not and claim.metadata.annotations.get(REBUILD_TARGET) == selected:
        return selected
    if told := volume.metadata.annotations.get(VOLUME_HOME, ""):
        return told
    return "" if has_arrived_not else selected


def confined_to(seen: Seen, volume: PersistentVolume, selected: str) -> str | None:
    """The one node that an affinity admits, empty for none; None if it admits several, or named one that is gone."""
    admitted = [each.name for each in seen.nodes.values() if reaches(volume, each)]
    if not admitted:
        return ""
    required = volume.spec.node_affinity.required
    assert required is not None
    named = [value for term in required.node_selector_terms for each in term.match_expressions for value in each.values]
    was_on_the_gone = selected not in seen.nodes and selected in named
    return None if len(admitted) > 1 or was_on_the_gone else admitted[0]


def _unbound(
    seen: Seen,
    rules: Rules,
    delayed: Sequence[PersistentVolumeClaim],
    rebuilt: Sequence[PersistentVolumeClaim],
    node: Node,
    outcome: Outcome,
) -> set[str]:
    pinned, loose = [], []
    for claim in delayed:
        if not claim.metadata.annotations.get(SELECTED_NODE):
            loose.append(claim)
        elif claim.metadata.annotations[SELECTED_NODE] == node.name:
            pinned.append(claim)
        else:
            return {BIND_CONFLICT}
    left = []
    taken: set[str] = set()
    for claim in sorted(loose, key=asked):
        volume = free_volume(claim, seen.volumes.values(), node, taken)
        if volume is None:
            left.append(claim)
        else:
            taken.add(volume.name)
            outcome.static.append((claim, volume))
    to_make = [*pinned, *sorted([*left, *rebuilt], key=asked)]
    make = _make_jointly if rules.is_joint else _make_one_by_one
    return make(seen, rules, to_make, rebuilt, node, outcome)


def _make_one_by_one(
    seen: Seen,
    rules: Rules,
    claims: Sequence[PersistentVolumeClaim],
    rebuilt: Sequence[PersistentVolumeClaim],
    node: Node,
    outcome: Outcome,
) -> set[str]:
    """checkVolumeProvisions: the first claim that fails is what is told."""
    for claim in claims:
        if not may_be_made(seen, claim, node):
            return {BIND_CONFLICT}
        size = counted(seen, claim)
        if size is None:
            outcome.provisions.append((claim, None, False))
            continue
        for capacity in objects_at(seen, class_name(claim), node):
            limit = volume_limit(capacity)
            if limit is not None and limit >= size:
                outcome.provisions.append((claim, capacity, False))
                break
        else:
            return {NOT_ENOUGH_SPACE}
    return set()


def _make_jointly(
    seen: Seen,
    rules: Rules,
    claims: Sequence[PersistentVolumeClaim],
    rebuilt: Sequence[PersistentVolumeClaim],
    node: Node,
    outcome: Outcome,
) -> set[str]:
    """All claims of a class, or of a group of classes, in one object that is not held, or in one of each class.

    What was promised to these very claims is theirs.
    """
    if not all(may_be_made(seen, claim, node) for claim in claims):
        return {BIND_CONFLICT}
    own = {claim.key for claim in claims}
    units: dict[str, list[tuple[PersistentVolumeClaim, int]]] = {}
    for claim in claims:
        size = counted(seen, claim)
        if size is not None:
            units.setdefault(unit_of(seen, class_name(claim)), []).append((claim, size))
    chosen: dict[tuple[str, str], CSIStorageCapacity] = {}
    for unit, sized in units.items():
        group, sizes = [claim.key for claim, _ in sized], [size for _, size in sized]
        for members in combinations_at(seen, sorted({class_name(claim) for claim, _ in sized}), node):
            promises: dict[str, int] = {}
            for each in members:
                promises |= {key: size for key, size in seen.promised(each).items() if key not in own}
            others = list(promises.values())
            if any(seen.is_reserved(each, group) for each in members):
                continue
            if holds(rules, members, sizes, others):
                for each in members:
                    chosen.setdefault((unit, each.storage_class_name), each)
                told = min(free_bytes(rules, each) for each in members)
                left = max(told - sum(others), 0) if others else told
                outcome.scored_bytes[unit] = max(outcome.scored_bytes.get(unit, left), left)
        if unit not in outcome.scored_bytes:
            return {NOT_ENOUGH_SPACE}
    for claim in claims:
        of = chosen.get((unit_of(seen, class_name(claim)), class_name(claim)))
        outcome.provisions.append((claim, of if counted(seen, claim) is not None else None, claim in rebuilt))
    return set()


def unit_of(seen: Seen, name: str) -> str:
    """What claims of a class are packed with: those of its class, or of all classes that share its pools."""
    of_class = seen.classes.get(name)
    group = of_class.metadata.annotations.get(GROUP, "") if of_class is not None else ""
    return f"{of_class.provisioner}/{group}" if of_class is not None and group else name


def combinations_at(seen: Seen, names: Sequence[str], node: Node) -> list[tuple[CSIStorageCapacity, ...]]:
    """An object of each class that reaches the node: those of one topology, or if there are none, any."""
    found = list(product(*(list(objects_at(seen, name, node)) for name in names)))
    siblings = [each for each in found if all(one.node_topology == each[0].node_topology for one in each)]
    return sorted(siblings or found, key=lambda members: " + ".join(each.key for each in members))


# -- room -------------------------------------------------------------------------------------------------------------


def objects_at(seen: Seen, name: str, node: Node) -> Iterator[CSIStorageCapacity]:
    for capacity in sorted(seen.capacities, key=lambda each: each.key):
        topology = capacity.node_topology
        if capacity.storage_class_name == name and topology is not None and topology.matches(node.metadata.labels):
            yield capacity


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if limit is None else limit.value()


def listed_pools(capacity: CSIStorageCapacity) -> list[int]:
    if capacity.available_capacities:
        return [each.value() for each in capacity.available_capacities]
    try:
        return [Quantity.parse(text).value() for text in capacity.metadata.annotations[POOLS].split(",")]
    except (KeyError, InvalidQuantity):
        return []


def holds(rules: Rules, members: Sequence[CSIStorageCapacity], sizes: Sequence[int], promised: Sequence[int]) -> bool:
    """Of several objects that are the same pools, the least of each pool is there."""
    rooms = [room_of(rules, each, promised) for each in members]
    if not all(pools for pools, _ in rooms):
        return False
    pools: Pools = tuple(min(each) for each in zip(*(sorted(each, reverse=True) for each, _ in rooms), strict=False))
    if max(sizes) > min(largest for _, largest in rooms):
        return False
    if len(sizes) + len(promised) > min(most_volumes(each) for each in members):
        return False
    if rules.must_be_sure:
        return cannot_go_wrong(pools, (*sizes, *promised))
    return all(is_packed(state, sizes) for state in after(pools, tuple(promised)))


def most_volumes(capacity: CSIStorageCapacity) -> float:
    """How many volumes can still be made from an object."""
    text = capacity.metadata.annotations.get("tonnage.dev/free-volumes", "")
    return int(text) if text.isdecimal() else inf


def room_of(rules: Rules, capacity: CSIStorageCapacity, promised: Sequence[int]) -> tuple[Pools, float]:
    """An object's pools, and how large a claim may be; no pools where it does not say."""
    pools: Pools = tuple(listed_pools(capacity))
    largest: float = inf
    if pools and capacity.maximum_volume_size is not None:
        largest = capacity.maximum_volume_size.value()
    if not pools:
        limit = volume_limit(capacity)
        if limit is None:
            return (), inf
        if rules.legacy == "Strict":
            pools = (limit,)
        elif rules.legacy == "Bounded":
            pools, largest = (capacity.capacity.value() if capacity.capacity is not None else inf,), limit
        else:
            pools, largest = (inf,), limit
        if rules.legacy == "Independent" and promised and capacity.capacity is not None:
            largest = min(largest, max(capacity.capacity.value() - sum(promised), 0))
    return pools, largest


def is_packed(state: Pools | None, sizes: Sequence[int]) -> bool:
    """Some way to share the claims out over the pools keeps within each. None is a state that cannot be."""
    if state is None:
        return False
    for places in product(range(len(state)), repeat=len(sizes)):
        left = list(state)
        for place, size in zip(places, sizes, strict=True):
            left[place] -= size
        if min(left) >= 0:
            return True
    return False


def after(pools: Pools, promised: tuple[int, ...]) -> Iterator[Pools | None]:
    """Every state that a driver may leave behind, in any order and with any choice; None where it gets stuck.

    What it does next depends on the room that is left and on the claims that are: each such pair is looked at once.
    """
    pending = [(tuple(sorted(pools)), tuple(sorted(promised)))]
    met = set(pending)
    while pending:
        left, waiting = pending.pop()
        if not waiting:
            yield left
        for number, size in enumerate(waiting):
            places = [place for place, free in enumerate(left) if free >= size]
            if not places:
                yield None
            for place in places:
                room = tuple(sorted((*left[:place], left[place] - size, *left[place + 1 :])))
                following = room, waiting[:number] + waiting[number + 1 :]
                if following not in met:
                    met.add(following)
                    pending.append(following)


def cannot_go_wrong(pools: Pools, sizes: tuple[int, ...]) -> bool:
    return all(state is not None for state in after(pools, sizes))


# -- claims and volumes -----------------------------------------------------------------------------------------------


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def class_name(each: PersistentVolumeClaim | PersistentVolume) -> str:
    return each.spec.storage_class_name or ""


def asked(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get("storage", ZERO)


def counted(seen: Seen, claim: PersistentVolumeClaim) -> int | None:
    """The bytes that must be free; None when nobody keeps count."""
    of_class = seen.classes.get(class_name(claim))
    driver = seen.drivers.get(of_class.provisioner) if of_class is not None else None
    if driver is None or not driver.spec.storage_capacity:
        return None
    return size_of_volume(seen, claim)


def size_of_volume(seen: Seen, claim: PersistentVolumeClaim) -> int | None:
    """Of the volume that is to be made: as large as it was, if it is made again."""
    if is_bound(claim):
        return seen.volumes[claim.spec.volume_name].spec.capacity["storage"].value()
    return asked(claim).value() if "storage" in claim.spec.resources.requests else None


def may_be_made(seen: Seen, claim: PersistentVolumeClaim, node: Node) -> bool:
    of_class = seen.classes.get(class_name(claim))
    if of_class is None or of_class.provisioner in ("", "kubernetes.io/no-provisioner"):
        return False
    terms = of_class.allowed_topologies
    return not terms or any(term.matches(node.metadata.labels) for term in terms)


def reaches(volume: PersistentVolume, node: Node) -> bool:
    """By labels alone, as upstream's CheckNodeAffinity has it."""
    required = volume.spec.node_affinity.required
    return required is None or required.matches("", node.metadata.labels)


def free_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], node: Node, taken: set[str]
) -> PersistentVolume | None:
    """A volume that is kept for the claim, or none if it is out of reach; else the smallest free one that suits."""
    large_enough = [
        volume
        for volume in sorted(volumes, key=lambda each: (each.spec.capacity["storage"], each.name))
        if volume.name not in taken
        and class_name(volume) == class_name(claim)
        and volume.spec.capacity["storage"] >= asked(claim)
    ]
    kept = [volume for volume in large_enough if is_kept_for(volume, claim)]
    if kept:  # of several, upstream meets any first; here it is one within reach
        return next((volume for volume in kept if reaches(volume, node)), None)
    for volume in large_enough:
        is_free = volume.spec.claim_ref is None and volume.status.phase == "Available"
        if is_free and set(claim.spec.access_modes) <= set(volume.spec.access_modes) and reaches(volume, node):
            return volume
    return None


def is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return not ref.uid or ref.uid == claim.uid


# -- scores -----------------------------------------------------------------------------------------------------------


def score(shape: Shape, rules: Rules, seen: Seen, outcome: Outcome) -> int:
    """Of a node that passed, by what it would do."""
    if outcome.is_home:
        return 100
    resources: dict[str, list[int]] = {}
    if outcome.static:
        for claim, volume in outcome.static:
            resource = resources.setdefault(class_name(volume), [0, 0])
            resource[0] += asked(claim).value()
            resource[1] += volume.spec.capacity["storage"].value()
    else:
        for claim, capacity, _ in outcome.provisions:
            if capacity is not None:
                unit = unit_of(seen, class_name(claim)) if rules.is_joint else class_name(claim)
                resource = resources.setdefault(unit, [0, 0])
                resource[0] += size_of_volume(seen, claim) or 0
                best = outcome.scored_bytes.get(unit)
                resource[1] = best if best is not None else free_bytes(rules, capacity)
    if not resources:
        return 0
    total = sum(class_score(shape, requested, capacity) for requested, capacity in resources.values())
    return (2 * total + len(resources)) // (2 * len(resources))  # the mean, halves rounded up


def free_bytes(rules: Rules, capacity: CSIStorageCapacity) -> int:
    if capacity.capacity is not None:
        return capacity.capacity.value()
    pools = listed_pools(capacity) if rules.is_joint else []
    return min(sum(pools), (1 << 63) - 1) if pools else volume_limit(capacity) or 0  # as `capacity` would have said


def class_score(shape: Shape, requested: int, capacity: int) -> int:
    utilisation = 100 if capacity == 0 or requested > capacity else requested * 100 // capacity
    for number, (point, at_point) in enumerate(shape):
        if utilisation <= point:
            if number == 0:
                return shape[0][1]
            before, at_before = shape[number - 1]
            return at_before + toward_zero((at_point - at_before) * (utilisation - before), point - before)
    return shape[-1][1]


def toward_zero(dividend: int, divisor: int) -> int:
    """Go's division, of a positive divisor."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)
