"""OpenAPI version 2 as protobuf: the message `openapi.v2.Document` of google/gnostic, written by hand.

client-go reads version 2 in no other form. The messages mirror the JSON they stand for, so an encoder needs no
generated code: the tables below give, for each message, the number and shape of the JSON keys we use. Maps become lists
of named pairs, and whatever begins with `x-` travels as YAML text (JSON is YAML) in the message's vendor extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tonnage.objects.document import Doc, encode

Encoder = Callable[[Any], Iterator[bytes]]
"""The protobuf fields of a JSON value: none, one, or several for a repeated field."""


def encode_document(document: Doc) -> bytes:
    return _message(_DOCUMENT, document)


# -- the wire: a field is its number, its type (0 varint, 2 bytes), and the value ------------------------------------


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _bytes(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


# -- shapes ----------------------------------------------------------------------------------------------------------


def _text(number: int) -> Encoder:
    return lambda value: iter((_bytes(number, value.encode()),))


def _texts(number: int) -> Encoder:
    return lambda values: (_bytes(number, value.encode()) for value in values)


def _flag(number: int) -> Encoder:
    return lambda value: iter((_varint(number << 3) + _varint(int(value)),))


def _sub(number: int, fields: dict[str, Encoder]) -> Encoder:
    return lambda value: iter((_bytes(number, _message(fields, value)),))


def _wrapped(number: int, inner: Encoder) -> Encoder:
    """A message that only wraps `inner`: TypeItem, SchemaItem, the arms of a oneof."""
    return lambda value: iter((_bytes(number, b"".join(inner(value))),))


def _named(number: int, inner: Encoder) -> Encoder:
    """A map as repeated {name = 1, value = 2}; `inner` must write field 2."""
    return lambda pairs: (
        _bytes(number, _bytes(1, name.encode()) + b"".join(inner(value))) for name, value in pairs.items()
    )


def _any(number: int) -> Encoder:
    """`Any`: readers use only its field 2, the YAML text."""
    return lambda value: iter((_bytes(number, _bytes(2, encode(value))),))


def _message(fields: dict[str, Encoder], value: Doc) -> bytes:
    made: list[bytes] = []
    for key, item in value.items():
        if key.startswith("x-"):
            made += fields["x-"]({key: item})
        elif key in fields:
            made += fields[key](item)
    return b"".join(made)


# -- messages: JSON key -> field -------------------------------------------------------------------------------------

_SCHEMA: dict[str, Encoder] = {
    "$ref": _text(1),
    "format": _text(2),
    "description": _text(4),
    "default": _any(5),
    "required": _texts(19),
    "type": _wrapped(22, _text(1)),
    "x-": _named(31, _any(2)),
}
_SCHEMA["additionalProperties"] = _wrapped(
    21, lambda value: (_flag(2) if value in (True, False) else _sub(1, _SCHEMA))(value)
)
_SCHEMA["items"] = _wrapped(23, _sub(1, _SCHEMA))
_SCHEMA["properties"] = _wrapped(25, _named(1, _sub(2, _SCHEMA)))

_BODY: dict[str, Encoder] = {"name": _text(2), "in": _text(3), "required": _flag(4), "schema": _sub(5, _SCHEMA)}
_IN_PATH: dict[str, Encoder] = {
    "required": _flag(1),
    "in": _text(2),
    "description": _text(3),
    "name": _text(4),
    "type": _text(5),
}
_IN_QUERY: dict[str, Encoder] = {"in": _text(2), "description": _text(3), "name": _text(4), "type": _text(6)}
# ParametersItem -> Parameter (1) -> either BodyParameter (1), or NonBodyParameter (2) -> query (3) or path (4)
_PARAMETER = {
    "body": _wrapped(1, _sub(1, _BODY)),
    "query": _wrapped(1, _wrapped(2, _sub(3, _IN_QUERY))),
    "path": _wrapped(1, _wrapped(2, _sub(4, _IN_PATH))),
}


def _parameters(number: int) -> Encoder:
    return lambda items: (_bytes(number, b"".join(_PARAMETER[item["in"]](item))) for item in items)


_RESPONSE: dict[str, Encoder] = {"description": _text(1), "schema": _wrapped(2, _sub(1, _SCHEMA))}
_OPERATION: dict[str, Encoder] = {
    "tags": _texts(1),
    "description": _text(3),
    "operationId": _text(5),
    "produces": _texts(6),
    "consumes": _texts(7),
    "parameters": _parameters(8),
    "responses": _wrapped(9, _named(1, _wrapped(2, _sub(1, _RESPONSE)))),
    "x-": _named(13, _any(2)),
}
_PATH: dict[str, Encoder] = {
    "get": _sub(2, _OPERATION),
    "put": _sub(3, _OPERATION),
    "post": _sub(4, _OPERATION),
    "delete": _sub(5, _OPERATION),
    "patch": _sub(8, _OPERATION),
    "parameters": _parameters(9),
}
_DOCUMENT: dict[str, Encoder] = {
    "swagger": _text(1),
    "info": _sub(2, {"title": _text(1), "version": _text(2)}),
    "paths": _wrapped(8, _named(2, _sub(2, _PATH))),
    "definitions": _wrapped(9, _named(1, _sub(2, _SCHEMA))),
}
