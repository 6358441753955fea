"""A cluster that a dashboard shows, filled by a test instead of by informers."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.dashboard.model.known_objects import DriverContents
from tonnage.dashboard.model.shown_cluster import ShownCluster
from tonnage.faults import Fault
from tonnage.objects.meta import Object


class FilledCluster(ShownCluster):
    def put(self, *objects: Object) -> None:
        self.model.tick(self.clock.now())
        for each in objects:
            self.model.put(each)
        self.settle()

    def remove(self, *objects: Object) -> None:
        self.model.tick(self.clock.now())
        for each in objects:
            self.model.remove(each)
        self.settle()

    def suffer(self, faults: Sequence[Fault]) -> None:
        self.model.suffer(faults)
        self.settle()

    def look_into(self, contents: DriverContents) -> None:
        self.model.look_into(contents)
        self.settle()
