"""`additionalPrinterColumns`: the columns `kubectl get` shows for a custom resource, and their cells.

A definition without columns has upstream's default, Age. A cell holds a value of the column's type, or None if the
document lacks the field or has another type there; text columns show any value. Mirrors upstream's tableconvertor.

Paths are in the language of client-go's jsonpath, without templates: fields (`.a`, `['a.b']`, `.a\\.b`), indexes and
slices of lists (`[0]`, `[-1]`, `[1:3]`, `[0,2]`), wildcards (`.*`, `[*]`), everything below (`..a`), and filters that
compare with a literal or with another path (`[?(@.type=="Ready")]`). A missing field yields nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from tonnage.clock import InvalidTime, parse_rfc3339
from tonnage.documents.go_text import plain
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, encode

ABSENT: Any = object()
"""In place of a value that does not exist. Filters yield it for items that do not match: these are work too."""
_END: Any = object()
MAX_PATH_CHARS = 4096
"""Longer paths are refused: nobody writes them, and every step is work for every document."""
MAX_FOUND = 10_000
"""Values that a path may find in one document: `..` and wildcards multiply."""


class InvalidJsonPath(TonnageError):
    """A path is not valid JSONPath; says where."""


Step = Callable[[Any], Iterable[Any]]


class JsonPath:
    def __init__(self, text: str, steps: tuple[Step, ...]) -> None:
        self.text = text
        self._steps = steps

    def find(self, doc: Any) -> list[Any]:
        """All values at the path, in document order."""
        found: list[Any] = [doc]
        for step in self._steps:
            below = (item for value in found for item in step(value) if item is not ABSENT)
            found = list(islice(below, MAX_FOUND))
            if len(found) == MAX_FOUND:
                return []
        return found

    def first(self, doc: Any, most: int) -> tuple[Any, int]:
        """The first value at the path (ABSENT if there is none), and how many values were visited, at most `most`."""
        pending: list[Iterator[Any]] = [iter((doc,))]
        for looked_at in range(most):
            value = next(pending[-1], _END)
            if value is _END:
                pending.pop()
                if not pending:
                    return ABSENT, looked_at
            elif value is ABSENT:
                continue
            elif len(pending) > len(self._steps):
                return value, looked_at
            else:
                pending.append(iter(self._steps[len(pending) - 1](value)))
        return ABSENT, most


def parse(text: str) -> JsonPath:
    """Compile a path such as `.spec.size`; a leading `$` or `@` is the document. Raises InvalidJsonPath."""
    if len(text) > MAX_PATH_CHARS:
        raise InvalidJsonPath(f"a JSONPath of {len(text)} characters; at most {MAX_PATH_CHARS} are read")
    return JsonPath(text, tuple(_steps(text)))


_FIELD = re.compile(r"(?:\\.|[^.\[\]\\])+", re.DOTALL)


def _steps(text: str) -> Iterator[Step]:
    position = 1 if text[:1] in ("$", "@") else 0
    while position < len(text):
        if text.startswith("..", position):
            yield _everything_below
            position += 1 if text[position + 2 : position + 3] != "[" else 2
        elif text[position] == ".":
            position += 1
            if position == len(text):
                return  # `.` is the document itself
            if text[position] == "[":
                continue
            name = _FIELD.match(text, position)
            if name is None:
                raise InvalidJsonPath(f"unexpected {text[position]!r} at position {position} of JSONPath {text!r}")
            position = name.end()
            yield _wildcard if name[0] == "*" else _field_step(re.sub(r"\\(.)", r"\1", name[0], flags=re.DOTALL))
        elif text[position] == "[":
            end = _closing(text, position)
            yield _bracket(text[position + 1 : end], text)
            position = end + 1
        else:
            raise InvalidJsonPath(f"unexpected {text[position]!r} at position {position} of JSONPath {text!r}")


def _closing(text: str, position: int) -> int:
    """The position of the bracket that closes the one at `position`; quotes and inner brackets are skipped."""
    depth, quote, at = 0, "", position
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise InvalidJsonPath(f"unterminated array at position {position} of JSONPath {text!r}")


_INDEX = re.compile(r"-?[0-9]{1,9}")
_SLICE = re.compile(r"(-?[0-9]{0,9}):(-?[0-9]{0,9})(?::(-?[0-9]{0,9}))?")
_NAME = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"", re.DOTALL)


def _bracket(inside: str, text: str) -> Step:
    inside = inside.strip()
    if inside == "*":
        return _wildcard
    if inside.startswith("?(") and inside.endswith(")"):
        return _filter(inside[2:-1], text)
    if quoted := _NAME.fullmatch(inside):
        return _field_step(_unquoted(quoted))
    if _INDEX.fullmatch(inside):
        index = int(inside)
        return lambda value: [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()
    if cut := _SLICE.fullmatch(inside):
        start, stop, stride = (int(part) if part and part != "-" else None for part in cut.groups())
        taken = slice(start, stop, stride if stride is not None and stride > 0 else None)
        return lambda value: value[taken] if isinstance(value, list) else ()
    parts = [part.strip() for part in inside.split(",")]
    if len(parts) > 1 and all(_INDEX.fullmatch(part) or _NAME.fullmatch(part) for part in parts):
        steps = [_bracket(part, text) for part in parts]
        return lambda value: chain.from_iterable(step(value) for step in steps)
    raise InvalidJsonPath(f"invalid array index [{inside}] in JSONPath {text!r}")


def _unquoted(quoted: re.Match[str]) -> str:
    inner = quoted[1] if quoted[1] is not None else quoted[2]
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)


def _field_step(name: str) -> Step:
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _wildcard(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _everything_below(value: Any) -> Iterator[Any]:
    """A value and everything inside it, outermost first."""
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        below = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        pending.extend(reversed(below))


# -- filters ----------------------------------------------------------------------------------------------------------

_COMPARED = re.compile(
    r"\s*((?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\[[^]]*\]|[^'\"\[=!<>])+)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*", re.DOTALL
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _filter(condition: str, text: str) -> Step:
    compared = _COMPARED.fullmatch(condition)
    if compared is None:
        if re.search("[=!<>]", _NAME.sub("", condition)):
            raise InvalidJsonPath(f"cannot read the filter ({condition}) in JSONPath {text!r}")
        exists = _operand(condition.strip(), text)
        return _matching(lambda item: bool(exists(item)))
    left, right = _operand(compared[1].strip(), text), _operand(compared[3], text)
    holds = _COMPARISONS[compared[2]]

    def matches(item: Any) -> bool:
        ours, theirs = left(item), right(item)
        return len(ours) == 1 and len(theirs) == 1 and _comparable(ours[0], theirs[0]) and holds(ours[0], theirs[0])

    return _matching(matches)


def _matching(matches: Callable[[Any], bool]) -> Step:
    return lambda value: (item if matches(item) else ABSENT for item in value) if isinstance(value, list) else ()


def _comparable(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, (int, float)))


_LITERALS: Doc = {"true": True, "false": False}


def _operand(text: str, whole: str) -> Callable[[Any], list[Any]]:
    if quoted := _NAME.fullmatch(text):
        literal: Any = _unquoted(quoted)
    elif text in _LITERALS:
        literal = _LITERALS[text]
    elif re.fullmatch(r"-?[0-9]{1,18}", text):
        literal = int(text)
    elif re.fullmatch(r"-?[0-9]{1,18}\.[0-9]{1,18}", text):
        literal = float(text)
    elif text.startswith(("@", ".", "$")):
        return parse(text).find
    else:
        raise InvalidJsonPath(f"unrecognized operand {text!r} in JSONPath {whole!r}")
    return lambda item: [literal]


MAX_COLUMNS = 100
MAX_CELL_CHARS = 4096
"""Of one cell: many columns may show the same megabyte."""
_LOOKS_A_CELL = 20
_AGE: Doc = {
    "name": "Age",
    "type": "date",
    "description": "When the server created the object.",
    "jsonPath": ".metadata.creationTimestamp",
}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of a definition, with its path compiled."""

    name: str
    type: str
    path: JsonPath
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Doc:
        """The TableColumnDefinition, with every field present as upstream sends it."""
        told = self.description or f"Custom resource definition column (in JSONPath format): {self.path.text}"
        head = {"name": self.name, "type": self.type, "format": self.format}
        return {**head, "description": told, "priority": self.priority}

    def cell(self, doc: Doc, age: Callable[[str], str], looks: Looks | None = None) -> Any:
        """The cell of this column for a document: the first value at its path."""
        looks = looks or Looks()
        value, looked_at = self.path.first(doc, looks.next_cell())
        looks.left -= looked_at
        if value is ABSENT:
            return None
        return _text(value) if self.type == "string" else _value(self.type, value, age)


