"""Validation of a document by its schema: types, bounds, patterns, choices, and no duplicates in lists that are sets.

Upstream has three passes: values against the schema (`Rules`), metadata of embedded resources (`embedded_errors`), and
lists of type set and map (`list_errors`). They never raise but return field errors. Order and wording of the first are
those of upstream's validator (kube-openapi): `spec.size in body must be of type integer: "string"`. Errors of `anyOf`
and `oneOf` are those of the best alternative, as upstream counts (`SchemaOutcome.matches`), at the field `<nil>`.

An update may keep errors in values that did not change, so that a schema can be tightened while objects exist (upstream
calls this ratcheting).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from tonnage.documents.admit import Findings, Malformed, Path, compile_check, shown_step
from tonnage.documents.custom.formats import format_check
from tonnage.documents.custom.structural import Structural, child, described
from tonnage.documents.go_text import plain
from tonnage.documents.patches.json_patch import equal
from tonnage.documents.schema import schema_of
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.objects import field_errors, field_rules, names
from tonnage.objects.document import Doc, copy
from tonnage.objects.field_errors import Errors, FieldError, Wrong, duplicate, go_value, invalid, required, type_invalid
from tonnage.objects.texts.go_regexp import GoRegexp, compile_go

_SORTED = msgspec.json.Encoder(order="sorted")
ABSENT: Any = object()
"""The old value of a value that is new."""
NOWHERE = "<nil>"
"""The field of errors that upstream attaches to no field."""
MAX_TRIES = 400_000
"""Limit of the work for one document: the schema's alternatives and patterns times values, or times characters."""
_INT64 = 2**63
_MAX_FLOAT32 = 3.4028234663852886e38
_TYPE_NAMES = {
    type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"
}  # fmt: skip
_PYTHON_TYPES = {name: kind for kind, name in _TYPE_NAMES.items()}
_GO_FORMATS = {"integer": "int64", "number": "float64"}
_FORMATS_OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_LOOKED_AT = {type(None): 0, bool: 4, int: 6, float: 6, str: 5, list: 6, dict: 5}
"""By the type of a value: how many matches upstream counts in any case."""


class TooManyTries(Exception):
    """A document needs more than `MAX_TRIES`."""


class SchemaOutcome:
    """The errors of a value, and how much matched: the measure for the best of several alternatives.

    `work` is shared by all outcomes of one document: how many tries are left.
    """

    __slots__ = ("errors", "matches", "work")

    def __init__(self, work: list[int]) -> None:
        self.errors: Errors = []
        self.matches = 0
        self.work = work

    def tries(self, much: int = 1) -> None:
        """Raises TooManyTries."""
        self.work[0] -= much
        if self.work[0] < 0:
            raise TooManyTries

    def merge(self, other: SchemaOutcome) -> None:
        self.errors += other.errors
        self.matches += other.matches


