"""The capacity map: a row per disk, its pools side by side, every claim a block in its pool, to scale.

    node-1  nvme  │▓▓ db-0 ▓▓│░░ db-1 ░░│     │  │▓▓▓▓▓▓▓▓▓▓▓│ │        solid: volumes; hatched: promised, not made yet
                  └── a pool ─────────────────┘  └─ a pool ─────┘

Disks of one storage class have one scale (`scales_of`), with a ruler that tells it; small fast disks are no slivers
beside large slow ones. Volumes and promises without a known pool have a lane of their own before the pools. `disks` are
as `whatif/simulate` writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tonnage.keyed import grouped
from tonnage.whatif.html.charts import WIDTH, Html, Table, coordinate, element, figure, joined, paragraph, svg
from tonnage.whatif.page import byte_ticks, bytes_text, count_text

Disk = Mapping[str, Any]
Scales = Mapping[str, Sequence[float]]
"""By storage class: round amounts of bytes from 0 to a full line."""

MOST_ROWS: Final = 120
"""Limit of drawn disks; the table has all of them."""
_LABEL_WIDTH, _ROW, _BAR, _TOP, _CHAR = 150, 30, 22, 34, 6.6
_RULER_ROW: Final = 20


@dataclass(frozen=True, slots=True)
class _Lane:
    """A pool, or the volumes without a known pool."""

    name: str
    size_bytes: int
    blocks: Sequence[Mapping[str, Any]]
    is_pool: bool = True

    @property
    def free_bytes(self) -> int:
        taken_bytes: int = sum(block["bytes"] for block in self.blocks)
        return max(self.size_bytes - taken_bytes, 0)


def capacity_map(
    name: str,
    title: str,
    disks: Sequence[Disk],
    *,
    marked: Collection[str] = (),
    note: str = "",
    scales: Scales | None = None,
) -> Html:
    """Draw disks. `marked` claims are highlighted. Maps to be compared share their `scales`."""
    if not disks:
        empty = "No capacity object lists a disk, so there is nothing to draw."
        return figure(name, title, note, paragraph(empty, "empty"))
    drawn = disks[:MOST_ROWS]
    scales = scales if scales is not None else scales_of(drawn)
    lanes_most = max(len(_lanes(disk)) for disk in drawn)
    gap = 5.0 if lanes_most <= 12 else 60.0 / lanes_most
    full_px = WIDTH - _LABEL_WIDTH - 10 - gap * lanes_most
    rulers = _rulers(scales, [_class_of(disk) for disk in drawn], full_px)
    top = _TOP + _RULER_ROW * len(rulers)
    rows = []
    for number, disk in enumerate(drawn):
        per_byte = full_px / scales[_class_of(disk)][-1]
        rows.append(_row(disk, top + _ROW * number, per_byte, gap, marked, name))
    has_marked = any(block["claim"] in marked for disk in drawn for block in disk["volumes"])
    head = joined(_patterns(name), _legend(name, has_marked), *rulers)
    height = top + _ROW * len(rows) + 4
    drawing = svg(name, title, _words(disks, len(drawn)), joined(head, *rows), height=height)
    if len(disks) > len(drawn):
        note = f"{note} The first {len(drawn):,} of {len(disks):,} disks are drawn; the table has all.".strip()
    if any(not lane.is_pool for disk in drawn for lane in _lanes(disk)):
        note = f"{note} Blocks before the boxes are volumes whose pool is not known.".strip()
    return figure(name, title, note, drawing, _table(disks))


def scales_of(*maps: Sequence[Disk]) -> Scales:
    """The scale of each storage class on all of these maps. Classes that share a disk share its scale."""
    together: dict[str, set[str]] = {}
    for disk in (disk for disks in maps for disk in disks):
        classes = set(disk["classes"]) or {""}
        for each in tuple(classes):
            classes |= together.get(each, set())
        together.update(dict.fromkeys(classes, classes))
    widest: dict[str, int] = {}
    for disk in (disk for disks in maps for disk in disks):
        size_bytes = sum(lane.size_bytes for lane in _lanes(disk))
        for each in together[_class_of(disk)]:
            widest[each] = max(widest.get(each, 0), size_bytes)
    return {each: byte_ticks(size_bytes) for each, size_bytes in sorted(widest.items())}


def _class_of(disk: Disk) -> str:
    """The class that a disk's scale is found by."""
    return disk["classes"][0] if disk["classes"] else ""


