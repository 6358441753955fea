"""The map: a line a node, by zone, with its storage as a bar; and what a node holds, opened with Enter.

ZONE a                                        3 nodes   120Gi free of 900Gi
node-1   ███████████▒▒▒░░░░░░░░░░░░   62%   114Gi free of 300Gi   3/16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from rich.text import Text

from tonnage.dashboard.terminal.amounts import bytes_text, count_text, percent_text
from tonnage.dashboard.terminal.lines import ScreenLine, cell, heading, local_time, matches, name_width, plain, row
from tonnage.dashboard.terminal.storage_of_nodes import NodeStorage, Shared, storage_of_nodes
from tonnage.dashboard.wire.collections import Collections
from tonnage.dashboard.wire.rows import CapacityRow, VolumeRow
from tonnage.whatif.html.amounts import time_text

USED, PROMISED, FREE = "█", "▒", "░"
SORTS: Final = ("name", "fullness", "trouble")
_MOST_BAR: Final = 40
_SIGN_WIDTH: Final = 20
"""For what is wrong with a node, in words."""


def bar(used: int, promised: int, free: int, width: int) -> Text:
    """Room to scale: used, promised, free. Whatever is there is seen, however small."""
    size = used + free
    if size <= 0 or width <= 0:
        return Text(" " * width)
    taken = _share(used, size, width)
    kept = min(_share(min(promised, free), size, width), width - taken)
    rest = width - taken - kept
    if free > promised and not rest:  # a little that is free is not none
        taken, kept = (taken - 1, kept) if taken > kept else (taken, kept - 1)
        rest = 1
    return Text.assemble((USED * taken, "#56b4e9"), (PROMISED * kept, "#e69f00"), (FREE * rest, "dim"))


def _share(part: int, whole: int, width: int) -> int:
    return max(round(part * width / whole), 1) if part > 0 else 0


def map_lines(collections: Collections, *, width: int, search: str = "", sort: str = "name") -> list[ScreenLine]:
    """The map of all nodes."""
    nodes, shared = storage_of_nodes(collections)
    if not nodes:
        return [plain("no nodes are known", "dim")]
    by_zone: dict[str, list[NodeStorage]] = {}
    for each in nodes.values():
        if _is_wanted(each, search):
            by_zone.setdefault(each.node.zone, []).append(each)
    if not by_zone:
        return [plain(f"nothing is called {search}", "dim")]
    found: list[ScreenLine] = []
    longest = name_width((each.node.name for members in by_zone.values() for each in members), max(width // 3, 10))
    for zone in sorted(by_zone):
        members = sorted(by_zone[zone], key=lambda each: _rank(each, sort))
        known = [each for each in members if each.is_known]
        free, size = sum(each.free for each in known), sum(each.size for each in known)
        found.append(
            heading(
                f"{'zone ' + zone if zone else 'no zone'}   {count_text(len(members), 'node')}   "
                f"{bytes_text(free)} free of {bytes_text(size)}"
            )
        )
        found += [ScreenLine(partial(_node_text, each, width, longest), each.node.name) for each in members]
    found += _shared_lines(shared, search)
    return found


def _is_wanted(each: NodeStorage, search: str) -> bool:
    return matches(search, each.node.name, each.node.zone, each.trouble, *each.volumes)


def _rank(each: NodeStorage, sort: str) -> tuple[object, ...]:
    if sort == "fullness":
        return (-each.fill_ratio, _natural(each.node.name))
    if sort == "trouble":
        return (not each.trouble, _natural(each.node.name))
    return (_natural(each.node.name),)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """node-2 before node-10."""
    parts: list[tuple[int, int, str]] = []
    number, letters = "", ""
    for char in name:
        if char.isascii() and char.isdigit():
            if letters:
                parts.append((1, 0, letters))
                letters = ""
            number += char
        else:
            if number:
                parts.append((0, int(number[:18]), ""))
                number = ""
            letters += char
    parts.append((0, int(number[:18]), "") if number else (1, 0, letters))
    return parts


def _node_text(each: NodeStorage, width: int, name_width: int) -> Text:
    """Name, bar, figures, slots, and what is wrong: on a narrow terminal the sizes go before what is wrong does."""
    is_narrow = width < 72
    told_width = 0 if is_narrow else 21
    bar_width = max(min(width - name_width - told_width - 6 - 5 - _SIGN_WIDTH, _MOST_BAR), 8)
    slots = ", ".join(f"{slot.used}/{slot.limit}" for slot in each.node.slots if slot.limit is not None)
    told = f"{bytes_text(each.free)} of {bytes_text(each.size)} free" if each.is_known else "free room not known"
    percent = f"{percent_text(each.fill_ratio) if each.is_known and each.size > 0 else '?%':>4}"
    parts = [cell(each.node.name, name_width, "bold" if each.trouble else "")]
    parts.append(bar(each.used, each.promised, each.free, bar_width) if each.is_known else cell("", bar_width))
    parts += [cell(percent, 4), *(() if is_narrow else (cell(told, told_width),)), cell(slots, 6)]
    rest = max(width - sum(part.cell_len + 1 for part in parts), 0)
    mark = ("▲ " + each.trouble) if each.trouble else ("→ " + str(len(each.coming)) + " coming" if each.coming else "")
    parts.append(cell(mark, rest, "red" if each.trouble else "cyan"))
    return row(*parts)


def _shared_lines(shared: Sequence[Shared], search: str) -> Iterator[ScreenLine]:
    wanted = [each for each in shared if matches(search, each.key, each.capacity.storage_class)]
    if not wanted:
        return
    yield heading("room that several nodes share")
    for each in wanted:
        capacity = each.capacity
        reach = count_text(capacity.node_count, "node") if capacity.node_count else "no node"
        yield plain(f"{capacity.storage_class}   {bytes_text(sum(capacity.pools))} free   {reach}   {each.key}")


def node_lines(collections: Collections, name: str, *, now: datetime) -> list[ScreenLine]:
    """One node: pools, claims, slots, and what is kept back for whom."""
    nodes, _ = storage_of_nodes(collections)
    each = nodes.get(name)
    if each is None:
        return [plain(f"{name} is not there any more", "dim")]
    node, volumes = each.node, collections.of(VolumeRow)
    state = each.trouble or "takes pods"
    found = [
        heading(
            f"{name}   {'zone ' + node.zone if node.zone else 'no zone'}   {state}   {count_text(node.pods, 'pod')}"
        )
    ]
    found += [plain(why, "red") for why in (node.reason, each.stale) if why]
    for number, pool in enumerate(node.pools):
        used = pool.size - pool.free
        told = f"  {bytes_text(pool.free)} free of {bytes_text(pool.size)}"
        found.append(ScreenLine(row(cell(f"pool {number}", 8), bar(used, 0, pool.free, 30), Text(told))))
    for key in each.capacities:
        found += _capacity_lines(key, collections, now)
    for slot in node.slots:
        limit = f"of {slot.limit}" if slot.limit is not None else "without a limit"
        found.append(plain(f"{slot.driver}: {slot.used} {limit} attach slots used"))
    what = "claim or volume" if len(each.volumes) == 1 else "claims and volumes"
    found.append(heading(f"{len(each.volumes):,} {what}"))
    found += [_volume_line(volumes[key], key) for key in sorted(each.volumes)]
    if each.coming:
        found.append(heading("on their way here"))
        found += [_volume_line(volumes[key], key) for key in sorted(each.coming)]
    return found


def _capacity_lines(key: str, collections: Collections, now: datetime) -> Iterator[ScreenLine]:
    capacities = collections.of(CapacityRow)
    capacity = capacities[key]
    pools = ", ".join(bytes_text(each) for each in capacity.pools) or "nothing told"
    age = f", told {time_text(max((now - capacity.told_at).total_seconds(), 0))} ago" if capacity.told_at else ""
    yield plain(f"class {capacity.storage_class}: {pools} free{age}")
    for held in capacity.reserved:
        amount = "all of it" if held.mode == "Object" else bytes_text(held.bytes)
        yield plain(f"  {amount} kept back for {held.pod} since {local_time(held.since)}: {held.why}", "yellow")


def _volume_line(volume: VolumeRow, key: str) -> ScreenLine:
    state = volume.state
    if state == "moving":
        state = "arrived" if volume.node == volume.target else f"moving to {volume.target}"
    pods = ", ".join(volume.pods) or "no pod"
    pool = f"pool {volume.pool}" if volume.pool >= 0 else ""
    cells = (cell(key, 34), cell(bytes_text(volume.bytes), 8), cell(pool, 7), cell(state, 18), Text())
    text = row(*cells[:4])
    text.append_text(cell(" " + pods, 40))
    return ScreenLine(text)
