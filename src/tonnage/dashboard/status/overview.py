"""The line above the troubles: nodes, how full each class is, its largest free pool, what waits and what is on its way.

5 nodes ready, 1 not · pools 42% full, largest free pool 80Gi · 3 pods pending · 2 volumes on their way
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tonnage.dashboard.status.sight import Sight
from tonnage.dashboard.wire import NodeRow, PodRow, Row, VolumeRow
from tonnage.scheduler.storage_totals import ClassTotals, class_totals, homes
from tonnage.whatif.page import bytes_text, count_text

MOST_CLASSES: Final = 24
"""Of more classes those with the most bytes are kept."""


class ClassRoom(Row):
    """Bytes of a StorageClass. `largest`: the largest volume that one free pool can hold."""

    free: int = 0
    total: int = 0
    largest: int = 0
    nearly_full: bool = False

    @property
    def percent_full(self) -> int:
        return 100 * (self.total - self.free) // self.total if self.total else 0

    def document(self) -> dict[str, Any]:
        return {
            "free": self.free,
            "total": self.total,
            "largest": self.largest,
            "percentFull": self.percent_full,
            "nearlyFull": self.nearly_full,
        }


class Overview(Row):
    nodes_ready: int = 0
    nodes_not_ready: int = 0
    nodes_cordoned: int = 0
    pending: int = 0
    """Pods that wait for a node."""
    on_their_way: int = 0
    """Volumes that are being made, or rebuilt on another node."""
    classes: Mapping[str, ClassRoom] = {}
    """By name; those with the most bytes first."""

    def document(self) -> dict[str, Any]:
        return {
            "nodesReady": self.nodes_ready,
            "nodesNotReady": self.nodes_not_ready,
            "nodesCordoned": self.nodes_cordoned,
            "pending": self.pending,
            "onTheirWay": self.on_their_way,
            "classes": {name: each.document() for name, each in self.classes.items()},
        }


def totals_of(sight: Sight) -> dict[str, ClassTotals]:
    known = sight.objects
    home_of = homes(known.claims.get, known.nodes, known.drivers)
    return class_totals(known.capacities.values(), known.volumes.values(), known.classes, home_of)


def overview(sight: Sight, totals: Mapping[str, ClassTotals]) -> Overview:
    nodes = [node_row for node_row in sight.rows.of(NodeRow).values() if not node_row.gone]
    ready = sum(node.ready for node in nodes)
    largest_first = sorted(totals.items(), key=lambda each: (-each[1].total, each[0]))[:MOST_CLASSES]
    return Overview(
        nodes_ready=ready,
        nodes_not_ready=len(nodes) - ready,
        nodes_cordoned=sum(node.ready and node.cordoned for node in nodes),
        pending=sum(pod_row.state == "waiting" for pod_row in sight.rows.of(PodRow).values()),
        on_their_way=sum(volume_row.state in ("making", "moving") for volume_row in sight.rows.of(VolumeRow).values()),
        classes={
            name: ClassRoom(free=each.free, total=each.total, largest=each.largest, nearly_full=each.is_nearly_full)
            for name, each in largest_first
        },
    )


def overview_texts(found: Overview) -> Iterator[str]:
    """The parts of the line."""
    nodes = f"{count_text(found.nodes_ready, 'node')} ready"
    nodes += f", {found.nodes_not_ready:,} not" if found.nodes_not_ready else ""
    yield nodes + (f", {found.nodes_cordoned:,} cordoned" if found.nodes_cordoned else "")
    for name, each in found.classes.items():
        yield f"{name} {each.percent_full}% full, largest free pool {bytes_text(each.largest)}"
    yield f"{count_text(found.pending, 'pod')} pending"
    yield f"{count_text(found.on_their_way, 'volume')} on {'its' if found.on_their_way == 1 else 'their'} way"
