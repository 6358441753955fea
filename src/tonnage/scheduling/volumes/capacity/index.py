"""Which capacity objects reach which nodes: an index from class and row to objects, kept up to date.

An object's `nodeTopology` is matched when the object comes or its topology changes. A node that comes or changes labels
finds its objects through the labels that they require.

    class "fast"     objects   0: node-1's    1: node-2's    2: the zone's      (figures: reading.py)
    rows             node-1  node-2  node-3
    layers[0]        0       1       2          by row, the first object that reaches it, in order of their keys
    layers[1]        2       2       -          by row, the second; without overlaps there is one layer

An object without `nodeTopology` reaches no node, one with an empty selector all nodes. All namespaces count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from tonnage.keyed import Shelf
from tonnage.objects.meta import Key
from tonnage.objects.requirements import InvalidSelector
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.size_rules import rules_of
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.cluster import Cluster, selected
from tonnage.scheduling.cluster.columns import row_numbers
from tonnage.scheduling.volumes.capacity import pools
from tonnage.scheduling.volumes.capacity.class_capacity import (
    NO_ROWS,
    NOTHING,
    CapacityEntry,
    ClassCapacity,
    JointCapacity,
    class_names_in,
    identity,
)
from tonnage.scheduling.volumes.capacity.groups import CapacityGroups
from tonnage.scheduling.volumes.packing import pool_fits, pool_policies

_Anchor = tuple[str, str]


class CapacityIndex:
    """The capacity objects of a cluster, by class and row. Get it with `cluster.index(CapacityIndex)`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.search = pool_fits.SearchBudget()
        """The search steps of one decision over all objects; a new decision renews it."""
        self._classes: dict[str, ClassCapacity] = {}
        self._entries: dict[str, CapacityEntry] = {}
        """By `identity`."""
        self.groups = CapacityGroups(cluster.storage)
        """Which classes share their pools."""
        self._warned: set[tuple[str, str]] = set()
        self.groups.on_change.append(self._policies_changed)
        self._joint: dict[str, JointCapacity] = {}
        """Joined objects of several classes of a group, by `joint_name`: made when asked for, forgotten when objects
        come, go or reach other nodes."""
        self._anchored: Shelf[_Anchor, Key, CapacityEntry] = Shelf()
        """Objects by a label that a node must have to be reached. Objects that require no label are under ""."""
        self._seen = cluster.node_changes.tick
        for capacity in cluster.storage.capacities.values():
            self._changed(None, capacity)
        cluster.storage.on_change(CSIStorageCapacity, self._changed)
        for driver in cluster.storage.drivers.values():
            pools.warn_of_rules(driver, self._warned)
        for of_class in cluster.storage.classes.values():
            pools.warn_of_rules(of_class, self._warned)
        cluster.storage.on_change(StorageClass, self._rules_changed)
        cluster.storage.on_change(CSIDriver, self._rules_changed)

    # -- asking -------------------------------------------------------------------------------------------------------

    def of(self, class_name: str) -> ClassCapacity:
        """The objects of a class, or the joined objects of a `joint_name`. Follows changed nodes first."""
        if self._seen != self._cluster.node_changes.tick:
            self._follow_nodes()
        found = self._classes.get(class_name)
        if found is None:
            if len(class_names_in(class_name)) > 1:
                return self._joint_of(class_name)
            found = self._classes[class_name] = ClassCapacity(self._cluster, self.search, self.policy_of([class_name]))
        return found

    def _joint_of(self, name: str) -> JointCapacity:
        if name not in self._joint:
            names = class_names_in(name)
            parts = [self.of(class_name) for class_name in names]
            self._joint[name] = JointCapacity(self._cluster, parts, self.search, self.policy_of(names))
        return self._joint[name]

    def policy_of(self, class_names: Iterable[str]) -> pool_policies.PoolPolicy:
        """The pool policy of these classes and all classes of their capacity groups; UNKNOWN if they differ."""
        classes, drivers = self._cluster.storage.classes, self._cluster.storage.drivers
        sharing = [classes.get(each) for name in class_names for each in self.groups.grouped_with(name)]
        found = {pools.pool_policy_of(each, drivers.get(each.provisioner) if each else None) for each in sharing}
        return found.pop() if len(found) == 1 else pool_policies.PoolPolicy.UNKNOWN

    def objects_at(self, class_name: str, node_name: str) -> tuple[CSIStorageCapacity, ...]:
        """The objects of a class that reach a node, in order of their keys; empty if the node does not exist."""
        row = self._cluster.row_of.get(node_name)
        if row is None:
            return ()
        class_capacity = self.of(class_name)
        return tuple(class_capacity.entries[number].capacity for number in class_capacity.numbers_at(row))

    def object_of(self, uid: str) -> CSIStorageCapacity | None:
        """The object with this `identity`."""
        entry = self._entries.get(uid)
        return entry.capacity if entry is not None else None

    def rows_of(self, key: Key) -> npt.NDArray[np.intp]:
        """The rows that an object reaches, after following changed nodes; empty if the object does not exist."""
        capacity = self._cluster.storage.capacities.get(key)
        entry = self._entries.get(identity(capacity)) if capacity is not None else None
        if entry is None:
            return NO_ROWS
        self.of(entry.class_name)  # follows the nodes
        return entry.rows

    def held_differs(self, uid: str) -> None:
        """An object's holds changed: read them, and have cached decisions for its rows checked again."""
        entry = self._entries.get(uid)
        if entry is not None:
            self._read_again(entry, holds_only=True)

    def _connected(self, entry: CapacityEntry) -> list[CapacityEntry]:
        """The entry, and those of objects that are connected with it by the ids of their pools."""
        if not self.groups.ids.links:
            return [entry]
        uids = (identity(capacity) for capacity in self.groups.ids.connected(entry.capacity))
        others = [self._entries[uid] for uid in uids if uid in self._entries]
        return [entry, *(each for each in others if each is not entry and each.number != NOTHING)]

    # -- objects that change ------------------------------------------------------------------------------------------

    def _changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        entry = self._entries.get(identity(old)) if old is not None else None
        if entry is not None and (new is None or pools.is_elsewhere(entry.capacity, new)):
            self._drop(entry)
            entry = None
        if new is not None and entry is None:
            self._add(new)
        elif new is not None and entry is not None:
            entry.capacity = new
            self._read_again(entry)
        self._read_touched()

    def _read_touched(self) -> None:
        """Read objects again whose pools have become, or are no longer, those of others too."""
        if touched := self.groups.ids.touched:
            known = [self._cluster.storage.capacities.get(key) for key in touched]
            touched.clear()
            for capacity in known:
                entry = self._entries.get(identity(capacity)) if capacity is not None else None
                if entry is not None:
                    self._read_again(entry)

    def _read_again(self, entry: CapacityEntry, *, holds_only: bool = False) -> None:
        for each in self._connected(entry):
            of_class = self._classes[each.class_name]
            (of_class.read_holds if holds_only else of_class.rewrite)(each)
            for joint in self._joint.values():
                joint.member_changed(each.capacity)
            self._cluster.note_rows(each.rows)

    def _add(self, new: CSIStorageCapacity) -> None:
        of_class = self.of(new.storage_class_name)  # follow the nodes: they must not meet an entry without a number
        entry = CapacityEntry(new, self.rows_reached(new))
        self._entries[identity(new)] = entry
        for anchor in _anchors(new.node_topology):
            self._anchored.put(anchor, new.key, entry)
        of_class.add(entry)
        self._joint.clear()
        self._read_again(entry)

    def _drop(self, entry: CapacityEntry) -> None:
        del self._entries[identity(entry.capacity)]
        for anchor in _anchors(entry.capacity.node_topology):
            self._anchored.take(anchor, entry.capacity.key)
        self._classes[entry.class_name].drop(entry)
        self._joint.clear()
        self._cluster.note_rows(entry.rows)

    def _rules_changed(self, old: StorageClass | CSIDriver | None, new: StorageClass | CSIDriver | None) -> None:
        if new is not None:
            pools.warn_of_rules(new, self._warned)
        changed = {name for name, each in self._classes.items() if each.pool_policy is not self.policy_of([name])}
        if isinstance(new, StorageClass) and rules_of(new) != rules_of(old if isinstance(old, StorageClass) else None):
            changed.add(new.name)  # its claims are judged again, too
        self._policies_changed(changed)
        self._read_touched()

    def _policies_changed(self, class_names: Collection[str]) -> None:
        """The rules of these classes changed: judge their objects again."""
        if class_names:
            self._joint.clear()
        for name in {each for changed in class_names for each in self.groups.classes_with(changed)}:
            of_class = self._classes.get(name)
            if of_class is not None:
                of_class.choose_by(self.policy_of([name]))
                for entry in of_class.live():
                    self._read_again(entry)

    def rows_reached(self, capacity: CSIStorageCapacity) -> npt.NDArray[np.intp]:
        """The rows of the nodes in an object's topology; the object need not be in the index."""
        if capacity.node_topology is None:
            return NO_ROWS
        cluster = self._cluster
        reached = selected(cluster, capacity.node_topology, cluster.all_rows) & cluster.exists[: cluster.size]
        return np.flatnonzero(reached)

    # -- nodes that change --------------------------------------------------------------------------------------------

    def _follow_nodes(self) -> None:
        """Update the rows of nodes that changed since the last call."""
        cluster = self._cluster
        changed = cluster.node_changes.since(self._seen, cluster.size)
        self._seen = cluster.node_changes.tick
        if isinstance(changed, slice) and changed.stop - changed.start == cluster.size > 1:
            for entry in self._entries.values():
                entry.rows = self.rows_reached(entry.capacity)
            for class_capacity in self._classes.values():
                class_capacity.rebuild()
            self._joint.clear()
            return
        for row in row_numbers(changed).tolist():
            node = cluster.nodes[row]
            reaching = set(self._reaching(node.metadata.labels)) if node is not None else set()
            is_changed = [class_capacity.set_row(row, reaching) for class_capacity in self._classes.values()]
            if any(is_changed):
                self._joint.clear()

    def _reaching(self, labels: Mapping[str, str]) -> Iterator[CapacityEntry]:
        for anchor in (("", ""), *labels.items()):
            for entry in self._anchored[anchor]:
                topology = entry.capacity.node_topology
                with suppress(InvalidSelector):
                    if topology is not None and topology.matches(labels):
                        yield entry


def _anchors(topology: LabelSelector | None) -> tuple[_Anchor, ...]:
    """Labels of which a node must have at least one to be selected; one empty anchor if the selector requires none."""
    if topology is None:
        return ()
    for key, value in topology.match_labels.items():
        return ((key, value),)
    for requirement in topology.match_expressions:
        if requirement.operator == "In" and requirement.values:
            return tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
    return (("", ""),)
