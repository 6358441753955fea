"""Tables and bare metadata: the forms of `Accept: application/json;as=…;g=meta.k8s.io;v=v1`.

`kubectl get` does not know the kinds it prints: the server sends a Table with headings, cells and the metadata of every
row's object. The columns stand in `kubectl.columns`. Headings, types, priorities and cell texts are upstream's; the
descriptions are from our schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Literal

from tonnage.apiserver.tables import cells, pods
from tonnage.apiserver.tables.cells import Cell
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.custom.printer_columns import Looks, PrinterColumn
from tonnage.documents.kinds.event import to_stored
from tonnage.documents.schema import Struct, schema_of, schema_of_resource
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource

API_VERSION = "meta.k8s.io/v1"
"""The default; v1beta1 differs only in its name."""

Include = Literal["None", "Metadata", "Object"]
"""How much of its object a row carries (`?includeObject=`)."""


@dataclass(frozen=True, slots=True)
class Column:
    """`field` is a dotted path in the kind's schema; its description is the column's, unless `about` is given."""

    name: str
    cell: Callable[[Doc, datetime], Cell]
    field: str = ""
    type: str = "string"
    format: str = ""
    wide: bool = False
    about: str = ""

    def definition(self, schema: Struct) -> Doc:
        """The TableColumnDefinition, with every field, as upstream sends it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.about or _description(schema, self.field),
            "priority": 1 if self.wide else 0,
        }


def _description(schema: Struct, field: str) -> str:
    """The schema's description of the field at a dotted path. KeyError for an unknown field."""
    *parents, last = field.split(".")
    for name in parents:
        below = schema.fields[name].type
        if not isinstance(below, Struct):
            raise KeyError(field)
        schema = below
    return schema.fields[last].description


_CELLS = {**vars(cells), **vars(pods)}


@cache
def _layouts() -> dict[str, list[Column]]:
    """The columns of kinds, by `group/Kind`."""
    layouts: dict[str, list[Column]] = {}
    shared: dict[str, Column] = {}
    for line in (files("tonnage.apiserver.tables") / "kubectl.columns").read_text().splitlines():
        heading, colon, rest = line.strip().partition(": ")
        if not heading or heading.startswith("#"):
            continue
        if not line.startswith(" "):
            columns = layouts[heading] = []
            continue
        columns.append(_column(heading, rest) if colon else shared[heading])
        if columns is layouts["shared"]:
            shared[heading] = columns[-1]
    return layouts


def _column(heading: str, text: str) -> Column:
    said, _, about = text.partition(" ~ ")
    how, *options = said.split()
    path = next((word[1:] for word in options if word.startswith(".")), "")
    return Column(
        heading,
        _cell(how, path),
        next((word[1:] for word in options if word.startswith("=")), path),
        next((word for word in options if word in ("boolean", "date", "integer")), "string"),
        format="name" if "name" in options else "",
        wide="wide" in options,
        about=about,
    )


def _cell(how: str, path: str) -> Callable[[Doc, datetime], Cell]:
    name, *words = how.split(":", 1)
    show: Callable[..., Cell] = _CELLS[name]
    steps = path.split(".")
    return (lambda doc, now: show(dig(doc, *steps), *words)) if path else show


def columns(resource: Resource) -> list[Doc]:
    """The column definitions of a resource. In a watch only the first event has them."""
    if isinstance(resource, CustomResource):
        name = _layouts()["shared"][0].definition(schema_of("", "v1", "Pod"))  # all kinds have the same metadata
        return [name, *(column.definition() for column in resource.columns)]
    schema = schema_of_resource(resource)
    return [column.definition(schema) for column in _layout(resource)]


def table(
    resource: Resource,
    docs: list[Doc],
    *,
    now: datetime,
    list_metadata: Doc,
    include: Include = "Metadata",
    headers: bool = True,
    api_version: str = API_VERSION,
) -> Doc:
    """A meta.k8s.io Table with one row per document. `list_metadata` becomes the table's metadata.

    `headers=False` leaves out the definitions, for the later events of a watch.
    """
    layout = _layout(resource)
    rows: list[Doc] = []
    for doc in docs:
        stored = to_stored(resource, doc)
        row: Doc = {"cells": [column.cell(stored, now) for column in layout]}
        if resource.qualified == "pods" and (conditions := pods.completed(doc)):
            row["conditions"] = conditions
        whole = doc if include == "Object" else None
        row["object"] = partial_metadata(doc, api_version) if include == "Metadata" else whole
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_metadata,
        "columnDefinitions": columns(resource) if headers else None,
        "rows": rows,
    }


def _layout(resource: Resource) -> list[Column]:
    layouts = _layouts()
    if isinstance(resource, CustomResource):
        looks = Looks()
        return [layouts["shared"][0], *(_custom_column(column, looks) for column in resource.columns)]
    return layouts.get(f"{resource.group}/{resource.kind}", layouts["plain"])


def _custom_column(column: PrinterColumn, looks: Looks) -> Column:
    return Column(column.name, lambda doc, now: column.cell(doc, lambda at: cells.age(at, now), looks))


def partial_metadata(doc: Doc, api_version: str = API_VERSION) -> Doc:
    """A document as PartialObjectMetadata. Shares the metadata with `doc`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": doc.get("metadata", {})}
