"""YAML as Kubernetes reads it: a text to plain JSON values, document by document.

Scalars have the meaning of Go's YAML: `y` and `on` are true, `1e3` and `0o17` are numbers, `1:30` and dates are text.
Keys are always text. Of a repeated key the last value counts (`YamlDocument.repeated`). Aliases multiply, so the
expanded size is charged to a `Budget` first (`document`). Values are built directly from the parser's events, which
takes half the time of PyYAML's tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import yaml
from yaml import events

from tonnage.errors import TonnageError
from tonnage.objects.document import Budget, BudgetExceeded, Size, copy, file_limits, text_size

_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
_MAX_DIGITS = 64
"""Enough for any 64-bit integer in base 2. A longer number is a fraction or a text, and is not parsed as an integer."""
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def meaning(text: str) -> Any:
    """The value of a scalar without quotes and tag. Mirrors resolve of go-yaml v2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if found := _INTEGER.fullmatch(plain):
        digits, base = next((digits, base) for digits, base in zip(found.groups()[1:], _BASES, strict=True) if digits)
        if len(digits.lstrip("0")) <= _MAX_DIGITS:
            number = int(f"{found[1]}{digits.lstrip('0') or '0'}", base)
            if _MIN_INT64 <= number <= _MAX_UINT64:
                return number
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text


class _PythonParser(yaml.BaseLoader):
    """PyYAML's own parser: slower than libyaml's, with better messages. Allows tabs between a colon and a value."""

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        # A tab may not indent, so it is skipped only where no field can begin. PyYAML refuses it everywhere.
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


_Parser: Any = getattr(yaml, "CBaseLoader", _PythonParser)
"""Without libyaml: the same events, slower."""
_MAX_TAG_DIRECTIVES = 16
_MAX_TAG_PREFIX = 256
"""No manifest has a %TAG directive. Parsers compare every pair of them, and expand a tag's prefix at every use."""
_TAG_DIRECTIVE = re.compile(r"(?:^|[\r\n\x85\u2028\u2029])%TAG")


class InvalidYaml(TonnageError):
    """A text is not YAML; `line` counts from 1 and is 0 if unknown."""

    def __init__(self, problem: str, *, line: int = 0) -> None:
        self.problem = problem
        self.line = line
        super().__init__(f"yaml: line {line}: {problem}" if line else f"yaml: {problem}")


class ExcessiveYaml(InvalidYaml):
    """A text exceeds its budget; `exceeded` says which limit."""

    def __init__(self, exceeded: BudgetExceeded, *, line: int = 0, by_alias: bool = False) -> None:
        self.exceeded = exceeded
        told = exceeded.message
        super().__init__(f"document contains excessive aliasing: {told}" if by_alias else told, line=line)


class NestedTooDeeply(ExcessiveYaml):
    pass


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a text: its value, and its repeated keys as (key, line of the last)."""

    value: Any
    repeated: tuple[tuple[str, int], ...] = ()


def documents(text: str, budget: Budget | None = None) -> Iterator[YamlDocument]:
    """The documents of a text, in order; an empty document has the value None. Raises InvalidYaml, ExcessiveYaml."""
    with _parser(_Parser, text) as get_event:
        yield from _Builder(get_event, budget or _file_budget(text)).documents()


def _file_budget(text: str) -> Budget:
    return Budget(file_limits(text_size(text)))


class YamlEntry(NamedTuple):
    """One key of a map, and its line, which counts from 1 and is 0 if unknown."""

    key: str
    value: Any
    line: int = 0


class YamlEntries(list[YamlEntry]):
    """A map as its keys in order, before repeated keys are resolved; merged keys (`<<`) count."""


def first_document(text: str) -> tuple[Any, bool]:
    """The first document, its maps as `YamlEntries`, and whether another one follows. Raises InvalidYaml."""
    with _parser(_PythonParser, text.removeprefix("\ufeff")) as get_event:
        found = next(_EntriesBuilder(get_event, _file_budget(text)).documents(), None)
        try:
            is_followed = found is not None and type(get_event()) is not events.StreamEndEvent
        except yaml.YAMLError:
            is_followed = True
    return None if found is None else found.value, is_followed


@contextmanager
def _parser(kind: Any, text: str) -> Iterator[Callable[[], Any]]:
    """The events of a text, one by one; PyYAML's errors become InvalidYaml."""
    parser = None
    if len(_TAG_DIRECTIVE.findall(text)) > _MAX_TAG_DIRECTIVES:
        raise InvalidYaml(f"more than {_MAX_TAG_DIRECTIVES} %TAG directives")
    try:
        parser = kind(text)
        yield parser.get_event
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidYaml(exc.problem or exc.context or "", line=mark.line + 1 if mark is not None else 0) from exc
    except yaml.YAMLError as exc:
        raise InvalidYaml(" ".join(str(exc).split())) from exc
    finally:
        if parser is not None:
            parser.dispose()


