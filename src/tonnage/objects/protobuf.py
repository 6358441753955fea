"""Kubernetes' protobuf, read into the JSON document it stands for.

kubectl and client-go send it for built-in kinds unless told otherwise, and do not fall back to JSON. A body is four magic
bytes and an envelope, `runtime.Unknown`, that names apiVersion and kind and holds the message of that kind:

    6b 38 73 00 | typeMeta {apiVersion, kind} | raw | contentEncoding | contentType

The numbers of a message's fields stand in the schema (`@4`), so there is no generated code: each struct is compiled
once into a table from number to a function that puts what was read into the document. The result is what Go's JSON
encoder would write of the same object. Go writes zeros into messages whether they were set or not, so a zero stays only
where the schema says it means something (`Field.keeps_zero`).

Numbers nobody knows are skipped, as upstream does: a newer client may send them. What cannot be read is `Malformed`, in
the words of upstream's decoder. The document is as good as one from a client's JSON, and goes through `admit` like it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tonnage.clock import rfc3339, rfc3339_micro
from tonnage.objects.admit import Malformed
from tonnage.objects.document import Doc, decode
from tonnage.objects.schema import FILES, Field, ListOf, MapOf, Scalar, Struct, Type, schema_of

MAGIC = b"k8s\0"


class Envelope(NamedTuple):
    """A message and what it is. apiVersion and kind may be empty: then the reader must know."""

    api_version: str
    kind: str
    raw: bytes
    content_type: str

    def decode(self, struct: Struct) -> Doc:
        """The document inside, without apiVersion and kind. Raises Malformed."""
        if self.content_type == "application/json":
            doc = _json(self.raw)
            return doc if isinstance(doc, dict) else {}
        return decode_message(struct, self.raw)


def decode_protobuf(body: bytes) -> Doc:
    """The object in a body, of whatever kind its envelope names. Raises Malformed."""
    envelope = open_envelope(body)
    head = {"kind": envelope.kind, "apiVersion": envelope.api_version}
    return {**head, **envelope.decode(struct_named(envelope.api_version, envelope.kind))}


def open_envelope(body: bytes) -> Envelope:
    """What the magic bytes and the envelope hold. Raises Malformed."""
    if not body:
        raise Malformed("empty data")
    if not body.startswith(MAGIC):
        raise Malformed(
            f"provided data does not appear to be a protobuf message, expected prefix [{' '.join(map(str, MAGIC))}]"
        )
    if body == MAGIC:
        raise Malformed("empty body")
    head, raw, content_type = b"", b"", b""
    for number, wire_type, value in fields_of(body[len(MAGIC) :], "Unknown"):
        if number in (1, 2, 4) and wire_type != _BYTES:
            raise _wrong_type(wire_type, {1: "typeMeta", 2: "raw"}.get(number, "contentType"))
        if number == 1:
            head = value
        elif number == 2:
            raw = value
        elif number == 4:
            content_type = value
    named = {number: _text(value) for number, wire_type, value in fields_of(head, "TypeMeta") if wire_type == _BYTES}
    return Envelope(named.get(1, ""), named.get(2, ""), raw, _text(content_type))


def struct_named(api_version: str, kind: str) -> Struct:
    """The schema of a kind, or of the options and statuses that every group shares. Raises Malformed."""
    group, _, version = api_version.rpartition("/")
    if not kind or not version:
        missing = "Kind" if not kind else "apiVersion"
        raise Malformed(f"Object '{missing}' is missing in '{{apiVersion: {api_version!r}, kind: {kind!r}}}'")
    for home in ((group, version), ("meta", "v1")):
        if (group, version) in FILES:
            try:
                struct = schema_of(*home, kind)
            except KeyError:
                continue
            if "apiVersion" in struct.fields:
                return struct
    raise Malformed(f'no kind "{kind}" is registered for version "{api_version}" in scheme "tonnage"')


# -- the wire: a field is its number, its type, and the value ----------------------------------------------------------

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_Found = tuple[int, int, Any]
"""(number, wire type, value): an int for a varint, bytes for what has a length, None for types no message here uses."""


def fields_of(data: bytes, name: str) -> Iterator[_Found]:
    """The fields of a message called `name`, in the order they were written. Raises Malformed."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3 & 0xFFFFFFFF, tag & 7
        if wire_type == _END_GROUP:
            raise Malformed(f"proto: {name}: wiretype end group for non-group")
        if not 0 < number < 1 << 31:
            raise Malformed(f"proto: {name}: illegal tag {_signed(number, 32)} (wire type {wire_type})")
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, wire_type, value
        else:
            start, at = _extent(data, at, wire_type)
            yield number, wire_type, data[start:at] if wire_type == _BYTES else None


def _extent(data: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Where a value that is no varint starts and ends."""
    if wire_type == _BYTES:
        length, at = _varint(data, at)
        if length >> 63:
            raise Malformed("proto: negative length found during unmarshaling")
    elif wire_type == _GROUP:
        return at, _end_of_group(data, at)
    elif wire_type in (_FIXED32, _FIXED64):
        length = 4 if wire_type == _FIXED32 else 8
    else:
        raise Malformed(f"proto: illegal wireType {wire_type}")
    if at + length > len(data):
        raise Malformed("unexpected EOF")
    return at, at + length


def _end_of_group(data: bytes, at: int) -> int:
    depth = 1
    while depth:
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == _GROUP:
            depth += 1
        elif wire_type == _END_GROUP:
            depth -= 1
        elif wire_type == _VARINT:
            _, at = _varint(data, at)
        else:
            _, at = _extent(data, at, wire_type)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 64-bit number and where the next thing starts."""
    number = shift = 0
    while True:
        if shift >= 64:
            raise Malformed("proto: integer overflow")
        if at >= len(data):
            raise Malformed("unexpected EOF")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def _signed(number: int, bits: int) -> int:
    """Two's complement of the low bits."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


# -- messages: a table from number to what puts the value into a document ----------------------------------------------

Put = Callable[[Doc, int, Any], None]
"""(the document, wire type, value)."""
Table = dict[int, Put]


def decode_message(struct: Struct, data: bytes) -> Doc:
    """One message as a document. Raises Malformed."""
    return _fill({}, _table_of(struct), data, struct.name)


def _fill(doc: Doc, table: Table, data: bytes, name: str) -> Doc:
    for number, wire_type, value in fields_of(data, name):
        put = table.get(number)
        if put is not None:
            put(doc, wire_type, value)
    return doc


_tables: dict[Struct, Table] = {}


def _table_of(struct: Struct) -> Table:
    table = _tables.get(struct)
    if table is None:
        table = _tables[struct] = {}  # entered before its fields, which may lead back to it
        inlined: dict[int, Table] = {}
        for field in struct.fields.values():
            if len(field.wire) == 1:
                table[field.wire[0]] = _put_of(field)
            elif field.wire:
                _within(inlined, table, field.wire, struct.name)[field.wire[-1]] = _put_of(field)
    return table


def _within(known: dict[int, Table], table: Table, path: tuple[int, ...], name: str) -> Table:
    """The table of the message that JSON inlines; its fields are put into the document around it."""
    inner = table
    for outer in path[:-1]:
        inner = {}
    return inner
