"""Watches of a shadow on virtual time, each as far as the test says: one may be back before another."""

from __future__ import annotations

from typing import Any

from shadow_feed import Feed

from tonnage.client.informer import StreamProgress
from tonnage.objects.meta import Object
from tonnage.whatif.shadow.follow import LOOK_EVERY_S, RevisionOrder


class Streams:
    """A shadow behind one watch for each name; versions are those that the test gives."""

    def __init__(self, *names: str, start: tuple[Object, ...] = (), version: int = 100) -> None:
        self.feed = Feed(*start)
        self.now_s = 0.0
        self.order = RevisionOrder(self.now_s)
        self.watches = {name: StreamProgress() for name in names}
        self._known: dict[tuple[type[Object], str], Object] = dict(self.feed._known)
        for watch in self.watches.values():
            watch.gap, watch.telling, watch.reached = (0, version), version, version
            watch.open_since_s, watch.has_spoken = self.now_s, True
        self.order.open(list(self.watches.values()))

    def tell(self, name: str, version: int, new: Object) -> None:
        """A watch tells of an object that came or changed."""
        watch = self.watches[name]
        watch.telling, watch.has_spoken = version, True
        self._put(watch, new)
        watch.reached = version or watch.reached

    def fetch(self, name: str, version: int, *objects: Object) -> None:
        """A watch had to fetch the state: these are what is different."""
        watch = self.watches[name]
        rewound = 0 < version < watch.reached
        watch.gap, watch.telling = (0 if rewound else watch.reached, version), version
        for each in objects:
            self._put(watch, each)
        watch.reached = version
        watch.open_since_s, watch.has_spoken = self.now_s, False

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
            self.watches[name].open_since_s = None

    def reopen(self, *names: str) -> None:
        for name in names:
            self.watches[name].open_since_s, self.watches[name].has_spoken = self.now_s, False

    def bookmark(self, version: int, *names: str) -> None:
        for name in names or self.watches:
            self.watches[name].reached = version or self.watches[name].reached
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