class Rules(Structural):
    """A schema with its rules for values, compiled on first use: few objects have every field that a schema allows."""

    _is_compiled = False

    def errors(self, value: Any, old: Any = ABSENT, base: str = "") -> Errors:
        """The errors of a value, with paths from `base`. With an old value, only where the value changed."""
        outcome = SchemaOutcome([MAX_TRIES])
        try:
            self.check(value, old, "", base, outcome)
        except TooManyTries:
            told = "there are too many alternatives and patterns to try for so many values"
            return [*outcome.errors, invalid(base or NOWHERE, "", told)]
        return outcome.errors

    def _compile(self) -> None:
        schema = self.source
        types: tuple[str, ...] = (schema["type"],) if schema.get("type") else ()
        self._types = types = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else types
        self._taken = {_PYTHON_TYPES[name] for name in types} | ({int} if "number" in types else set())
        self._format = known_format(schema, types)
        self._has_format = format_check(self._format)
        self._pattern: GoRegexp | None = compile_go(schema["pattern"]) if schema.get("pattern") else None
        choices: list[Any] = schema.get("enum") or []
        self._choices = [choice if isinstance(choice, str) else go_value(choice) for choice in choices]
        self._known_choices = {_identity(choice) for choice in choices}
        self._any_of, self._one_of, self._all_of = (
            [Rules(below) for below in schema.get(word) or ()] for word in ("anyOf", "oneOf", "allOf")
        )
        self._not = self.below("not")
        self._keys = self.list_map_keys if self.list_type == "map" else ()
        self._is_compiled = True

    def check(self, value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if old is not ABSENT and value == old and equal(value, old):  # == is fast, but takes 1 for True
            return
        if not self._is_compiled:
            self._compile()
        kind = type(value)
        outcome.matches += _LOOKED_AT[kind]
        if value is not None:
            if self._types:
                self._check_type(value, path, base, outcome)
            self._check_combination(value, old, path, base, outcome)
        elif self.source.get("nullable") or not self._types:
            outcome.matches += 1
        else:
            outcome.errors.append(_wrong_type(path, base, ",".join(self._types), "null"))
        if kind is str:
            self._check_text(value, path, base, outcome)
        elif kind is int or kind is float:
            outcome.errors += self._number_errors(value, path, base)
        elif kind is list:
            self._check_items(value, old, path, base, outcome)
        if self._choices and (value is None or _identity(value) not in self._known_choices):
            outcome.errors.append(field_errors.unsupported(at(base, path), value, self._choices))
        if kind is dict:
            self._check_fields(value, old, path, base, outcome)

    def _check_type(self, value: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        types = self._types
        outcome.matches += 1
        is_wide = "number" in types or "integer" not in types
        if type(value) in self._taken and (is_wide or type(value) is not int or -_INT64 <= value < _INT64):
            outcome.matches += 1
            return
        found = _TYPE_NAMES[type(value)]
        if found == "integer" and not -_INT64 <= value < _INT64:
            found = "number"  # upstream reads it as a float
        if found == "number" and "integer" in types and abs(value) < _INT64 and value == int(value):
            outcome.matches += 1
        elif self._format and found not in ("string", "array"):
            outcome.errors.append(_wrong_type(path, base, self._format, _GO_FORMATS.get(found, "")))
        else:
            outcome.errors.append(_wrong_type(path, base, ",".join(types), found))

    def _check_text(self, value: str, path: str, base: str, outcome: SchemaOutcome) -> None:
        longest, shortest = self.source.get("maxLength"), self.source.get("minLength")
        if longest is not None and len(value) > longest:
            outcome.errors.append(field_errors.too_long(at(base, path), longest))
        elif shortest is not None and len(value) < shortest:
            told = f"{path} in body should be at least {shortest} chars long"
            outcome.errors.append(invalid(at(base, path), value, told))
        elif self._pattern is not None:
            outcome.tries(len(value) >> 8)
            if not self._pattern.search(value):
                told = f"{path} in body should match '{self.source['pattern']}'"
                outcome.errors.append(invalid(at(base, path), value, told))
        if self._has_format is None:
            return
        outcome.matches += 1
        if not self._has_format(value):
            told = f"{path} in body must be of type {self._format}: {go_value(value)}"
            outcome.errors.append(type_invalid(at(base, path), value, told))

    def _number_errors(self, value: float, path: str, base: str) -> Iterator[FieldError]:
        schema, types = self.source, self._types
        kind = types[0] if len(types) == 1 and types[0] in _FORMATS_OF_NUMBERS else ""
        word = self._format if kind else ""
        limit = 2**31 if word == "int32" else _INT64
        is_outside = kind == "integer" and not (-limit <= value < limit and value == int(value))
        if is_outside or (word == "float" and math.isfinite(value) and abs(value) > _MAX_FLOAT32):
            named = f"with format {word}" if word else "(default format)"
            yield invalid(base or NOWHERE, "", f"Checked value must be of type {kind} {named} in {path}")
        factor, low, high = (schema.get(word) for word in ("multipleOf", "minimum", "maximum"))
        if factor is not None and not _is_multiple(value, factor):
            yield invalid(at(base, path), value, f"{path} in body should be a multiple of {_number(factor)}")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is not None and (value <= low if above else value < low):
            bound = f"greater than {'' if above else 'or equal to '}{_number(low)}"
            yield invalid(at(base, path), value, f"{path} in body should be {bound}")
        if high is not None and (value >= high if below else value > high):
            bound = f"less than {'' if below else 'or equal to '}{_number(high)}"
            yield invalid(at(base, path), value, f"{path} in body should be {bound}")

    def _check_items(self, value: list[Any], old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if self.items is not None:
            # Only items of a list of type map can be matched with old items.
            keys = self._keys
            earlier = {_key_of(item, keys): item for item in old} if keys and isinstance(old, list) else {}
            for index, item in enumerate(value):
                before = earlier.get(_key_of(item, keys), ABSENT) if earlier else ABSENT
                self.items.check(item, before, f"{path}[{index}]", base, outcome)
        outcome.errors += self._count_errors(len(value), "items", path, base)

    def _check_fields(self, value: Doc, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        before = old if isinstance(old, dict) else {}
        outcome.errors += self._count_errors(len(value), "properties", path, base)
        for name, item in value.items():
            rules = self.field(name)
            if rules is not None:
                told = shown_step(name)
                where = f"{path}.{told}" if path or name not in self.declared else told
                rules.check(item, before.get(name, ABSENT), where, base, outcome)
        for name in self.source.get("required") or ():
            if name not in value:
                outcome.errors.append(required(at(base, f"{path}.{shown_step(name)}")))

    def _count_errors(self, count: int, what: str, path: str, base: str) -> Iterator[FieldError]:
        fewest, most = (self.source.get(f"{word}{what.capitalize()}") for word in ("min", "max"))
        if fewest is not None and count < fewest:
            yield invalid(at(base, path), count, f"{path} in body should have at least {fewest} {what}")
        if most is not None and count > most:
            yield field_errors.too_many(at(base, path), count, most)

    def _check_combination(self, value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        """`allOf`, `anyOf`, `oneOf` and `not`."""

        def tried(rules: Rules) -> SchemaOutcome:
            outcome.tries()
            found = SchemaOutcome(outcome.work)
            rules.check(value, old, path, base, found)
            return found

        def refuse(told: str) -> None:
            outcome.errors.append(invalid(base or NOWHERE, "", f"{go_value(path)} must {told}"))

        if self._any_of:
            _alternatives(map(tried, self._any_of), outcome, refuse, is_one=False)
        if self._one_of:
            _alternatives(map(tried, self._one_of), outcome, refuse, is_one=True)
        if self._all_of:
            outcomes = [tried(rules) for rules in self._all_of]
            for found in outcomes:
                outcome.merge(found)
            if wrong := sum(1 for found in outcomes if found.errors):
                none = ". None validated" if wrong == len(outcomes) else ""
                refuse(f"validate all the schemas (allOf){none}")
        if self._not is not None and not tried(self._not).errors:
            refuse("not validate the schema (not)")


def at(base: str, path: str) -> str:
    path = path.removeprefix(".")
    if not path:
        return base or NOWHERE
    return f"{base}.{path}" if base else path


def known_format(schema: Doc, types: tuple[str, ...]) -> str:
    """The format if it is known for the type; other formats are only documentation."""
    word: str = schema.get("format") or ""
    kind = types[0] if len(types) == 1 else ""
    if kind in _FORMATS_OF_NUMBERS:
        return word if word in _FORMATS_OF_NUMBERS[kind] else ""
    return word if kind in ("", "string") and format_check(word) is not None else ""


def _wrong_type(path: str, base: str, asked: str, found: str) -> FieldError:
    return type_invalid(at(base, path), found, f"{path} in body must be of type {asked}: {go_value(found)}")


def _identity(value: Any) -> Any:
    """A hashable key, equal for values that are equal as JSON: 1 equals 1.0, but not true; {} does not equal []."""
    if isinstance(value, dict):
        return "object", frozenset((name, _identity(item)) for name, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_identity, value))
    return (bool, value) if isinstance(value, bool) else value


def _is_multiple(value: float, factor: float) -> bool:
    if factor <= 0:
        return False
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    many = 1 / factor * value if factor < 1 else value / factor
    return math.isfinite(many) and abs(many - round(many)) <= 1e-9 * max(1.0, abs(many))


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else plain(value)


def _key_of(item: Any, keys: tuple[str, ...]) -> str:
    return go_value([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _alternatives(
    tries: Iterable[SchemaOutcome], outcome: SchemaOutcome, refuse: Callable[[str], None], *, is_one: bool
) -> None:
    """`oneOf`, or `anyOf`, which stops at the first valid alternative."""
    best: SchemaOutcome | None = None
    valid: list[SchemaOutcome] = []
    for found in tries:
        if not found.errors:
            valid.append(found)
            if not is_one:
                break
        elif best is None or found.matches > best.matches:
            best = found
    if len(valid) == 1:
        outcome.merge(valid[0])
        return
    told = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    refuse(f"validate one and only one schema (oneOf). {told}" if is_one else "validate at least one schema (anyOf)")
    if not valid and best is not None:
        outcome.merge(best)


# -- embedded resources -----------------------------------------------------------------------------------------------


def embedded_errors(schema: Structural, value: Any, path: str) -> Errors:
    return [
        error
        for node, item, where in described(schema, value, path)
        if node.is_embedded and isinstance(item, dict)
        for error in resource_errors(item, where)
    ]


def resource_errors(value: Doc, path: str) -> Wrong:
    """The errors in apiVersion, kind and metadata of an embedded resource."""
    for field in ("apiVersion", "kind"):
        where = child(path, field)
        if field not in value:
            yield required(where)
        elif not isinstance(value[field], str):
            yield invalid(where, value[field], "must be a string")
        elif not value[field]:
            yield invalid(where, "", "must not be empty")
        elif field == "apiVersion" and value[field].count("/") > 1:
            yield invalid(where, value[field], f"unexpected GroupVersion string: {value[field]}")
        elif field == "kind":
            yield from field_rules.mixed_case_label(value[field], where)
    if value.get("metadata") is not None:
        yield from _metadata_errors(value["metadata"], child(path, "metadata"))


def _metadata_errors(metadata: Any, path: str) -> Errors:
    """Validate metadata as for all kinds, except that the name has fewer rules and may be missing."""
    try:
        readable = copy(metadata)
        compile_check(schema_of("meta", "v1", "ObjectMeta"))(readable, Path(), "ObjectMeta", Findings())
    except Malformed as exc:
        return [invalid(path, metadata, exc.message)]
    readable.setdefault("name", "fakename")  # avoids the error about a missing name
    found = validate_object_meta(
        {"metadata": readable},
        namespaced=bool(readable.get("namespace")),
        name_rule=names.path_segment,
        are_finalizers_qualified=False,
    )
    return [replace(error, field=path + error.field.removeprefix("metadata")) for error in found]


# -- lists that are sets or maps --------------------------------------------------------------------------------------


def list_errors(schema: Structural, value: Any) -> Errors:
    """Errors for repeated items in lists of type set, and repeated keys in lists of type map."""
    errors: Errors = []
    for node, items, where in described(schema, value, ""):
        if isinstance(items, list) and node.list_type == "set":
            errors += [duplicate(f"{where}[{index}]", items[index]) for index in _repeated(items)]
        elif isinstance(items, list) and node.list_type == "map":
            errors += _repeated_keys(items, node.list_map_keys, where)
    return errors


def _repeated_keys(items: list[Any], keys: tuple[str, ...], path: str) -> Errors:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    named = [{key: item[key] for key in keys if key in item} if item is not None else {} for item in items]
    return [duplicate(f"{path}[{index}]", named[index]) for index in _repeated(named)]


def _repeated(items: list[Any]) -> list[int]:
    """Positions where an item occurs for the second time; further repetitions are not reported."""
    times: dict[bytes, int] = {}
    found: list[int] = []
    for index, item in enumerate(items):
        key = _SORTED.encode(item)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            found.append(index)
    return found
