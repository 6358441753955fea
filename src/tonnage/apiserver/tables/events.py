"""Events, in both of their shapes: the same columns read core's fields and those of events.k8s.io.

What was new in events.k8s.io (`series`, `eventTime`) is read first, what it calls deprecated is the fallback; a core
Event holds both under its own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import NAME, Cell, Column, Layout, text
from tonnage.objects.document import Doc, dig


@dataclass(frozen=True, slots=True)
class EventWords:
    """What one API group calls the parts of an Event."""

    about: str
    message: str
    count: str
    first_seen: str
    last_seen: str
    source: str
    controller: str


CORE = EventWords(
    about="involvedObject",
    message="message",
    count="count",
    first_seen="firstTimestamp",
    last_seen="lastTimestamp",
    source="source",
    controller="reportingComponent",
)
EVENTS = EventWords(
    about="regarding",
    message="note",
    count="deprecatedCount",
    first_seen="deprecatedFirstTimestamp",
    last_seen="deprecatedLastTimestamp",
    source="deprecatedSource",
    controller="reportingController",
)


def first_seen(event: Doc, now: datetime, shape: EventWords) -> Cell:
    return cells.age(event.get(shape.first_seen) or event.get("eventTime"), now)


def last_seen(event: Doc, now: datetime, shape: EventWords) -> Cell:
    if series := event.get("series"):
        return cells.age(series.get("lastObservedTime"), now)
    if last := event.get(shape.last_seen):
        return cells.age(last, now)
    return first_seen(event, now, shape)


def count(event: Doc, now: datetime, shape: EventWords) -> Cell:
    """An event seen once has no count in the newer shape."""
    if series := event.get("series"):
        return int(series.get("count", 0))
    return int(event.get(shape.count) or 1)


def target(event: Doc, now: datetime, shape: EventWords) -> Cell:
    """`pod/web-0`, or just the kind when there is no name."""
    about = event.get(shape.about, {})
    kind = str(about.get("kind", "")).lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def source(event: Doc, now: datetime, shape: EventWords) -> Cell:
    """`kubelet, node-1`: who reported it, and from which instance."""
    named = event.get(shape.source, {})
    component = named.get("component") or event.get(shape.controller) or ""
    instance = named.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)


def message(event: Doc, now: datetime, shape: EventWords) -> Cell:
    return str(event.get(shape.message, "")).strip()


def _layout(shape: EventWords) -> Layout:
    def column(
        name: str, cell: Callable[[Doc, datetime, EventWords], Cell], *, wide: bool = False, field: str = ""
    ) -> Column:
        return Column(name, lambda event, now: cell(event, now, shape), wide=wide, field=field)

    def sub_object(event: Doc, now: datetime, shape: EventWords) -> Cell:
        return str(dig(event, shape.about, "fieldPath") or "")

    return Layout(
        (
            column("Last Seen", last_seen, field=shape.last_seen),
            Column("Type", text("type"), field="type"),
            Column("Reason", text("reason"), field="reason"),
            column("Object", target, field=shape.about),
            column("Subobject", sub_object, wide=True, field=f"{shape.about}.fieldPath"),
            column("Source", source, wide=True, field=shape.source),
            column("Message", message, field=shape.message),
            column("First Seen", first_seen, wide=True, field=shape.first_seen),
            column("Count", count, wide=True, field=shape.count),
            Column("Name", NAME.cell, format="name", wide=True, field="metadata.name"),
        )
    )


LAYOUTS = {("", "Event"): _layout(CORE), ("events.k8s.io", "Event"): _layout(EVENTS)}
