"""The cluster as columns: one row per node, one array per fact.

    rows     0        1        2        3
    names    node-1   node-2   (gone)   node-4        exists  [T, T, F, T]
    cpu      4000     8000     0        4000          a removed node leaves a hole that the next new node fills

An event changes the rows it affects and notes them in `changes` (and in `node_changes` if the node itself changed): so
a decision knows what it may reuse. An update of nothing that plugins read is no change. Pods on an unknown node wait in
`orphans`, invisible, until the node comes. Observers hear of every pod that comes and goes; they and everything else
derived from the cluster are its indexes (engine/profiles.py).

Selectors are answered for all rows at once, from the label columns; `objects/requirements.py` and
`objects/selectors.py` have the rules for one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tonnage.clock import Clock, VirtualClock
from tonnage.keyed import Shelf
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.requirements import (
    NODE_NAME_FIELD,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    TopologySelectorTerm,
)
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.storage_v1 import CSINode, VolumeAttachment
from tonnage.scheduling.cluster import columns, pod_matching
from tonnage.scheduling.cluster.pod_info import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodInfo, amounts
from tonnage.scheduling.cluster.storage import Storage

_FIRST_CAPACITY = 64
_FIRST_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
_PODS_ID = _FIRST_RESOURCES.index(PODS)
_NO_LABELS: Mapping[str, str] = {}

V = TypeVar("V")


class Observer:
    """Keeps counts by pod. Called after the cluster's own columns have changed."""

    def resident_added(self, info: PodInfo, row: int) -> None: ...

    def resident_removed(self, info: PodInfo, row: int) -> None: ...

    def resident_started(self, info: PodInfo, row: int) -> None:
        """A pod's start became known. Nothing else changed: only preemption reads it."""

    def grown(self, capacity: int) -> None:
        """The columns of the cluster have this length now."""


