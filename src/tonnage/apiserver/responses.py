"""Stored documents as responses, in the form the client asks for: object, Table or metadata; JSON or YAML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

import msgspec

from tonnage.apiserver import stored_documents
from tonnage.apiserver.negotiation import Representation, negotiate
from tonnage.apiserver.requests import Call, Response
from tonnage.apiserver.tables import Include, partial_metadata, partial_metadata_list, table
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.errors import BadRequest, NotAcceptable
from tonnage.objects.api_verbs import is_stored
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.resources import Resource
from tonnage.objects.texts.yaml_writer import write_yaml

_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
"""Programs behind which somebody reads: they get JSON with line breaks, as upstream gives it to them."""

_WITHOUT_TABLE = ("binding", "eviction", "finalize", "token")
"""Endpoints whose answer is no row of any table; upstream's handlers of these convert to none."""


def negotiated(call: Call) -> Representation:
    """The form to respond in. Raises NotAcceptable."""
    return negotiate(
        call.headers.get("Accept", ""),
        as_stream=call.verb == "watch",
        has_table=call.subresource not in _WITHOUT_TABLE and is_stored(call.resource),
    )


def include_of(call: Call) -> Include:
    """How much of each object a Table carries beside its cells."""
    asked = call.query.get("includeObject", "") or "Metadata"
    if asked not in ("None", "Metadata", "Object"):
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{asked}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return cast(Include, asked)


def of_object(call: Call, document: bytes, *, now: datetime, code: int = 200) -> Response:
    """One object of the call's resource."""
    chosen = negotiated(call)
    if chosen.form == "object":
        return _response(call, chosen, stored_documents.served_bytes(call.resource, document), code)
    if chosen.form == "metadata list":
        found = _go_type(call.resource)
        raise NotAcceptable(
            f"you requested PartialObjectMetadataList, but the requested object is not a list ({found})"
        )
    doc = decode(document)
    if chosen.form == "metadata":
        return _response(call, chosen, encode(partial_metadata(doc, chosen.api_version)), code)
    head = {"resourceVersion": doc["metadata"].get("resourceVersion", "")}
    shown = table(
        call.resource,
        [stored_documents.served(call.resource, doc)],
        now=now,
        list_metadata=head,
        include=include_of(call),
        api_version=chosen.api_version,
    )
    return _response(call, chosen, encode(shown), code)


def is_as_stored(call: Call) -> bool:
    """Are documents joined as they are stored, rather than decoded and put into another form?"""
    chosen = negotiated(call)
    return chosen.form == "object" and not chosen.yaml and stored_documents.is_served_as_stored(call.resource)


def of_list(call: Call, documents: Sequence[bytes], head: Doc, *, now: datetime) -> Response:
    """A list of the call's resource. Stored bytes are joined, not decoded, when the client wants objects as stored.

    The list says of what kind its items are, so they do not repeat it; those of custom resources do, as upstream.
    """
    chosen, resource = negotiated(call), call.resource
    if chosen.form == "object":
        if not stored_documents.is_served_as_stored(resource):
            documents = [stored_documents.served_bytes(resource, document) for document in documents]
        opening = encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": head})
        head_of_items = b"" if isinstance(resource, CustomResource) else stored_documents.opening_of(resource)
        items = b",".join(_without_head(document, head_of_items) for document in documents)
        return _response(call, chosen, b"".join((opening[:-1], b',"items":[', items, b"]}")))
    if chosen.form == "metadata":
        raise NotAcceptable(
            f"you requested PartialObjectMetadata, but the requested object is a list ({_go_type(resource)}List)"
        )
    docs = [stored_documents.served(resource, decode(document)) for document in documents]
    if chosen.form == "metadata list":
        shown = partial_metadata_list(docs, list_metadata=head, api_version=chosen.api_version)
    else:
        include, version = include_of(call), chosen.api_version
        shown = table(resource, docs, now=now, list_metadata=head, include=include, api_version=version)
    return _response(call, chosen, encode(shown))


def of_document(call: Call, doc: Doc, code: int = 200) -> Response:
    """A document that is not one of the resource's own objects: a Status, a Scale."""
    return _response(call, Representation(yaml=negotiated(call).yaml), encode(doc), code)


def _response(call: Call, chosen: Representation, body: bytes, code: int = 200) -> Response:
    if chosen.yaml:
        return Response(write_yaml(decode(body)).encode(), code, "application/yaml")
    pretty = call.query.get("pretty", "")
    if pretty in ("true", "1") or (not pretty and call.headers.get("User-Agent", "").startswith(_PEOPLE)):
        body = msgspec.json.format(body, indent=2)
    return Response(body, code)


def _without_head(document: bytes, head: bytes) -> bytes:
    return b"{" + document[len(head) :] if head and document.startswith(head) else document


def _go_type(resource: Resource) -> str:
    """`*core.Pod`, `*storage.CSINode`: what upstream calls the type it holds in memory."""
    return f"*{resource.stored.group.partition('.')[0] or 'core'}.{resource.kind}"
