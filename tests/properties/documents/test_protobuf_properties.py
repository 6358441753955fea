"""Any document a schema allows survives the way through protobuf; any bytes are read or refused.

The encoder here is the twin of `tonnage.documents.protobuf`, written the other way round and from Go's habits:
a plain scalar is always written, zero or not, a pointer only when it is set, and inlined messages always are.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.protobuf_bodies import decode_protobuf
from tonnage.clock import parse_rfc3339, rfc3339, rfc3339_micro
from tonnage.documents.admit import Malformed
from tonnage.documents.protobuf import MAGIC
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type, schema_of, schema_of_resource
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import RESOURCES

KINDS: list[tuple[str, Struct]] = [
    *((resource.api_version, schema_of_resource(resource)) for resource in RESOURCES),
    ("v1", schema_of("", "v1", "Binding")),
    ("policy/v1", schema_of("policy", "v1", "Eviction")),
    ("autoscaling/v1", schema_of("autoscaling", "v1", "Scale")),
    ("v1", schema_of("meta", "v1", "Status")),
    ("apps/v1", schema_of("meta", "v1", "DeleteOptions")),
]

# -- the twin ----------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def field_of(number: int, payload: int | bytes) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def envelope(doc: Doc, raw: bytes) -> bytes:
    head = field_of(1, doc["apiVersion"].encode()) + field_of(2, doc["kind"].encode())
    return MAGIC + field_of(1, head) + field_of(2, raw) + field_of(3, b"") + field_of(4, b"")


def message(struct: Struct, doc: Doc) -> bytes:
    """A struct as Go writes it."""
    return _message([(field.wire, field) for field in struct.fields.values() if field.wire], doc)


def _message(fields: list[tuple[tuple[int, ...], Field]], doc: Doc) -> bytes:
    made = b""
    inlined = sorted({path[0] for path, _ in fields if len(path) > 1})
    for number in inlined:
        inner = [(path[1:], field) for path, field in fields if path[0] == number]
        made += field_of(number, _message(inner, doc))
    for (number, *rest), field in fields:
        if not rest:
            made += b"".join(field_of(number, payload) for payload in payloads(field, doc.get(field.name)))
    return made


ZEROS: dict[str, int | bytes] = {"string": b"", "bool": 0, "int32": 0, "int64": 0}


def is_plain(field: Field) -> bool:
    """Is it a scalar whose zero is the same as its absence?"""
    return isinstance(field.type, Scalar) and field.type.name in ZEROS and not field.keeps_zero


def payloads(field: Field, value: Any) -> list[int | bytes]:
    if value is None:
        return [ZEROS[field.type.name]] if isinstance(field.type, Scalar) and is_plain(field) else []
    if isinstance(field.type, ListOf):
        return [payload(field.type.item, item) for item in value]
    if isinstance(field.type, MapOf):
        kind = field.type.item
        return [field_of(1, key.encode()) + field_of(2, payload(kind, item)) for key, item in value.items()]
    return [payload(field.type, value)]


def payload(kind: Type, value: Any) -> int | bytes:
    if isinstance(kind, Struct):
        return message(kind, value)
    assert isinstance(kind, Scalar)
    match kind.name:
        case "bool" | "int32" | "int64":
            return int(value)
        case "bytes":
            return base64.b64decode(value)
        case "Quantity":
            return field_of(1, value.encode())
        case "IntOrString":
            is_text = isinstance(value, str)
            return field_of(1, int(is_text)) + (field_of(3, value.encode()) if is_text else field_of(2, value))
        case "Time" | "MicroTime":
            since = parse_rfc3339(value) - parse_rfc3339("1970-01-01T00:00:00Z")
            seconds, rest = divmod(since, timedelta(seconds=1))
            return field_of(1, seconds) + field_of(2, rest.microseconds * 1000)
        case "any" | "FieldsV1":
            return field_of(1, encode(value))
    return str(value).encode()


# -- documents ---------------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
TIMES = st.datetimes(min_value=datetime(1600, 1, 1), max_value=datetime(2400, 1, 1)).map(
    lambda at: parse_rfc3339(f"{at.isoformat(timespec='microseconds')}Z")
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bool": st.booleans(),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "bytes": st.binary(max_size=8).map(lambda value: base64.b64encode(value).decode()),
    "Quantity": st.sampled_from(["0", "500m", "10Gi", "-1.5", "2e3"]),
    "IntOrString": st.integers(-(1 << 31), (1 << 31) - 1) | TEXT,
    "Time": TIMES.map(rfc3339),
    "MicroTime": TIMES.map(rfc3339_micro),
    "any": st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=2),
    "FieldsV1": st.dictionaries(TEXT.map("f:{}".format), st.just({}), max_size=2),
}
DEPTH = 4
"""How far down optional structs are filled in; a pod has some ten levels, most of them like one another."""


@cache
def values(kind: Type, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Struct):
        return documents(kind, depth + 1)
    if isinstance(kind, ListOf):
        return st.lists(values(kind.item, depth), min_size=1, max_size=2)
    if isinstance(kind, MapOf):
        return st.dictionaries(TEXT, values(kind.item, depth), min_size=1, max_size=2)
    return SCALARS[kind.name]


@cache
def documents(struct: Struct, depth: int = 0) -> st.SearchStrategy[Doc]:
    """Documents as Go writes them: a few fields of a struct at a time, zeros only where they mean something."""
    names = [
        field.name
        for field in struct.fields.values()
        if field.wire and (depth < DEPTH or isinstance(field.type, Scalar))
    ]

    def of(chosen: list[str]) -> st.SearchStrategy[Doc]:
        return st.fixed_dictionaries({name: of_field(struct.fields[name], depth) for name in chosen})

    return st.lists(st.sampled_from(names), unique=True, max_size=6).flatmap(of) if names else st.just({})


def of_field(field: Field, depth: int) -> st.SearchStrategy[Any]:
    found = values(field.type, depth)
    return found.filter(bool) if is_plain(field) else found


@st.composite
def objects(draw: st.DrawFn) -> tuple[Struct, Doc]:
    api_version, struct = draw(st.sampled_from(KINDS))
    return struct, {"apiVersion": api_version, "kind": struct.name, **draw(documents(struct))}


# -- properties --------------------------------------------------------------------------------------------------------

PATIENT = settings(max_examples=tries(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PATIENT
@given(objects())
def test_any_document_survives_the_way_through_protobuf(made: tuple[Struct, Doc]) -> None:
    struct, doc = made
    assert decode_protobuf(envelope(doc, message(struct, doc))) == doc


@PATIENT
@given(objects(), st.integers(1000, 1 << 28), st.integers(0, (1 << 64) - 1) | st.binary(max_size=20))
def test_a_field_of_an_unknown_number_changes_nothing(
    made: tuple[Struct, Doc], number: int, extra: int | bytes
) -> None:
    struct, doc = made
    raw = message(struct, doc)
    unknown = field_of(number, extra)
    assert decode_protobuf(envelope(doc, unknown + raw + unknown)) == doc


@PATIENT
@given(objects(), st.data())
def test_a_body_cut_short_or_changed_is_read_or_refused(made: tuple[Struct, Doc], data: st.DataObject) -> None:
    struct, doc = made
    raw = bytearray(message(struct, doc))
    if raw:
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw)[: data.draw(st.integers(0, len(raw)))]
    read_or_refused(envelope(doc, cut))


@PATIENT
@given(st.sampled_from(KINDS), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(kind: tuple[str, Struct], raw: bytes) -> None:
    read_or_refused(envelope({"apiVersion": kind[0], "kind": kind[1].name}, raw))
    read_or_refused(MAGIC + raw)


def read_or_refused(body: bytes) -> None:
    """What is read can be written as JSON."""
    try:
        doc = decode_protobuf(body)
    except Malformed as exc:
        assert exc.message
    else:
        assert encode(doc)
