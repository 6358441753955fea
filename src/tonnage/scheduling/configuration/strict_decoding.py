"""From a configuration file's text to typed records, strictly: every field is known and has its type.

`document_of` reads text like kube-scheduler: JSON if it starts with `{`, else the first YAML document. `read` follows a
record's annotations, appends a `Problem` for each mistake and continues with the default, so that one
`ConfigurationError` reports all mistakes. The rules are those of Go's decoder:

- An absent or null field takes its default; in a list, null is the empty value of its type.
- The decoder requires no field. Without a default it is empty, and validation judges it later.
- Names are case-sensitive. Numbers are not text, text is not a number.

A plain `int` has 32 bits, `Int64` 64; `Seconds` is a duration, written like `15s`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar, Union, get_args, get_origin

import msgspec

from tonnage.clock import parse_duration
from tonnage.errors import TonnageError, did_you_mean
from tonnage.objects.document import MAX_DEPTH, Budget, BudgetExceeded, file_limits, measure
from tonnage.objects.field_errors import go_value, unsupported
from tonnage.objects.meta import Record
from tonnage.objects.texts.yaml_text import ExcessiveYaml, InvalidYaml, YamlEntries, YamlEntry, first_document


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its `path` (empty for the whole file), the value there, and what to write instead."""

    path: str
    value: Any
    message: str
    remedy: str = ""


Problems = list[Problem]


class ConfigurationError(TonnageError):
    """A configuration that cannot be used. `path`, `value` and `remedy` are those of the first of its `problems`."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        first = problems[0]
        self.file = file
        self.problems = tuple(problems)
        self.path = first.path
        self.value = first.value
        self.remedy = first.remedy
        told = list(dict.fromkeys(problem.message for problem in problems))
        remedies = (
            [first.remedy] if len(told) == 1 else [f"{each.path}: {each.remedy}" for each in problems if each.remedy]
        )
        sentence = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        super().__init__(f"{file}: {sentence}", hint="; ".join(dict.fromkeys(remedies)) or None)


R = TypeVar("R", bound=Record)

Int64 = Annotated[int, "int64"]
Seconds = Annotated[float, "duration"]

_MAX_FLOAT32 = 3.4028235677973366e38
_SHOWN = 60
_LIST = ("a list", "write a dash and a blank before each of its items")
_MAP = ("a map", "write a name and a colon before each of its values")


class Section(Record):
    """A part of a configuration file. `gone`: what replaces fields of older versions."""

    gone: ClassVar[Mapping[str, str]] = {}


def read(cls: type[R], value: Any, path: str, problems: Problems) -> R:
    """The record at `path` of a document, with defaults where problems were found."""
    if not isinstance(value, dict):
        if value is not None:
            problems.append(_mismatch(value, path, *_MAP))
        value = {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    for name in value:
        if name not in fields:
            problems.append(_unknown(cls, name, value[name], _join(path, name), list(fields)))
    found: dict[str, Any] = {}
    for name, field in fields.items():
        # A duration must not be null: upstream's decoder reads null as empty text, which is no duration.
        if value.get(name) is not None or (name in value and field.type is Seconds):
            found[field.name] = _read_as(field.type, value[name], _join(path, name), problems)
        elif field.required:
            found[field.name] = _empty(field.type)
    return cls(**found)


def _read_as(type_: Any, value: Any, path: str, problems: Problems) -> Any:
    type_, detail = _plain(type_)
    if type_ is Any:
        return value
    if get_origin(type_) is not None:
        return _read_members(type_, value, path, problems)
    if issubclass(type_, Record):
        return read(type_, value, path, problems)
    if issubclass(type_, StrEnum):
        if value in list(type_):
            return type_(value)
        error = unsupported(path, value, [str(each) for each in type_])
        problems.append(Problem(path, value, str(error), f"write one of {', '.join(type_)}"))
        return next(iter(type_))
    return _read_scalar(type_, detail, value, path, problems)


def _read_members(type_: Any, value: Any, path: str, problems: Problems) -> Any:
    """A list as a tuple, or a map."""
    is_list, item = get_origin(type_) is tuple, get_args(type_)[0 if get_origin(type_) is tuple else 1]
    if not isinstance(value, list if is_list else dict):
        problems.append(_mismatch(value, path, *(_LIST if is_list else _MAP)))
        return _empty(type_)
    pairs: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else value.items()
    members = {
        key: _empty(item) if each is None else _read_as(item, each, f"{path}[{key}]", problems) for key, each in pairs
    }
    return tuple(members.values()) if is_list else members


def _read_scalar(type_: type, detail: str, value: Any, path: str, problems: Problems) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if detail == "duration":
        seconds = parse_duration(value) if isinstance(value, str) else None
        if seconds is None:
            problems.append(_mismatch(value, path, "a duration", "write a number with its unit, such as 15s or 1m30s"))
        return seconds or 0.0
    if type_ is int:
        bits = 64 if detail == "int64" else 32
        if is_number and isinstance(value, int):
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
            most = f"write a number up to {(1 << bits - 1) - 1}"
            problems.append(_mismatch(value, path, f"a whole number of {bits} bits", most))
        else:
            problems.append(_mismatch(value, path, "a whole number", _unquoted(value) or "write a number such as 3"))
    elif type_ is float:
        if is_number and abs(value) < _MAX_FLOAT32:
            return float(value)
        wanted = "a number of 32 bits" if is_number else "a number"
        problems.append(_mismatch(value, path, wanted, _unquoted(value) or "write a number such as 3 or 0.5"))
    elif isinstance(value, type_):
        return value
    elif type_ is bool:
        remedy = "write true or false, without quotes"
        problems.append(_mismatch(value, path, "true or false", remedy))
    else:
        quoted = f'write "{go_value(value)}", in quotes' if is_number or isinstance(value, bool) else "write text there"
        problems.append(_mismatch(value, path, "text", quoted))
    return _empty(type_)


# -- types -------------------------------------------------------------------------------------------------------------


def _plain(type_: Any) -> tuple[Any, str]:
    """A type without `| None` and annotations, and the annotation's text."""
    if get_origin(type_) in (Union, UnionType):
        return _plain(next(each for each in get_args(type_) if each is not NoneType))
    if get_origin(type_) is Annotated:
        return get_args(type_)[0], str(get_args(type_)[1])
    return type_, ""


