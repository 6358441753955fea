"""How full each node's storage is, from rows: bytes used, promised and free.

Pools that are seen from inside tell it exactly. Elsewhere a node has used what its volumes take, and has free what its
capacity objects say; classes that share their pools (`group`) are counted once, by the one that has the most. An object
that reaches several nodes is nobody's alone: it is told by itself (`Shared`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import CapacityRow, ClassRow, NodeRow, VolumeRow


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
        """0 to 1 of what is used and promised; 0 where nothing is known."""
        return min((self.used + self.promised) / self.size, 1.0) if self.size else 0.0

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
                ("full", self.is_known and self.free == 0),
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
            if volume.state in ("bound", "released", "moving"):
                found[volume.node].used += volume.bytes
        if volume.target in found and volume.target != volume.node:
            found[volume.target].coming.append(key)
    shared = _free_of_capacities(collections, found)
    for each in found.values():
        if each.node.pools:
            each.is_known = True
            each.free = sum(pool.free for pool in each.node.pools)
            each.used = sum(pool.size - pool.free for pool in each.node.pools)
        each.promised = min(each.promised, each.free)
    return found, shared


def _free_of_capacities(collections: Collections, found: Mapping[str, NodeStorage]) -> list[Shared]:
    capacities = collections.of(CapacityRow)
    classes = collections.of(ClassRow)
    shared: list[Shared] = []
    free: dict[str, dict[str, int]] = {}
    promised: dict[str, dict[str, int]] = {}
    for key, each in sorted(capacities.items()):
        if each.node_count != 1 or each.nodes[0] not in found:
            shared.append(Shared(key, each))
            continue
        name = each.nodes[0]
        of_class = classes.get(each.storage_class)
        group = of_class.group if of_class is not None and of_class.group else f"class {each.storage_class}"
        room = sum(each.pools)
        mine, theirs = free.setdefault(name, {}), promised.setdefault(name, {})
        mine[group] = max(mine.get(group, 0), room)
        # Every object of a group tells the same promises: the one that tells the most has them all.
        kept = sum(held.bytes if held.mode != "Object" else room for held in each.reserved)
        theirs[group] = max(theirs.get(group, 0), kept)
        storage = found[name]
        storage.is_known = storage.is_known or bool(each.pools)
        storage.stale = storage.stale or each.stale
        storage.capacities.append(key)
    for name, rooms in free.items():
        found[name].free = sum(rooms.values())
        found[name].promised = sum(min(promised[name][group], room) for group, room in rooms.items())
    return shared
