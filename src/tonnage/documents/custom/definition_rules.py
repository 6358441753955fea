"""The rules for a definition's versions, and what a server writes into its status.

Every `…_errors` function takes the version, the path of its errors, and on an update the old spec. The status has the
accepted names, conditions, and all versions ever stored. Mirrors upstream's naming and establishing controllers:

    created ──► names free? ──► NamesAccepted=True, Established=False (Installing) ──► served ──► Established=True
                      └─ taken ─► NamesAccepted=False (PluralConflict, …), Established=False (NotAccepted)

Names are free within a group if they are accepted for no other definition. An established definition stays established;
if names that it asks for later are taken, it keeps its former names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tonnage.documents import strategy
from tonnage.documents.custom.schema_rules import openapi_schema_errors
from tonnage.objects.document import Doc, copy, dig, same
from tonnage.objects.field_errors import Errors, Wrong, duplicate, invalid, required, too_many

_COLUMN = strategy.TypeRules("apiextensions.CustomResourceColumnDefinition")
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
_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
MAX_SELECTABLE_FIELDS = 8


def deprecation_errors(version: Doc, path: str) -> Wrong:
    said = version.get("deprecationWarning")
    if said is None:
        return
    path = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid(path, said, "can only be set for deprecated versions")
        return
    if len(said.encode()) > 256:
        yield invalid(path, said, "must be <= 256 characters long")
    if not said:
        yield invalid(path, said, "must not be an empty string")
    odd = next((index for index, char in enumerate(said) if not char.isprintable()), None)
    if odd is not None:
        told = "must only contain printable UTF-8 characters; non-printable character found at index"
        yield invalid(path, said, f"{told} {odd}")


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
    errors += openapi_schema_errors(schema, path)
    # A schema of the old definition was accepted once, and stays accepted.
    before = (dig(version, "schema", "openAPIV3Schema") for version in (old or {}).get("versions") or ())
    return errors if errors and schema not in before else []


def subresource_errors(version: Doc, path: str, old: Doc | None) -> Wrong:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        where, value = f"{path}.scale.{field}", scale.get(field) or ""
        if not value:
            if field != "labelSelectorPath":
                yield required(where)
        elif wrong := simple_path_errors(value, where):
            yield from wrong
        elif not value.startswith(roots):
            under = "under either .spec or .status" if len(roots) > 1 else f"under {roots[0].rstrip('.')}"
            yield invalid(where, value, f"should be a json path {under}")


def simple_path_errors(value: str, path: str) -> Errors:
    if not value:
        return [invalid(path, value, "must not be empty")]
    return [] if value[0] == "." else [invalid(path, value, "must be a simple json path starting with .")]


def column_errors(version: Doc, path: str, old: Doc | None) -> Wrong:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _COLUMN(column, f"{path}[{index}]")
        if column.get("jsonPath"):
            yield from simple_path_errors(column["jsonPath"], f"{path}[{index}].JSONPath")


def version_preference(version: str) -> tuple[object, ...]:
    """A key that sorts the most preferred version first."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (1, version)
    major, stage, minor = found.groups()
    return (0, {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))


def deprecation_warning(spec: Doc, version: Doc) -> str | None:
    """The warning for clients of a deprecated version: the definition's own text, or which version to prefer."""
    if not version.get("deprecated"):
        return None
    told: str | None = version.get("deprecationWarning")
    if told is not None:
        return told
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    others = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    best = min(others, key=version_preference, default=name)
    warning = f"{group}/{name} {kind} is deprecated"
    is_better = version_preference(best) < version_preference(name)
    return f"{warning}; use {group}/{best} {kind}" if is_better else warning


