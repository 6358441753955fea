"""From a client's `openAPIV3Schema` to one the rules can trust: known keywords, of the right types, no nulls.

`documents.admit` does this for the rest of a definition; a schema holds values that are one thing or another (`items` a
schema or a list of them, `additionalProperties` a schema or a boolean), for which the notation of built-in kinds has no
words. What is unknown is dropped and told, as everywhere; a wrong type is a `Malformed` in the words of Go's decoder;
zeros that Go does not write are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tonnage.documents.admit import ROOT, Findings, Malformed, Path
from tonnage.objects.document import Doc, dig

_Form = Callable[[Any, Path, Findings], Any]


def admit_schemas(definition: Doc, findings: Findings) -> None:
    """Check and canonicalise, in place, the schemas of all versions of an admitted definition. Raises Malformed."""
    for index, version in enumerate(dig(definition, "spec", "versions") or ()):
        schema = dig(version, "schema", "openAPIV3Schema")
        if schema is not None:
            at = Path((Path((Path((Path((ROOT, "spec")), "versions")), index)), "schema"))
            _schema(schema, Path((at, "openAPIV3Schema")), findings)


def _schema(value: Any, path: Path, findings: Findings) -> Any:
    """One schema, in place. Names are counted by whoever admitted the definition."""
    if not isinstance(value, dict):
        raise _mismatch(value, path, "v1.JSONSchemaProps")
    for name in list(value):
        form = _FORMS.get(name)
        if form is None:
            findings.unknown_paths.append(Path((path, name)))
            del value[name]
            continue
        check, keeps_zero = form
        if value[name] is None:
            del value[name]
            continue
        value[name] = check(value[name], Path((path, name)), findings)
        if not keeps_zero and not value[name]:
            del value[name]
    return value


def _exactly(wanted: type, go_type: str) -> _Form:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        if type(value) is not wanted:
            raise _mismatch(value, path, go_type)
        return value

    return check


def _number(value: Any, path: Path, findings: Findings) -> Any:
    if type(value) is not int and type(value) is not float:
        raise _mismatch(value, path, "float64")
    return value


def _anything(value: Any, path: Path, findings: Findings) -> Any:
    return value


def _list_of(form: _Form, go_type: str) -> _Form:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        if not isinstance(value, list):
            raise _mismatch(value, path, go_type)
        return [form(item, Path((path, index)), findings) for index, item in enumerate(value)]

    return check


def _map_of(form: _Form, go_type: str) -> _Form:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, path, go_type)
        return {name: form({} if item is None else item, Path((path, name)), findings) for name, item in value.items()}

    return check


def _schema_or_bool(value: Any, path: Path, findings: Findings) -> Any:
    if isinstance(value, dict):
        return _schema(value, path, findings)
    if not isinstance(value, bool):
        raise Malformed("boolean or JSON schema expected")
    return value


def _schema_or_list(value: Any, path: Path, findings: Findings) -> Any:
    if isinstance(value, list):
        return _SCHEMAS(value, path, findings)
    return _schema(value, path, findings)


def _schema_or_strings(value: Any, path: Path, findings: Findings) -> Any:
    if isinstance(value, list):
        return _STRINGS(value, path, findings)
    return _schema(value, path, findings)


def _struct(fields: dict[str, _Form], go_type: str, always: str = "") -> _Form:
    def check(value: Any, path: Path, findings: Findings) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, path, go_type)
        made: Doc = {}
        for name, item in value.items():
            if name not in fields:
                findings.unknown_paths.append(Path((path, name)))
            elif item is not None:
                found = fields[name](item, Path((path, name)), findings)
                if found != "" or name == always:
                    made[name] = found
        return made

    return check


_TEXT, _BOOL, _INTEGER = _exactly(str, "string"), _exactly(bool, "bool"), _exactly(int, "int64")
_STRINGS = _list_of(_TEXT, "[]string")
_SCHEMAS = _list_of(_schema, "[]v1.JSONSchemaProps")
_SCHEMA_MAP = _map_of(_schema, "map[string]v1.JSONSchemaProps")
_RULE = _struct(
    {
        "rule": _TEXT,
        "message": _TEXT,
        "messageExpression": _TEXT,
        "reason": _TEXT,
        "fieldPath": _TEXT,
        "optionalOldSelf": _BOOL,
    },
    "v1.ValidationRule",
    always="rule",
)

_FORMS: dict[str, tuple[_Form, bool]] = {
    **dict.fromkeys(("id", "$schema", "description", "type", "format", "title", "pattern"), (_TEXT, False)),
    **dict.fromkeys(("$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"), (_TEXT, True)),
    **dict.fromkeys(("default", "example"), (_anything, True)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (_number, True)),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), (_INTEGER, True)
    ),
    **dict.fromkeys(
        (
            "exclusiveMaximum",
            "exclusiveMinimum",
            "uniqueItems",
            "nullable",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ),
        (_BOOL, False),
    ),
    "x-kubernetes-preserve-unknown-fields": (_BOOL, True),
    "enum": (_list_of(_anything, "[]v1.JSON"), False),
    "required": (_STRINGS, False),
    "x-kubernetes-list-map-keys": (_STRINGS, False),
    "items": (_schema_or_list, True),
    **dict.fromkeys(("allOf", "oneOf", "anyOf"), (_SCHEMAS, False)),
    "not": (_schema, True),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), (_SCHEMA_MAP, False)),
    **dict.fromkeys(("additionalProperties", "additionalItems"), (_schema_or_bool, True)),
    "dependencies": (_map_of(_schema_or_strings, "map[string]v1.JSONSchemaPropsOrStringArray"), False),
    "externalDocs": (_struct({"description": _TEXT, "url": _TEXT}, "v1.ExternalDocumentation"), True),
    "x-kubernetes-validations": (_list_of(_RULE, "[]v1.ValidationRule"), False),
}
"""Keyword -> its form, and whether its zero means something else than its absence."""

_JSON_WORDS = {str: "string", list: "array", dict: "object", bool: "bool"}


def _mismatch(value: Any, path: Path, go_type: str) -> Malformed:
    found = _JSON_WORDS.get(type(value), "number")
    where = f"Go struct field CustomResourceDefinition.{path.fields()}"
    return Malformed(f"json: cannot unmarshal {found} into {where} of type {go_type}")
