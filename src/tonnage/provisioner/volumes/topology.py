"""Where a volume may be: from nodes and classes to CreateVolume's topology, and from its answer to node affinity.

A *term* is a set of labels that all hold: one place. The driver gets the allowed places (`requisite`) and the same list
with the wanted place first (`preferred`): the selected node's or, with immediate binding, one chosen by the claim's
name. Pure. Mirrors external-provisioner's GenerateAccessibilityRequirements and its neighbours, messages included.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from tonnage.client.cache import Cache
from tonnage.csi import csi_pb2 as csi
from tonnage.documents import go_text
from tonnage.errors import TonnageError
from tonnage.objects import names, storage_v1
from tonnage.objects.core_v1 import Node, NodeSelector, NodeSelectorTerm, TopologySelectorTerm, VolumeNodeAffinity
from tonnage.objects.requirements import Requirement

Term = tuple[tuple[str, str], ...]

_UINT32 = 1 << 32


class NoTopology(TonnageError):
    """It is not known (yet) where the volume should be."""


class NodeGone(TonnageError):
    """The selected node does not exist (any more): another one must be selected."""


def requirement(
    driver: str,
    claim_name: str,
    allowed: tuple[TopologySelectorTerm, ...],
    selected_node: str,
    *,
    strict: bool,
    immediate: bool,
    csi_nodes: Cache[storage_v1.CSINode],
    nodes: Cache[Node],
    rng: random.Random,
) -> csi.TopologyRequirement | None:
    """The topology for CreateVolume; None for none. Raises NoTopology or NodeGone."""
    selected: Term = ()
    keys: tuple[str, ...] = ()
    requisite: list[Term] = []
    if selected_node:
        keys = _keys_of_selected(driver, selected_node, csi_nodes)
        selected = _term_of_selected(selected_node, keys, nodes)
        if strict:
            terms = flattened(allowed)
            if allowed and not any(set(term) <= set(selected) for term in terms):
                raise NoTopology(
                    f"selected node '\"{selected_node}\"' topology '{_told(selected)}' is not in allowed topologies: "
                    f"{_all_told(terms)}"
                )
            requisite = [selected]
    if not requisite and allowed:
        requisite = flattened(allowed)
    elif not requisite:
        if not selected_node and not immediate:
            return None
        if not keys:  # those of any node that has the driver: nodes may differ while a driver is being updated
            known = sorted({found for csi_node in csi_nodes if (found := _keys(csi_node, driver))})
            keys = rng.choice(known) if known else ()
        requisite = _places(keys, nodes)
        if not requisite:
            raise NoTopology("no available topology found")
    if not requisite:
        return None  # allowed topologies without expressions
    requisite = sorted(set(requisite), key=lambda term: (len(term), term))
    preferred = requisite
    if not selected_node:
        first = spread(claim_name) % len(requisite)
        preferred = requisite[first:] + requisite[:first]
    elif not strict:
        first = next((at for at, term in enumerate(requisite) if set(term) <= set(selected)), -1)
        if first < 0:
            raise NoTopology(
                f'topology {_told(selected)} from selected node "{selected_node}" is not in requisite: '
                f"{_all_told(requisite)}"
            )
        preferred = requisite[first:] + requisite[:first]
    return csi.TopologyRequirement(requisite=_places_told(requisite), preferred=_places_told(preferred))


def flattened(allowed: Iterable[TopologySelectorTerm]) -> list[Term]:
    """Allowed topologies as a plain list of places: (a or b) and (c or d) are four."""
    terms: list[Term] = []
    for term in allowed:
        expressions = term.match_label_expressions
        choices = [[(expression.key, value) for value in expression.values] for expression in expressions]
        if choices:
            # The last key turns slowest, as upstream distributes them.
            terms += [tuple(sorted(choice)) for choice in product(*reversed(choices))]
    return terms


def spread(claim_name: str) -> int:
    """A number by which a StatefulSet's claims rotate over the places, while claims of one pod stay together.

    `data-web-2` is the FNV-1 hash of "web", plus 2. Mirrors getPVCNameHashAndIndexOffset.
    """
    base, dash, last = claim_name.rpartition("-")
    if dash and last.isascii() and last.isdigit() and int(last) < _UINT32:
        return (names.fnv1(base.rpartition("-")[2].encode()) + int(last)) % _UINT32
    return names.fnv1(claim_name.encode())


def node_affinity_of(places: Sequence[csi.Topology]) -> VolumeNodeAffinity:
    """The nodes that reach a volume which is accessible from these places; without places: every node.

    Unlike GenerateVolumeNodeAffinity, places without segments are left out: servers refuse a selector without terms.
    """
    terms = tuple(
        NodeSelectorTerm(
            match_expressions=tuple(
                Requirement(key=key, operator="In", values=(value,)) for key, value in sorted(place.segments.items())
            )
        )
        for place in places
        if place.segments
    )
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms) if terms else None)


def is_accessible(affinity: VolumeNodeAffinity, place: Mapping[str, str] | None) -> bool:
    """True if a volume can be reached from a driver's own place. Mirrors VolumeIsAccessible."""
    return place is None or affinity.admits("", place)


# -- pieces -----------------------------------------------------------------------------------------------------------


def _keys_of_selected(driver: str, node: str, csi_nodes: Cache[storage_v1.CSINode]) -> tuple[str, ...]:
    registered = csi_nodes.get(node)
    if registered is None:
        raise NodeGone(f'failed to get selected CSINode {node}: csinode.storage.k8s.io "{node}" not found')
    keys = _keys(registered, driver)
    if not keys:
        # The driver is not there, or is just starting.
        raise NoTopology(f"no topology key found for node {node}")
    return keys


def _term_of_selected(name: str, keys: tuple[str, ...], nodes: Cache[Node]) -> Term:
    node = nodes.get(name)
    if node is None:
        raise NodeGone(f'failed to get selected node {name}: node "{name}" not found')
    term = _term(node.metadata.labels, keys)
    if term is None:
        labels, wanted = go_text.plain(dict(node.metadata.labels)), go_text.plain(list(keys))
        raise NoTopology(
            f"topology labels from selected node {labels} does not match topology keys from CSINode {wanted}"
        )
    return term


def _places(keys: tuple[str, ...], nodes: Cache[Node]) -> list[Term]:
    if not keys:
        return []
    terms = [term for node in nodes if (term := _term(node.metadata.labels, keys)) is not None]
    if not terms:
        raise NoTopology(f"topologyKeys {go_text.plain(list(keys))} were not found on any nodes")
    return terms


def _keys(registered: storage_v1.CSINode, driver: str) -> tuple[str, ...]:
    found = registered.driver(driver)
    return found.topology_keys if found is not None else ()


def _term(labels: Mapping[str, str], keys: Sequence[str]) -> Term | None:
    term = tuple(sorted((key, labels[key]) for key in keys if key in labels))
    return term if len(term) == len(set(keys)) else None


def _places_told(terms: Iterable[Term]) -> list[csi.Topology]:
    return [csi.Topology(segments=dict(term)) for term in terms if term]


def _told(term: Term) -> str:
    return "[" + " ".join(f"{{{key} {value}}}" for key, value in term) + "]"


def _all_told(terms: Iterable[Term]) -> str:
    return "[" + " ".join(map(_told, terms)) + "]"
