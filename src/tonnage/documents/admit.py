"""From a client's JSON to a document the rules can trust.

`admit` walks a document once along its schema, in place. Afterwards every value has its field's type, quantities and
times are in canonical text, and there is no null, no unknown field, no empty optional map or list, and no zero that a
Go server would not write (`hostNetwork: false`, but not `replicas: 0`). Unknown fields are returned. A value of a wrong
type raises `Malformed`, in the words of Go's decoder. Every type is compiled once, to a closure.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Callable
from datetime import UTC
from typing import Any

from tonnage.clock import InvalidTime, parse_rfc3339, rfc3339, rfc3339_micro
from tonnage.documents.go_text import json_type
from tonnage.documents.schema import Field, ListOf, MapOf, Scalar, Struct, Type, schema_of
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, keys_in
from tonnage.quantity import InvalidQuantity, Quantity


class Malformed(TonnageError):
    """A value has not the type of its field; the message is Go's."""


_MAX_STEP_CHARS = 256
"""Characters of a name that a message shows: a key may be megabytes, with a hundred thousand fields below it."""


def shown_step(name: str) -> str:
    """A name as paths show it."""
    return name if len(name) <= _MAX_STEP_CHARS else f"{name[:_MAX_STEP_CHARS]}..."


class Key(str):
    """The key of a map, as a step of a path."""

    __slots__ = ()


class Path(tuple[Any, ...]):
    """A place in a document: (parent, step). A step is a field, a map's key or an index; only messages make it text."""

    __slots__ = ()

    def text(self) -> str:
        if not self:
            return ""
        parent, step = self
        before = parent.text()
        if isinstance(step, int):
            return f"{before}[{step}]"
        return f"{before}.{shown_step(step)}" if before else shown_step(step)

    def fields(self) -> str:
        """As Go's decoder shows a path: field names only, without indices or map keys."""
        if not self:
            return ""
        parent, step = self
        if isinstance(step, (int, Key)):
            return str(parent.fields())
        return Path((Path((ROOT, before)) if (before := parent.fields()) else ROOT, step)).text()


ROOT = Path()


@dataclasses.dataclass(slots=True)
class Findings:
    """What the walk reports beside the values: paths of unknown fields, and the number of all keys."""

    unknown_paths: list[Path] = dataclasses.field(default_factory=list)
    keys: int = 0

    @property
    def unknown(self) -> list[str]:
        return [path.text() for path in self.unknown_paths]


Check = Callable[[Any, Path, str, Findings], Any]
"""(value, its path, name of the enclosing struct, findings) -> the canonical value."""


def admit(struct: Struct, doc: Doc) -> Findings:
    """Check and canonicalise a whole document in place. Raises Malformed."""
    findings = Findings()
    compile_check(struct)(doc, ROOT, struct.name, findings)
    return findings


def compile_check(kind: Type) -> Check:
    """The check for values of a type, compiled on first use and kept."""
    if isinstance(kind, Struct):
        found = _structs.get(kind.full_name)
        return found if found is not None else _struct_check(kind)
    if isinstance(kind, ListOf):
        return _list_check(kind)
    if isinstance(kind, MapOf):
        return _map_check(kind)
    return _SCALAR_CHECKS[kind.name]


_structs: dict[str, Check] = {}


def _struct_check(struct: Struct) -> Check:
    table: dict[str, tuple[Check, bool, bool]] = {}
    go_type, name = _go_type(struct), struct.name

    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, path, around, go_type)
        drop: list[str] = []
        findings.keys += len(value)
        for field, item in value.items():
            entry = table.get(field)
            if entry is None:
                findings.unknown_paths.append(Path((path, field)))
                drop.append(field)
            elif item is None:
                drop.append(field)
            else:
                check_item, is_string, drops_empty = entry
                if is_string and type(item) is str and (item or not drops_empty):
                    continue
                admitted = check_item(item, Path((path, field)), name, findings)
                if admitted is not item:
                    value[field] = admitted
                if drops_empty and not admitted:
                    drop.append(field)
        for field in drop:
            del value[field]
        return value

    _structs[struct.full_name] = check  # before its fields: a type may contain itself
    for field in struct.fields.values():
        table[field.name] = (compile_check(field.type), _is_string(field.type), _drops_empty(field))
    return check


_NUMBERS = ("int32", "int64", "number", "IntOrString")
_PLAIN = frozenset({"string", "bool", "int32", "int64"})


def _drops_empty(field: Field) -> bool:
    """True if upstream omits the field if empty or zero. An empty `managedFields` stays: it forgets all owners."""
    if isinstance(field.type, (ListOf, MapOf)):
        return not field.required and field.name != "managedFields"
    # Fields without a protobuf number are our own, or apiVersion and kind.
    return isinstance(field.type, Scalar) and field.type.name in _PLAIN and bool(field.wire) and not field.keeps_zero


def _list_check(kind: ListOf) -> Check:
    check_item, go_type = compile_check(kind.item), _go_type(kind)

    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) is not list:
            raise _mismatch(value, path, around, go_type)
        for index, item in enumerate(value):
            if item is None:
                item = value[index] = _zero(kind.item)
            admitted = check_item(item, Path((path, index)), around, findings)
            if admitted is not item:
                value[index] = admitted
        return value

    return check


def _map_check(kind: MapOf) -> Check:
    check_item, go_type = compile_check(kind.item), _go_type(kind)
    is_string, is_scalar = _is_string(kind.item), isinstance(kind.item, Scalar)

    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, path, around, go_type)
        findings.keys += len(value)
        for key, item in value.items():
            if is_string and type(item) is str:
                continue
            if item is None:
                item = value[key] = _zero(kind.item)
            where = path if is_scalar else Path((path, Key(key)))
            admitted = check_item(item, where, around, findings)
            if admitted is not item:
                value[key] = admitted
        return value

    return check


