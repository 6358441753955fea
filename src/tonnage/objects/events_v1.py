"""events.k8s.io/v1: Event in its newer shape, the one that the scheduler writes."""

from __future__ import annotations

from tonnage.objects.core_v1.persistent_volume import ObjectReference
from tonnage.objects.core_v1.small_kinds import EventSeries, EventSource
from tonnage.objects.meta import MicroTime, Object


class Event(Object):
    """What `reporting_controller` did (`action`) to the object `regarding`, and why; the older names are deprecated."""

    event_time: MicroTime | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
