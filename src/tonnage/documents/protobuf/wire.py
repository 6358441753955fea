"""The wire format of protobuf: how a message is cut into fields, without knowing what they mean.

A field is a tag (its number and one of a few wire types) and a value. Kubernetes' messages use two types, varints and
bytes with their length before them, and JSON schemas a third for numbers; the others are recognised so that fields
nobody knows can be skipped. What the numbers mean is the schema's affair, see `protobuf`. Everything unreadable is
`Malformed`, in the words of upstream's decoder.

Two bytes can be a whole object. Every field is therefore charged to the `Budget` of the request before it is looked at,
the known and the unknown alike; of a small message that is read as one value (`parts`) only what it should not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tonnage.documents.admit import Malformed
from tonnage.objects.texts.decode_budget import Budget

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def fields_of(data: bytes, name: str, budget: Budget) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field of a message called `name`, in the order they were written.

    The value is an unsigned int for a varint, bytes for what has a length or is eight bytes long, None for the other
    types. Each is charged to the budget. Raises Malformed, BudgetExceeded.
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
    """The values of a small message whose fields 1, 2, … are given as name=wire type; zero for those left out.

    All of it is one value, and charged as that already; its fields are charged from the second time they come.
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
    """Raises Malformed when a field has another wire type than it should."""
    if found != wanted:
        raise Malformed(f"proto: wrong wireType = {found} for field {name}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 64-bit number, seven bits a byte, lowest first; and where the next thing starts."""
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
    """The low bits read as two's complement."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def text(value: bytes) -> str:
    """A string field. Go lets invalid UTF-8 pass, and replaces it byte by byte when it writes JSON."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return re.sub("[\udc80-\udcff]", "\N{REPLACEMENT CHARACTER}", value.decode(errors="surrogateescape"))


def _extent(data: bytes, at: int, wire_type: int, budget: Budget) -> tuple[int, int]:
    """Where a value that is no varint starts and ends."""
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
    """Groups nest. They are counted, not entered, so that no depth of them can exhaust the stack."""
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
