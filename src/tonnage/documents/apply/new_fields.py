"""All that a new document sets, for whoever creates it: the difference from an empty one.

What a document sets is the sum of what its parts set. The specs of pods are mostly those of their templates, so their
fields are worked out once and shared (`known_pod_specs`): which fields there are does not depend on the words that a
spec is known without, the names of claims and a hostname.
"""

from __future__ import annotations

from functools import cache

from tonnage.documents.apply.field_set import FieldSet, Tree, ordered
from tonnage.documents.apply.field_walk import compare
from tonnage.documents.known_pod_specs import KnownSpecs, text_of_spec
from tonnage.documents.schema import Struct, schema_of
from tonnage.objects.document import Doc

_fields_of_specs: KnownSpecs[Tree] = KnownSpecs()


def new_fields(struct: Struct, doc: Doc) -> FieldSet:
    """The fields of a new document, containers on the way included. Raises UnnamedItem."""
    if struct is not _pod_schema() or "spec" not in doc:
        return _worked_out(struct, doc)
    text = text_of_spec(doc["spec"])
    fields_of_spec = _fields_of_specs.get(text)
    if fields_of_spec is None:
        fields_of_spec = {
            step: ordered(below) if below else below
            for step, below in _worked_out(struct, {"spec": doc["spec"]}).tree.items()
        }
        _fields_of_specs.keep(text, fields_of_spec)
    rest = _worked_out(struct, {field: value for field, value in doc.items() if field != "spec"})
    return FieldSet({**rest.tree, **fields_of_spec})


def _worked_out(struct: Struct, doc: Doc) -> FieldSet:
    difference = compare(struct, {}, doc)
    return difference.added.union(difference.modified)


@cache
def _pod_schema() -> Struct:
    return schema_of("", "v1", "Pod")
