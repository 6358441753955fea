"""Tables and bare metadata: the forms of `Accept: application/json;as=…;g=meta.k8s.io;v=v1`.

`kubectl get` does not know the kinds it prints: the server sends a Table with headings, cells and the metadata of every
row's object. The columns stand in `pods`, `storage`, `workloads` and `cluster`. Headings, types, priorities and cell
texts are upstream's; the descriptions are from our schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from tonnage.apiserver.tables import cells, cluster, pods, storage, workloads
from tonnage.apiserver.tables.cells import NAME, Cell, Column, Layouts
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.custom.printer_columns import Looks, PrinterColumn
from tonnage.documents.schema import schema_of, schema_of_resource
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource

API_VERSION = "meta.k8s.io/v1"
"""The default; v1beta1 differs only in its name."""

Include = Literal["None", "Metadata", "Object"]
"""How much of its object a row carries (`?includeObject=`)."""

_LAYOUTS: Layouts = {**pods.LAYOUTS, **storage.LAYOUTS, **workloads.LAYOUTS, **cluster.LAYOUTS}

# A kind without columns of its own gets a creation time instead of an age, for kubectl to format.
_PLAIN = (NAME, cells.text("Created At", "metadata.creationTimestamp", "0001-01-01T00:00:00Z", type="date"))


def columns(resource: Resource) -> list[Doc]:
    """The column definitions of a resource. In a watch only the first event has them."""
    if isinstance(resource, CustomResource):
        about = cells.description(schema_of("meta", "v1", "ObjectMeta"), "name")
        name = {"name": NAME.name, "type": NAME.type, "format": NAME.format, "description": about, "priority": 0}
        return [name, *resource.custom.column_definitions()]
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
    layout: Sequence[Column]
    if isinstance(resource, CustomResource):
        looks = Looks()
        layout = (NAME, *(_custom_column(column, looks) for column in resource.custom.columns))
    else:
        layout = _layout(resource)
    conditions_of = pods.completed if layout is pods.COLUMNS else None
    rows: list[Doc] = []
    for doc in docs:
        row: Doc = {"cells": [column.cell(doc, now) for column in layout]}
        if conditions_of is not None and (conditions := conditions_of(doc)):
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


def _layout(resource: Resource) -> tuple[Column, ...]:
    return _LAYOUTS.get((resource.group, resource.kind), _PLAIN)


def _custom_column(column: PrinterColumn, looks: Looks) -> Column:
    def cell(doc: Doc, now: datetime) -> Cell:
        made: Cell = column.cell(doc, lambda at: cells.age(at, now), looks)
        return made

    return Column(column.name, cell)


def partial_metadata(doc: Doc, api_version: str = API_VERSION) -> Doc:
    """A document as PartialObjectMetadata. Shares the metadata with `doc`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": doc.get("metadata", {})}


def partial_metadata_list(docs: list[Doc], *, list_metadata: Doc, api_version: str = API_VERSION) -> Doc:
    """A PartialObjectMetadataList, in the order given."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": list_metadata,
        "items": [partial_metadata(doc, api_version) for doc in docs],
    }
