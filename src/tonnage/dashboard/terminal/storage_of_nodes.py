"""How full each node's storage is, from rows: bytes used, promised and free.

Pools that are seen from inside tell it exactly. Elsewhere a node has used what its volumes take, and has free what its
capacity objects say; classes that share their pools (by `group`, or because they tell the same pools of one driver) are
counted once, by the one that has the most. An object that reaches several nodes is nobody's alone: it is told by itself
(`Shared`). The map of the page counts alike (pages/js/map/facts.js), which a test in the browser holds both to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import CapacityRow, ClassRow, NodeRow, VolumeRow

NEARLY_FULL: Final = 0.95


@dataclass(slots=True)
class NodeStorage:
    """One node. `is_known` is False where nothing tells its free room."""

    node: NodeRow
    used: int = 0
    promised: int = 0
    free: int = 0
    is_known: bool = False
    stale: str = ""
    volumes: list[str] = field(default_factory=list)
    coming: list[str] = field(default_factory=list)
    capacities: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.used + self.free

    @property
    def fill_ratio(self) -> float:
        """0 to 1 of what is used, as the page has it; 0 where nothing is known."""
        return min(max(self.used / self.size, 0.0), 1.0) if self.size > 0 else 0.0

    @property
    def is_full(self) -> bool:
        """Full, or nearly so, from the same share on as on the page."""
        return self.is_known and self.size > 0 and self.fill_ratio >= NEARLY_FULL

    @property
    def is_reserved_whole(self) -> bool:
        """Mode Object keeps back all that is free, without a number of bytes."""
        return self.promised >= self.free > 0

    @property
    def trouble(self) -> str:
        """What is wrong in a word; empty when nothing is."""
        node = self.node
        words = [
            word
            for word, is_so in (
                ("gone", node.gone),
                ("NotReady", not node.ready and not node.gone),
                ("cordoned", node.cordoned),
                ("stale", bool(self.stale)),
                ("slots full", any(each.limit is not None and each.used >= each.limit for each in node.slots)),
                ("full", self.is_full and self.free == 0),
                ("nearly full", self.is_full and self.free > 0),
            )
            if is_so
        ]
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Shared:
    """A capacity object that reaches several nodes, or none."""

    key: str
    capacity: CapacityRow


def storage_of_nodes(collections: Collections) -> tuple[dict[str, NodeStorage], list[Shared]]:
    """Every node by name, and the capacity objects that are nobody's alone."""
    nodes = collections.of(NodeRow)
    found = {name: NodeStorage(node) for name, node in nodes.items()}
    volumes = collections.of(VolumeRow)
    for key, volume in volumes.items():
        if volume.node in found:
            found[volume.node].volumes.append(key)
            if volume.state != "making":
                found[volume.node].used += volume.bytes
        if volume.target in found and volume.target != volume.node:
            found[volume.target].coming.append(key)
    shared = _free_of_capacities(collections, found)
    for each in found.values():
        if each.node.pools:
            each.is_known = True
            each.free = sum(pool.free for pool in each.node.pools)
            each.used = sum(pool.size - pool.free for pool in each.node.pools)
        each.promised = min(_promised(each, collections), each.free)
    return found, shared


def _free_of_capacities(collections: Collections, found: Mapping[str, NodeStorage]) -> list[Shared]:
    shared: list[Shared] = []
    for key, each in sorted(collections.of(CapacityRow).items()):
        if each.node_count != 1 or each.nodes[0] not in found:
            shared.append(Shared(key, each))
            continue
        storage = found[each.nodes[0]]
        storage.is_known = True
        storage.stale = storage.stale or each.stale
        storage.capacities.append(key)
    for storage in found.values():
        storage.free = _room(storage.capacities, collections)
    return shared


def _room(keys: Iterable[str], collections: Collections) -> int:
    """Free bytes of some capacity objects of one node, pools that several of them tell of counted once."""
    capacities, classes = collections.of(CapacityRow), collections.of(ClassRow)
    rooms: dict[str, int] = {}
    for key in keys:
        each = capacities[key]
        of_class, pools = classes.get(each.storage_class), key
        if of_class is not None and of_class.group:
            pools = f"group {of_class.group}"
        elif of_class is not None and each.tells_pools:
            pools = f"{of_class.driver} {each.pools}"
        rooms[pools] = max(rooms.get(pools, 0), sum(each.pools))
    return sum(rooms.values())


def _promised(storage: NodeStorage, collections: Collections) -> int:
    """Bytes kept back of a node, each promise once, less what lies in its pools already; of an object that is kept back
    as a whole (mode Object) all that is free."""
    capacities, volumes = collections.of(CapacityRow), collections.of(VolumeRow)
    listed = {key for pool in storage.node.pools for key in (*pool.volumes, *pool.arriving)}
    told = [(key, held) for key in storage.capacities for held in capacities[key].reserved]
    promised = [(key, held) for key, held in told if held.mode != "Object"]
    told_by: dict[tuple[str, ...], str] = {}  # a promise: the object that tells it first, as its own if any does
    for key, held in (*(each for each in promised if not each[1].storage_class), *promised):
        told_by.setdefault((held.pod, *held.claims), key)
    kept = _room({key for key, held in told if held.mode == "Object"}, collections)
    for key, held in promised:
        if told_by[held.pod, *held.claims] == key:
            made = sum(volumes[claim].bytes for claim in held.claims if claim in listed and claim in volumes)
            kept += max(held.bytes - made, 0)
    return kept
