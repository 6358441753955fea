"""Resources that are another resource's objects in another shape. There is one: events.k8s.io.

Documents are stored as core Events. `inbound` and `outbound` translate whole documents; a list or watch of any other
resource never comes here and sends stored bytes as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.events import FIELD_LABELS, from_events_v1, to_events_v1
from tonnage.objects.resources import Resource


def has_own_shape(resource: Resource) -> bool:
    """Are stored documents already what this resource shows?"""
    return resource.stored_as is None


def inbound(resource: Resource, doc: Doc) -> Doc:
    """What a client of this resource sent, as it is stored."""
    return doc if resource.stored_as is None else from_events_v1(doc)


def outbound(resource: Resource, doc: Doc) -> Doc:
    """A stored document, as clients of this resource see it."""
    if resource.stored_as is None:
        return doc
    shown = to_events_v1(doc)
    for field in ("reportingController", "reportingInstance"):  # the core API writes them empty, this one does not
        if shown.get(field) == "":
            del shown[field]
    return shown


def outbound_bytes(resource: Resource, document: bytes) -> bytes:
    return document if resource.stored_as is None else encode(outbound(resource, decode(document)))


@cache
def head_of(resource: Resource) -> bytes:
    """How every document of this resource begins, stored or shown."""
    return encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","


def field_labels(resource: Resource, selectable: Iterable[str]) -> dict[str, str]:
    """What clients of this resource may select by, beside metadata: their label -> the stored shape's."""
    return {label: label for label in selectable} if resource.stored_as is None else dict(FIELD_LABELS)
