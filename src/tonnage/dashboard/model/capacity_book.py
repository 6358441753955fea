"""Capacity objects with what depends on more than one object: whom each reaches, and whether its figures follow.

Kept between settles, so that a change costs what it touches: the nodes that each object reaches, the objects of each
node, which objects lag behind the volumes made there, and when the clock alone may change that.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from tonnage.dashboard.model import capacity_rows, stale_figures
from tonnage.dashboard.model.known_objects import Index, KnownObjects
from tonnage.dashboard.wire.rows import CapacityRow
from tonnage.faults import Fault
from tonnage.objects.core_v1 import PersistentVolume
from tonnage.objects.meta import Key
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.whatif.scheduler_memory import RememberedCapacity


class CapacityBook:
    """`volumes_on` gives the volumes that lie on a node, as rows have it."""

    def __init__(self, objects: KnownObjects, volumes_on: Callable[[str], Iterable[PersistentVolume]]) -> None:
        self._objects = objects
        self._volumes_on = volumes_on
        self.held: dict[Key, list[RememberedCapacity]] = {}
        self.faults: Sequence[Fault] = ()
        self.of_node = Index()
        """Objects by node that they reach; those that reach many nodes are not listed."""
        self._reach: dict[Key, Sequence[str]] = {}
        self._missing: dict[Key, list[PersistentVolume]] = {}
        self._lagging: dict[str, set[Key]] = {}
        self._following: dict[str, set[Key]] = {}
        self._driver: dict[Key, str] = {}
        self._later: list[tuple[datetime, Key]] = []

    def due(self, now: datetime) -> set[Key]:
        """Objects that are to be judged anew because time has passed."""
        found = set()
        while self._later and self._later[0][0] <= now:
            found.add(heapq.heappop(self._later)[1])
        return found

    def look_at(self, keys: Iterable[Key], now: datetime) -> set[Key]:
        """Take these objects as they are now; gives them and those whose rows change with them."""
        touched = set(keys)
        for key in tuple(touched):
            before = self._driver.get(key, "")
            were = {driver: bool(self._following.get(driver)) for driver in (before,)}
            self._forget(key)
            found = self._objects.capacities.get(key)
            if found is not None:
                driver = stale_figures.driver_of(self._objects, found)
                were.setdefault(driver, bool(self._following.get(driver)))
                self._note(found, driver, now)
            for driver, followed in were.items():
                if followed != bool(self._following.get(driver)):
                    touched |= self._lagging.get(driver, set())
        return touched

    def row_of(self, key: Key, now: datetime) -> CapacityRow | None:
        """The row of an object that was looked at."""
        found = self._objects.capacities.get(key)
        if found is None:
            return None
        nodes = self._reach[key]
        stale = stale_figures.why_stale(self._objects, found, nodes[: capacity_rows.MOST_NODES], self.faults, now)
        missing = self._missing.get(key)
        if not stale and missing and self._following.get(self._driver[key]):
            stale = stale_figures.lagging(missing)
        held = [(each, self._other_class(each, found)) for each in self.held.get(key, ())]
        return capacity_rows.row_of(found, nodes, held, stale)

    def _other_class(self, held: RememberedCapacity, capacity: CSIStorageCapacity) -> str:
        """The class that something is kept back for, where that is not the object's own.

        The scheduler tells what it keeps back object by object: of classes that share their pools, every one is charged
        until its own figures are told anew.
        """
        classes = capacity_rows.classes_of(self._objects, held)
        return "" if not classes or capacity.storage_class_name in classes else min(classes)

    def _forget(self, key: Key) -> None:
        for node in self._reach.pop(key, ())[: capacity_rows.MOST_NODES]:
            self.of_node.mark(node, key, is_there=False)
        self._missing.pop(key, None)
        driver = self._driver.pop(key, "")
        self._lagging.get(driver, set()).discard(key)
        self._following.get(driver, set()).discard(key)

    def _note(self, capacity: CSIStorageCapacity, driver: str, now: datetime) -> None:
        key = capacity.key
        nodes = self._reach[key] = capacity_rows.reached(self._objects, capacity.node_topology)
        self._driver[key] = driver
        if len(nodes) > capacity_rows.MOST_NODES:
            return
        for node in nodes:
            self.of_node.mark(node, key, is_there=True)
        class_name = capacity.storage_class_name
        volumes = [each for node in nodes for each in self._volumes_on(node) if each.class_name == class_name]
        if volumes and capacity.metadata.updated_at is not None:
            missing = stale_figures.unseen(capacity, volumes, now)
            if missing:
                self._missing[key] = missing
            (self._lagging if missing else self._following).setdefault(driver, set()).add(key)
        at = stale_figures.changes_at(capacity, volumes, now)
        if at is not None:
            heapq.heappush(self._later, (at, key))
