"""Tables and bare metadata: objects as a client asks for them with `Accept: application/json;as=…;g=meta.k8s.io;v=v1`.

`kubectl get` does not know the kinds it prints: the server sends it a Table, with headings, cells and, a row each, the
object's metadata. Which columns a kind has stands in one file for each group of kinds (`pods`, `storage`, `workloads`,
`cluster`, …) as a list of `column.Column`; `cells` holds the wording they share. Headings, types, priorities and the
text of every cell are upstream's; the descriptions are those of our own schemas.

Nothing here reads a clock: ages are computed against the `now` that is handed in.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tonnage.apiserver.tables import cluster, custom, events, pods, storage, workloads
from tonnage.apiserver.tables.column import NAME, Column, Layout, text
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.schema import Struct, schema_of, schema_of_resource
from tonnage.objects.document import Doc
from tonnage.objects.resources import Resource

API_VERSION = "meta.k8s.io/v1"
"""What is served unless a client asks for v1beta1, which differs in nothing but its name."""

Include = Literal["None", "Metadata", "Object"]
"""How much of each object its row carries (`?includeObject=`)."""

_LAYOUTS: dict[tuple[str, str], Layout] = {
    **pods.LAYOUTS,
    **cluster.NODE_LAYOUTS,
    **storage.LAYOUTS,
    **workloads.LAYOUTS,
    **workloads.JOB_LAYOUTS,
    **cluster.SERVICE_LAYOUTS,
    **events.LAYOUTS,
    **cluster.LAYOUTS,
    **cluster.BINDING_LAYOUTS,
}

# A kind without columns of its own gets a creation time instead of an age, for kubectl to format.
_PLAIN = Layout(
    (
        NAME,
        Column(
            "Created At",
            text("metadata.creationTimestamp", "0001-01-01T00:00:00Z"),
            type="date",
            field="metadata.creationTimestamp",
        ),
    )
)


def columns(resource: Resource, *, subresource: str = "") -> list[Doc]:
    """The column definitions of a resource. In a watch only the first event carries them."""
    if isinstance(resource, CustomResource) and subresource != "scale":
        return custom.columns(resource)
    layout, schema = _shown_as(resource, subresource)
    return [column.definition(schema) for column in layout.columns]


def table(
    resource: Resource,
    docs: list[Doc],
    *,
    now: datetime,
    list_metadata: Doc,
    include: Include = "Metadata",
    headers: bool = True,
    subresource: str = "",
    api_version: str = API_VERSION,
) -> Doc:
    """A meta.k8s.io Table with one row for each document, in the order given.

    `list_metadata` becomes the table's metadata: resourceVersion, and continue and remainingItemCount of a page. For a
    single object it is that object's resourceVersion. `headers=False` leaves the definitions out, for the later events
    of a watch and for `?noHeaders=true`. `subresource` matters for `scale`, whose documents are of another kind.
    """
    if isinstance(resource, CustomResource) and subresource != "scale":
        layout = custom.layout(resource)
    else:
        layout, _ = _shown_as(resource, subresource)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_metadata,
        "columnDefinitions": columns(resource, subresource=subresource) if headers else None,
        "rows": [_row(layout, doc, now, include, api_version) for doc in docs],
    }


def _row(layout: Layout, doc: Doc, now: datetime, include: Include, api_version: str) -> Doc:
    row: Doc = {"cells": [column.cell(doc, now) for column in layout.columns]}
    if conditions := layout.conditions(doc):
        row["conditions"] = conditions
    match include:
        case "Object":
            row["object"] = doc
        case "Metadata":
            row["object"] = partial_metadata(doc, api_version)
        case "None":
            row["object"] = None
    return row


def _shown_as(resource: Resource, subresource: str) -> tuple[Layout, Struct]:
    if subresource == "scale":
        return _LAYOUTS["autoscaling", "Scale"], schema_of("autoscaling", "v1", "Scale")
    return _LAYOUTS.get((resource.group, resource.kind), _PLAIN), schema_of_resource(resource)


def partial_metadata(doc: Doc, api_version: str = API_VERSION) -> Doc:
    """A document as PartialObjectMetadata: its metadata and nothing else. Shares the metadata with `doc`."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": doc.get("metadata", {})}


def partial_metadata_list(docs: list[Doc], *, list_metadata: Doc, api_version: str = API_VERSION) -> Doc:
    """A PartialObjectMetadataList, in the order given."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": list_metadata,
        "items": [partial_metadata(doc, api_version) for doc in docs],
    }
