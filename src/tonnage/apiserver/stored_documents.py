"""Stored documents: how they are written, what a resource serves of them, and which of them a selector chooses.

Every stored document begins with its kind and apiVersion, so that a list can leave them out without decoding. Most
documents are served as stored, byte for byte; Events are converted, and custom resources are shown in the requested
version.

A list, watch or deletion of a collection selects a range of keys, and the selectors as a predicate. Any label can be
selected by; of the fields only those that the kind lists, because others would mean reading every object. The store
keeps an `ObjectAttributes` per record: it is decoded once, when a selector first needs it, for all watchers of an
event. Upstream: storage.AttrFunc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tonnage.apiserver.requests import Call, ListOptions
from tonnage.clock import Clock
from tonnage.documents.creation import strategies
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.kinds import event
from tonnage.documents.kinds.event import from_stored, with_null_times
from tonnage.documents.schema import Scalar, Struct, Type, schema_of_resource
from tonnage.documents.strategy import Strategy
from tonnage.errors import BadRequest
from tonnage.gates import Gates
from tonnage.objects.document import Doc, decode, dig, encode
from tonnage.objects.resources import RESOURCES, Resource
from tonnage.objects.selectors import FieldSelector
from tonnage.store.records import StoreRecord


def opening_of(resource: Resource) -> bytes:
    """The beginning of every document of this resource, stored or served."""
    return _opening(resource.kind, resource.api_version)


@lru_cache(maxsize=1024)
def _opening(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def encoder(resource: Resource, doc: Doc) -> Callable[[int], bytes]:
    """From the revision of a write to the stored document, with that revision as its resourceVersion."""
    opening = opening_of(resource.stored)
    rest = {field: value for field, value in doc.items() if field not in ("kind", "apiVersion")}

    def encoded(revision: int) -> bytes:
        rest["metadata"]["resourceVersion"] = str(revision)
        return opening + encode(rest)[1:]

    return encoded


def is_served_as_stored(resource: Resource) -> bool:
    return resource.stored.qualified != "events" and not isinstance(resource, CustomResource)


def served(resource: Resource, doc: Doc) -> Doc:
    """A stored document as clients of this resource see it."""
    if isinstance(resource, CustomResource):
        return resource.shown(doc)
    return doc if is_served_as_stored(resource) else with_null_times(resource, from_stored(resource, doc))


def served_bytes(resource: Resource, document: bytes) -> bytes:
    return document if is_served_as_stored(resource) else encode(served(resource, decode(document)))


Matches = Callable[[StoreRecord], bool]


def scope(call: Call) -> str:
    """The store prefix of the call's collection: one namespace, or all."""
    prefix = call.at.resource.store_prefix
    return f"{prefix}{call.at.namespace}/" if call.at.namespace and call.at.resource.namespaced else prefix


def matcher(strategy: Strategy, call: Call, options: ListOptions) -> Matches:
    """A predicate for the selected records. Raises BadRequest for a field this kind cannot be selected by.

    It keeps only the selectors of the options: a watch holds it for an hour.
    """
    resource, custom = call.at.resource, call.at.resource if isinstance(call.at.resource, CustomResource) else None
    labels = options.labels if options.labels is not None and not options.labels.is_empty else None
    fields = options.fields if options.fields is not None and options.fields.terms else None
    names: Mapping[str, str] = {}
    if fields is not None:
        names = _stored_names(strategy, resource, fields)
    by_fields = fields.matcher if fields is not None else None
    # For the old /watch/…/name path, or a selector for one name, the key decides, and no document is decoded.
    name = call.at.name or (fields.required("metadata.name") if fields is not None else None)
    suffix = f"/{name}" if name else ""
    of_definition = custom if custom is not None and any(not field.startswith("metadata.") for field in names) else None

    def matches(record: StoreRecord) -> bool:
        if suffix and not record.key.endswith(suffix):
            return False
        if labels is not None and not labels.matches(record.attributes.labels):
            return False
        if by_fields is None:
            return True
        stored = record.attributes.fields
        if of_definition is not None:
            stored = {**stored, **_own_fields(of_definition, record)}
        return by_fields.matches({field: stored.get(stored_as, "") for field, stored_as in names.items()})

    return matches if suffix or labels is not None or by_fields is not None else lambda record: True


