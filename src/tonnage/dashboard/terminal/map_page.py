"""The map: a line per node, by zone, with its storage as a bar; Enter opens a node's contents.

    ZONE a                                        3 nodes   120Gi free of 900Gi
    node-1   ███████████▒▒▒░░░░░░░░░░░░   62%   114Gi free of 300Gi   3/16

Where pools are visible, bytes are exact. Elsewhere used is the sum of a node's volumes, and free comes from its
capacity objects; classes that share pools count once, by the class with the most room. A capacity object that reaches
several nodes has its own line. The web page's map counts alike (pages/js/map/facts.js); a browser test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from rich.text import Text

from tonnage.dashboard.terminal import lines_view
from tonnage.dashboard.terminal.lines_view import PageOfLines, ScreenLine, bytes_text, cell, heading, name_width, plain
from tonnage.dashboard.wire import CapacityRow, ClassRow, Collections, NodeRow, VolumeRow
from tonnage.whatif.page import FittedTable, byte_ticks, count_text, natural, time_text

NEARLY_FULL: Final = 0.95


@dataclass(slots=True)
class NodeStorage:
    """One node's storage. `is_known` is False if its free space is unknown."""

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
        """Used share, 0 to 1, as on the page; 0 if unknown."""
        return min(max(self.used / self.size, 0.0), 1.0) if self.size > 0 else 0.0

    @property
    def is_full(self) -> bool:
        """Full or nearly full, with the page's threshold."""
        return self.is_known and self.size > 0 and self.fill_ratio >= NEARLY_FULL

    @property
    def trouble(self) -> str:
        """The node's problem in a word; empty without one."""
        node = self.node
        words = [
            word
            for word, is_so in (
                ("gone", node.gone),
                ("NotReady", not node.ready and not node.gone),
                ("cordoned", node.cordoned),
                ("stale", bool(self.stale)),
                ("slots full", any(slot.limit is not None and slot.used >= slot.limit for slot in node.slots)),
                ("full", self.is_full and self.free == 0),
                ("nearly full", self.is_full and self.free > 0),
            )
            if is_so
        ]
        return ", ".join(words)


def storage_of_nodes(collections: Collections) -> tuple[dict[str, NodeStorage], dict[str, CapacityRow]]:
    """Storage of every node by name, and the capacity objects that reach no node or several."""
    nodes = collections.of(NodeRow)
    found = {name: NodeStorage(node) for name, node in nodes.items()}
    volumes = collections.of(VolumeRow)
    for key, volume in volumes.items():
        home = found.get(volume.node)
        if home is not None:
            home.volumes.append(key)
            if volume.state != "making" and not home.node.has_in_pools(volume.driver):
                home.used += volume.bytes
        if volume.target in found and volume.target != volume.node:
            found[volume.target].coming.append(key)
    shared = _free_of_capacities(collections, found)
    for node_storage in found.values():
        for pool in node_storage.node.pools:
            node_storage.is_known = True
            node_storage.free += pool.free
            node_storage.used += pool.size - pool.free
        node_storage.promised = min(_promised(node_storage, collections), node_storage.free)
    return found, shared


def _free_of_capacities(collections: Collections, found: Mapping[str, NodeStorage]) -> dict[str, CapacityRow]:
    shared: dict[str, CapacityRow] = {}
    capacities, classes = collections.of(CapacityRow), collections.of(ClassRow)
    for key, each in sorted(capacities.items()):
        if each.node_count != 1 or each.nodes[0] not in found:
            shared[key] = each
            continue
        storage = found[each.nodes[0]]
        storage.is_known = True
        storage.stale = storage.stale or each.stale
        storage.capacities.append(key)
    for storage in found.values():
        drivers = {key: classes.get(capacities[key].storage_class, ClassRow(driver="")) for key in storage.capacities}
        beside = (key for key, each in drivers.items() if not storage.node.has_in_pools(each.driver))
        storage.free = _room(beside, collections)
    return shared


