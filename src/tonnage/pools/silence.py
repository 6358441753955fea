"""Since when nobody keeps true what is told about a node: its pools are marked, and after a while taken away.

the driver is no longer registered on the node     CSINode; where the cluster has none for the node, it may be
the source's objects cannot be followed            for longer than streams break and come back
the source says so itself                          a program that is asked, and fails
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tonnage.client.cache import Cache
from tonnage.client.informer import Informer
from tonnage.clock import Clock, StampAges
from tonnage.objects.meta import Document
from tonnage.objects.storage_v1 import CSINode
from tonnage.pools.class_pools import PoolSource
from tonnage.pools.settings import PoolsSettings


class Silence:
    """What is known of a source's life."""

    def __init__(
        self, settings: PoolsSettings, *, csi_nodes: Cache[CSINode], objects: Cache[Document] | None, clock: Clock
    ) -> None:
        self._settings = settings
        self._csi_nodes = csi_nodes
        self._objects = objects
        self._clock = clock
        self._ages = StampAges(clock, most=1000)
        self._silent_since: dict[str, datetime] = {}
        """Nodes on which the driver's own program is gone."""

    def since(self, node: str, source: PoolSource) -> datetime | None:
        """Since when it has been silent about a node; None: it is not."""
        if self._has_agent(node, source):
            self._silent_since.pop(node, None)
        else:
            self._silent_since.setdefault(node, self._clock.now())
        times = [self._silent_since.get(node), self._out_of_step_since(), source.silent_since]
        return min((each for each in times if each is not None), default=None)

    def left_s(self, since: datetime) -> float:
        """How long what it told is still kept."""
        return self._settings.drop_after_s - self._ages.age_s(since, since)

    def forget(self, node: str) -> None:
        self._silent_since.pop(node, None)

    def _has_agent(self, node: str, source: PoolSource) -> bool:
        found = self._csi_nodes.get(node)
        if found is None or not source.has_agent:
            return True
        return any(found.driver(driver) is not None for driver in self._settings.drivers)

    def _out_of_step_since(self) -> datetime | None:
        if not isinstance(self._objects, Informer) or self._objects.out_of_step_since_s is None:
            return None
        silent_s = self._clock.monotonic() - self._objects.out_of_step_since_s
        return self._clock.now() - timedelta(seconds=silent_s) if silent_s > self._settings.drop_after_s / 2 else None