def selectable_errors(version: Doc, path: str, old: Doc | None) -> Wrong:
    """Mirrors ValidateCustomResourceSelectableFields."""
    fields, schema = version.get("selectableFields") or [], dig(version, "schema", "openAPIV3Schema")
    if not fields:
        return
    if not schema:
        yield invalid(path, "", "may only be set when `version.schema.openAPIV3Schema` is not included")
        return
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield required(where)
            continue
        found = _schema_at(schema, text)
        if isinstance(found, str):
            yield invalid(where, text, f"is an invalid path: {found}")
            continue
        if text.split(".")[1] == "metadata":
            yield invalid(where, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            told = "must point to a field of type string, boolean or integer. Enum string fields and strings with"
            yield invalid(where, text, f"{told} formats are allowed.")
        if text in seen:
            yield duplicate(where, text)
        seen.add(text)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


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


def condition(definition: Doc, kind: str) -> Doc | None:
    """The condition of a type: Established, NamesAccepted, Terminating."""
    conditions: list[Doc] = dig(definition, "status", "conditions") or []
    return next((found for found in conditions if found.get("type") == kind), None)


def is_established(definition: Doc) -> bool:
    """True if the definition's resources are served."""
    return strategy.has_condition(definition, "Established")


def set_condition(definition: Doc, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Write a condition, in place; its time moves when its status changes. `now` is RFC 3339 in whole seconds."""
    made = {"lastTransitionTime": now, "message": message, "reason": reason, "status": status, "type": kind}
    strategy.set_condition(definition, {**(condition(definition, kind) or {}), **made}, now=now)


def accept_names(definition: Doc, others: Iterable[Doc], now: str) -> bool:
    """Decide, in place, which names a definition gets among the others of its group. Returns whether it changed."""
    spec, status = definition["spec"], definition.setdefault("status", {})
    wanted, accepted = spec["names"], status.get("acceptedNames") or {}
    if same(wanted, accepted) and condition(definition, "NamesAccepted"):
        return False
    before = copy(status)
    resources, kinds = _taken(definition, others)
    names: Doc = copy(accepted)
    conflict: tuple[str, str] | None = None
    for field, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        wrong = _in_use(wanted.get(field), accepted.get(field), taken)
        if wrong:
            conflict = (reason, wrong)
        else:
            names[field] = copy(wanted.get(field))
    names["categories"] = copy(wanted.get("categories"))
    status["acceptedNames"] = {"kind": "", "plural": "", **{field: name for field, name in names.items() if name}}
    if conflict is None:
        set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        set_condition(definition, "NamesAccepted", "False", *conflict, now)
    if not is_established(definition):
        if conflict is None:
            set_condition(definition, "Established", "False", "Installing", "the initial names have been accepted", now)
        elif condition(definition, "Established") is None:
            set_condition(definition, "Established", "False", "NotAccepted", "not all names are accepted", now)
    return not same(before, status)


def establish(definition: Doc, now: str) -> bool:
    """Mark, in place, a definition with accepted names as served. Returns whether it changed."""
    if not strategy.has_condition(definition, "NamesAccepted") or is_established(definition):
        return False
    told = "the initial names have been accepted"
    set_condition(definition, "Established", "True", "InitialNamesAccepted", told, now)
    return True


def record_stored_version(definition: Doc) -> None:
    """Record, in place, the current storage version in status.storedVersions; earlier versions stay."""
    name = storage_version(definition)
    stored: list[str] = definition.setdefault("status", {}).setdefault("storedVersions", [])
    if name is not None and name not in stored:
        stored.append(name)


def storage_version(definition: Doc) -> str | None:
    versions: list[Doc] = dig(definition, "spec", "versions") or []
    return next((version.get("name") for version in versions if version.get("storage")), None)


def _taken(definition: Doc, others: Iterable[Doc]) -> tuple[set[str], set[str]]:
    """Accepted names in the definition's group: of resources, and of kinds."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in [definition, *others]:
        if dig(other, "spec", "group") != definition["spec"]["group"]:
            continue
        names = dig(other, "status", "acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _in_use(wanted: Any, accepted: Any, taken: set[str]) -> str:
    """Why the names are not free; empty if they are."""
    if not isinstance(wanted, list):
        return f'"{wanted}" is already in use' if wanted != accepted and wanted in taken else ""
    wrong = [f'"{name}" is already in use' for name in wanted if name not in (accepted or ()) and name in taken]
    return wrong[0] if len(wrong) == 1 else f"[{', '.join(dict.fromkeys(wrong))}]" if wrong else ""
