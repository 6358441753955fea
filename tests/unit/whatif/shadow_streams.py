"""Watches of a shadow on virtual time, each as far as the test says: one may be back before another."""

from __future__ import annotations

from typing import Any

from shadow_feed import Feed

from tonnage.client.informer import StreamProgress
from tonnage.objects.meta import Object
from tonnage.whatif.shadow.revision_order import LOOK_EVERY_S, RevisionOrder


class Streams:
    """A shadow behind one watch for each name; versions are those that the test gives."""

    def __init__(self, *names: str, start: tuple[Object, ...] = (), version: int = 100) -> None:
        self.feed = Feed(*start)
        self.now_s = 0.0
        self.order = RevisionOrder(self.now_s)
        self.watches = {name: StreamProgress() for name in names}
        self._known: dict[tuple[type[Object], str], Object] = dict(self.feed._known)
        for watch in self.watches.values():
            watch.fetched(version, rewound=False)
            watch.came_to(version)
            watch.opened(self.now_s)
            watch.has_spoken = True
        self.order.open(list(self.watches.values()))

    def tell(self, name: str, version: int, new: Object) -> None:
        """A watch tells of an object that came or changed."""
        watch = self.watches[name]
        watch.telling, watch.has_spoken = version, True
        self._put(watch, new)
        watch.came_to(version)

    def fetch(self, name: str, version: int, *objects: Object) -> None:
        """A watch had to fetch the state: these are what is different."""
        watch = self.watches[name]
        watch.fetched(version, rewound=0 < version < watch.reached)
        for each in objects:
            self._put(watch, each)
        watch.reached = version
        watch.opened(self.now_s)

    def _put(self, watch: StreamProgress, new: Object) -> None:
        old = self._known.get((type(new), new.key))
        self._known[type(new), new.key] = new
        shadow = self.feed.shadow
        self.order.put(
            watch,
            lambda is_judged: shadow.changed(old, new, is_judged=is_judged),
            lambda: shadow.is_lacking(old, new),
        )

    def cut(self, *names: str) -> None:
        for name in names:
            self.watches[name].closed()

    def reopen(self, *names: str) -> None:
        for name in names:
            self.watches[name].opened(self.now_s)

    def bookmark(self, version: int, *names: str) -> None:
        for name in names or self.watches:
            self.watches[name].came_to(version)
            self.watches[name].has_spoken = True

    def wait(self, for_s: float) -> None:
        for _ in range(round(for_s / LOOK_EVERY_S) + 2):
            self.now_s += LOOK_EVERY_S
            self.order.look(self.now_s)

    def told(self) -> dict[str, Any]:
        return self.feed.document()

    def counts(self) -> tuple[int, int, int]:
        """(agreed, differing, unseen)"""
        tally = self.feed.tally
        return tally.agreed, tally.differing, tally.unseen
