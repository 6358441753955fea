"""A cluster that a dashboard shows, filled by a test instead of by informers."""

from __future__ import annotations

from tonnage.dashboard.model.shown_cluster import ShownCluster
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
