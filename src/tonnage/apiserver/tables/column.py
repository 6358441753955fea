"""One column of a table: its heading, where its description comes from, and the function that fills its cells.

Heading and cell stand side by side, so that a kind's table reads as a list of columns and cannot fall out of step with
itself. A column's description is the one of the field it shows; only columns that sum up several fields bring their own
words. `wide` columns are those `kubectl get -o wide` adds: the server always sends them, with priority 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tonnage.apiserver.tables import cells
from tonnage.documents.schema import Struct
from tonnage.objects.document import Doc, dig

Cell = str | int | float | bool | None
"""None where a custom resource has nothing to show."""
CellOf = Callable[[Doc, datetime], Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """`cell(doc, now)` is pure. Exactly one of `field` (a dotted path in the kind's schema) and `about` is given."""

    name: str
    cell: CellOf
    type: str = "string"
    format: str = ""
    wide: bool = False
    field: str = ""
    about: str = ""

    def definition(self, schema: Struct) -> Doc:
        """The TableColumnDefinition, with every field present as upstream sends it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.about or description(schema, self.field),
            "priority": 1 if self.wide else 0,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How one kind is shown. `conditions` marks whole rows: kubectl can hide completed pods by it."""

    columns: tuple[Column, ...]
    conditions: Callable[[Doc], list[Doc]] = lambda doc: []


def description(schema: Struct, field: str) -> str:
    """What the schema says about the field at a dotted path. KeyError when there is no such field."""
    *parents, last = field.split(".")
    for name in parents:
        found = schema.fields[name].type
        if not isinstance(found, Struct):
            raise KeyError(field)
        schema = found
    return schema.fields[last].description


# -- cells that show one field as it is ------------------------------------------------------------------------------


def text(path: str, missing: str = "") -> CellOf:
    """The string at a dotted path; `missing` when it is absent or empty."""
    steps = path.split(".")
    return lambda doc, now: str(dig(doc, *steps) or missing)


def number(path: str) -> CellOf:
    """The integer at a dotted path, 0 when absent."""
    steps = path.split(".")
    return lambda doc, now: int(dig(doc, *steps) or 0)


def flag(path: str, *, missing: bool = False) -> CellOf:
    """The boolean at a dotted path."""
    steps = path.split(".")

    def cell(doc: Doc, now: datetime) -> Cell:
        value = dig(doc, *steps)
        return missing if value is None else bool(value)

    return cell


def of(show: Callable[[Any], Cell], path: str) -> CellOf:
    """Whatever `show` makes of the value at a dotted path (None when absent)."""
    steps = path.split(".")
    return lambda doc, now: show(dig(doc, *steps))


# -- columns that nearly every kind has ------------------------------------------------------------------------------


def _age(doc: Doc, now: datetime) -> Cell:
    return cells.age(dig(doc, "metadata", "creationTimestamp"), now)


NAME = Column("Name", text("metadata.name"), format="name", field="metadata.name")
AGE = Column("Age", _age, field="metadata.creationTimestamp")

CONTAINERS = Column(
    "Containers",
    lambda doc, now: cells.joined(dig(doc, "spec", "template", "spec", "containers"), "name"),
    wide=True,
    about="Names of the containers in the pod template.",
)
IMAGES = Column(
    "Images",
    lambda doc, now: cells.joined(dig(doc, "spec", "template", "spec", "containers"), "image"),
    wide=True,
    about="Images of the containers in the pod template.",
)
