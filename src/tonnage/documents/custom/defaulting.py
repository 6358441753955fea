"""Defaults of a schema, filled in at every level; and nulls that mean absence.

A null where the schema does not allow one is no value: with a default it becomes the default, without one the field
goes. Inside lists a null stays for validation to refuse, unless the items have a default. A default is filled in
before what lies below it, so a default object gets the defaults of its fields. Mirrors upstream's defaulting.Default
and PruneNonNullableNullsWithoutDefaults; both passes twice are the same as once.
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.custom.structural import Structural
from tonnage.objects.document import copy


def drop_nulls(schema: Structural | None, value: Any) -> None:
    """Take out, in place, the fields that are null, may not be, and have no default."""
    if isinstance(value, dict):
        drop: list[str] = []
        for name, item in value.items():
            below = schema.field(name) if schema is not None else None
            if item is None:
                if below is not None and not below.nullable and below.default is None:
                    drop.append(name)
            elif below is not None and isinstance(item, (dict, list)):
                drop_nulls(below, item)
        for name in drop:
            del value[name]
    elif isinstance(value, list) and schema is not None and schema.items is not None:
        for item in value:
            drop_nulls(schema.items, item)


MAX_DEFAULT_BYTES = 3 * 1024 * 1024
"""How much defaults may add to one document. It is more than an object may have, so that a new one is refused then
(`documents/object_size`); but two bytes of an empty item may stand for a default of a megabyte, and must not get it
a hundred thousand times first."""


def fill_defaults(schema: Structural | None, value: Any) -> None:
    """Fill in, in place, what is absent and has a default, until that is `MAX_DEFAULT_BYTES`."""
    _Filling().fill(schema, value)


class _Filling:
    """One document being filled, and how much may still be added to it."""

    __slots__ = ("left_bytes",)

    def __init__(self) -> None:
        self.left_bytes = MAX_DEFAULT_BYTES

    def fill(self, schema: Structural | None, value: Any) -> None:
        if schema is None:
            return
        if isinstance(value, dict):
            for name, below in schema.properties.items():
                if below.default is not None and (name not in value or _is_no_value(value[name], below)):
                    made = self.default_of(below)
                    if made is None:
                        return
                    value[name] = made
            for name, item in value.items():
                below_or_none = schema.field(name)
                if below_or_none is None:
                    continue
                if name not in schema.properties and _is_no_value(item, below_or_none):
                    item = value[name] = self.default_of(below_or_none)
                self.fill(below_or_none, item)
        elif isinstance(value, list) and schema.items is not None:
            for index, item in enumerate(value):
                if _is_no_value(item, schema.items):
                    item = value[index] = self.default_of(schema.items)
                self.fill(schema.items, item)

    def default_of(self, schema: Structural) -> Any:
        """A copy of the default, null where there is none left to give."""
        self.left_bytes -= schema.default_bytes
        return copy(schema.default) if self.left_bytes >= 0 else None


def _is_no_value(value: Any, schema: Structural) -> bool:
    return value is None and not schema.nullable
