"""Rules about single values: types, formats, bounds, lengths, patterns, choices. `validation` puts them together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tonnage.documents.custom.formats import format_check
from tonnage.documents.go_text import plain
from tonnage.objects.document import Doc
from tonnage.objects.field_errors import Errors, FieldError, go_value, invalid, too_long, type_invalid
from tonnage.objects.field_rules import unsupported
from tonnage.objects.texts.go_regexp import GoRegexp, compile_go

ABSENT: Any = object()
"""The old value of something that is new."""

NOWHERE = "<nil>"
"""The field of errors that upstream attaches to none."""


MAX_TRIES = 400_000
"""How much work alternatives and patterns may make of one document: a schema's number of them times values, or text."""


class TooManyTries(Exception):
    """Alternatives times values are more than anybody waits for."""


class SchemaOutcome:
    """What is wrong, and how much was right: the measure for the best of several alternatives.

    `work` is shared by all outcomes of one document: how much may still be tried.
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


Check = Callable[[Any, Any, str, str, SchemaOutcome], None]
"""(value, old value, its path, the base of all paths, where to note what is wrong)."""


def at(base: str, path: str) -> str:
    path = path.removeprefix(".")
    if not path:
        return base or NOWHERE
    return f"{base}.{path}" if base else path


# -- types ------------------------------------------------------------------------------------------------------------


def types_of(schema: Doc) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def type_of(value: Any) -> str:
    """The JSON type of a value, in OpenAPI's word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    names = {str: "string", float: "number", list: "array", dict: "object"}
    return names[type(value)]


_PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_GO_FORMATS = {"integer": "int64", "number": "float64"}
_FORMATS_OF_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_of(schema: Doc, types: tuple[str, ...]) -> str:
    """The format, when it is one that is known for the type; others are for readers only."""
    word: str = schema.get("format") or ""
    kind = types[0] if len(types) == 1 else ""
    if kind in _FORMATS_OF_NUMBERS:
        return word if word in _FORMATS_OF_NUMBERS[kind] else ""
    return word if kind in ("", "string") and format_check(word) is not None else ""


def null_check(types: tuple[str, ...], nullable: bool) -> Check:
    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if nullable or not types:
            outcome.matches += 1
        else:
            outcome.errors.append(_wrong_type(path, base, ",".join(types), "null"))

    return check


_INT64 = 2**63


def type_check(types: tuple[str, ...], word: str) -> Check:
    asked = ",".join(types)
    is_wide = "number" in types or "integer" not in types
    taken = {_PYTHON_TYPES[each] for each in types} | ({int} if "number" in types else set())

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        outcome.matches += 1
        if type(value) in taken and (is_wide or type(value) is not int or -_INT64 <= value < _INT64):
            outcome.matches += 1
            return
        found = type_of(value)
        if found == "integer" and not -_INT64 <= value < _INT64:
            found = "number"  # upstream reads it as a float
        if found == "number" and "integer" in types and abs(value) < _INT64 and value == int(value):
            outcome.matches += 1
        elif word and found not in ("string", "array"):
            outcome.errors.append(_wrong_type(path, base, word, _GO_FORMATS.get(found, "")))
        else:
            outcome.errors.append(_wrong_type(path, base, asked, found))

    return check


def _wrong_type(path: str, base: str, asked: str, found: str) -> FieldError:
    return type_invalid(at(base, path), found, f"{path} in body must be of type {asked}: {go_value(found)}")


def enum_check(choices: list[Any]) -> Check:
    told = [choice if isinstance(choice, str) else go_value(choice) for choice in choices]
    known = {_identity(choice) for choice in choices}

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if value is None or _identity(value) not in known:
            outcome.errors.append(unsupported(at(base, path), value, told))

    return check


def _identity(value: Any) -> Any:
    """Equal for values that are equal as JSON: 1 and 1.0 are the same, 1 and true are not, nor is {} and []."""
    if isinstance(value, dict):
        return "object", frozenset((name, _identity(item)) for name, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_identity, value))
    return (bool, value) if isinstance(value, bool) else value


# -- strings and numbers ----------------------------------------------------------------------------------------------


def string_check(schema: Doc) -> Check:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    text: str = schema.get("pattern") or ""
    pattern: GoRegexp | None = compile_go(text) if text else None

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if longest is not None and len(value) > longest:
            outcome.errors.append(too_long(at(base, path), longest))
            return
        if shortest is not None and len(value) < shortest:
            told = f"{path} in body should be at least {shortest} chars long"
            outcome.errors.append(invalid(at(base, path), value, told))
            return
        if pattern is None:
            return
        outcome.tries(len(value) >> 8)
        if not pattern.search(value):
            outcome.errors.append(invalid(at(base, path), value, f"{path} in body should match '{text}'"))

    return check


def text_format_check(word: str, matches: Callable[[str], bool]) -> Check:
    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        outcome.matches += 1
        if not matches(value):
            told = f"{path} in body must be of type {word}: {go_value(value)}"
            outcome.errors.append(type_invalid(at(base, path), value, told))

    return check


_RANGES = {"int32": 2**31, "int64": 2**63}


def number_check(schema: Doc, types: tuple[str, ...]) -> Check:
    kind = types[0] if len(types) == 1 and types[0] in _FORMATS_OF_NUMBERS else ""
    word = format_of(schema, types) if kind else ""
    limit = _RANGES.get(word, 2**63) if kind == "integer" else None
    factor, low, high = (schema.get(each) for each in ("multipleOf", "minimum", "maximum"))
    above, below = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))
    factor_text, low_text, high_text = ("" if each is None else _number(each) for each in (factor, low, high))

    def check(value: Any, old: Any, path: str, base: str, outcome: SchemaOutcome) -> None:
        if limit is not None and not (-limit <= value < limit and value == int(value)):
            named = f"with format {word}" if word else "(default format)"
            told = f"Checked value must be of type {kind} {named} in {path}"
            outcome.errors.append(invalid(base or NOWHERE, "", told))
        elif word == "float" and math.isfinite(value) and abs(value) > _MAX_FLOAT32:
            told = f"Checked value must be of type {kind} with format float in {path}"
            outcome.errors.append(invalid(base or NOWHERE, "", told))
        if factor is not None and not _is_multiple(value, factor):
            wrong = f"{path} in body should be a multiple of {factor_text}"
            outcome.errors.append(invalid(at(base, path), value, wrong))
        if low is not None and (value <= low if above else value < low):
            words = "greater than" if above else "greater than or equal to"
            outcome.errors.append(invalid(at(base, path), value, f"{path} in body should be {words} {low_text}"))
        if high is not None and (value >= high if below else value > high):
            words = "less than" if below else "less than or equal to"
            outcome.errors.append(invalid(at(base, path), value, f"{path} in body should be {words} {high_text}"))

    return check


_MAX_FLOAT32 = 3.4028234663852886e38


def _is_multiple(value: float, factor: float) -> bool:
    if factor <= 0:
        return False
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    many = 1 / factor * value if factor < 1 else value / factor
    return math.isfinite(many) and abs(many - round(many)) <= 1e-9 * max(1.0, abs(many))


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else plain(value)
