"""A structural schema, checked and compiled: the tree that pruning, defaulting, validation and merging follow.

A schema of apiextensions.k8s.io/v1 states the type of every value once, outside `allOf`, `anyOf`, `oneOf` and `not`;
this makes it structural, and tells a server which fields are known. Inside these four it may only restrict values of
fields that are declared outside. The server describes metadata; a schema may restrict name and generateName. Rules and
sentences are upstream's (schema.ValidateStructural). `validation` compiles the rules for single values from `source`.

`struct_of` is the form that server-side apply and managed fields follow. Values without a schema merge by their own
type: maps merge, everything else is replaced as a whole. No field is required, for these kinds have no Go type. Mirrors
upstream's schemaconv.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

from tonnage.documents.admit import shown_step
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type, schema_of
from tonnage.objects.document import Doc, encode
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid, required
from tonnage.objects.texts.go_regexp import InvalidPattern, compile_go

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
"""The fields that every object has, whatever its schema."""
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING_WORD = "x-kubernetes-int-or-string"
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_FORBIDDEN_INSIDE = {
    "empty": ("type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    "undefined": ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"),
    "false": ("nullable", PRESERVE, EMBEDDED, _INT_OR_STRING_WORD),
}
"""The value that each keyword must have in a schema within `allOf` and its kin."""


class Structural:
    """The schema of one value, whether its unknown fields are kept, and the schemas below it, made on first use."""

    def __init__(self, source: Doc) -> None:
        self.source = source
        self.declared: dict[str, Doc] = source.get("properties") or {}
        self._met: dict[str, Self] = {}
        self.type: str = source.get("type", "")
        self.nullable = bool(source.get("nullable"))
        self.default = source.get("default")
        """None: no default, or a default of null."""
        additional = source.get("additionalProperties")
        self.has_additional = isinstance(additional, dict) or additional is True
        """`additionalProperties` is set; without a schema (`true`) names are kept, but nothing below them."""
        self.preserves_unknown = bool(source.get(PRESERVE))
        self.is_embedded = bool(source.get(EMBEDDED))
        self.list_type: str = source.get("x-kubernetes-list-type") or ""
        self.list_map_keys: tuple[str, ...] = tuple(source.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = source.get("x-kubernetes-map-type") or ""

    @cached_property
    def default_bytes(self) -> int:
        """The size of the default as JSON."""
        return len(encode(self.default)) if self.default is not None else 0

    @cached_property
    def properties(self) -> dict[str, Self]:
        return {name: below for name in self.declared if (below := self.field(name)) is not None}

    @cached_property
    def additional(self) -> Self | None:
        """The schema of names that are not in `properties`."""
        return self.below("additionalProperties")

    @cached_property
    def items(self) -> Self | None:
        return self.below("items")

    def below(self, word: str) -> Self | None:
        found = _below(self.source, word)
        return type(self)(found) if found is not None else None

    def field(self, name: str) -> Self | None:
        """The schema of the value under a name; None if the schema does not mention it."""
        below = self._met.get(name)
        if below is None and name in self.declared:
            below = self._met[name] = type(self)(self.declared[name])
        return below if below is not None else self.additional


def described(schema: Structural, value: Any, path: str) -> Iterator[tuple[Structural, Any, str]]:
    """Every map and list of a value that its schema describes, with its schema and path, outermost first."""
    pending: list[tuple[Structural | None, Any, str]] = [(schema, value, path)]
    while pending:
        node, value, path = pending.pop()
        if node is None or not isinstance(value, (dict, list)):
            continue
        yield node, value, path
        if isinstance(value, dict):
            below = [
                (
                    node.field(name),
                    item,
                    child(path, name) if name in node.properties else f"{path}[{shown_step(name)}]",
                )
                for name, item in value.items()
                if isinstance(item, (dict, list))
            ]
        else:
            below = [(node.items, item, f"{path}[{index}]") for index, item in enumerate(value)]
        pending += reversed(below)


def child(path: str, name: str) -> str:
    return f"{path}.{shown_step(name)}" if path else shown_step(name)


def structural_errors(schema: Doc, path: str) -> Errors:
    """The errors that keep a schema from being structural, sorted as upstream does."""
    return sorted([*_invariants(schema, _ROOT, path), *_completeness(schema, schema, path, path)], key=str)


def _schemas_in(schema: Doc, word: str) -> list[Doc]:
    return [below for below in schema.get(word) or [] if isinstance(below, dict)]


def _properties(schema: Doc) -> dict[str, Doc]:
    return schema.get("properties") or {}


def _below(schema: Doc, word: str) -> Doc | None:
    found = schema.get(word)
    return found if isinstance(found, dict) else None


def _invariants(schema: Doc, level: str, path: str) -> Wrong:
    kind: str = schema.get("type", "")
    is_embedded, preserves = bool(schema.get(EMBEDDED)), bool(schema.get(PRESERVE))
    is_int_or_string = bool(schema.get(_INT_OR_STRING_WORD))
    items, additional = _below(schema, "items"), schema.get("additionalProperties")

    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _invariants(items, _ITEM, f"{path}.items")
    for name, below in _properties(schema).items():
        yield from _invariants(below, _FIELD, f"{path}.properties[{shown_step(name)}]")
    if additional is not None:
        if level == _ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, _FIELD, f"{path}.additionalProperties")

    if is_int_or_string:
        for word, is_set in ((PRESERVE, preserves), (EMBEDDED, is_embedded)):
            if is_set:
                yield invalid(f"{path}.{word}", True, f"must be false if {_INT_OR_STRING_WORD} is true")
    all_of = _schemas_in(schema, "allOf")
    is_first_int_or_string = bool(all_of) and all_of[0].get("anyOf") == INT_OR_STRING
    yield from _value_validations(schema, path, schema.get("anyOf") == INT_OR_STRING, is_first_int_or_string)

    if is_embedded and kind != "object":
        told = f"must be object if {EMBEDDED} is true"
        yield invalid(f"{path}.type", kind, told) if kind else required(f"{path}.type", told)
    elif not kind and not is_int_or_string and not preserves:
        yield required(f"{path}.type", f"must not be empty {level}")
    if is_embedded and additional is not None:
        told = f"must not be used if {EMBEDDED} is set"
        yield forbidden(f"{path}.additionalProperties", told)
    if level == _ROOT and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")
    yield from _meta_rules(schema, level, path)
    if is_embedded and not preserves and not _properties(schema):
        told = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield required(f"{path}.properties", told)


def _meta_rules(schema: Doc, level: str, path: str) -> Wrong:
    properties = _properties(schema)
    is_resource = level == _ROOT or bool(schema.get(EMBEDDED))
    for name in ("kind", "apiVersion"):
        if is_resource and name in properties and properties[name].get("type", "") != "string":
            where = f"{path}.properties[{shown_step(name)}].type"
            yield invalid(where, properties[name].get("type", ""), "must be string")
    if "metadata" not in properties:
        return
    metadata, where = properties["metadata"], f"{path}.properties[metadata]"
    if is_resource and metadata.get("type", "") != "object":
        yield invalid(f"{where}.type", metadata.get("type", ""), "must be object")
    if level == _ROOT:
        more = {word: said for word, said in metadata.items() if word not in ("type", "default")}
        if set(more.get("properties", {})) <= {"name", "generateName"}:
            more.pop("properties", None)
        if more:
            told = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(where, told)


def _value_validations(schema: Doc, path: str, skip_any_of: bool, skip_in_first_all_of: bool) -> Wrong:
    for word in ("allOf", "oneOf") if skip_any_of else ("anyOf", "allOf", "oneOf"):
        for index, below in enumerate(_schemas_in(schema, word)):
            is_skipped = skip_in_first_all_of and word == "allOf" and index == 0
            yield from _nested(below, f"{path}.{word}[{index}]", skip_any_of=is_skipped)
    if (negated := _below(schema, "not")) is not None:
        yield from _nested(negated, f"{path}.not")
    if pattern := schema.get("pattern"):
        try:
            compile_go(pattern)
        except InvalidPattern as exc:
            told = f"must be a valid regular expression, but isn't: error parsing regexp: {exc.problem}"
            yield invalid(f"{path}.pattern", pattern, told)


def _nested(schema: Doc, path: str, *, skip_any_of: bool = False) -> Wrong:
    """A schema inside `allOf` and its kin may restrict values, but not declare structure."""
    yield from _value_validations(schema, path, skip_any_of, skip_in_first_all_of=False)
    if (items := _below(schema, "items")) is not None:
        yield from _nested(items, f"{path}.items")
    for name, below in _properties(schema).items():
        yield from _nested(below, f"{path}.properties[{shown_step(name)}]")
    for nothing, words in _FORBIDDEN_INSIDE.items():
        for word in words:
            if schema.get(word) is not None and schema[word] is not False:
                yield forbidden(f"{path}.{word}", f"must be {nothing} to be structural")
    if "metadata" in _properties(schema):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(judging: Doc, declared: Doc, declared_path: str, path: str) -> Wrong:
    """Every field that a nested schema restricts must be declared in the structure."""
    if (negated := _below(judging, "not")) is not None:
        yield from _complete(negated, declared, declared_path, f"{path}.not")
    for word in ("allOf", "anyOf", "oneOf"):
        for index, below in enumerate(_schemas_in(judging, word)):
            yield from _complete(below, declared, declared_path, f"{path}.{word}[{index}]")


def _complete(nested: Doc, declared: Doc | None, declared_path: str, path: str) -> Wrong:
    if declared is None:
        yield required(declared_path, f"because it is defined in {path}")
        return
    yield from _completeness(nested, declared, declared_path, path)
    if (items := _below(nested, "items")) is not None:
        yield from _complete(items, _below(declared, "items"), f"{declared_path}.items", f"{path}.items")
    for name, below in _properties(nested).items():
        where = f"{declared_path}.properties[{shown_step(name)}]"
        yield from _complete(below, _properties(declared).get(name), where, f"{path}.properties[{shown_step(name)}]")


_DEDUCED = Scalar("deduced")
_STRING = Scalar("string")
_UNTYPED = Scalar("IntOrString")
"""Any scalar."""


def struct_of(schema: Structural, group: str, version: str, kind: str) -> Struct:
    """The shape of a whole document, only for merging: `documents.admit` is for built-in kinds."""
    package = ".".join([*reversed(group.split(".")), version])
    others = _DEDUCED if schema.preserves_unknown else None
    struct = Struct(package, kind, is_kind=False, others=others)
    for name, below in schema.properties.items():
        if name not in META_FIELDS:
            struct.fields[name] = _field(name, below, schema.preserves_unknown)
    _add_resource_fields(struct)
    return struct


def _add_resource_fields(struct: Struct) -> None:
    for name, shape in (
        ("apiVersion", _STRING),
        ("kind", _STRING),
        ("metadata", schema_of("meta", "v1", "ObjectMeta")),
    ):
        struct.fields[name] = Field(name, shape)


def _field(name: str, schema: Structural, preserves: bool) -> Field:
    return Field(name, _type(schema, preserves), default=schema.default)


def _type(schema: Structural, preserves: bool) -> Type:
    """`preserves`: an enclosing schema keeps unknown fields, which holds for everything below it."""
    preserves = preserves or schema.preserves_unknown
    if schema.type == "object" or (not schema.type and schema.properties):
        return _object(schema, preserves)
    if schema.type == "array":
        item = _type(schema.items, preserves) if schema.items is not None else Scalar("any")
        keys = schema.list_map_keys if schema.list_type == "map" else ()
        return ListOf(item, keys=keys, is_set=schema.list_type == "set")
    if not schema.type:
        return _DEDUCED
    if schema.type != "string":
        return Scalar("bool" if schema.type == "boolean" else "number")
    return _STRING if schema.source.get("format", "") in ("", "byte") else _UNTYPED


def _object(schema: Structural, preserves: bool) -> Type:
    is_atomic = schema.map_type == "atomic"
    others: Type | None = None
    if schema.additional is not None:
        others = _type(schema.additional, preserves)
    elif schema.has_additional or preserves or not schema.properties:
        others = _DEDUCED
    if not schema.properties and not schema.is_embedded:
        return MapOf(others or _DEDUCED, is_atomic=is_atomic)
    struct = Struct("", "", is_kind=False, is_atomic=is_atomic, others=others)
    for name, below in schema.properties.items():
        struct.fields[name] = _field(name, below, preserves)
    if schema.is_embedded:
        _add_resource_fields(struct)
    return struct