def _rulers(scales: Scales, classes: Sequence[str], full_px: float) -> list[Html]:
    """A line for each scale: as long as one step of it is on the map, with what that is in bytes."""
    rows = grouped((tuple(scales[each]), each) for each in dict.fromkeys(classes))
    found = []
    for number, (ticks, names) in enumerate(rows.items()):
        y, end = _TOP + _RULER_ROW * number, _LABEL_WIDTH + full_px * ticks[1] / ticks[-1]
        line = element("path", d=f"M{_LABEL_WIDTH} {y}v6H{coordinate(end)}v-6", class_="ruler")
        of = f" of {', '.join(filter(None, names))}" if len(rows) > 1 and any(names) else ""
        said = f"{bytes_text(ticks[1])}{of}; a full line is {bytes_text(ticks[-1])}"
        found.append(element("g", line, element("text", said, x=coordinate(end + 8), y=y + 8, class_="key")))
    return found


def _lanes(disk: Disk) -> list[_Lane]:
    """The pools with their contents, after a lane for contents without a known pool."""
    pools: list[list[Mapping[str, Any]]] = [[] for _ in disk["freeBytes"]]
    elsewhere: list[Mapping[str, Any]] = []
    for each in disk["volumes"]:
        (pools[each["pool"]] if each["pool"] is not None else elsewhere).append(each)
    lanes = []
    if elsewhere:
        size_bytes = sum(each["bytes"] for each in elsewhere)
        lanes.append(_Lane("pool not known", size_bytes, elsewhere, is_pool=False))
    for number, (free_bytes, inside) in enumerate(zip(disk["freeBytes"], pools, strict=True)):
        made_bytes = sum(each["bytes"] for each in inside if not each["promised"])
        promised_bytes = sum(each["bytes"] for each in inside if each["promised"])
        size_bytes = made_bytes + max(free_bytes, promised_bytes)
        lanes.append(_Lane(f"pool {number + 1}", size_bytes, inside))
    return lanes


def _row(disk: Disk, top: int, per_byte: float, gap: float, marked: Collection[str], name: str) -> Html:
    label = disk_name(disk)
    width_chars = int((_LABEL_WIDTH - 12) / _CHAR)
    short = label if len(label) <= width_chars else f"{label[: width_chars - 1]}…"
    parts = [element("text", element("title", label), short, x=0, y=top + 15, class_="row")]
    left = float(_LABEL_WIDTH)
    for lane in _lanes(disk):
        width = max(lane.size_bytes * per_byte, 1.0)
        told = f"{label}, {lane.name}: {bytes_text(lane.size_bytes)}"
        if lane.is_pool:
            told += f", {bytes_text(lane.free_bytes)} free"
        place: dict[str, str | int] = {"x": coordinate(left), "y": top, "width": coordinate(width), "height": _BAR}
        parts.append(element("rect", element("title", told), **place, class_="pool" if lane.is_pool else "lane"))
        at = left
        for block in lane.blocks:
            parts.append(_block(block, at, top, block["bytes"] * per_byte, block["claim"] in marked, name))
            at += block["bytes"] * per_byte
        left += width + gap
    return element("g", *parts, class_="disk")


