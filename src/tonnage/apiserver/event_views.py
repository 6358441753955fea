"""Resources that are shown otherwise than they are stored: the two kinds of Events.

Documents are stored as core Events. Those of events.k8s.io have other names for half of their fields, and both show the
times that an event does not have as null, as upstream does: `kubectl get events --sort-by=.lastTimestamp` finds nothing
at all where the field is missing. `inbound` and `outbound` translate the names, `shown` is what clients
see; a list or watch of any other resource never comes here and sends stored bytes as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tonnage.documents.event_conversion import FIELD_LABELS, from_events_v1, to_events_v1
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource

_CORE_TIMES = ("firstTimestamp", "lastTimestamp", "eventTime")
_NEW_TIMES = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime")


def has_own_shape(resource: Resource) -> bool:
    """Are stored documents already what this resource shows?"""
    return resource.kind != "Event"


def inbound(resource: Resource, doc: Doc) -> Doc:
    """What a client of this resource sent, as it is stored."""
    return doc if resource.stored_as is None else from_events_v1(doc)


def outbound(resource: Resource, doc: Doc) -> Doc:
    """A stored document under the names of this resource."""
    if resource.stored_as is None:
        return doc
    shaped = to_events_v1(doc)
    for field in ("reportingController", "reportingInstance"):  # the core API writes them empty, this one does not
        if shaped.get(field) == "":
            del shaped[field]
    return shaped


def shown(resource: Resource, doc: Doc) -> Doc:
    """A stored document, as clients of this resource see it."""
    if has_own_shape(resource):
        return doc
    times = _CORE_TIMES if resource.stored_as is None else _NEW_TIMES
    shaped = outbound(resource, doc)
    return shaped | {field: None for field in times if field not in shaped}


def shown_bytes(resource: Resource, document: bytes) -> bytes:
    return document if has_own_shape(resource) else encode(shown(resource, decode(document)))


@cache
def head_of(resource: Resource) -> bytes:
    """How every document of this resource begins, stored or shown."""
    return encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","


def field_labels(resource: Resource, selectable: Iterable[str]) -> dict[str, str]:
    """What clients of this resource may select by, beside metadata: their label -> the stored shape's."""
    return {label: label for label in selectable} if resource.stored_as is None else dict(FIELD_LABELS)