def _own_fields(resource: CustomResource, record: StoreRecord) -> Mapping[str, str]:
    """The selectable fields of a custom object, read once for all selectors."""
    shape = f"{resource.api_version}/{resource.shape_id}"
    if record.attributes.custom[0] != shape:
        doc = resource.shown(decode(record.document))
        fields = {field: _text(dig(doc, *field.split(".")), "") for field in resource.selectable_fields}
        record.attributes.custom = (shape, fields)
    own: Mapping[str, str] = record.attributes.custom[1]
    return own


def _stored_names(strategy: Strategy, resource: Resource, fields: FieldSelector) -> Mapping[str, str]:
    """The stored name of each field in a selector. Raises BadRequest."""
    own = event.field_labels(resource, strategy.selectable)
    if is_custom := isinstance(resource, CustomResource):
        own = {label: label for label in resource.selectable_fields}
    known = {**own, "metadata.name": "metadata.name"}
    # Upstream's kinds with selectable fields list all of them; the others share a list that has both.
    if resource.namespaced or not (own or is_custom):
        known["metadata.namespace"] = "metadata.namespace"
    for label in fields.fields:
        if label not in known:
            raise BadRequest(
                f"field label not supported: {label}"
                if own or is_custom
                else f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
    return {label: known[label] for label in fields.fields}


_METADATA = ("metadata.name", "metadata.namespace")


class Selectable:
    """The selectable fields of one kind, and how each reads as text."""

    def __init__(self, resource: Resource | None, strategy: type[Strategy] = Strategy) -> None:
        """Custom resources, which are outside the table, have only metadata here."""
        labels = (*_METADATA, *strategy.selectable)
        self.paths = {label: tuple(strategy.selected_at.get(label, label).split(".")) for label in labels}
        self._stands_in = strategy.stands_in
        self._absent = {
            name: _absent_text(schema_of_resource(resource), path) if resource is not None else ""
            for name, path in self.paths.items()
        }

    def read(self, doc: Doc) -> dict[str, str]:
        read = {name: _text(dig(doc, *path), self._absent[name]) for name, path in self.paths.items()}
        for name, other in self._stands_in.items():
            read[name] = read[name] or read[other]
        return read


class ObjectAttributes:
    """Labels and selectable fields of one document, decoded on first use."""

    __slots__ = ("_document", "_fields", "_labels", "_selectable", "custom")

    def __init__(self, selectable: Selectable, document: bytes) -> None:
        self._selectable = selectable
        self._document: bytes | None = document
        self._labels: Mapping[str, str] = {}
        self._fields: Mapping[str, str] = {}
        self.custom: tuple[str, Mapping[str, str]] = ("", {})
        """Of a custom object: its selectable fields, and the form of the definition they were read by."""

    @property
    def labels(self) -> Mapping[str, str]:
        self._read()
        return self._labels

    @property
    def fields(self) -> Mapping[str, str]:
        self._read()
        return self._fields

    def _read(self) -> None:
        document = self._document
        if document is not None:
            doc = decode(document)
            self._labels = doc["metadata"].get("labels", {})
            self._fields = self._selectable.read(doc)
            self._document = None  # last: another thread may be reading, and must not see half


def index_for(gates: Gates, clock: Clock) -> Callable[[str, bytes], ObjectAttributes]:
    """The store's index: the attributes of a document, by the resource of its key."""
    by_resource, custom = strategies(gates, clock), Selectable(None)
    selectable = {
        row.store_prefix.rstrip("/"): Selectable(row, type(by_resource[row.group, row.plural]))
        for row in RESOURCES
        if row.stored_as is None
    }

    def index(key: str, document: bytes) -> ObjectAttributes:
        return ObjectAttributes(selectable.get(key.partition("/")[0], custom), document)

    return index


def _text(value: Any, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _absent_text(kind: Type, path: tuple[str, ...]) -> str:
    """A missing boolean reads `false`, any other missing field empty, as upstream."""
    for step in path:
        if not isinstance(kind, Struct) or step not in kind.fields:
            return ""
        kind = kind.fields[step].type
    return "false" if isinstance(kind, Scalar) and kind.name == "bool" else ""
