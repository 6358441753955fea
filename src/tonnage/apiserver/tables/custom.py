"""Custom resources as tables: the name, and the columns that the definition asks for (`documents/custom`)."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import NAME, Cell, Column, Layout, description
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.custom.printer_columns import Looks, PrinterColumn
from tonnage.documents.schema import schema_of
from tonnage.objects.document import Doc


def columns(resource: CustomResource) -> list[Doc]:
    """The column definitions of a custom resource."""
    about = description(schema_of("meta", "v1", "ObjectMeta"), "name")
    name = {"name": NAME.name, "type": NAME.type, "format": NAME.format, "description": about, "priority": 0}
    return [name, *resource.custom.column_definitions()]


def layout(resource: CustomResource) -> Layout:
    """How the rows of one table of a custom resource are filled."""
    looks = Looks()
    return Layout((NAME, *(_column(column, looks) for column in resource.custom.columns)))


def _column(column: PrinterColumn, looks: Looks) -> Column:
    def cell(doc: Doc, now: datetime) -> Cell:
        found: Cell = column.cell(doc, lambda at: cells.age(at, now), looks)
        return found

    return Column(column.name, cell, type=column.type, about=column.description or column.name)
