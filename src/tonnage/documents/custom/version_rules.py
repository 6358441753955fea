"""The rules of one version of a definition: deprecation, schema, subresources, columns, selectable fields.

Each function takes the version, the path that its errors are told under, and the old spec on an update.
"""

from __future__ import annotations

from tonnage.documents.custom.schema_rules import openapi_schema_errors
from tonnage.documents.custom.selectable_fields import selectable_field_errors
from tonnage.objects.document import Doc, dig
from tonnage.objects.field_errors import Errors, invalid, required

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_AT_ROOT_WITH_STATUS = {
    "description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items",
    "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip
_AT_ROOT_TOLD = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations]"
)


def deprecation_errors(version: Doc, path: str) -> Errors:
    said = version.get("deprecationWarning")
    if said is None:
        return []
    path = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(path, said, "can only be set for deprecated versions")]
    errors: Errors = []
    if len(said.encode()) > 256:
        errors.append(invalid(path, said, "must be <= 256 characters long"))
    if not said:
        errors.append(invalid(path, said, "must not be an empty string"))
    odd = next((index for index, char in enumerate(said) if not char.isprintable()), None)
    if odd is not None:
        told = "must only contain printable UTF-8 characters; non-printable character found at index"
        errors.append(invalid(path, said, f"{told} {odd}"))
    return errors


def schema_errors(version: Doc, path: str, old: Doc | None) -> Errors:
    schema = dig(version, "schema", "openAPIV3Schema")
    if schema is None:
        return []
    path, errors = f"{path}.openAPIV3Schema", []
    if "status" in (version.get("subresources") or {}):
        if schema.get("type") not in (None, "object"):
            told = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            errors.append(invalid(f"{path}.type", schema["type"], told))
        elif set(schema) - _AT_ROOT_WITH_STATUS:
            told = f"only {_AT_ROOT_TOLD} fields are allowed at the root of the schema"
            errors.append(invalid(path, schema, f"{told} if the status subresource is enabled"))
    found = errors + openapi_schema_errors(schema, path)
    return found if found and not _was_so(schema, old) else []


def _was_so(schema: Doc, old: Doc | None) -> bool:
    """Has the old definition this very schema? Then it was accepted once, and stays so."""
    return any(dig(version, "schema", "openAPIV3Schema") == schema for version in (old or {}).get("versions") or ())


def subresource_errors(version: Doc, path: str, old: Doc | None) -> Errors:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        where, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            if field != "labelSelectorPath":
                errors.append(required(where))
        elif wrong := simple_path_errors(value, where):
            errors += wrong
        elif not value.startswith(roots):
            under = "under either .spec or .status" if len(roots) > 1 else f"under {roots[0].rstrip('.')}"
            errors.append(invalid(where, value, f"should be a json path {under}"))
    return errors


def simple_path_errors(value: str, path: str) -> Errors:
    if not value:
        return [invalid(path, value, "must not be empty")]
    return [] if value[0] == "." else [invalid(path, value, "must be a simple json path starting with .")]


def column_errors(version: Doc, path: str, old: Doc | None) -> Errors:
    errors: Errors = []
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(required(f"{where}.name"))
        kind, told = column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"
        if not kind:
            errors.append(required(f"{where}.type", told))
        elif kind not in _COLUMN_TYPES:
            errors.append(invalid(f"{where}.type", kind, told))
        word = column.get("format") or ""
        if word and word not in _COLUMN_FORMATS:
            errors.append(invalid(f"{where}.format", word, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        if not column.get("jsonPath"):
            errors.append(required(f"{where}.JSONPath"))
        else:
            errors += simple_path_errors(column["jsonPath"], f"{where}.JSONPath")
    return errors


def selectable_errors(version: Doc, path: str, old: Doc | None) -> Errors:
    fields = version.get("selectableFields") or []
    return selectable_field_errors(fields, dig(version, "schema", "openAPIV3Schema"), path)