def _room(keys: Iterable[str], collections: Collections) -> int:
    """Free bytes of capacity objects of one node. Pools that several objects share count once."""
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
    """Bytes promised on a node, counting every promise once, without those already in its pools. An object reserved as
    a whole (mode Object) counts with all its free bytes."""
    capacities, volumes = collections.of(CapacityRow), collections.of(VolumeRow)
    listed = {key for pool in storage.node.pools for key in (*pool.volumes, *pool.arriving)}
    told = [(key, held) for key in storage.capacities for held in capacities[key].reserved]
    promised = [(key, held) for key, held in told if held.mode != "Object"]
    told_by: dict[tuple[str, ...], str] = {}  # a promise: the first object that reports it, preferably of its own class
    for key, held in (*(each for each in promised if not each[1].storage_class), *promised):
        told_by.setdefault((held.pod, *held.claims), key)
    kept = _room({key for key, held in told if held.mode == "Object"}, collections)
    for key, held in promised:
        if told_by[held.pod, *held.claims] == key:
            made = sum(volumes[claim].bytes for claim in held.claims if claim in listed and claim in volumes)
            kept += max(held.bytes - made, 0)
    return kept


USED, PROMISED, FREE = "█", "▒", "░"
SORTS: Final = ("name", "fullness", "trouble")
_MOST_BAR: Final = 40
_POOL_BAR: Final = 30
_SIGN_WIDTH: Final = 20


def bar(used: int, promised: int, free: int, width: int) -> Text:
    """Used, promised and free bytes to scale. Every nonzero part is visible."""
    size = used + free
    if size <= 0 or width <= 0:
        return Text(" " * width)
    taken = _share(used, size, width)
    kept = min(_share(min(promised, free), size, width), width - taken)
    rest = width - taken - kept
    if free > promised and not rest:  # a little free space is shown as some
        taken, kept = (taken - 1, kept) if taken > kept else (taken, kept - 1)
        rest = 1
    return Text.assemble((USED * taken, "#56b4e9"), (PROMISED * kept, "#e69f00"), (FREE * rest, "dim"))


def _share(part: int, whole: int, width: int) -> int:
    return max(round(part * width / whole), 1) if part > 0 else 0