def _zero(kind: Type) -> Any:
    """The value that replaces a null inside a list or a map."""
    if isinstance(kind, Scalar):
        if kind.name == "JSON":
            return None  # null is a value there
        return {"bool": False, "Quantity": "0", **dict.fromkeys(_NUMBERS, 0)}.get(kind.name, "")
    return [] if isinstance(kind, ListOf) else {}


# -- scalars ----------------------------------------------------------------------------------------------------------


def _integer(bits: int) -> Check:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        told = f" {value}" if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
        raise _mismatch(value, path, around, f"int{bits}", told)

    return check


def _exactly(go_type: str, *wanted: type) -> Check:
    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) not in wanted:
            raise _mismatch(value, path, around, go_type)
        return value

    return check


def _quantity(value: Any, path: Path, around: str, findings: Findings) -> Any:
    if type(value) not in (str, int, float):
        raise Malformed("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    try:
        canonical = str(Quantity.of(value))
    except InvalidQuantity as exc:
        raise Malformed(exc.upstream_message) from exc
    return value if canonical == value else canonical


def _int_or_string(value: Any, path: Path, around: str, findings: Findings) -> Any:
    if type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31):
        return value
    raise _mismatch(value, path, around, "int32" if isinstance(value, (int, float)) else "string")


def _bytes(value: Any, path: Path, around: str, findings: Findings) -> Any:
    if type(value) is not str:
        raise _mismatch(value, path, around, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as exc:
        good = re.match(r"[A-Za-z0-9+/]*={0,2}", value)
        raise Malformed(f"illegal base64 data at input byte {good.end() if good else 0}") from exc
    return value


_SECONDS_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICROS_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SIX_DIGITS = re.compile(r"\.\d{6}(?!\d)")


def _instant(canonical: re.Pattern[str], write: Callable[[Any], str], layout: str) -> Check:
    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        if type(value) is not str:
            raise _mismatch(value, path, around, "string")
        try:
            at = parse_rfc3339(value)
        except InvalidTime as exc:
            raise Malformed(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"') from exc
        # Times in whole seconds accept any fraction and lose it; microseconds need exactly six digits.
        rest = value[len("2006-01-02T15:04:05") :]
        if canonical is _MICROS_UTC and not _SIX_DIGITS.match(rest):
            raise Malformed(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as ".000000"')
        return value if canonical.fullmatch(value) else write(at.astimezone(UTC))

    return check


def _anything(value: Any, path: Path, around: str, findings: Findings) -> Any:
    """Raw JSON is kept unchanged. Its keys are counted so that duplicate keys are noticed here too."""
    findings.keys += keys_in(value)
    return value


def _json_schema_or(*others: tuple[type, Type], otherwise: str) -> Check:
    """A JSONSchemaProps, or a value of another type. As upstream, unknown fields are dropped without a report."""

    def check(value: Any, path: Path, around: str, findings: Findings) -> Any:
        inside = Findings()
        try:
            if type(value) is dict:
                schema = schema_of("apiextensions.k8s.io", "v1", "JSONSchemaProps")
                return compile_check(schema)(value, path, schema.name, inside)
            for kind, type_ in others:
                if type(value) is kind:
                    return compile_check(type_)(value, path, around, inside)
        finally:
            findings.keys += inside.keys
        raise Malformed(otherwise)

    return check


def _json_schemas(value: Any, path: Path, around: str, findings: Findings) -> Any:
    """Upstream reads any other type as an empty list."""
    schemas = ListOf(schema_of("apiextensions.k8s.io", "v1", "JSONSchemaProps"))
    if type(value) not in (dict, list):
        return []
    return _json_schema_or((list, schemas), otherwise="")(value, path, around, findings)


_SCALAR_CHECKS: dict[str, Check] = {
    "string": _exactly("string", str),
    "bool": _exactly("bool", bool),
    "int32": _integer(32),
    "int64": _integer(64),
    "number": _exactly("float64", int, float),
    "bytes": _bytes,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _instant(_SECONDS_UTC, rfc3339, "2006-01-02T15:04:05Z07:00"),
    "MicroTime": _instant(_MICROS_UTC, rfc3339_micro, "2006-01-02T15:04:05.000000Z07:00"),
    "FieldsV1": _anything,
    "any": _anything,
    "JSON": _anything,
    "JSONSchemaPropsOrArray": _json_schemas,
    "JSONSchemaPropsOrBool": _json_schema_or((bool, Scalar("bool")), otherwise="boolean or JSON schema expected"),
    "JSONSchemaPropsOrStringArray": _json_schema_or(
        (list, ListOf(Scalar("string"))), otherwise="JSON schema or list of strings expected"
    ),
}


# -- Go's words -------------------------------------------------------------------------------------------------------

_GO_SCALARS = {"number": "float64", "bytes": "[]uint8", "Time": "string", "MicroTime": "string"}


def _go_type(kind: Type) -> str:
    if isinstance(kind, Scalar):
        return _GO_SCALARS.get(kind.name, kind.name)
    if isinstance(kind, ListOf):
        return f"[]{_go_type(kind.item)}"
    if isinstance(kind, MapOf):
        return f"map[string]{_go_type(kind.item)}"
    return f"v1.{kind.name}"


def _mismatch(value: Any, path: Path, around: str, go_type: str, told: str = "") -> Malformed:
    where = f"Go struct field {around}.{path.fields()}" if path else "Go value"
    return Malformed(f"json: cannot unmarshal {json_type(value)}{told} into {where} of type {go_type}")


def _is_string(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.name == "string"
