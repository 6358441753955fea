"""From documents to stored bytes, and from stored bytes to what a resource serves.

Every stored document begins with its kind and apiVersion, so that a list can leave them out without decoding its items.
Documents of all resources but Events are served as they are stored, byte for byte; Events are converted
(`documents/event_conversion.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tonnage.documents.event_conversion import from_stored, with_null_times
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource


@cache
def opening_of(resource: Resource) -> bytes:
    """How every document of this resource begins, stored or served."""
    return encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","


def encoder(resource: Resource, doc: Doc) -> Callable[[int], bytes]:
    """From the revision of a write to the document as it is stored, with that revision as its resourceVersion."""
    opening = opening_of(resource.stored)
    rest = {field: value for field, value in doc.items() if field not in ("kind", "apiVersion")}

    def encoded(revision: int) -> bytes:
        rest["metadata"]["resourceVersion"] = str(revision)
        return opening + encode(rest)[1:]

    return encoded


def is_served_as_stored(resource: Resource) -> bool:
    return resource.kind != "Event"


def served(resource: Resource, doc: Doc) -> Doc:
    """A stored document, as clients of this resource see it."""
    return doc if is_served_as_stored(resource) else with_null_times(resource, from_stored(resource, doc))


def served_bytes(resource: Resource, document: bytes) -> bytes:
    return document if is_served_as_stored(resource) else encode(served(resource, decode(document)))
