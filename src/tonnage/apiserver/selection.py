"""Which objects a list, a watch or a deletion of a collection is about: a stretch of keys, and the selectors as one
question.

Labels may be selected by as one likes. Fields may not: each kind knows which of its fields it can be selected by, and a
selector that names another is refused, because upstream would have to read every object to answer it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tonnage.apiserver.options import ListOptions
from tonnage.apiserver.requests import Call
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.event_conversion import field_labels
from tonnage.documents.strategies.base import Strategy
from tonnage.errors import BadRequest
from tonnage.objects.document import decode, dig
from tonnage.objects.resources import Resource
from tonnage.objects.selectors import FieldSelector, LabelSelector
from tonnage.store import Record

Matches = Callable[[Record], bool]


def scope(call: Call) -> str:
    """The store prefix of the call's collection: one namespace, or all."""
    prefix = call.resource.store_prefix
    return f"{prefix}{call.namespace}/" if call.namespace and call.resource.namespaced else prefix


def matcher(strategy: Strategy, call: Call, options: ListOptions) -> Matches:
    """Does a record belong to what was asked for? Raises BadRequest for a field this kind cannot be selected by."""
    if isinstance(call.resource, CustomResource):
        return _custom_matcher(call.resource, call.name, options)
    labels = options.labels if options.labels is not None and not options.labels.is_empty else None
    fields = _stored_fields(strategy, call.resource, options.fields) if options.fields is not None else None
    if fields is not None and not fields.terms:
        fields = None
    # The old /watch/…/name path, or a selector that leaves one name: the key tells, and no other document is read.
    if name := call.name or (fields.required("metadata.name") if fields is not None else None):
        suffix = f"/{name}"
        return lambda record: record.key.endswith(suffix) and _is_selected(record, labels, fields)
    if labels is None and fields is None:
        return lambda record: True
    return lambda record: _is_selected(record, labels, fields)


def _custom_matcher(resource: CustomResource, name: str, options: ListOptions) -> Matches:
    """The same for custom resources, whose selectable fields come and go: they are read off the documents."""
    labels = options.labels if options.labels is not None and not options.labels.is_empty else None
    terms = options.fields.terms if options.fields is not None else ()
    known = ("metadata.name", *(("metadata.namespace",) if resource.namespaced else ()))
    for term in terms:
        if term.field not in known and term.field not in resource.custom.selectable_fields:
            raise BadRequest(f"field label not supported: {term.field}")
    own = [term.field for term in terms if term.field not in known]

    def matches(record: Record) -> bool:
        if name and not record.key.endswith(f"/{name}"):
            return False
        attributes = record.attributes
        if labels is not None and not labels.matches(attributes.labels):
            return False
        if not terms or options.fields is None:
            return True
        fields = dict(attributes.fields)
        if own:
            doc = resource.shown(decode(record.document))
            fields |= {field: _text(dig(doc, *field.split("."))) for field in own}
        return options.fields.matches(fields)

    return matches


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_selected(record: Record, labels: LabelSelector | None, fields: FieldSelector | None) -> bool:
    attributes = record.attributes
    return (labels is None or labels.matches(attributes.labels)) and (
        fields is None or fields.matches(attributes.fields)
    )


def _stored_fields(strategy: Strategy, resource: Resource, fields: FieldSelector) -> FieldSelector:
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
    return FieldSelector(tuple(replace(term, field=known[term.field]) for term in fields.terms))
