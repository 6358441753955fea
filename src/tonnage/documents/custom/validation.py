"""What a schema demands of a document's values."""

from __future__ import annotations

from tonnage.documents.custom.structural import Structural
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


def validate(schema: Structural, doc: Doc) -> Errors:
    return []


def validate_update(schema: Structural, new: Doc, old: Doc) -> Errors:
    return validate(schema, new)
