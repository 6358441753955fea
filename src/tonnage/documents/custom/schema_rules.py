"""Further rules for the schema of a definition: allowed keywords, list types, and defaults that fit.

A schema is structural (`structural`), uses only keywords that a server can follow, its lists of type map have keys that
every item has, and its defaults are values that the schema itself accepts and does not prune. Wording and paths are
upstream's (ValidateCustomResourceDefinitionOpenAPISchema, ValidateDefaults).

Rules in `x-kubernetes-validations` are written in CEL. Their form is checked and they are stored, but not evaluated:
there is no CEL engine here. A warning says so to whoever creates the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tonnage.documents.admit import Malformed, shown_step
from tonnage.documents.custom import pruning, structural, validation
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, FieldError, Wrong, forbidden, invalid, required, unsupported
from tonnage.objects.field_rules import one_of

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_QUADRATIC = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_UNSUPPORTED_STRUCTURALLY = ("$schema",)


def openapi_schema_errors(schema: Doc, path: str) -> Errors:
    """The errors of one `openAPIV3Schema`, which stands at `path`."""
    errors: Errors = []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    # A schema with unsupported keywords has no structure to check.
    if not any(
        isinstance(each.get("items"), list) or any(word in each for word in _UNSUPPORTED)
        for each in walk_schema(schema)
    ):
        structure = structural.structural_errors(schema, path)
        errors += structure or default_errors(schema, path)
    errors += _keyword_errors(schema, path, _Context(is_root=True))
    if not errors:
        errors += [
            invalid(path, "", f"OpenAPIV3Schema '{word.removeprefix('$')}' is not supported")
            for each in walk_schema(schema)
            for word in _UNSUPPORTED_STRUCTURALLY
            if word in each
        ][:1]
    return errors


@dataclass(frozen=True, slots=True)
class _Context:
    is_root: bool = False
    in_metadata: bool = False
    no_defaults: str | None = None
    """Why a default is not allowed here; None if it is."""


def _keyword_errors(schema: Doc, path: str, context: _Context) -> Wrong:
    yield from _own_keyword_errors(schema, path, context)
    here = replace(context, is_root=False)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None:
        if properties and additional is not True:
            told = "additionalProperties and properties are mutual exclusive"
            yield forbidden(f"{path}.additionalProperties", told)
        if isinstance(additional, dict):
            inside = replace(here, no_defaults="inside additionalProperties applying to object metadata")
            below = inside if context.in_metadata else here
            yield from _keyword_errors(additional, f"{path}.additionalProperties", below)
    is_resource = context.is_root or bool(schema.get(structural.EMBEDDED))
    for name, below_schema in properties.items():
        below = here
        if is_resource and name in structural.META_FIELDS:
            below = replace(here, in_metadata=True)
            if context.is_root:
                below = replace(below, no_defaults=f"in top-level {name}")
        yield from _keyword_errors(below_schema, f"{path}.properties[{shown_step(name)}]", below)
    if isinstance(schema.get("not"), dict):
        yield from _keyword_errors(schema["not"], f"{path}.not", here)
    for word in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(schema.get(word) or ()):
            yield from _keyword_errors(each, f"{path}.{word}[{index}]", here)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _keyword_errors(items, f"{path}.items", here)
    for index, each in enumerate(items if isinstance(items, list) else ()):
        yield from _keyword_errors(each, f"{path}.items[{index}]", here)
    yield from _list_and_map_errors(schema, path)
    yield from _rule_errors(schema, path)


def _own_keyword_errors(schema: Doc, path: str, context: _Context) -> Wrong:
    kind = schema.get("type", "")
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    has_default = schema.get("default") is not None and context.no_defaults is not None
    is_list = isinstance(schema.get("items"), list) and bool(schema["items"])
    is_embedded = context.in_metadata and bool(schema.get(structural.EMBEDDED))
    for word, is_wrong, told in (
        ("default", has_default, f"must not be set {context.no_defaults}"),
        *((word, word in schema, f"{word} is not supported") for word in _UNSUPPORTED),
        ("type", kind == "null", "type cannot be set to null, use nullable as an alternative"),
        ("items", is_list, "items must be a schema object and not an array"),
        (structural.EMBEDDED, is_embedded, "must not be used inside of resource meta"),
        ("uniqueItems", bool(schema.get("uniqueItems")), _QUADRATIC),
    ):
        if is_wrong:
            yield forbidden(f"{path}.{word}", told)
    if schema.get(structural.PRESERVE) is False:
        yield invalid(f"{path}.{structural.PRESERVE}", False, "must be true or undefined")


# -- lists and maps ---------------------------------------------------------------------------------------------------


def _list_and_map_errors(schema: Doc, path: str) -> Wrong:
    kind = schema.get("type", "")
    map_type, list_type, keys = schema.get(_MAP_TYPE), schema.get(_LIST_TYPE), schema.get(_KEYS) or []
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if map_type is not None:
        if kind != "object":
            yield _type_error(path, kind, f"must be object if {_MAP_TYPE} is specified")
        yield from one_of("atomic", "granular")(map_type, f"{path}.{_MAP_TYPE}")
    if list_type is not None:
        if kind != "array":
            yield _type_error(path, kind, f"must be array if {_LIST_TYPE} is specified")
        elif list_type == "set" and items is not None:
            yield from _set_item_errors(items, f"{path}.items")
        yield from one_of("atomic", "set", "map")(list_type, f"{path}.{_LIST_TYPE}")
    if keys and list_type != "map":
        told = f"must be map if {_KEYS} is non-empty"
        where = f"{path}.{_LIST_TYPE}"
        yield required(where, told) if list_type is None else invalid(where, list_type, told)
    if list_type == "map":
        yield from _map_list_errors(schema, items, keys, path)
    if list_type in ("set", "map") and items is not None and items.get("nullable"):
        told = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden(f"{path}.items.nullable", told)


def _type_error(path: str, kind: str, told: str) -> FieldError:
    return invalid(f"{path}.type", kind, told) if kind else required(f"{path}.type", told)


def _set_item_errors(items: Doc, path: str) -> Errors:
    """Items of a set are compared as a whole, so they must be atomic."""
    told = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
        return [invalid(f"{path}.{_LIST_TYPE}", items[_LIST_TYPE], told)]
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        return [invalid(f"{path}.{_MAP_TYPE}", items.get(_MAP_TYPE), told)]
    return []


def _map_list_errors(schema: Doc, items: Doc | None, keys: list[str], path: str) -> Wrong:
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if "items" not in schema:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
    if items is None:
        return
    if items.get("type", "") != "object":
        told = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), told)
        return
    properties, seen = items.get("properties") or {}, set()
    for key in keys:
        where = f"{path}.items.properties[{shown_step(key)}]"
        field = properties.get(key)
        if field is None:
            yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
        elif field.get("type") in ("array", "object"):
            told = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(f"{where}.type", field["type"], told)
        if key in seen:
            yield invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
        seen.add(key)
        if field is not None and key not in (items.get("required") or ()) and field.get("default") is None:
            told = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield required(f"{where}.default", told)
        if field is not None and field.get("nullable"):
            yield forbidden(f"{where}.nullable", f"this property is in {_KEYS}, so it cannot be nullable")


# -- CEL: form only ---------------------------------------------------------------------------------------------------


def _rule_errors(schema: Doc, path: str) -> Wrong:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        text, message = rule.get("rule", "").strip(), rule.get("message", "")
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _has_newlines(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _has_newlines(text) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression", "")
        if expression and not expression.strip():
            told = "messageExpression must be non-empty if specified"
            yield required(f"{where}.messageExpression", told)
        if "reason" in rule and rule["reason"] not in _REASONS:
            yield unsupported(f"{where}.reason", rule["reason"], sorted(_REASONS))
        field = rule.get("fieldPath", "")
        if field and not field.strip():
            yield invalid(f"{where}.fieldPath", field, "must be non-empty if specified")
        if _has_newlines(field):
            yield invalid(f"{where}.fieldPath", field, "must not contain line breaks")


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


# -- defaults ---------------------------------------------------------------------------------------------------------


def default_errors(schema: Doc, path: str) -> Errors:
    """Defaults that the schema would refuse or prune. The schema must be structural."""
    errors: Errors = []
    for node, where in _nodes(validation.Rules(schema), path):
        if node.default is None:
            continue
        at = f"{where}.default"
        pruned = copy(node.default)
        pruning.prune_value(node, pruned)
        if pruned != node.default:
            errors.append(invalid(at, node.default, "must not have unknown fields"))
        try:
            pruning.coerce_value(node, copy(node.default))
        except Malformed as exc:
            errors.append(invalid(at, node.default, exc.message))
            continue
        errors += validation.embedded_errors(node, node.default, at) or node.errors(node.default, validation.ABSENT, at)
    return errors


def _nodes(node: validation.Rules, path: str) -> Iterator[tuple[validation.Rules, str]]:
    """Every node with its path; as upstream, without the nodes below additionalProperties."""
    pending = [(node, path)]
    while pending:
        node, path = pending.pop(0)
        yield node, path
        if node.items is not None:
            pending.append((node.items, f"{path}.items"))
        pending += [(below, f"{path}.properties[{shown_step(name)}]") for name, below in node.properties.items()]


def walk_schema(schema: Doc) -> Iterator[Doc]:
    """A schema and every schema within it, nested ones too."""
    pending: list[Any] = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield each
            pending += [each.get(word) for word in ("items", "not", "additionalProperties")]
            pending += [below for word in ("allOf", "anyOf", "oneOf") for below in each.get(word) or ()]
            pending += (each.get("properties") or {}).values()
