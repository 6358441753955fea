"""Which objects a list, a watch or a deletion of a collection is about: a stretch of keys, and the selectors as one
question.

Labels may be selected by as one likes. Fields may not: each kind knows which of its fields it can be selected by, and a
selector that names another is refused, because upstream would have to read every object to answer it.

Labels and fields that selectors look at, kept beside each stored document. Upstream: storage.AttrFunc.

The store has an `ObjectAttributes` for every record it writes or loads. It decodes nothing until a selector looks, then
once: most objects are listed without a selector, and every watcher of an event shares the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.apiserver.options import ListOptions
from tonnage.apiserver.requests import Call
from tonnage.clock import Clock
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.kinds import strategies
from tonnage.documents.kinds.event import field_labels
from tonnage.documents.schema import Scalar, Struct, Type, schema_of_resource
from tonnage.documents.strategy import Strategy
from tonnage.errors import BadRequest
from tonnage.gates import Gates
from tonnage.objects.document import Doc, decode, dig
from tonnage.objects.resources import RESOURCES, Resource
from tonnage.objects.selectors import FieldSelector, LabelMatcher
from tonnage.store import StoreRecord

Matches = Callable[[StoreRecord], bool]


def scope(call: Call) -> str:
    """The store prefix of the call's collection: one namespace, or all."""
    prefix = call.resource.store_prefix
    return f"{prefix}{call.namespace}/" if call.namespace and call.resource.namespaced else prefix


def matcher(strategy: Strategy, call: Call, options: ListOptions) -> Matches:
    """Does a record belong to what was asked for? Raises BadRequest for a field this kind cannot be selected by."""
    if isinstance(call.resource, CustomResource):
        return _custom_matcher(call.resource, call.name, options)
    labels = options.labels if options.labels is not None and not options.labels.is_empty else None
    fields = options.fields if options.fields is not None and options.fields.terms else None
    by_fields = _by_fields(fields, _stored_names(strategy, call.resource, fields)) if fields is not None else None
    # The old /watch/…/name path, or a selector that leaves one name: the key tells, and no other document is read.
    if name := call.name or (fields.required("metadata.name") if fields is not None else None):
        suffix = f"/{name}"
        return lambda record: record.key.endswith(suffix) and _is_selected(record, labels, by_fields)
    if labels is None and by_fields is None:
        return lambda record: True
    return lambda record: _is_selected(record, labels, by_fields)


def _custom_matcher(resource: CustomResource, name: str, options: ListOptions) -> Matches:
    """The same for custom resources, whose selectable fields come and go: they are read off the documents."""
    labels = options.labels if options.labels is not None and not options.labels.is_empty else None
    fields = options.fields if options.fields is not None and options.fields.terms else None
    asked = fields.fields if fields is not None else ()
    known = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()))
    for field in asked:
        if field not in known and field not in resource.custom.selectable_fields:
            raise BadRequest(f"field label not supported: {field}")
    has_own = any(field not in known for field in asked)
    by_fields = _by_fields(fields, {field: field for field in asked}) if fields is not None else None

    def matches(record: StoreRecord) -> bool:
        if name and not record.key.endswith(f"/{name}"):
            return False
        attributes = record.attributes
        if labels is not None and not labels.matches(attributes.labels):
            return False
        if by_fields is None or not has_own:
            return by_fields is None or by_fields(attributes.fields)
        return by_fields({**attributes.fields, **_own_fields(resource, record)})

    return matches


def _own_fields(resource: CustomResource, record: StoreRecord) -> Mapping[str, str]:
    """The fields of a custom object that its definition lets one select by, read once for all who ask."""
    shape = f"{resource.api_version}/{resource.shape_id}"
    if record.attributes.custom[0] != shape:
        doc = resource.shown(decode(record.document))
        fields = {field: _text(dig(doc, *field.split(".")), "") for field in resource.custom.selectable_fields}
        record.attributes.custom = (shape, fields)
    own: Mapping[str, str] = record.attributes.custom[1]
    return own


_ByFields = Callable[[Mapping[str, str]], bool]


def _by_fields(selector: FieldSelector, names: Mapping[str, str]) -> _ByFields:
    """The selector as a question about stored fields. `names`: under which name each field is stored."""
    matcher = selector.matcher
    return lambda stored: matcher.matches({asked: stored.get(name, "") for asked, name in names.items()})


def _is_selected(record: StoreRecord, labels: LabelMatcher | None, by_fields: _ByFields | None) -> bool:
    attributes = record.attributes
    return (labels is None or labels.matches(attributes.labels)) and (by_fields is None or by_fields(attributes.fields))


def _stored_names(strategy: Strategy, resource: Resource, fields: FieldSelector) -> Mapping[str, str]:
    own = field_labels(resource, strategy.selectable)
    known = {**own, "metadata.name": "metadata.name"}
    # Upstream's kinds with selectable fields list all of them; the others share a list that has both.
    if resource.namespaced or not own:
        known["metadata.namespace"] = "metadata.namespace"
    for label in fields.fields:
        if label not in known:
            raise BadRequest(
                f"field label not supported: {label}"
                if own
                else f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
    return {label: known[label] for label in fields.fields}


Paths = Mapping[str, tuple[str, ...]]
_METADATA: Paths = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


class Selectable:
    """The fields of one kind that a field selector may name, and how each reads as text."""

    def __init__(self, resource: Resource | None, paths: Paths, stands_in: Mapping[str, str]) -> None:
        """Of custom resources, which are none of the table, metadata alone is known for long."""
        self.paths = {**_METADATA, **paths}
        self._stands_in = stands_in
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
    """Labels and selectable fields of one document, read when first asked for."""

    __slots__ = ("_document", "_fields", "_labels", "_selectable", "custom")

    def __init__(self, selectable: Selectable, document: bytes) -> None:
        self._selectable = selectable
        self._document: bytes | None = document
        self._labels: Mapping[str, str] = {}
        self._fields: Mapping[str, str] = {}
        self.custom: tuple[str, Mapping[str, str]] = ("", {})
        """Of a custom object: the fields that its definition lets one select by, and which form of the definition."""

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
            self._document = None  # last: another thread may be reading too, and must not see half


def index_for(gates: Gates, clock: Clock) -> Callable[[str, bytes], ObjectAttributes]:
    """The store's index: attributes of a document, by the resource its key starts with."""
    by_resource = strategies(gates, clock)
    selectable = {
        row.store_prefix.rstrip("/"): Selectable(row, strategy.selectable, strategy.stands_in)
        for row in RESOURCES
        if row.stored_as is None
        for strategy in [by_resource[row.group, row.plural]]
    }

    custom = Selectable(None, {}, {})

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
    """A missing boolean reads `false`, everything else that is missing reads empty, as upstream has it."""
    for step in path:
        if not isinstance(kind, Struct) or step not in kind.fields:
            return ""
        kind = kind.fields[step].type
    return "false" if isinstance(kind, Scalar) and kind.name == "bool" else ""
