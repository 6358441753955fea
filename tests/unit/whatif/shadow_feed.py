"""A cluster's objects as a shadow sees them, on virtual time: say what somebody writes, in the order of the watches."""

from __future__ import annotations

from typing import Any

from support.virtual_clock import VirtualClock
from tonnage.gates import Gates
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Event
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, driver, storage_class
from tonnage.whatif.shadow.judging import Judge, Tally
from tonnage.whatif.shadow.signs import Shadow


class Feed:
    """One shadow and what it has been shown. Objects that are given at the start were there before it looked."""

    def __init__(self, *start: Object, config: str = "", **options: Any) -> None:
        self.clock = VirtualClock()
        gates = Gates()
        configuration = parse(config, source="test", gates=gates) if config else default_configuration(gates=gates)
        judge = Judge(configuration.profiles, clock=self.clock, implies_namespaces=True)
        self.tally = Tally(self.clock.now(), **options)
        self.shadow = Shadow(judge, self.tally)
        self._known: dict[tuple[type[Object], str], Object] = {}
        self.put(*start)
        self.shadow.open()

    def put(self, *objects: Object) -> None:
        """Somebody creates or changes objects."""
        for each in objects:
            place = (type(each), each.key)
            self.shadow.changed(self._known.get(place), each)
            self._known[place] = each

    def remove(self, kind: type[Object], key: str) -> None:
        self.shadow.changed(self._known.pop((kind, key)), None)

    def event(self, reason: str, message: str, **regarding: str) -> None:
        doc = {
            "kind": "Event",
            "metadata": {"name": f"{reason}-{len(message)}", "namespace": "default", "uid": "e"},
            "involvedObject": {"namespace": "default", **regarding},
            "reason": reason,
            "message": message,
        }
        self.shadow.told(convert(Event, doc))

    def document(self) -> dict[str, Any]:
        return self.tally.document(self.clock.now())


def disks(**free: str) -> list[Object]:
    """Nodes of these names, each with a pool that has so much left, and the class and driver that go with them."""
    nodes = [node(name) for name in free]
    return [storage_class(), driver(), *nodes, *(capacity(node=name, free=size) for name, size in free.items())]
