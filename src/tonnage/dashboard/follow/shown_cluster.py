"""A cluster that is shown, wherever its objects come from: its rows, and its objects for questions.

Live clusters are filled by informers (`live_cluster.py`); tests, and whoever plays a file, put objects in themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.clock import Clock
from tonnage.dashboard.model.cluster_model import ClusterModel
from tonnage.dashboard.wire.collections import Collections
from tonnage.objects.meta import Object
from tonnage.whatif.scheduler_memory import SchedulerMemory
from tonnage.whatif.sources import ClusterState


class ShownCluster:
    """Rows of a cluster (`collections`), how they are made (`model`), and the state that questions are asked of."""

    asks_scheduler = False

    def __init__(self, *, clock: Clock, source: str = "the objects") -> None:
        self.clock = clock
        self.source = source
        self.collections = Collections()
        self.model = ClusterModel(self.collections)

    def put(self, *objects: Object) -> None:
        """Add objects, or change them, and settle."""
        for each in objects:
            self.model.put(each)
        self.model.settle()

    def remove(self, *objects: Object) -> None:
        for each in objects:
            self.model.remove(each)
        self.model.settle()

    def objects(self) -> Iterable[Object]:
        """Every object that decisions read, as it is known now."""
        return self.model.objects

    async def memory(self) -> SchedulerMemory | None:
        """What the scheduler knows now; None where there is none to ask."""
        return None

    async def state(self) -> ClusterState:
        """The cluster as it is now, for what-if questions. Nobody waits between the objects of one state."""
        memory = await self.memory()
        return ClusterState(list(self.objects()), self.source, self.clock, memory=memory)