class _Builder:
    """Builds values from events. Every alias gets a copy of its anchor's value: callers may change values."""

    undefined_alias = "unknown anchor '{}' referenced"
    recursive_alias = undefined_alias
    no_key = "a key is text"

    def __init__(self, get_event: Callable[[], Any], budget: Budget) -> None:
        self._get = get_event
        self._budget = budget
        self._max_values, self._max_text_bytes = budget.limits.values, budget.limits.text_bytes
        self._anchors: dict[str, tuple[Any, Size]] = {}
        self._open_anchors: set[str] = set()
        self._repeated: list[tuple[str, int]] = []
        self._deepest = 0

    def documents(self) -> Iterator[YamlDocument]:
        while True:
            event = self._get()
            kind = type(event)
            if kind is events.DocumentStartEvent:
                if any(len(prefix) > _MAX_TAG_PREFIX for prefix in (event.tags or {}).values()):
                    _refuse(f"the prefix of a %TAG directive has more than {_MAX_TAG_PREFIX} characters", event)
                self._anchors, self._repeated = {}, []
                value = self._value(self._get())
                self._get()  # the document's end
                yield YamlDocument(value, tuple(self._repeated))
            elif kind is events.StreamEndEvent:
                return

    def _value(self, event: Any) -> Any:
        if event.anchor is None:
            return self._plain(event)
        return self._alias(event) if type(event) is events.AliasEvent else self._anchored(event)

    def _plain(self, event: Any) -> Any:
        kind = type(event)
        if kind is events.ScalarEvent:
            value: Any = event.value if not event.implicit[0] and event.tag is None else _scalar(event)
            budget = self._budget  # charged in place: most of a text is scalars
            budget.values += 1
            if type(value) is str:
                budget.text_bytes += len(value) if value.isascii() else text_size(value)
            if budget.values > self._max_values or budget.text_bytes > self._max_text_bytes:
                self._charge(0, 0, event)
            return value
        self._charge(1, 0, event)
        self._enter(1, event)
        self._budget.level += 1
        found = self._map() if kind is events.MappingStartEvent else self._list()
        self._budget.level -= 1
        return found

    def _anchored(self, event: Any) -> Any:
        """A value with an anchor. Its size is kept with it, because every alias costs as much again."""
        budget = self._budget
        values, text_bytes, deepest = budget.values, budget.text_bytes, self._deepest
        self._deepest = budget.level
        self._open_anchors.add(event.anchor)
        value = self._plain(event)
        self._open_anchors.discard(event.anchor)
        size = Size(budget.values - values, budget.text_bytes - text_bytes, self._deepest - budget.level)
        self._deepest = max(deepest, self._deepest)
        self._anchors[event.anchor] = (value, size)
        return value

    def _charge(self, values: int, text_bytes: int, event: Any) -> None:
        try:
            self._budget.charge(values, text_bytes)
        except BudgetExceeded as exc:
            is_alias = type(event) is events.AliasEvent
            raise ExcessiveYaml(exc, line=event.start_mark.line + 1, by_alias=is_alias) from None

    def _enter(self, levels: int, event: Any) -> None:
        self._deepest = max(self._deepest, self._budget.level + levels)
        try:
            self._budget.enter(levels)
        except BudgetExceeded as exc:
            raise NestedTooDeeply(exc, line=event.start_mark.line + 1) from None

    def _list(self) -> list[Any]:
        found: list[Any] = []
        while type(item := self._get()) is not events.SequenceEndEvent:
            found.append(self._value(item))
        return found

    def _map(self) -> Any:
        found: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        get, value_of, budget = self._get, self._value, self._budget
        while type(event := get()) is not events.MappingEndEvent:
            key = value_of(event)
            if type(key) is not str:
                key = self._spelled(key, event)
            budget.values -= 1  # a key is charged with its value
            if key == "<<" and _is_merge(event):
                merged += _maps(value_of(get()), dict, event)
                continue
            if key in found:
                self._repeated.append((key, event.start_mark.line + 1))
            found[key] = value_of(get())
        if not merged:
            return found
        # A key of the map itself wins over a merged key, and the first merged map over the next.
        whole: dict[str, Any] = {}
        for other in reversed(merged):
            whole |= other
        whole |= found
        return whole

    def _alias(self, event: Any) -> Any:
        if event.anchor in self._open_anchors:
            _refuse(self.recursive_alias.format(event.anchor), event)
        if event.anchor not in self._anchors:
            _refuse(self.undefined_alias.format(event.anchor), event)
        value, size = self._anchors[event.anchor]
        self._charge(size.values, size.text_bytes, event)
        self._enter(size.depth, event)
        return self._copy(value)

    def _copy(self, value: Any) -> Any:
        return copy(value)

    def _spelled(self, value: Any, event: Any) -> str:
        if not isinstance(value, (int, float)):
            _refuse(self.no_key, event)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self._charge(0, len(text), event)
        return text


