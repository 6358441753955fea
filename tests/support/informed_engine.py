"""An engine that is told of objects as an informer tells a scheduler: what is new, what changed, what is gone.

class Play(InformedEngine):
    def __init__(self):
        super().__init__()
        self.engine = Engine(...)
        self.put(storage_class(), node("a"))
        self.engine.open()
"""

from __future__ import annotations

from typing import Any

from tonnage.objects.meta import Key, Object
from tonnage.scheduling.engine.engine import Engine


class InformedEngine:
    """`objects` are those that exist, by kind and key; `engine`, which is whoever's who plays, has heard of them."""

    engine: Engine

    def __init__(self) -> None:
        self.objects: dict[tuple[type[Object], Key], Any] = {}

    def put(self, *objects: Object) -> None:
        for each in objects:
            before = self.objects.get((type(each), each.key))
            self.objects[type(each), each.key] = each
            if before is None:
                self.engine.add(each)
            else:
                self.engine.update(before, each)

    def remove(self, kind: type[Object], key: Key) -> None:
        self.engine.delete(self.objects.pop((kind, key)))
