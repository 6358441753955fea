"""How many volumes each driver may attach to each node, as the CSINodes say, in columns.

    driver csi.example     row  0     1     2              the CSINode of
                limits     [    3, none,    0 ]            row 1 names the driver without a count: no limit
             installed     [    T,    T,    T ]            row 2 has a count of 0, which is a limit

No count, no entry for the driver and no CSINode are all "no limit". Whether the driver is there at all matters only to
drivers that want no pods before it is (`preventPodSchedulingIfMissing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tonnage.objects.storage_v1 import CSINode
from tonnage.scheduling.cluster.columns import Ints, Mask, grown

NO_LIMIT: Final = 1 << 62
"""In a column of limits: more than anybody can attach."""

_Told = tuple[tuple[str, int | None], ...]


class AttachLimits:
    """Columns by driver, written row by row."""

    def __init__(self) -> None:
        self._capacity = 0
        self._limits: dict[str, Ints] = {}
        self._installed: dict[str, Mask] = {}
        self._told: dict[int, _Told] = {}  # by row that has a CSINode: its drivers and their counts
        self._limited: dict[str, int] = {}  # rows with a limit, by driver
        self.has_csi_node: Mask = np.zeros(0, dtype=np.bool_)

    def grow(self, capacity: int) -> None:
        self._limits = {driver: self._no_limits(capacity, column) for driver, column in self._limits.items()}
        self._installed = {driver: grown(column, capacity) for driver, column in self._installed.items()}
        self.has_csi_node = grown(self.has_csi_node, capacity)
        self._capacity = capacity

    def write(self, row: int, csi_node: CSINode | None) -> bool:
        """Take over what a row's CSINode says; None for a row that has none. Tells whether anything changed."""
        before = self._told.get(row)
        after = (
            None if csi_node is None else tuple((each.name, each.allocatable.count) for each in csi_node.spec.drivers)
        )
        if before == after:
            return False
        for driver, limit in before or ():
            self._installed[driver][row] = False
            if limit is not None:
                self._limits[driver][row] = NO_LIMIT
                self._limited[driver] -= 1
        for driver, limit in after or ():
            self._installed.setdefault(driver, np.zeros(self._capacity, dtype=np.bool_))[row] = True
            if limit is not None:
                self.limits(driver)[row] = limit
                self._limited[driver] = self._limited.get(driver, 0) + 1
        self.has_csi_node[row] = after is not None
        if after is None:
            del self._told[row]
        else:
            self._told[row] = after
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

    def by_driver(self) -> Mapping[str, Ints]:
        """`limits` of every driver that has or had a limit anywhere, or was asked about."""
        return self._limits

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