class _EntriesBuilder(_Builder):
    """Maps as `YamlEntries`, with messages for configuration files. Nobody changes them, so aliases share them."""

    undefined_alias = "found undefined alias '{}'"
    recursive_alias = "an anchor's value contains itself"
    no_key = "a field's name is text"

    def _map(self) -> Any:
        found = YamlEntries()
        while type(event := self._get()) is not events.MappingEndEvent:
            key = self._value(event)
            if type(key) is not str:
                key = self._spelled(key, event)
            self._budget.values -= 1
            if key == "<<" and _is_merge(event):
                for merged in _maps(self._value(self._get()), YamlEntries, event):
                    found += merged
                continue
            found.append(YamlEntry(key, self._value(self._get()), event.start_mark.line + 1))
        return found

    def _copy(self, value: Any) -> Any:
        return value


def _is_merge(event: Any) -> bool:
    return type(event) is events.ScalarEvent and (event.implicit[0] or event.tag == f"{_TAG}merge")


def _maps(value: Any, map_type: type, event: Any) -> list[Any]:
    parts = value if isinstance(value, list) and not isinstance(value, map_type) else [value]
    if not all(isinstance(part, map_type) for part in parts):
        _refuse("map merge requires map or sequence of maps as the value", event)
    return parts


def _refuse(problem: str, event: Any) -> NoReturn:
    raise InvalidYaml(problem, line=event.start_mark.line + 1)


# -- scalars ----------------------------------------------------------------------------------------------------------

_TAG = "tag:yaml.org,2002:"
_TAGGED: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}bool": bool,
    f"{_TAG}int": int,
    f"{_TAG}float": (int, float),
    f"{_TAG}null": type(None),
}


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag not in _TAGGED:
        return text
    value = meaning(text)
    if event.tag is not None and (
        not isinstance(value, _TAGGED[event.tag]) or isinstance(value, bool) != event.tag.endswith("bool")
    ):
        _refuse(f"cannot decode `{text}` as a !!{event.tag.removeprefix(_TAG)}", event)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(f"unsupported value: {text}", event)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value  # Go writes 16.0 as 16
    return value
