"""Which nodes a selector picks, for all rows at once: node selectors, label selectors, allowed topologies.

Every requirement is answered from the label columns, once per distinct value. The rules for one node at a time stand in
`objects/node_selectors.py` and `objects/selectors.py`; these say the same about all of them.
"""

from __future__ import annotations

import numpy as np

from tonnage.objects.node_selectors import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm, TopologySelectorTerm
from tonnage.objects.requirements import Requirement
from tonnage.objects.selectors import LabelSelector
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Mask, Rows, row_count, row_numbers


def matching(cluster: Cluster, selector: NodeSelector, rows: Rows) -> Mask:
    """Which rows a node selector picks: any of its terms; without terms none."""
    found: Mask = np.zeros(row_count(rows), dtype=np.bool_)
    for term in selector.node_selector_terms:
        found |= term_matching(cluster, term, rows)
    return found


def term_matching(cluster: Cluster, term: NodeSelectorTerm, rows: Rows) -> Mask:
    """Which rows one term picks: all of its requirements; an empty term picks none."""
    found: Mask = np.full(row_count(rows), bool(term.match_expressions or term.match_fields))
    for requirement in term.match_expressions:
        found &= cluster.labels.meets(requirement, rows)
    for requirement in term.match_fields:
        found &= _names_match(cluster, requirement, rows)
    return found


def _names_match(cluster: Cluster, requirement: Requirement, rows: Rows) -> Mask:
    """A field In or NotIn exactly one value; fields other than `metadata.name` read as empty, as upstream has it."""
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return np.zeros(row_count(rows), dtype=np.bool_)
    if requirement.key != NODE_NAME_FIELD:
        return np.full(row_count(rows), requirement.holds(""))
    is_named: Mask = row_numbers(rows) == cluster.row_of.get(requirement.values[0], -1)
    return is_named if requirement.operator == "In" else ~is_named


def selected(cluster: Cluster, selector: LabelSelector, rows: Rows) -> Mask:
    """Which rows a label selector picks: an empty one every row, one that makes no sense none."""
    found: Mask = np.ones(row_count(rows), dtype=np.bool_)
    for requirement in selector.requirements():
        found &= cluster.labels.meets(requirement, rows)
    return found


def in_topology(cluster: Cluster, terms: tuple[TopologySelectorTerm, ...], rows: Rows) -> Mask:
    """Where a StorageClass with these `allowedTopologies` may make volumes: any term will do, no terms are all."""
    if not terms:
        return np.ones(row_count(rows), dtype=np.bool_)
    found: Mask = np.zeros(row_count(rows), dtype=np.bool_)
    for term in terms:
        of_term: Mask = np.full(row_count(rows), bool(term.match_label_expressions))
        for each in term.match_label_expressions:
            # Without values In makes no sense and is met by nobody, which is what is meant here too.
            of_term &= cluster.labels.meets(Requirement(key=each.key, operator="In", values=each.values), rows)
        found |= of_term
    return found