class Cluster:
    """Everything known about nodes and the pods on them. Single-threaded; nothing changes during a decision."""

    def __init__(self, clock: Clock | None = None) -> None:
        capacity = _FIRST_CAPACITY
        self.clock: Clock = clock or VirtualClock()
        """The time, for holds; the default clock stands still."""
        self.size = 0
        """The number of rows ever used: every question is about rows 0 to size."""
        self.count = 0
        """The number of existing nodes."""
        self.changes = columns.Changes(capacity)
        self.node_changes = columns.Changes(capacity)
        self.exists: columns.Mask = np.zeros(capacity, dtype=np.bool_)
        self.unschedulable: columns.Mask = np.zeros(capacity, dtype=np.bool_)
        self.taint_ids: columns.Ids = np.zeros(capacity, dtype=np.int32)
        self.resources: columns.Interner[str] = columns.Interner()
        for name in _FIRST_RESOURCES:
            self.resources.id_of(name)
        self.allocatable: columns.Ints = np.zeros((len(self.resources), capacity), dtype=np.int64)
        self.requested: columns.Ints = np.zeros((len(self.resources), capacity), dtype=np.int64)
        self.scored_usage: columns.Ints = np.zeros((2, capacity), dtype=np.int64)
        """CPU and memory as scores count them, with assumptions for pods without requests."""
        self.counts_large = False
        """True if some amount or sum was so large that sums and products may exceed 64 bits."""
        self.taints: columns.Interner[tuple[Taint, ...]] = columns.Interner()
        """Sets of taints, without `timeAdded`: it would make every set unique."""
        self.taints.id_of(())
        self.labels = columns.LabelColumns(capacity)
        self.ports = columns.HostPorts()
        self.images = columns.Images()
        self.workloads = pod_matching.Workloads()
        self.namespaces = pod_matching.Namespaces()
        self.nodes: list[Node | None] = []
        self.row_of: dict[str, int] = {}
        self.residents: list[dict[str, PodInfo]] = []
        """By row: the pods there, by uid."""
        self.orphans: Shelf[str, str, PodInfo] = Shelf()
        self._home: dict[str, str] = {}  # uid -> node name, of every pod we hold
        self._free: list[int] = []
        self._observers: list[Observer] = []
        self._indexes: dict[type, Any] = {}
        self.storage = Storage()

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def all_rows(self) -> slice:
        return slice(0, self.size)

    @property
    def capacity(self) -> int:
        """The length of every column; rows from `size` on are blank."""
        return len(self.exists)

    def name(self, row: int) -> str:
        node = self.nodes[row]
        return node.metadata.name if node is not None else ""

    def resource_id(self, name: str) -> int:
        """The row of a resource in `allocatable` and `requested`; an unknown resource gets a new row."""
        found = self.resources.id_of(name)
        if found >= self.allocatable.shape[0]:
            missing = found + 1 - self.allocatable.shape[0]
            blank = np.zeros((missing, self.allocatable.shape[1]), dtype=np.int64)
            self.allocatable = np.vstack((self.allocatable, blank))
            self.requested = np.vstack((self.requested, blank))
        return found

    def node_of(self, uid: str) -> str | None:
        """The node of a pod, bound or assumed."""
        return self._home.get(uid)

    def pods(self) -> Iterator[PodInfo]:
        """Every visible pod."""
        for residents in self.residents:
            yield from residents.values()

    def index(self, kind: type[V]) -> V:
        """The cluster's index of a kind. Raises LookupError if it was not added."""
        try:
            return self._indexes[kind]  # type: ignore[no-any-return]  # by its own type
        except KeyError:
            raise LookupError(f"no {kind.__name__} is kept for this cluster: engine/profiles.py adds them") from None

    def add_index(self, index: object) -> None:
        """Add an index under its type. Raises ValueError if there is one already."""
        if type(index) in self._indexes:
            raise ValueError(f"this cluster has a {type(index).__name__} already")
        self._indexes[type(index)] = index

    def has_index(self, kind: type) -> bool:
        return kind in self._indexes

    def note_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Note rows whose plugin-visible facts changed outside of the cluster, for example in storage."""
        self.changes.note_many(rows)

    def observe(self, observer: Observer) -> None:
        """Call an observer about every pod from now on, first about existing ones."""
        observer.grown(len(self.exists))
        for row, residents in enumerate(self.residents):
            for info in residents.values():
                observer.resident_added(info, row)
        self._observers.append(observer)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """A node came or changed."""
        row = self.row_of.get(node.metadata.name)
        if row is None:
            self._add_node(node)
            return
        before = self.nodes[row]
        self.nodes[row] = node
        if self._write_node(row, before, node):
            self._note_node(row)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pods stay as orphans, because they may outlive it in the API."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        for info in list(self.residents[row].values()):
            self._leave(info, row)
            self.orphans.put(name, info.uid, info)
        before = self.nodes[row]
        self._write_node(row, before, Node())
        self.nodes[row] = None
        self.exists[row] = False
        self.count -= 1
        self._free.append(row)
        self._note_node(row)

    def _add_node(self, node: Node) -> None:
        row = self._free.pop() if self._free else self._new_row()
        name = node.metadata.name
        self.row_of[name] = row
        self.nodes[row] = node
        self.exists[row] = True
        self.count += 1
        self._write_node(row, None, node)
        self._note_node(row)
        for info in self.orphans[name]:
            self.orphans.take(name, info.uid)
            self._enter(info, row)

    def _new_row(self) -> int:
        row = self.size
        if row == len(self.exists):
            self._grow(2 * row)
        self.size += 1
        self.nodes.append(None)
        self.residents.append({})
        return row

    def _grow(self, capacity: int) -> None:
        for name in ("exists", "unschedulable", "taint_ids", "allocatable", "requested", "scored_usage"):
            setattr(self, name, columns.grown(getattr(self, name), capacity))
        for growing in (self.labels, self.changes, self.node_changes):
            growing.grow(capacity)
        for observer in self._observers:
            observer.grown(capacity)

    def _write_node(self, row: int, before: Node | None, after: Node) -> bool:
        """Write a node into its row. Returns True if anything changed."""
        changed = self.labels.replace(row, before.metadata.labels if before else _NO_LABELS, after.metadata.labels)
        if before is None or before.spec.taints != after.spec.taints:
            taints, had = self.taints.hold(timeless(after.spec.taints)), int(self.taint_ids[row])
            self.taint_ids[row] = taints
            changed = changed or taints != had
            if before is not None:  # a blank row holds nothing
                self.taints.release(had)
        if after.spec.unschedulable != self.unschedulable[row]:
            self.unschedulable[row] = after.spec.unschedulable
            changed = True
        if before is None or before.status.allocatable != after.status.allocatable:
            offered = {self.resource_id(name): value for name, value in amounts(after.status.allocatable).items()}
            column = self.allocatable[:, row]
            fresh = np.zeros_like(column)
            fresh[list(offered)] = list(offered.values())
            self.counts_large = self.counts_large or max(offered.values(), default=0) >= columns.LARGE
            changed = changed or not np.array_equal(column, fresh)
            self.allocatable[:, row] = fresh
        if self.images.replace(row, before.status.images if before else (), after.status.images):
            changed = True
        return changed

    # -- pods ---------------------------------------------------------------------------------------------------------

    def put_pod(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on a node, bound or assumed; replaces an earlier version of the same uid."""
        row = self.row_of.get(node_name)
        home = self._home.get(info.uid)
        if home is not None:
            if home == node_name and row is not None and info.counts_like(known := self.residents[row][info.uid]):
                self.residents[row][info.uid] = info
                if info.pod.status.start_time != known.pod.status.start_time:
                    for observer in self._observers:
                        observer.resident_started(info, row)
                return
            self.remove_pod(info.uid)
        self._home[info.uid] = node_name
        if row is None:
            self.orphans.put(node_name, info.uid, info)
        else:
            self._enter(info, row)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod that is gone or has ended; None if it was not known."""
        name = self._home.pop(uid, None)
        if name is None:
            return None
        row = self.row_of.get(name)
        if row is not None:
            info = self.residents[row][uid]
            self._leave(info, row)
            return info
        info = self.orphans.at(name)[uid]
        self.orphans.take(name, uid)
        return info

    def _enter(self, info: PodInfo, row: int) -> None:
        self.residents[row][info.uid] = info
        self._account(info, row, 1)
        self.ports.add(info.host_ports, row)
        for observer in self._observers:
            observer.resident_added(info, row)

    def _leave(self, info: PodInfo, row: int) -> None:
        del self.residents[row][info.uid]
        self._account(info, row, -1)
        self.ports.add(info.host_ports, row, -1)
        for observer in self._observers:
            observer.resident_removed(info, row)

    def _account(self, info: PodInfo, row: int, sign: int) -> None:
        for name, value in info.requests.items():
            number = self.resource_id(name)  # may add a resource and replace the columns: call it first
            before = self.requested.item(number, row)
            total = before + sign * value
            if total >= columns.LARGE or before >= columns.LARGE:
                total = self._large_total([pod.requests.get(name, 0) for pod in self.residents[row].values()])
            self.requested[number, row] = total
        self.requested[_PODS_ID, row] += sign
        for place, usage in enumerate(info.scored_usage):
            before = self.scored_usage.item(place, row)
            total = before + sign * usage
            if total >= columns.LARGE or before >= columns.LARGE:
                total = self._large_total([pod.scored_usage[place] for pod in self.residents[row].values()])
            self.scored_usage[place, row] = total
        self.changes.note(row)

    def _large_total(self, of_residents: Iterable[int]) -> int:
        """A sum cut at 64 bits: an overflow would make the fullest node the emptiest."""
        self.counts_large = True
        return min(sum(of_residents), columns.MOST)

    def _note_node(self, row: int) -> None:
        self.node_changes.note(row)
        self.changes.note(row)


def timeless(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Taints as plugins read them, without `timeAdded`."""
    if all(taint.time_added is None for taint in taints):
        return taints
    return tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints)


