"""Kubernetes' protobuf, decoded into the JSON document it stands for.

kubectl and client-go send it for built-in kinds, and do not fall back to JSON. A body is four magic bytes and an
envelope, `runtime.Unknown`, with apiVersion, kind and the message of that kind:

    6b 38 73 00 | typeMeta {apiVersion, kind} | raw | contentEncoding | contentType

The schema has the field numbers (`@4`): every struct is compiled once into a table from number to a function that sets
the value. Go writes zeros into messages whether they were set or not, so a zero stays only where it means something
(`Field.keeps_zero`). Unknown numbers are skipped, for a newer client may send them. An invalid body raises `Malformed`,
in the words of upstream's decoder. Two bytes can be a whole object, so every field is charged to the request's `Budget`
before it is decoded.
"""

from __future__ import annotations

import base64
import math
import re
import struct as binary
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import msgspec

from tonnage.clock import rfc3339, rfc3339_micro
from tonnage.documents.admit import Malformed
from tonnage.documents.schema import FILES, Field, ListOf, MapOf, Scalar, Struct, Type, schema_of
from tonnage.objects.document import Budget, Doc, NumberOutOfRange, read_json

MAGIC = b"k8s\0"
VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def fields_of(data: bytes, name: str, budget: Budget) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of every field of a message called `name`. Raises Malformed, BudgetExceeded.

    The value is an unsigned int for a varint, bytes for a field with a length or of eight bytes, else None.
    """
    at, end, most = 0, len(data), budget.limits.values
    while at < end:
        budget.values += 1
        if budget.values > most:
            budget.charge(0)  # raises
        tag, at = varint(data, at)
        number, wire_type = tag >> 3 & 0xFFFFFFFF, tag & 7
        if wire_type == END_GROUP:
            raise Malformed(f"proto: {name}: wiretype end group for non-group")
        if not 0 < number < 1 << 31:
            raise Malformed(f"proto: {name}: illegal tag {signed(number, 32)} (wire type {wire_type})")
        if wire_type == VARINT:
            value, at = varint(data, at)
            yield number, wire_type, value
        else:
            start, at = _extent(data, at, wire_type, budget)
            yield number, wire_type, data[start:at] if wire_type in (BYTES, FIXED64) else None


def parts(data: bytes, name: str, budget: Budget, **wanted: int) -> tuple[Any, ...]:
    """The values of a small message with the fields 1, 2, … given as name=wire type; zero for a missing field.

    The message is already charged as one value; a field is charged when it occurs again.
    """
    names = tuple(wanted)
    found: list[Any] = [b"" if wire_type == BYTES else 0 for wire_type in wanted.values()]
    free = len(names)
    for number, wire_type, value in fields_of(data, name, budget):
        if free:
            free -= 1
            budget.values -= 1
        if number <= len(names):
            expect(wanted[names[number - 1]], wire_type, names[number - 1])
            found[number - 1] = value
    return tuple(found)


def expect(wanted: int, found: int, name: str) -> None:
    if found != wanted:
        raise Malformed(f"proto: wrong wireType = {found} for field {name}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 64-bit number, and the position after it."""
    number = shift = 0
    while shift < 64:
        if at >= len(data):
            raise Malformed("unexpected EOF")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise Malformed("proto: integer overflow")


def signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def text(value: bytes) -> str:
    """A string field. Go accepts invalid UTF-8, and replaces it byte by byte when it writes JSON."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return re.sub("[\udc80-\udcff]", "\N{REPLACEMENT CHARACTER}", value.decode(errors="surrogateescape"))


def _extent(data: bytes, at: int, wire_type: int, budget: Budget) -> tuple[int, int]:
    if wire_type == GROUP:
        return at, _end_of_group(data, at, budget)
    if wire_type == BYTES:
        length, at = varint(data, at)
        if length >> 63:
            raise Malformed("proto: negative length found during unmarshaling")
    elif wire_type in (FIXED32, FIXED64):
        length = 4 if wire_type == FIXED32 else 8
    else:
        raise Malformed(f"proto: illegal wireType {wire_type}")
    if at + length > len(data):
        raise Malformed("unexpected EOF")
    return at, at + length


def _end_of_group(data: bytes, at: int, budget: Budget) -> int:
    """The end of a group. Nested groups are counted, not entered, so that no depth exhausts the stack."""
    depth = 1
    while depth:
        budget.charge(1)
        tag, at = varint(data, at)
        wire_type = tag & 7
        if wire_type == GROUP:
            depth += 1
        elif wire_type == END_GROUP:
            depth -= 1
        elif wire_type == VARINT:
            _, at = varint(data, at)
        else:
            _, at = _extent(data, at, wire_type, budget)
    return at


class Envelope(NamedTuple):
    """A message and its type. apiVersion and kind may be empty; then the receiver must know them."""

    api_version: str
    kind: str
    raw: bytes
    content_type: str = ""
    """Of `raw`; empty is protobuf. JSON is accepted too, though upstream's server would refuse it."""

    def decode(self, struct: Struct, budget: Budget) -> Doc:
        """The object inside; apiVersion and kind are in the envelope. Raises Malformed, BudgetExceeded."""
        if self.content_type != "application/json":
            return _fill({}, table_of(struct), self.raw, struct.name, budget)
        inside = _json(self.raw, budget)
        if not isinstance(inside, dict):
            raise Malformed("the raw value is JSON, but not an object")
        return inside


def open_envelope(body: bytes, budget: Budget) -> Envelope:
    """The envelope of a body; its message is not decoded yet. Raises Malformed, BudgetExceeded."""
    if not body:
        raise Malformed("empty data")
    if not body.startswith(MAGIC):
        prefix = " ".join(map(str, MAGIC))
        raise Malformed(f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]")
    if body == MAGIC:
        raise Malformed("empty body")
    # As upstream, contentEncoding is accepted and ignored.
    head, raw, _, content_type = parts(
        body[len(MAGIC) :], "Unknown", budget, typeMeta=BYTES, raw=BYTES, contentEncoding=BYTES, contentType=BYTES
    )
    api_version, kind = parts(head, "TypeMeta", budget, apiVersion=BYTES, kind=BYTES)
    return Envelope(text(api_version), text(kind), raw, text(content_type))


def struct_named(api_version: str, kind: str) -> Struct:
    """The schema of a kind, or of the options and answers that every group shares. Raises Malformed."""
    group, _, version = api_version.rpartition("/")
    if (group, version) in FILES:
        for home in ((group, version), ("meta", "v1")):
            try:
                struct = schema_of(*home, kind)
                if not struct.fields["kind"].wire:  # its kind travels in the envelope, so it is a whole object
                    return struct
            except KeyError:
                continue
    raise Malformed(f'no kind "{kind}" is registered for version "{api_version}" in scheme "tonnage"')


# -- messages: a table from number to the function that sets the value in a document -----------------------------------

Put = Callable[[Doc, int, Any, Budget], None]
"""(the document, wire type, value, budget)."""
Table = dict[int, Put]
Read = Callable[[Any, Budget], Any]
"""(value, budget) -> the value in the document."""


def _fill(doc: Doc, table: Table, data: bytes, name: str, budget: Budget) -> Doc:
    budget.level += 1
    for number, wire_type, value in fields_of(data, name, budget):
        put = table.get(number)
        if put is not None:
            put(doc, wire_type, value, budget)
    budget.level -= 1
    return doc


_tables: dict[Struct, Table] = {}


def table_of(struct: Struct) -> Table:
    """The table of a message's fields, made on first use and kept."""
    table = _tables.get(struct)
    if table is None:
        table = _tables[struct] = {}  # before its fields, which may contain it
        table |= _tabulated([(field.wire, _put_of(field)) for field in struct.fields.values() if field.wire], struct)
    return table


def _tabulated(puts: list[tuple[tuple[int, ...], Put]], struct: Struct) -> Table:
    table: Table = {}
    inlined: dict[int, list[tuple[tuple[int, ...], Put]]] = {}
    for (number, *rest), put in puts:
        if rest:
            inlined.setdefault(number, []).append((tuple(rest), put))
        else:
            table[number] = put
    for number, inner in inlined.items():
        table[number] = _inlined(_tabulated(inner, struct), struct.name)
    return table


