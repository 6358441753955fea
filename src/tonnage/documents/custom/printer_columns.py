"""`additionalPrinterColumns`: the columns `kubectl get` shows of a custom resource, and what stands in them.

A definition without columns has the one that upstream gives it, Age. The heading Name is the server's. A cell holds a
value of the column's type, or nothing (None) when the document has no such field or one of another type; text columns
show whatever there is. Mirrors upstream's tableconvertor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tonnage.clock import InvalidTime, parse_rfc3339
from tonnage.documents.custom.json_path import ABSENT, MAX_FOUND, InvalidJsonPath, JsonPath, parse
from tonnage.documents.go_text import plain
from tonnage.objects.document import Doc, encode

MAX_COLUMNS = 100
MAX_CELL_CHARS = 4096
"""Of one cell: many columns may show the same megabyte."""
_LOOKS_A_CELL = 20
_AGE: Doc = {
    "name": "Age",
    "type": "date",
    "description": "When the server created the object.",
    "jsonPath": ".metadata.creationTimestamp",
}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of a definition, its path compiled."""

    name: str
    type: str
    path: JsonPath
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Doc:
        """The TableColumnDefinition, with every field present as upstream sends it."""
        told = self.description or f"Custom resource definition column (in JSONPath format): {self.path.text}"
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": told,
            "priority": self.priority,
        }

    def cell(self, doc: Doc, age: Callable[[str], str], looks: Looks | None = None) -> Any:
        """What stands in this column for a document: the first value that its path finds."""
        looks = looks or Looks()
        value, looked_at = self.path.first(doc, looks.next_cell())
        looks.left -= looked_at
        if value is ABSENT:
            return None
        return _text(value) if self.type == "string" else _value(self.type, value, age)


class Looks:
    """How many values the paths of one table may still look at: `..` and filters multiply, so do columns and rows."""

    def __init__(self) -> None:
        self.left = 100_000

    def next_cell(self) -> int:
        """What one more cell may look at. Ordinary paths need less than each cell brings with it."""
        self.left += _LOOKS_A_CELL
        return max(0, min(MAX_FOUND, self.left))


def printer_columns(columns: Iterable[Doc]) -> tuple[PrinterColumn, ...]:
    """The columns of one version, after Name. One with a path that cannot be read ends them, as it does upstream.

    There are at most `MAX_COLUMNS`: each is work for every object.
    """
    made: list[PrinterColumn] = []
    for column in islice(columns or (_AGE,), MAX_COLUMNS):
        try:
            path = parse(column["jsonPath"])
        except InvalidJsonPath:
            break
        made.append(
            PrinterColumn(
                column["name"],
                column["type"],
                path,
                column.get("format", ""),
                column.get("description", ""),
                column.get("priority", 0),
            )
        )
    return tuple(made)


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        text = encode(value)[: 4 * MAX_CELL_CHARS].decode(errors="ignore")
    else:
        text = "<no value>" if value is None else plain(value)
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}..."


def _value(kind: str, value: Any, age: Callable[[str], str]) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "integer" and is_number:
        return int(value)
    if kind == "number" and is_number:
        return value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "date" and isinstance(value, str):
        if value in ("", "null"):
            return "<unknown>"
        try:
            parse_rfc3339(value)
        except InvalidTime:
            return "<invalid>"
        return age(value)
    return None