def map_lines(collections: Collections, *, width: int, search: str = "", sort: str = "name") -> list[ScreenLine]:
    nodes, shared = storage_of_nodes(collections)
    if not nodes:
        return [plain("no nodes are known", "dim")]
    by_zone: dict[str, list[NodeStorage]] = {}
    for node in nodes.values():
        if lines_view.matches(search, node.node.name, node.node.zone, node.trouble, *node.volumes):
            by_zone.setdefault(node.node.zone, []).append(node)
    if not by_zone:
        return [plain(f"nothing is called {search}", "dim")]
    found: list[ScreenLine] = []
    longest = name_width((each.node.name for members in by_zone.values() for each in members), max(-(-width // 3), 10))
    for zone in sorted(by_zone, key=lambda zone: (not zone, natural(zone))):
        members = sorted(by_zone[zone], key=lambda each: _rank(each, sort))
        known = [member for member in members if member.is_known]
        free, size = sum(node_storage.free for node_storage in known), sum(node_storage.size for node_storage in known)
        found.append(
            heading(
                f"{'zone ' + zone if zone else 'no zone'}   {count_text(len(members), 'node')}   "
                f"{bytes_text(free)} free of {bytes_text(size)}"
            )
        )
        found += [ScreenLine(partial(_node_text, member, width, longest), member.node.name) for member in members]
    wanted = {key: each for key, each in shared.items() if lines_view.matches(search, key, each.storage_class)}
    if wanted:
        found.append(heading("room that several nodes share"))
    for key, capacity in wanted.items():
        reach = count_text(capacity.node_count, "node") if capacity.node_count else "no node"
        room = f"{capacity.storage_class}   {bytes_text(sum(capacity.pools))} free"
        found.append(plain(f"{room}   {reach}   {key}"))
    return found


def _rank(each: NodeStorage, sort: str) -> tuple[object, ...]:
    if sort == "fullness":
        return (-each.fill_ratio, natural(each.node.name))
    if sort == "trouble":
        return (not each.trouble, natural(each.node.name))
    return (natural(each.node.name),)


def _node_text(each: NodeStorage, width: int, name_width: int) -> Text:
    """Name, bar, figures, slots, and problem. A narrow terminal drops the sizes before the problem."""
    is_narrow = width < 72
    told_width = 0 if is_narrow else 21
    bar_width = max(min(width - name_width - told_width - 6 - 5 - _SIGN_WIDTH, _MOST_BAR), 8)
    slots = ", ".join(f"{slot.used}/{slot.limit}" for slot in each.node.slots if slot.limit is not None)
    told = f"{bytes_text(each.free)} of {bytes_text(each.size)} free" if each.is_known else "free room not known"
    percent = f"{lines_view.percent_text(each.fill_ratio) if each.is_known and each.size > 0 else '?%':>4}"
    parts = [cell(each.node.name, name_width, "bold" if each.trouble else "")]
    parts.append(bar(each.used, each.promised, each.free, bar_width) if each.is_known else cell("", bar_width))
    parts += [cell(percent, 4), *(() if is_narrow else (cell(told, told_width),)), cell(slots, 6)]
    rest = max(width - sum(part.cell_len + 1 for part in parts), 0)
    mark = ("▲ " + each.trouble) if each.trouble else ("→ " + str(len(each.coming)) + " coming" if each.coming else "")
    parts.append(cell(mark, rest, "red" if each.trouble else "cyan"))
    return lines_view.row(*parts)


def node_lines(collections: Collections, name: str, *, now: datetime, width: int) -> list[ScreenLine]:
    nodes, _ = storage_of_nodes(collections)
    each = nodes.get(name)
    if each is None:
        return [plain(f"{name} is not there any more", "dim")]
    node = each.node
    state = each.trouble or "takes pods"
    page = PageOfLines(width)
    zone = f"zone {node.zone}" if node.zone else "no zone"
    page.heading(f"{name}   {zone}   {state}   {count_text(node.pods, 'pod')}")
    for why in filter(None, (node.reason, each.stale)):
        page.plain(why, "red")
    full = byte_ticks(max((pool.size for each in nodes.values() for pool in each.node.pools), default=0))[-1]
    if node.pools:
        page.plain(f"pools; a full line is {bytes_text(round(full))} on every node", "dim")
    for number, pool in enumerate(node.pools):
        drawn = bar(pool.size - pool.free, 0, pool.free, max(round(_POOL_BAR * pool.size / full), 1))
        told = f"  {bytes_text(pool.free)} free of {bytes_text(pool.size)}"
        page.write(lines_view.row(cell(f"pool {number}", 8), drawn, Text(told)))
    for key in each.capacities:
        _show_capacity(key, collections, now, page)
    for slot in node.slots:
        limit = f"of {slot.limit}" if slot.limit is not None else "without a limit"
        page.plain(f"{slot.driver}: {slot.used} {limit} attach slots used")
    page.heading(f"{len(each.volumes):,} {'claim or volume' if len(each.volumes) == 1 else 'claims and volumes'}")
    _show_volumes(each.volumes, collections, page)
    if each.coming:
        page.heading("on their way here")
        _show_volumes(each.coming, collections, page)
    return page.lines


def _show_capacity(key: str, collections: Collections, now: datetime, page: PageOfLines) -> None:
    capacities = collections.of(CapacityRow)
    capacity = capacities[key]
    pools = ", ".join(bytes_text(pool) for pool in capacity.pools) or "an unknown amount"
    age = f", updated {time_text(max((now - capacity.told_at).total_seconds(), 0))} ago" if capacity.told_at else ""
    page.plain(f"class {capacity.storage_class}: {pools} free{age}")
    for held in capacity.reserved:
        amount = "everything" if held.mode == "Object" else bytes_text(held.bytes)
        page.plain(
            f"{amount} kept back for {held.pod} since {lines_view.local_time(held.since)}: {held.why}",
            "yellow",
            indent=2,
        )


def _show_volumes(keys: Iterable[str], collections: Collections, page: PageOfLines) -> None:
    volumes = collections.of(VolumeRow)
    rows = [_volume_cells(key, volumes[key]) for key in sorted(keys)]
    if rows:
        page.table(FittedTable(("claim", "size", "pool", "state", "pods"), "n1nww", rows))


def _volume_cells(key: str, volume: VolumeRow) -> tuple[str, ...]:
    state = volume.state
    if state == "moving":
        state = "arrived" if volume.node == volume.target else f"moving to {volume.target}"
    pool = str(volume.pool) if volume.pool >= 0 else "-"
    return key, bytes_text(volume.bytes), pool, state, ", ".join(volume.pods) or "no pod"
