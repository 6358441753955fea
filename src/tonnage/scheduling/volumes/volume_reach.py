"""Which nodes a volume can be reached from, for many volumes and all nodes at once.

Volumes with equal node affinity share a *reach*, a small number: ten thousand volumes without an affinity are one
reach, a thousand zonal ones are as many as there are zones, local volumes one per node. What a reach covers is kept as
pairs, unordered, so that a question about all nodes is a few array steps however many reaches there are:

    rows    [ 0  1  0  2  3 ]       reach 1 (a zone) covers the rows 0 and 1,
    reaches [ 1  1  2  3  4 ]       the reaches 2, 3 and 4 (local volumes) one row each

`EVERYWHERE` has no pairs: it covers all. Pairs are brought up to date when they are asked for, at the cost of what
changed: a new reach is evaluated against the label columns, a changed node against the reaches its labels can belong
to. A reach that no volume has any more leaves its pairs behind until its number is given away again; nobody asks there.

Affinity is judged by labels alone. `matchFields` is passed over, as it is upstream (CheckNodeAffinity) and in the
kubelet, both of which ask about a node without a name. Volumes of in-tree plugins that CSI took over
need no translation here: upstream translates a volume only to judge the claims that are bound already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.node_selectors import NodeSelector, NodeSelectorTerm
from tonnage.scheduling.cluster.cluster import Cluster
from tonnage.scheduling.cluster.columns import Ids, Interner, Rows, row_count, row_numbers
from tonnage.scheduling.cluster.node_matching import matching

RowNumbers = npt.NDArray[np.intp]

EVERYWHERE: Final = 0
"""The reach of a volume without node affinity."""


def affinity_of(volume: PersistentVolume) -> NodeSelector | None:
    """What a volume asks of its nodes' labels, None for nothing. Names of nodes are passed over: see above."""
    affinity = volume.spec.node_affinity.required
    if affinity is None or not any(term.match_fields for term in affinity.node_selector_terms):
        return affinity
    terms = affinity.node_selector_terms
    if any(term.match_fields and not term.match_expressions for term in terms):
        return None  # a term with nothing left to ask holds everywhere, and any term will do
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=term.match_expressions) for term in terms)
    )


class Reaches:
    """The reaches of volumes, by number. Who writes a number down holds it until it is erased."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._affinities: Interner[NodeSelector | None] = Interner()
        self._affinities.id_of(None)  # EVERYWHERE, for good
        self._fresh: set[int] = set()  # held, and not yet in the pairs
        self._by_label: dict[tuple[str, str], set[int]] = {}  # who wants this label of a node, in one of its terms
        self._loose: set[int] = set()  # has a term that wants no certain label
        self._rows: RowNumbers = np.zeros(0, dtype=np.intp)
        self._reaches: Ids = np.zeros(0, dtype=np.int32)
        self._seen = cluster.node_changes.tick

    def __len__(self) -> int:
        """All numbers are below this."""
        return len(self._affinities)

    def hold(self, volume: PersistentVolume) -> int:
        """The number of a volume's reach, kept for it until it is released as often as it was held."""
        affinity = affinity_of(volume)
        is_new = self._affinities.find(affinity) is None
        number = self._affinities.hold(affinity)
        if affinity is not None and is_new:
            self._fresh.add(number)
            for wanted in _wanted_labels(affinity):
                if wanted is None:
                    self._loose.add(number)
                else:
                    self._by_label.setdefault(wanted, set()).add(number)
        return number

    def release(self, number: int) -> None:
        affinity = self._affinities.things[number]
        self._affinities.release(number)
        if affinity is None or self._affinities.find(affinity) is not None:
            return
        self._fresh.discard(number)
        self._loose.discard(number)
        for wanted in _wanted_labels(affinity):
            if wanted is not None and number in (sharing := self._by_label.get(wanted, set())):
                sharing.remove(number)
                if not sharing:
                    del self._by_label[wanted]

    def pairs(self, rows: Rows) -> tuple[RowNumbers, Ids]:
        """Who covers which of these rows: places in `rows`, and beside each a reach. Not those of EVERYWHERE."""
        self._refresh()
        if isinstance(rows, slice):
            if row_count(rows) == self._cluster.size:
                return self._rows, self._reaches
            is_asked = (self._rows >= rows.start) & (self._rows < rows.stop)
            return self._rows[is_asked] - rows.start, self._reaches[is_asked]
        place = np.full(self._cluster.size, -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        places = place[self._rows]
        is_asked = places >= 0
        return places[is_asked], self._reaches[is_asked]

    # -- keeping the pairs true ---------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        changes = self._cluster.node_changes
        changed = changes.since(self._seen, self._cluster.size)
        if not self._fresh and not row_count(changed):
            return
        self._seen = changes.tick
        # Rows against their few reaches, or reaches against all rows at once: whichever are fewer.
        if row_count(changed) < self._affinities.held:
            changed_rows = row_numbers(changed)
        else:
            changed_rows = np.zeros(0, dtype=np.intp)
            self._fresh.update(self._held())
        rows, reaches = self._kept(changed_rows)
        # A fresh reach and a changed row may both tell of the same pair; twice in the list it means the same.
        for number in self._fresh:
            covered = self._covered(number)
            rows.append(covered)
            reaches.append(np.full(len(covered), number, dtype=np.int32))
        for row in changed_rows.tolist():
            found = list(self._covering(row))
            rows.append(np.full(len(found), row, dtype=np.intp))
            reaches.append(np.array(found, dtype=np.int32))
        self._rows, self._reaches = np.concatenate(rows), np.concatenate(reaches)
        self._fresh.clear()

    def _kept(self, changed_rows: RowNumbers) -> tuple[list[RowNumbers], list[Ids]]:
        """The pairs that are still true: neither of a fresh reach, nor of a changed row."""
        is_fresh = np.zeros(len(self), dtype=np.bool_)
        is_fresh[list(self._fresh)] = True
        is_changed = np.zeros(self._cluster.size, dtype=np.bool_)
        is_changed[changed_rows] = True
        still = ~(is_fresh[self._reaches] | is_changed[self._rows])
        return [self._rows[still]], [self._reaches[still]]

    def _held(self) -> Iterator[int]:
        for number, affinity in enumerate(self._affinities.things):
            if affinity is not None and self._affinities.find(affinity) == number:
                yield number

    def _covered(self, number: int) -> RowNumbers:
        affinity = self._affinities.things[number]
        assert affinity is not None  # EVERYWHERE is never fresh
        return np.flatnonzero(matching(self._cluster, affinity, self._cluster.all_rows))

    def _covering(self, row: int) -> Iterator[int]:
        """The reaches that cover one row."""
        node = self._cluster.nodes[row]
        if node is None:
            return
        labels = node.metadata.labels
        candidates = self._loose.union(*(self._by_label.get(each, ()) for each in labels.items()))
        for number in candidates:
            affinity = self._affinities.things[number]
            if affinity is not None and affinity.matches("", labels):
                yield number


def _wanted_labels(affinity: NodeSelector) -> Iterator[tuple[str, str] | None]:
    """For each term the labels of which a node must have one; None for a term that does not say."""
    for term in affinity.node_selector_terms:
        one_of = next((each for each in term.match_expressions if each.operator == "In"), None)
        if one_of is None:
            yield None
        else:
            yield from ((one_of.key, value) for value in one_of.values)