class Looks:
    """How many values the paths of one table may still visit: `..`, filters, columns and rows multiply."""

    def __init__(self) -> None:
        self.left = 100_000

    def next_cell(self) -> int:
        """How many values one more cell may visit. Ordinary paths need less than every cell adds to the budget."""
        self.left += _LOOKS_A_CELL
        return max(0, min(MAX_FOUND, self.left))


def printer_columns(columns: Iterable[Doc]) -> tuple[PrinterColumn, ...]:
    """The columns of one version, after Name, up to `MAX_COLUMNS`. They end before the first invalid path."""
    made: list[PrinterColumn] = []
    for column in islice(columns or (_AGE,), MAX_COLUMNS):
        try:
            path = parse(column["jsonPath"])
        except InvalidJsonPath:
            break
        rest = {field: column[field] for field in ("format", "description", "priority") if field in column}
        made.append(PrinterColumn(column["name"], column["type"], path, **rest))
    return tuple(made)


def _text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        text = encode(value)[: 4 * MAX_CELL_CHARS].decode(errors="ignore")
    else:
        text = "<no value>" if value is None else plain(value)
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]}..."


def _value(kind: str, value: Any, age: Callable[[str], str]) -> Any:
    if kind in ("integer", "number") and type(value) in (int, float):
        return int(value) if kind == "integer" else value
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "date" and isinstance(value, str):
        if value in ("", "null"):
            return "<unknown>"
        try:
            parse_rfc3339(value)
        except InvalidTime:
            return "<invalid>"
        return age(value)
    return None
