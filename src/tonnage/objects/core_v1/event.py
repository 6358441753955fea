"""Event in its older shape; `events_v1` has the newer one, and the server keeps both as one object."""

from __future__ import annotations

from tonnage.objects.core_v1.references import ObjectReference
from tonnage.objects.meta import MicroTime, Object, Record, StampedMeta, Time


class EventSource(Record):
    component: str = ""
    host: str = ""


class EventSeries(Record):
    """The same thing happening again and again."""

    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(Object):
    """Something that happened to an object, told to people."""

    metadata: StampedMeta = StampedMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    action: str = ""
    count: int = 0
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    related: ObjectReference | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
