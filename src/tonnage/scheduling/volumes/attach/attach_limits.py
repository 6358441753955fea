"""How many volumes each driver may attach to each node, as the CSINodes say, in columns.

No count, no entry for the driver and no CSINode all mean "no limit"; a count of 0 is a limit. The limits of a deleted
CSINode are remembered until a CSINode of the node names the driver again or the node goes (upstream reads a missing
CSINode as no limit). An entry that goes from a CSINode which stays takes its limit along, as upstream has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tonnage.objects.storage_v1 import CSINode
from tonnage.scheduling.cluster.columns import Ints, Mask, grown

NO_LIMIT: Final = 1 << 62
"""In a column of limits: more than anybody can attach."""

_Told = tuple[tuple[str, int | None, bool], ...]
"""Drivers, their counts, and whether a CSINode names them now; if none does, the count is remembered."""


class AttachLimits:
    """Columns by driver, written row by row."""

    def __init__(self) -> None:
        self._capacity = 0
        self._limits: dict[str, Ints] = {}
        self._installed: dict[str, Mask] = {}
        self._told: dict[int, _Told] = {}  # by row that has a CSINode, or had one
        self._uids: dict[int, str] = {}  # by row: the CSINode that was read last
        self._limited: dict[str, int] = {}  # rows with a limit, by driver
        self.has_csi_node: Mask = np.zeros(0, dtype=np.bool_)

    def grow(self, capacity: int) -> None:
        self._limits = {driver: self._no_limits(capacity, column) for driver, column in self._limits.items()}
        self._installed = {driver: grown(column, capacity) for driver, column in self._installed.items()}
        self.has_csi_node = grown(self.has_csi_node, capacity)
        self._capacity = capacity

    def write(self, row: int, csi_node: CSINode | None) -> bool:
        """Take over what a row's CSINode says; None for a row that has none. Tells whether anything changed."""
        before = self._told.get(row, ())
        after = self._remembered(row, csi_node, before)
        if csi_node is not None:
            after = (*[(each.name, each.allocatable.count, True) for each in csi_node.spec.drivers], *after)
            self._uids[row] = csi_node.uid
        return self._replace(row, before, after, has_csi_node=csi_node is not None)

    def forget(self, row: int) -> bool:
        """The row's node is another one, or none. Tells whether anything changed."""
        self._uids.pop(row, None)
        return self._replace(row, self._told.get(row, ()), (), has_csi_node=False)

    def _remembered(self, row: int, csi_node: CSINode | None, before: _Told) -> _Told:
        """The limits of drivers that the CSINode does not name, unless it did so until now and was only changed."""
        named = {each.name for each in csi_node.spec.drivers} if csi_node is not None else set()
        is_same = csi_node is not None and self._uids.get(row) == csi_node.uid
        return tuple(
            [
                (driver, limit, False)
                for driver, limit, was_named in before
                if limit is not None and driver not in named and not (is_same and was_named)
            ]
        )

    def _replace(self, row: int, before: _Told, after: _Told, *, has_csi_node: bool) -> bool:
        if before == after and self.has_csi_node.item(row) is has_csi_node:
            return False
        for driver, limit, was_named in before:
            if was_named:
                self._installed[driver][row] = False
            if limit is not None:
                self._limits[driver][row] = NO_LIMIT
                self._limited[driver] -= 1
        for driver, limit, is_named in after:
            if is_named:
                self._installed.setdefault(driver, np.zeros(self._capacity, dtype=np.bool_))[row] = True
            if limit is not None:
                self.limits(driver)[row] = limit
                self._limited[driver] = self._limited.get(driver, 0) + 1
        self.has_csi_node[row] = has_csi_node
        self._told[row] = after
        if not after:
            del self._told[row]
        return True

    def is_limited(self, driver: str) -> bool:
        """Some node has a limit for it."""
        return self._limited.get(driver, 0) > 0

    def limited_drivers(self) -> list[str]:
        """The drivers that some node has a limit for, by name."""
        return sorted(driver for driver, rows in self._limited.items() if rows)

    def limits(self, driver: str) -> Ints:
        """By row, how many volumes of a driver may be attached; `NO_LIMIT` where nobody says."""
        found = self._limits.get(driver)
        if found is None:
            found = self._limits[driver] = self._no_limits(self._capacity)
        return found

    def installed(self, driver: str) -> Mask:
        """By row, whether the driver is on the node."""
        found = self._installed.get(driver)
        return np.zeros(self._capacity, dtype=np.bool_) if found is None else found

    @staticmethod
    def _no_limits(capacity: int, known: Ints | None = None) -> Ints:
        made = np.full(capacity, NO_LIMIT, dtype=np.int64)
        if known is not None:
            made[: len(known)] = known
        return made
