"""Topology segments: the label values by which a driver distinguishes where its volumes can be reached. Pure.

A CSINode names the label keys of a driver, the Node has the values; nodes with equal values form one segment. A driver
without keys has one empty segment, which is everywhere. Mirrors external-provisioner's pkg/capacity/topology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from tonnage.objects.core_v1 import Node, PersistentVolume
from tonnage.objects.node_selectors import NodeSelectorTerm
from tonnage.objects.storage_v1 import CSINode


@dataclass(frozen=True, order=True)
class Segment:
    """Label keys and values, sorted by key, every key once. The empty segment is everywhere."""

    entries: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Self:
        return cls(tuple(sorted(labels.items())))

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.entries)

    def __str__(self) -> str:
        """`zone=a,rack=1`; labels contain neither commas nor equal signs, so equal texts are equal segments."""
        return ",".join(f"{key}={value}" for key, value in self.entries)

    def overlaps(self, other: Segment) -> bool:
        """True if a node may be in both: they share keys and agree on all of them, or one of them is everywhere."""
        ours, theirs = self.labels, other.labels
        shared = ours.keys() & theirs.keys()
        if not shared:
            return not ours or not theirs
        return all(ours[key] == theirs[key] for key in shared)


def topology_keys(csi_node: CSINode, driver_name: str) -> tuple[str, ...] | None:
    """The driver's label keys on this node, sorted; None while it is not registered there."""
    driver = csi_node.driver(driver_name)
    return None if driver is None else tuple(sorted(driver.topology_keys))


def find_segments(
    driver_name: str, csi_nodes: Iterable[CSINode], node_of: Callable[[str], Node | None]
) -> frozenset[Segment]:
    """The segments of all nodes that have the driver. `node_of` returns the Node of a name, or None."""
    found = set()
    for csi_node in csi_nodes:
        keys = topology_keys(csi_node, driver_name)
        node = None if keys is None else node_of(csi_node.name)
        if keys is None or node is None:
            continue  # the driver is not there, or the CSINode has outlived its node
        labels = node.metadata.labels
        if all(key in labels for key in keys):
            found.add(Segment.of({key: labels[key] for key in keys}))
    return frozenset(found)


def segments_of_volume(volume: PersistentVolume) -> tuple[Segment, ...]:
    """Where a volume can be reached; empty if its affinity is more complex than segments (`key In [value]`)."""
    required = volume.spec.node_affinity.required
    if required is None:
        return ()
    found = (_segment_of_term(term) for term in required.node_selector_terms)
    return tuple(segment for segment in found if segment is not None)


def _segment_of_term(term: NodeSelectorTerm) -> Segment | None:
    if term.match_fields or not term.match_expressions:
        return None
    labels = {}
    for each in term.match_expressions:
        if each.operator != "In" or len(each.values) != 1:
            return None
        labels[each.key] = each.values[0]
    return Segment.of(labels)
