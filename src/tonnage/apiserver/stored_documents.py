"""From documents to stored bytes, and from stored bytes to what a resource serves.

Every stored document begins with its kind and apiVersion, so that a list can leave them out without decoding. Most
documents are served as stored, byte for byte; Events are converted, and custom resources are shown in the requested
version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tonnage.documents.custom.custom_resource import STORE_PREFIX, CustomResource
from tonnage.documents.kinds.event import from_stored, with_null_times
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import RESOURCES, Resource
from tonnage.objects.texts.decode_budget import MAX_DEPTH
from tonnage.objects.texts.json_text import is_deeper, shallow


def opening_of(resource: Resource) -> bytes:
    """The beginning of every document of this resource, stored or served."""
    return _opening(resource.kind, resource.api_version)


@lru_cache(maxsize=1024)
def _opening(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def encoder(resource: Resource, doc: Doc) -> Callable[[int], bytes]:
    """From the revision of a write to the stored document, with that revision as its resourceVersion."""
    opening = opening_of(resource.stored)
    rest = {field: value for field, value in doc.items() if field not in ("kind", "apiVersion")}

    def encoded(revision: int) -> bytes:
        rest["metadata"]["resourceVersion"] = str(revision)
        return opening + encode(rest)[1:]

    return encoded


def is_served_as_stored(resource: Resource) -> bool:
    return resource.stored.qualified != "events" and not isinstance(resource, CustomResource)


def is_stored_as_today(resource: Resource, document: bytes) -> bool:
    """True if the document is stored in the current version; a custom resource's may be older."""
    return document.startswith(opening_of(resource.stored))


def served(resource: Resource, doc: Doc) -> Doc:
    """A stored document as clients of this resource see it."""
    if isinstance(resource, CustomResource):
        return resource.shown(doc)
    return doc if is_served_as_stored(resource) else with_null_times(resource, from_stored(resource, doc))


def served_bytes(resource: Resource, document: bytes) -> bytes:
    return document if is_served_as_stored(resource) else encode(served(resource, decode(document)))


_BY_PREFIX = {row.store_prefix.rstrip("/"): row for row in RESOURCES if row.stored_as is None}


def stored_problem(key: str, revision: int, document: bytes) -> str | None:
    """The damage of a document under this key and revision, for files without checksums; None if there is none."""
    prefix = key.partition("/")[0]
    resource = _BY_PREFIX.get(prefix)
    if resource is None and not prefix.startswith(STORE_PREFIX):
        return "its key names no resource that is known"
    if not isinstance(document, bytes):
        return "this is not a document"
    if resource is not None and not document.startswith(opening_of(resource)):
        return f"it is no {resource.kind}"
    try:
        if is_deeper(document, MAX_DEPTH):  # no damage: earlier versions allowed it, and bootstrap repairs it
            document = shallow(document, MAX_DEPTH)
        metadata = decode(document)["metadata"]
        if resource is not None:
            named = resource.key(metadata.get("namespace", ""), metadata["name"])
        else:
            named = "/".join([prefix, *filter(None, (metadata.get("namespace"), metadata["name"]))])
        version = metadata["resourceVersion"]
    except Exception as exc:  # whatever a decoder raises for a damaged document
        return f"it cannot be read: {type(exc).__name__}"
    if named != key:
        return f'it says it is "{named}"'
    if version != str(revision):
        return f"it says its resourceVersion is {version!r}"
    return None
