"""One class per driver or data format, on the base of `pools/class_pools.py`."""

from __future__ import annotations

from typing import Final

from tonnage.pools.class_pools import PoolSource
from tonnage.pools.sources.directpv import DirectPv
from tonnage.pools.sources.hwameistor import HwameiStor
from tonnage.pools.sources.longhorn import Longhorn
from tonnage.pools.sources.openebs import OpenEbsLvm, OpenEbsZfs
from tonnage.pools.sources.topolvm import TopoLvm

OF_DRIVERS: Final[tuple[PoolSource, ...]] = (
    OpenEbsLvm(), OpenEbsZfs(), TopoLvm(), Longhorn(), DirectPv(), HwameiStor(),
)  # fmt: skip
"""Sources that know their driver."""


def source_of(driver: str) -> PoolSource | None:
    return next((source for source in OF_DRIVERS if driver in source.drivers), None)