def _block(block: Mapping[str, Any], left: float, top: int, width: float, is_marked: bool, name: str) -> Html:
    claim = block["claim"] or block["volume"]
    state = "promised, not made yet" if block["promised"] else f"volume {block['volume']}"
    kind = " ".join(("claim", *(["promised"] if block["promised"] else []), *(["marked"] if is_marked else [])))
    fill = f"fill: url(#{name}-{'marked-' if is_marked else ''}hatch)" if block["promised"] else None
    inner = max(width - 1, 0.5)
    rect = element(
        "rect",
        element("title", f"{claim}: {bytes_text(block['bytes'])}, {state}"),
        x=coordinate(left + 0.5),
        y=coordinate(top + 1.5),
        width=coordinate(inner),
        height=_BAR - 3,
        class_=kind,
        style=fill,
        data_claim=claim,
    )
    said = claim.rpartition("/")[2]
    if len(said) * _CHAR + 8 > inner:
        return rect
    label = element(
        "text", said, x=coordinate(left + width / 2), y=top + 15, class_=f"{kind.replace('claim', 'label')}"
    )
    return joined(rect, label)


def _patterns(name: str) -> Html:
    def hatch(suffix: str, colour: str) -> Html:
        line = element("path", d="M0 0V6", stroke=colour, stroke_width=2.4)
        ground = element("rect", width=6, height=6, fill="var(--paper)")
        turned = {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
        return element("pattern", ground, line, id=f"{name}-{suffix}", width=6, height=6, **turned)

    return element("defs", hatch("hatch", "var(--claim)"), hatch("marked-hatch", "var(--marked)"))


def _legend(name: str, has_marked: bool) -> Html:
    parts, left = [], float(_LABEL_WIDTH)
    kinds = [
        ("claim", "volume", None),
        ("claim promised", "promised", f"fill: url(#{name}-hatch)"),
        ("pool", "free", None),
    ]
    if has_marked:
        kinds.insert(1, ("claim marked", "moved", None))
    for kind, said, fill in kinds:
        parts.append(element("rect", x=coordinate(left), y=6, width=20, height=12, class_=f"key {kind}", style=fill))
        parts.append(element("text", said, x=coordinate(left + 26), y=16, class_="key"))
        left += 26 + len(said) * _CHAR + 22
    return element("g", *parts, class_="legend")


def _words(disks: Sequence[Disk], drawn: int) -> str:
    volumes = [each for disk in disks for each in disk["volumes"]]
    made = [volume["bytes"] for volume in volumes if not volume["promised"]]
    promised = [volume["bytes"] for volume in volumes if volume["promised"]]
    pools = [free_bytes for disk in disks for free_bytes in disk["freeBytes"]]
    said = (
        f"{count_text(len(disks), 'disk')} with {count_text(len(pools), 'pool')}: "
        f"{count_text(len(made), 'volume')} of {bytes_text(sum(made))}, "
        f"{count_text(len(promised), 'claim')} promised {bytes_text(sum(promised))}, "
        f"{bytes_text(max(sum(pools) - sum(promised), 0))} free."
    )
    return said if drawn == len(disks) else f"{said} The first {drawn:,} are drawn."


def _table(disks: Sequence[Disk]) -> Table:
    rows = []
    for disk in disks:
        for lane in _lanes(disk):
            free = bytes_text(lane.free_bytes) if lane.is_pool else ""
            claims = ", ".join(_in_words(block) for block in lane.blocks)
            rows.append((disk_name(disk), lane.name, bytes_text(lane.size_bytes), free, claims))
    return Table(("Disk", "Pool", "Size", "Free", "Claims"), rows, kinds="nw11w")


def _in_words(block: Mapping[str, Any]) -> str:
    state = " promised" if block["promised"] else ""
    return f"{block['claim'] or block['volume']} {bytes_text(block['bytes'])}{state}"


def disk_name(disk: Disk) -> str:
    where = disk["where"] or ", ".join(disk["objects"])
    return f"{where} {', '.join(disk['classes'])}".strip()
