"""Where a volume is, by its node affinity: on a node, on one of several, in zones, or within everybody's reach."""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.model.selected_labels import names_a_node, node_requirements
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.core_v1.node import BETA_ZONE, ZONE
from tonnage.scheduling.volumes.volume_reach import affinity_of

MOST_NODES: Final = 16


class VolumePlace(NamedTuple):
    """`node` is the only one that reaches it, or that it names and that does not any more, also one that is gone;
    `nodes` are those of several that do."""

    node: str = ""
    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    is_confined: bool = False
    """It has an affinity at all."""
    is_unreachable: bool = False
    """No node that there is reaches it, and nodes were named."""


def place_of(objects: KnownObjects, volume: PersistentVolume) -> VolumePlace:
    required = affinity_of(volume)
    if required is None:
        return VolumePlace(zones=_labelled_zones(volume))
    admitted: set[str] = set()
    named: set[tuple[str, str]] = set()
    zones: set[str] = set()
    is_wide = False
    for term in required.node_selector_terms:
        listed = node_requirements(term)
        zones.update(
            value
            for each in term.match_expressions
            if each.operator == "In" and each.key.endswith("/zone")
            for value in each.values
        )
        if not listed:
            is_wide = is_wide or bool(term.match_expressions)
            continue
        candidates = {name for value in listed[0].values for name in objects.nodes_by_label[listed[0].key, value]}
        admitted.update(name for name in candidates if term.matches(name, objects.nodes[name].metadata.labels))
        named.update((each.key, value) for each in listed if names_a_node(each.key) for value in each.values)
    if is_wide:
        return VolumePlace(zones=tuple(sorted(zones)), is_confined=True)
    found = sorted(admitted)
    if not found:  # by its names: where it was left, but none that is there and does not reach it
        gone = {name for key, name in named if not objects.nodes_by_label[key, name]}
        found = sorted({name for _, name in named} if len(named) == 1 else gone)
    return VolumePlace(
        found[0] if len(found) == 1 else "",
        tuple(found[:MOST_NODES]) if len(found) > 1 else (),
        is_confined=True,
        is_unreachable=not admitted,
    )


def _labelled_zones(volume: PersistentVolume) -> tuple[str, ...]:
    """Zones of a volume from before node affinity: by its own label, several with __ between them."""
    labels = volume.metadata.labels
    told = labels.get(ZONE, labels.get(BETA_ZONE, ""))
    return tuple(sorted({each for each in told.split("__") if each}))