def _inlined(table: Table, name: str) -> Put:
    """A message of its own on the wire, whose fields JSON puts into the enclosing struct."""

    def put(doc: Doc, wire_type: int, value: Any, budget: Budget) -> None:
        expect(BYTES, wire_type, name)
        budget.level -= 1
        _fill(doc, table, value, name, budget)
        budget.level += 1

    return put


def _put_of(field: Field) -> Put:
    if isinstance(field.type, Struct):
        return _struct_put(field.name, field.type)
    if isinstance(field.type, ListOf):
        return _list_put(field.name, field.type.item)
    if isinstance(field.type, MapOf):
        return _map_put(field.name, field.type.item)
    return _scalar_put(field.name, field.type, field.keeps_zero or field.type.name in _STRUCTS_IN_GO)


def _scalar_put(name: str, kind: Scalar, keeps_zero: bool) -> Put:
    wanted, read = _READERS[kind.name]

    def put(doc: Doc, wire_type: int, value: Any, budget: Budget) -> None:
        expect(wanted, wire_type, name)
        item = read(value, budget)
        if item is None or not (item or keeps_zero):
            doc.pop(name, None)  # the last occurrence of a field counts
        else:
            doc[name] = item

    return put


def _struct_put(name: str, struct: Struct) -> Put:
    table = table_of(struct)

    def put(doc: Doc, wire_type: int, value: Any, budget: Budget) -> None:
        expect(BYTES, wire_type, name)
        _fill(doc.setdefault(name, {}), table, value, struct.name, budget)

    return put


def _list_put(name: str, kind: Type) -> Put:
    wanted, read = _item_reader(kind)

    def put(doc: Doc, wire_type: int, value: Any, budget: Budget) -> None:
        items = doc.setdefault(name, [])
        budget.level += 1
        if wire_type == BYTES and wanted == VARINT:  # packed: all items in one field
            at = 0
            while at < len(value):
                budget.charge(1)
                number, at = varint(value, at)
                items.append(read(number, budget))
        else:
            expect(wanted, wire_type, name)
            items.append(read(value, budget))
        budget.level -= 1

    return put


def _map_put(name: str, kind: Type) -> Put:
    """A map is a list of messages {key = 1, value = 2}; a zero key or value may be missing."""
    wanted, read = _item_reader(kind)

    def put(doc: Doc, wire_type: int, value: Any, budget: Budget) -> None:
        expect(BYTES, wire_type, name)
        key, found = parts(value, name, budget, key=BYTES, value=wanted)
        budget.level += 1
        item = read(found, budget)
        budget.level -= 1
        if item is not None:  # None only for a zero time
            doc.setdefault(name, {})[text(key)] = item

    return put


def _item_reader(kind: Type) -> tuple[int, Read]:
    """Wire type and reader of an item of a list or map. A list in a map has a message around it, items = 1."""
    if isinstance(kind, ListOf):
        items: Table = {1: _list_put("items", kind.item)}
        return BYTES, lambda value, budget: _fill({}, items, value, "items", budget).get("items", [])
    if isinstance(kind, Struct):
        table = table_of(kind)
        return BYTES, lambda value, budget: _fill({}, table, value, kind.name, budget)
    assert isinstance(kind, Scalar)
    return _READERS[kind.name]


# -- scalars: protobuf's own, and the small messages that JSON writes as one value ------------------------------------


def _quantity(value: bytes, budget: Budget) -> str:
    return text(parts(value, "Quantity", budget, string=BYTES)[0]) if value else "0"


def _int_or_string(value: bytes, budget: Budget) -> int | str:
    kind, number, word = parts(value, "IntOrString", budget, type=VARINT, intVal=VARINT, strVal=BYTES)
    if kind > 1:
        raise Malformed("impossible IntOrString.Type")
    return text(word) if kind else signed(number, 32)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME_S = -62135596800
