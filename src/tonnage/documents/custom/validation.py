"""What a schema demands of a document: types, bounds, patterns, choices, and nothing twice in lists that are sets.

`validate` puts together upstream's three passes: values against the schema (`value_rules`), metadata of embedded
resources, and lists of type set and map. They never raise; what is wrong comes back as field errors.

An update may leave what was wrong before and did not change, so that a schema can be tightened while objects exist
(upstream calls this ratcheting).
"""

from __future__ import annotations

from typing import Any

from tonnage.documents.admit import Findings, Malformed, Path, compile_check
from tonnage.documents.custom.scalar_rules import ABSENT
from tonnage.documents.custom.structural import Structural, step
from tonnage.documents.custom.value_rules import Rules
from tonnage.documents.schema import schema_of
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, encode
from tonnage.objects.field_errors import Errors, duplicate, invalid, required


def validate(schema: Structural, doc: Doc, rules: Rules | None = None) -> Errors:
    """Everything wrong with a new document. `rules` are those of the schema, for whoever keeps them."""
    errors = (rules or Rules(schema.source)).errors(doc)
    return errors + _embedded_errors(schema, doc, "") + list_errors(schema, doc, "")


def validate_update(schema: Structural, new: Doc, old: Doc, rules: Rules | None = None) -> Errors:
    """Everything wrong with a change."""
    errors = (rules or Rules(schema.source)).errors(new, old)
    errors += _embedded_errors(schema, new, "")
    return errors if list_errors(schema, old, "") else errors + list_errors(schema, new, "")


def validate_status(schema: Structural, new: Doc, old: Doc, rules: Rules) -> Errors:
    """Everything wrong with a change of status alone; `rules` are those of status.

    Sentences tell fields from status on, as upstream's do: `status.state: … state in body should be …`.
    """
    errors = rules.errors(new["status"], old.get("status", ABSENT), "status") if "status" in new else []
    return errors if list_errors(schema, old, "") else errors + list_errors(schema, new, "")


def value_errors(schema: Structural, value: Any, path: str) -> Errors:
    """What is wrong with one value, such as a default, that stands at a path of a definition."""
    found = _embedded_errors(schema, value, path)
    return found or Rules(schema.source).errors(value, ABSENT, path)


def _child(path: str, name: str) -> str:
    return f"{path}.{step(name)}" if path else step(name)


# -- embedded resources -----------------------------------------------------------------------------------------------


def _embedded_errors(schema: Structural | None, value: Any, path: str) -> Errors:
    if schema is None:
        return []
    errors: Errors = []
    if isinstance(value, dict):
        if schema.is_embedded:
            errors += resource_errors(value, path)
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                where = _child(path, name) if name in schema.properties else f"{path}[{step(name)}]"
                errors += _embedded_errors(schema.field(name), item, where)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            errors += _embedded_errors(schema.items, item, f"{path}[{index}]")
    return errors


def resource_errors(value: Doc, path: str) -> Errors:
    """What is wrong with apiVersion, kind and metadata of a resource inside a document."""
    errors: Errors = []
    for field in ("apiVersion", "kind"):
        where = _child(path, field)
        if field not in value:
            errors.append(required(where))
        elif not isinstance(value[field], str):
            errors.append(invalid(where, value[field], "must be a string"))
        elif not value[field]:
            errors.append(invalid(where, "", "must not be empty"))
        elif field == "apiVersion" and value[field].count("/") > 1:
            errors.append(invalid(where, value[field], f"unexpected GroupVersion string: {value[field]}"))
        elif field == "kind" and (wrong := names.dns1035_label(value[field].lower())):
            told = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(invalid(where, value[field], told))
    if value.get("metadata") is not None:
        errors += _metadata_errors(value["metadata"], _child(path, "metadata"))
    return errors


def _metadata_errors(metadata: Any, path: str) -> Errors:
    """By the rules of all kinds; only the name is freer, and may be left out."""
    try:
        readable = copy(metadata)
        compile_check(schema_of("meta", "v1", "ObjectMeta"))(readable, Path(), "ObjectMeta", Findings())
    except Malformed as exc:
        return [invalid(path, metadata, exc.message)]
    readable.setdefault("name", "fakename")  # to avoid the error that there is none
    found = validate_object_meta(
        {"metadata": readable},
        namespaced=bool(readable.get("namespace")),
        name_rule=names.path_segment,
        are_finalizers_qualified=False,
    )
    return [
        type(error)(error.reason, path + error.field.removeprefix("metadata"), error.value, error.detail)
        for error in found
    ]


# -- lists that are sets or maps --------------------------------------------------------------------------------------


def list_errors(schema: Structural | None, value: Any, path: str) -> Errors:
    """Items that occur a second time in lists of type set, or whose keys do in lists of type map."""
    if schema is None:
        return []
    errors: Errors = []
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, (dict, list)):
                where = _child(path, name) if name in schema.properties else f"{path}[{step(name)}]"
                errors += list_errors(schema.field(name), item, where)
    elif isinstance(value, list):
        if schema.list_type == "set":
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif schema.list_type == "map":
            errors += _repeated_keys(value, schema.list_map_keys, path)
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                errors += list_errors(schema.items, item, f"{path}[{index}]")
    return errors


def _repeated_keys(items: list[Any], keys: tuple[str, ...], path: str) -> Errors:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    named = [{key: item[key] for key in keys if key in item} if item is not None else {} for item in items]
    return [duplicate(f"{path}[{index}]", named[index]) for index in _repeated(named)]


def _repeated(items: list[Any]) -> list[int]:
    """Where items come for the second time; a third is not told."""
    times: dict[bytes, int] = {}
    found: list[int] = []
    for index, item in enumerate(items):
        key = encode(_sorted(item))
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            found.append(index)
    return found


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
