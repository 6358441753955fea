"""The rules of CustomResourceDefinition."""

from __future__ import annotations

from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors


def default_definition(definition: Doc) -> None:
    """Fill in, in place, what upstream fills in whenever it decodes a definition."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def validate_definition(definition: Doc) -> Errors:
    """Everything wrong with a new definition, metadata apart from its name."""
    return []


def validate_definition_update(new: Doc, old: Doc) -> Errors:
    """Everything wrong with a change of a definition."""
    return validate_definition(new)


def validate_definition_status(new: Doc, old: Doc) -> Errors:
    """Everything wrong with a change through the status subresource."""
    return []


def definition_warnings(new: Doc, old: Doc | None) -> list[str]:
    """Sentences for the Warning header of an accepted write."""
    return []
