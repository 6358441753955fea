"""Fields of a custom resource that a field selector may name: declared in the definition, of simple types."""

from __future__ import annotations

from typing import Any

from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, duplicate, invalid, required, too_many

MAX_SELECTABLE_FIELDS = 8


def selectable_field_errors(fields: list[Doc], schema: Doc | None, path: str) -> Errors:
    """What is wrong with `selectableFields` of one version. Mirrors ValidateCustomResourceSelectableFields."""
    if not fields:
        return []
    if not schema:
        return [invalid(path, "", "may only be set when `version.schema.openAPIV3Schema` is not included")]
    errors: Errors = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            errors.append(required(where))
            continue
        found = _schema_at(schema, text)
        if isinstance(found, str):
            errors.append(invalid(where, text, f"is an invalid path: {found}"))
            continue
        if text.split(".")[1] == "metadata":
            errors.append(invalid(where, text, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            told = "must point to a field of type string, boolean or integer. Enum string fields and strings with"
            errors.append(invalid(where, text, f"{told} formats are allowed."))
        if text in seen:
            errors.append(duplicate(where, text))
        seen.add(text)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        errors.append(too_many(path, len(seen), MAX_SELECTABLE_FIELDS))
    return errors


def _schema_at(schema: Doc, text: str) -> Doc | str:
    """The schema of the field at a path such as `.spec.colour`, or why there is none."""
    if "[" in text or "]" in text:
        return "array notation is not allowed"
    before, *steps = text.split(".")
    if before:
        return f"expected [ or . but got: {before}"
    if not all(steps):
        return "unexpected end of JSON path"
    found: Any = schema
    for name in steps:
        if found.get("properties"):
            found = found["properties"].get(name)
        else:
            found = found.get("additionalProperties")
        if not isinstance(found, dict):
            return "does not refer to a valid field"
    return dict(found)


def selectable_values(doc: Doc, fields: tuple[str, ...]) -> dict[str, str]:
    """What selectable fields hold in a document, as text: a selector compares with that; absent is empty."""
    return {field: _text(dig(doc, *field.split("."))) for field in fields}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return str(value) if isinstance(value, (str, int)) else ""
