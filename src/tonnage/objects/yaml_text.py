"""YAML as Kubernetes reads it: a text to plain JSON values, document by document.

kubectl turns YAML into JSON before anything else looks at it, and so do we, with the same outcome:

- Scalars mean what they mean to Go's YAML: `y` and `on` are true, `1e3`, `08` and `0o17` are numbers, `1:30` and dates
  are text. `meaning` is that rule.
- Keys are text, whatever they look like: `8080: web` is the key "8080".
- Of a key that stands twice in a map the last value counts. kubectl says nothing of it; we do (`Document.repeated`).

The values are built straight from the parser's events, without PyYAML's tree in between: a manifest of 5,000 nodes is
read in half the time. libyaml does the parsing where it is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from yaml import events

from tonnage.errors import TonnageError
from tonnage.objects.document import copy

_Parser: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Where PyYAML comes without libyaml: the same events, slower."""
_MAX_COPIED = 1_000_000
"""Values that aliases may add to a text: beyond it the text is an attack, not a manifest."""


class InvalidYaml(TonnageError):
    """A text that is not YAML; `line` counts from 1 and is 0 when unknown."""

    def __init__(self, problem: str, *, line: int = 0) -> None:
        self.problem = problem
        self.line = line
        super().__init__(f"yaml: line {line}: {problem}" if line else f"yaml: {problem}")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text: its value, and the keys that stand in it more than once, as (key, line of the last)."""

    value: Any
    repeated: tuple[tuple[str, int], ...] = ()


def documents(text: str) -> Iterator[Document]:
    """The documents of a text, in order; an empty one has the value None. Raises InvalidYaml."""
    parser = _Parser(text)
    try:
        yield from _Builder(parser.get_event).documents()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise InvalidYaml(exc.problem or exc.context or "", line=mark.line + 1 if mark is not None else 0) from exc
    except yaml.YAMLError as exc:
        raise InvalidYaml(" ".join(str(exc).split())) from exc
    except RecursionError:
        raise InvalidYaml("maps and lists are nested too deeply to be read") from None
    finally:
        parser.dispose()


class _Builder:
    """Values from events. An anchor's value is copied for each alias: whoever changes one must not change the other."""

    def __init__(self, get_event: Callable[[], Any]) -> None:
        self._get = get_event
        self._anchors: dict[str, Any] = {}
        self._repeated: list[tuple[str, int]] = []
        self._copied = 0

    def documents(self) -> Iterator[Document]:
        while True:
            kind = type(self._get())
            if kind is events.DocumentStartEvent:
                self._anchors, self._repeated = {}, []
                yield Document(self._value(self._get()), tuple(self._repeated))
            elif kind is events.StreamEndEvent:
                return

    def _value(self, event: Any) -> Any:
        kind = type(event)
        if kind is events.ScalarEvent:
            value: Any = event.value if not event.implicit[0] and event.tag is None else _scalar(event)
        elif kind is events.MappingStartEvent:
            value = self._map()
        elif kind is events.SequenceStartEvent:
            value = []
            while type(item := self._get()) is not events.SequenceEndEvent:
                value.append(self._value(item))
        else:
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _map(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        get, value_of = self._get, self._value
        while type(event := get()) is not events.MappingEndEvent:
            key = value_of(event)
            if key == "<<" and type(event) is events.ScalarEvent and event.implicit[0]:
                merged += _maps(value_of(get()), event)
                continue
            if type(key) is not str:
                key = _key(key, event)
            if key in found:
                self._repeated.append((key, event.start_mark.line + 1))
            found[key] = value_of(get())
        for other in merged:  # a key of the map itself wins over a merged one, and the first merged over the next
            found = {**other, **found}
        return found

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            _refuse(f"unknown anchor '{event.anchor}' referenced", event)
        value = self._anchors[event.anchor]
        self._copied += _size(value)
        if self._copied > _MAX_COPIED:
            _refuse("document contains excessive aliasing", event)
        return copy(value)


def _maps(value: Any, event: Any) -> list[dict[str, Any]]:
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        _refuse("map merge requires map or sequence of maps as the value", event)
    return parts


def _key(value: Any, event: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (int, float)):
        _refuse("a key is text", event)
    return str(value)


def _size(value: Any) -> int:
    """How many values a value is made of."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


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
    """A scalar without quotes, or one with a tag."""
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


_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
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
    """What a bare word is. Mirrors resolve of go-yaml v2: the words of YAML 1.1, but no base 60 and no dates."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if found := _INTEGER.fullmatch(plain):
        digits, base = next((digits, base) for digits, base in zip(found.groups()[1:], _BASES, strict=True) if digits)
        number = int(f"{found[1]}{digits}", base)
        if _MIN_INT64 <= number <= _MAX_UINT64:
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text