def _empty(type_: Any) -> Any:
    type_, _ = _plain(type_)
    if get_origin(type_) is not None:
        return () if get_origin(type_) is tuple else {}
    if issubclass(type_, Record):
        return read(type_, {}, "", [])
    return next(iter(type_)) if issubclass(type_, StrEnum) else type_()


# -- words -------------------------------------------------------------------------------------------------------------


def _unknown(cls: type[Record], name: str, value: Any, path: str, known: list[str]) -> Problem:
    gone = cls.gone.get(name, "") if issubclass(cls, Section) else ""
    remedy = gone or did_you_mean(name, known) or f"take it away; the fields there are {', '.join(sorted(known))}"
    return Problem(path, value, f'unknown field "{path}"', remedy)


def _mismatch(value: Any, path: str, wanted: str, remedy: str) -> Problem:
    shown = go_value(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return Problem(path, value, f"{path}={shown} is not {wanted}", remedy)


def _unquoted(value: Any) -> str:
    return f"write {value}, without quotes" if isinstance(value, str) and value.isdecimal() else ""


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_MAX_DIGITS = 100
"""The most digits of a JSON number; useful ones have fewer than twenty."""


def document_of(text: str, problems: Problems, notes: list[str]) -> Any:
    """The document in a text: dicts with text keys, lists, text, numbers, booleans and None."""
    try:
        if text.lstrip()[:1] == "{":
            return _settled(_from_json(text), "", problems)
        found, is_followed = first_document(text)
        if is_followed:
            notes.append("only the first YAML document is read; what follows it has no effect")
        return _settled(found, "", problems)
    except (BudgetExceeded, ExcessiveYaml) as exc:
        exceeded = exc.exceeded if isinstance(exc, ExcessiveYaml) else exc
        remedy = "flatten the file" if exceeded.is_depth else "write out what its aliases stand for"
        problems.append(Problem("", None, exc.message, remedy))
    except InvalidYaml as exc:
        remedy = "correct the YAML there" if exc.line else "save the file as UTF-8 text"
        problems.append(Problem("", None, exc.message, remedy))
    except json.JSONDecodeError as exc:
        remedy = "correct the JSON there, or take the braces away to write YAML"
        problems.append(Problem("", None, f"json: line {exc.lineno} column {exc.colno}: {exc.msg}", remedy))
    return None


def _settled(value: Any, path: str, problems: Problems) -> Any:
    """The document with entries as dicts; of several values of one field, the last counts."""
    if isinstance(value, YamlEntries):
        first_at: dict[str, int] = {}
        settled: dict[str, Any] = {}
        for name, item, line in value:
            key = _whole(name)
            where = f"{path}.{key}" if path else key
            if key in settled:
                lines = f"lines {first_at[key]} and {line}" if line != first_at[key] else f"line {line}"
                told = f'duplicate field "{where}"' + (f" ({lines})" if line else "")
                problems.append(Problem(where, item, told, f"leave one {key} there"))
            first_at.setdefault(key, line)
            settled[key] = _settled(item, where, problems)
        return settled
    if isinstance(value, list):
        return [_settled(item, f"{path}[{position}]", problems) for position, item in enumerate(value)]
    return _whole(value) if isinstance(value, str) else value


def _whole(text: str) -> str:
    """Text that can be encoded again: half a surrogate pair, which escapes can spell, becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _from_json(text: str) -> Any:
    def constant(name: str) -> NoReturn:
        raise json.JSONDecodeError(f"{name} is not JSON", text, max(text.find(name), 0))

    def entries(pairs: list[tuple[str, Any]]) -> YamlEntries:
        return YamlEntries(YamlEntry(key, value) for key, value in pairs)

    def integer(digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise json.JSONDecodeError(f"a number of {len(digits)} digits", text, max(text.find(digits), 0))
        return int(digits)

    data = text.encode(errors="surrogatepass")
    measure(data, Budget(file_limits(len(data))))
    try:
        return json.loads(text, object_pairs_hook=entries, parse_constant=constant, parse_int=integer)
    except RecursionError:  # the depth of unbalanced brackets cannot be measured
        raise BudgetExceeded("depth", MAX_DEPTH) from None
