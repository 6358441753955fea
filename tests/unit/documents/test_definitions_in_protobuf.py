"""CustomResourceDefinitions as typed Go clients send them: protobuf, with the messages of JSON schemas."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from support.protobuf_bodies import decode_protobuf
from tonnage.documents.admit import Malformed, admit
from tonnage.documents.schema import schema_of


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def field(number: int, value: bytes | str | int | float | bool) -> bytes:
    if isinstance(value, bool | int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def json(text: str) -> bytes:
    return field(1, text)


def entry(key: str, value: bytes) -> bytes:
    return field(1, key) + field(2, value)


def definition(schema: bytes) -> dict[str, Any]:
    """The document of a definition whose one version has this schema."""
    version = field(1, "v1") + field(2, True) + field(3, True) + field(4, field(1, schema)) + field(7, False)
    version += field(5, field(1, b"") + field(2, field(1, ".spec.n") + field(2, ".status.n")))
    names = field(1, "boxes") + field(2, "") + field(4, "Box")
    spec = field(1, "example.com") + field(3, names) + field(4, "Cluster") + field(7, version) + field(10, False)
    raw = field(1, field(1, "boxes.example.com")) + field(2, spec) + field(3, field(2, field(1, "") + field(4, "")))
    head = field(1, "apiextensions.k8s.io/v1") + field(2, "CustomResourceDefinition")
    doc = decode_protobuf(b"k8s\0" + field(1, head) + field(2, raw))
    admit(schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), doc)
    return doc


def schema_in(doc: dict[str, Any]) -> Any:
    return doc["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_a_definition_is_read_as_its_json_would_be() -> None:
    doc = definition(field(5, "object"))
    assert doc["spec"]["names"] == {"plural": "boxes", "kind": "Box"}
    version = doc["spec"]["versions"][0]
    assert (version["served"], version["storage"]) == (True, True)
    assert version["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
    }
    assert schema_in(doc) == {"type": "object"}


def test_numbers_values_and_nested_schemas() -> None:
    colour = field(5, "string") + field(8, json('"red"')) + field(20, json('"red"')) + field(20, json("null"))
    size = field(5, "integer") + field(9, 10.0) + field(11, 0.5) + field(13, 0) + field(37, True)
    parts = field(5, "array") + field(24, field(1, field(5, "string"))) + field(42, "set")
    free = field(5, "object") + field(30, field(1, True) + field(2, field(5, "string"))) + field(38, True)
    shut = field(5, "object") + field(30, field(1, False))
    properties = {"colour": colour, "free": free, "parts": parts, "shut": shut, "size": size}
    schema = field(5, "object") + b"".join(field(29, entry(name, below)) for name, below in properties.items())
    assert schema_in(definition(schema))["properties"] == {
        "colour": {"type": "string", "default": "red", "enum": ["red", None]},
        "free": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "parts": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "shut": {"type": "object", "additionalProperties": False},
        "size": {"type": "integer", "maximum": 10, "minimum": 0.5, "maxLength": 0, "nullable": True},
    }


def test_lists_of_schemas_and_names_where_either_may_stand() -> None:
    schema = field(24, field(2, field(5, "string")) + field(2, field(5, "integer")))
    schema += field(32, entry("a", field(2, "b") + field(2, "c")))
    assert schema_in(definition(schema)) == {
        "items": [{"type": "string"}, {"type": "integer"}],
        "dependencies": {"a": ["b", "c"]},
    }


@pytest.mark.parametrize("schema", [field(9, "text"), field(30, field(1, "text")), field(8, json("{"))])
def test_what_cannot_be_read_is_refused(schema: bytes) -> None:
    with pytest.raises(Malformed):
        definition(schema)