"""The first second of year 1: Go's zero time, which JSON writes as null."""


def _instant(name: str, write: Callable[[datetime], str]) -> Read:
    def read(value: bytes, budget: Budget) -> str | None:
        seconds, nanos = parts(value, name, budget, seconds=VARINT, nanos=VARINT)
        seconds, nanos = signed(seconds, 64), signed(nanos, 32)
        if not value or (seconds, nanos) == (_ZERO_TIME_S, 0):
            return None
        try:
            return write(_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000))
        except OverflowError as exc:
            raise Malformed(f"{name} at {seconds} s from 1970 is outside of the years 1 to 9999") from exc

    return read


def _raw(name: str) -> Read:
    """A message around JSON: RawExtension, FieldsV1, JSON of apiextensions. An empty one is null."""

    def read(value: bytes, budget: Budget) -> Any:
        inside = parts(value, name, budget, raw=BYTES)[0]
        return _json(inside, budget) if inside else None

    return read


def _json(value: bytes, budget: Budget) -> Any:
    try:
        return read_json(value, budget)
    except NumberOutOfRange as exc:
        raise Malformed(str(exc)) from exc
    except msgspec.DecodeError as exc:
        raise Malformed(f"the raw value is not JSON: {exc}") from exc


def _double(value: bytes, budget: Budget) -> int | float:
    """A number as JSON has it: Go writes whole numbers without a fraction."""
    number: float = binary.unpack("<d", value)[0]
    if not math.isfinite(number):
        raise Malformed(f"json: unsupported value: {number}")
    return int(number) if number.is_integer() else number


def _schema_or(name: str, other: str) -> Read:
    """JSONSchemaProps or another value: whichever of the message's two fields is set."""

    @cache
    def table() -> Table:
        props = schema_of("apiextensions.k8s.io", "v1", "JSONSchemaProps")
        schema = _struct_put("Schema", props)
        if other == "Allows":
            return {1: _scalar_put(other, Scalar("bool"), keeps_zero=True), 2: schema}
        return {1: schema, 2: _list_put(other, props if other == "JSONSchemas" else Scalar("string"))}

    def read(value: Any, budget: Budget) -> Any:
        budget.level -= 1  # in JSON the value stands in place of the message
        found = _fill({}, table(), value, name, budget)
        budget.level += 1
        if other == "Allows":
            return found.get("Schema", found.get("Allows", False))
        return found.get(other) or found.get("Schema")

    return read


_READERS: dict[str, tuple[int, Read]] = {
    "string": (BYTES, lambda value, budget: text(value)),
    "bool": (VARINT, lambda value, budget: bool(value)),
    "int32": (VARINT, lambda value, budget: signed(value, 32)),
    "int64": (VARINT, lambda value, budget: signed(value, 64)),
    "bytes": (BYTES, lambda value, budget: base64.b64encode(value).decode()),
    "Quantity": (BYTES, _quantity),
    "IntOrString": (BYTES, _int_or_string),
    "Time": (BYTES, _instant("Time", rfc3339)),
    "MicroTime": (BYTES, _instant("MicroTime", rfc3339_micro)),
    "FieldsV1": (BYTES, _raw("RawExtension")),
    "any": (BYTES, _raw("RawExtension")),
    "number": (FIXED64, _double),
    "JSON": (BYTES, _raw("JSON")),
    "JSONSchemaPropsOrArray": (BYTES, _schema_or("JSONSchemaPropsOrArray", "JSONSchemas")),
    "JSONSchemaPropsOrBool": (BYTES, _schema_or("JSONSchemaPropsOrBool", "Allows")),
    "JSONSchemaPropsOrStringArray": (BYTES, _schema_or("JSONSchemaPropsOrStringArray", "Property")),
}
"""Wire type and reader of every scalar of a schema."""

_STRUCTS_IN_GO = _READERS.keys() - {"string", "bool", "int32", "int64", "bytes", "number", "Time", "MicroTime"}
"""Go leaves empty values out of JSON, but never a struct: these are written whenever they are set."""