def place(cluster: Cluster, pod: Pod) -> None:
    """Apply an assigned pod's event: count it, unless it has ended."""
    info = PodInfo(pod)
    if pod.is_terminal:
        cluster.remove_pod(info.uid)
    else:
        cluster.put_pod(info, pod.spec.node_name)


_NO_ROWS = slice(0, 0)


def row_about(cluster: Cluster, changed: Any) -> columns.Rows | None:
    """The row of the node that a changed object is about: a node, its CSINode, an attachment, a pod there or nominated.
    No row if the node is unknown; None if the object is about no node."""
    if isinstance(changed, Node | CSINode):
        name = changed.metadata.name
    elif isinstance(changed, VolumeAttachment):
        name = changed.spec.node_name
    elif isinstance(changed, Pod):
        name = changed.spec.node_name or changed.status.nominated_node_name
    else:
        return None
    row = cluster.row_of.get(name, -1)
    return slice(row, row + 1) if row >= 0 else _NO_ROWS


def matching(cluster: Cluster, selector: NodeSelector, rows: columns.Rows) -> columns.Mask:
    """A mask over `rows`: True if any term of the node selector matches; without terms False."""
    found: columns.Mask = np.zeros(columns.row_count(rows), dtype=np.bool_)
    for term in selector.node_selector_terms:
        found |= term_matching(cluster, term, rows)
    return found


