"""Writing a status: all of it or nothing, on the state it was computed from, and only when it says something new.

A status is one statement. It replaces the one before, fields that are now zero included, and the request names the
resourceVersion that was looked at: whoever was faster wins, and we look again.
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from tonnage.client.http import Client
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object, Record

T = TypeVar("T", bound=Object)


async def write_status(
    client: Client,
    found: T,
    status: Record,
    *,
    annotations: dict[str, str] | None = None,
) -> T | None:
    """Give `found` this status, and these annotations where a kind lets its controller; the object as it is then.

    None when it says all that already. Raises Conflict when the object has changed since it was read.
    """
    was = cast(Record, found.status)  # type: ignore[attr-defined]  # every kind with a controller has a status
    new = {key: text for key, text in (annotations or {}).items() if found.metadata.annotations.get(key) != text}
    if status == was and not new:
        return None
    patch: Doc = {
        "metadata": {"uid": found.uid, "resourceVersion": found.metadata.resource_version},
        "status": replacing(status, was),
    }
    if new:
        patch["metadata"]["annotations"] = new
    return await client.patch(type(found), found.key, patch, subresource="status")


def replacing(new: Record, was: Record) -> Doc:
    """A merge patch that turns one record into another of its class: fields at their default are taken out."""
    doc, old = to_doc(new), to_doc(was)
    wanted: Doc = {field.encode_name: doc.get(field.encode_name) for field in msgspec.structs.fields(type(new))}
    return {name: _emptied(value, old.get(name)) for name, value in wanted.items() if value is not None or name in old}


def _emptied(value: object, was: object) -> object:
    """A map is merged by the server, so what left it is named; lists and numbers are replaced."""
    if isinstance(value, dict) and isinstance(was, dict):
        return {**dict.fromkeys(was), **value}
    return value
