"""Which objects a list, a watch or a deletion of a collection is about: a stretch of keys, and the selectors as one
question.

Labels may be selected by as one likes. Fields may not: each kind knows which of its fields it can be selected by, and a
selector that names another is refused, because upstream would have to read every object to answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tonnage.apiserver.options import ListOptions
from tonnage.apiserver.requests import Call
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.kinds.event import field_labels
from tonnage.documents.strategy import Strategy
from tonnage.errors import BadRequest
from tonnage.objects.document import decode, dig
from tonnage.objects.resources import Resource
from tonnage.objects.selectors import FieldSelector, LabelMatcher
from tonnage.store import StoreRecord

Matches = Callable[[StoreRecord], bool]


def scope(call: Call) -> str:
    """The store prefix of the call's collection: one namespace, or all."""
    prefix = call.resource.store_prefix
    return f"{prefix}{call.namespace}/" if call.namespace and call.resource.namespaced else prefix


def matcher(strategy: Strategy, call: Call, options: ListOptions) -> Matches:
    """Does a record belong to what was asked for? Raises BadRequest for a field this kind cannot be selected by.

    What it gives keeps nothing of the options but the selectors, put together: a watch has it for an hour.
    """
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
        fields = {field: _text(dig(doc, *field.split("."))) for field in resource.custom.selectable_fields}
        record.attributes.custom = (shape, fields)
    own: Mapping[str, str] = record.attributes.custom[1]
    return own


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


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