def term_matching(cluster: Cluster, term: NodeSelectorTerm, rows: columns.Rows) -> columns.Mask:
    """A mask over `rows`: True if all requirements of the term match; False for an empty term."""
    found: columns.Mask = np.full(columns.row_count(rows), bool(term.match_expressions or term.match_fields))
    for requirement in term.match_expressions:
        found &= cluster.labels.meets(requirement, rows)
    for requirement in term.match_fields:
        found &= _names_match(cluster, requirement, rows)
    return found


def _names_match(cluster: Cluster, requirement: Requirement, rows: columns.Rows) -> columns.Mask:
    """A field In or NotIn exactly one value; fields other than `metadata.name` count as empty, like upstream."""
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return np.zeros(columns.row_count(rows), dtype=np.bool_)
    if requirement.key != NODE_NAME_FIELD:
        return np.full(columns.row_count(rows), requirement.holds(""))
    is_named: columns.Mask = columns.row_numbers(rows) == cluster.row_of.get(requirement.values[0], -1)
    return is_named if requirement.operator == "In" else ~is_named


def selected(cluster: Cluster, selector: LabelSelector, rows: columns.Rows) -> columns.Mask:
    """A mask over `rows`: True if the label selector matches; an empty one matches all, an invalid one none."""
    found: columns.Mask = np.ones(columns.row_count(rows), dtype=np.bool_)
    for requirement in selector.requirements():
        found &= cluster.labels.meets(requirement, rows)
    return found


def in_topology(cluster: Cluster, terms: tuple[TopologySelectorTerm, ...], rows: columns.Rows) -> columns.Mask:
    """A mask over `rows`: True where a class with these `allowedTopologies` may create volumes; any term is enough."""
    if not terms:
        return np.ones(columns.row_count(rows), dtype=np.bool_)
    found: columns.Mask = np.zeros(columns.row_count(rows), dtype=np.bool_)
    for term in terms:
        of_term: columns.Mask = np.full(columns.row_count(rows), bool(term.match_label_expressions))
        for each in term.match_label_expressions:
            # In without values is invalid and matches no node, which is right here too.
            of_term &= cluster.labels.meets(Requirement(key=each.key, operator="In", values=each.values), rows)
        found |= of_term
    return found
