"""Between bytes and typed objects, and which class the objects of a kind have.

A class has the name of its kind and stands in the module of its apiVersion; `resources` has everything else about the
resource. A kind of `resources` without a class is served by the API server and read by no program.

Decoding is one pass of one compiled decoder per class. If that fails, the document is decoded again: first without
nulls, which a Go server sends for some empty fields and which mean absence, then to say what is wrong
(`decode_errors`). `meta` says what absence means.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Generic, TypeVar

import msgspec

from tonnage.clock import parse_rfc3339, rfc3339, rfc3339_micro
from tonnage.errors import TonnageError, closest
from tonnage.objects import apps_v1, batch_v1, core_v1, document, events_v1, small_groups, storage_v1
from tonnage.objects.decode_errors import Unreadable, unreadable
from tonnage.objects.document import Doc, shallow
from tonnage.objects.meta import Document, ListMeta, MicroTime, Object, ObjectMeta, Record, Status
from tonnage.objects.resources import BY_KIND, Resource
from tonnage.quantity import Quantity

_MODULES: dict[str, ModuleType] = {
    "v1": core_v1,
    "apps/v1": apps_v1,
    "batch/v1": batch_v1,
    "coordination.k8s.io/v1": small_groups,
    "events.k8s.io/v1": events_v1,
    "policy/v1": small_groups,
    "scheduling.k8s.io/v1": small_groups,
    "storage.k8s.io/v1": storage_v1,
}
RESOURCE_BY_CLASS: dict[type[Object], Resource] = {
    cls: BY_KIND[api_version, name]
    for api_version, module in _MODULES.items()
    for name, cls in sorted(vars(module).items())
    if (api_version, name) in BY_KIND
}
RESOURCE_BY_HEAD: dict[type[Object], Resource] = {}
"""Classes with metadata alone, made on demand: see `client.metadata_only`."""
CLASS_BY_KIND: dict[tuple[str, str], type[Object]] = {
    (resource.api_version, resource.kind): cls for cls, resource in RESOURCE_BY_CLASS.items()
}


class UnknownKind(TonnageError):
    """There is no typed class for this apiVersion and kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        self.api_version = api_version
        self.kind = kind
        super().__init__(
            f'apiVersion "{api_version}", kind "{kind}" is not something Tonnage reads', hint=_hint(api_version, kind)
        )


def resource_of(cls: type[Object]) -> Resource:
    """The resource whose objects are read as `cls`. Raises KeyError for a class that is no kind."""
    resource = RESOURCE_BY_CLASS.get(cls)
    return RESOURCE_BY_HEAD[cls] if resource is None else resource


def class_of(api_version: str, kind: str) -> type[Object]:
    """The class for objects of this kind. Raises UnknownKind."""
    cls = CLASS_BY_KIND.get((api_version, kind))
    if cls is None:
        raise UnknownKind(api_version, kind)
    return cls


def _hint(api_version: str, kind: str) -> str | None:
    for known_version, known_kind in CLASS_BY_KIND:
        if known_kind == kind:
            return f"{kind} is read as apiVersion: {known_version}"
    close = closest(kind, sorted({known for _, known in CLASS_BY_KIND}))
    return f"did you mean {close[0]}?" if close else None


T = TypeVar("T", bound=Object)
R = TypeVar("R", bound=Record)
V = TypeVar("V")
_UNFIT = (msgspec.DecodeError, TonnageError, ValueError, OverflowError, RecursionError)
"""What a decoder raises for data of another shape, invalid UTF-8, or too deep for the stack."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the list at the start of a watch."""


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """A page of a list; `continue_` asks for the next page and is empty on the last one."""

    items: tuple[T, ...]
    resource_version: str
    continue_: str = ""


@dataclass(frozen=True, slots=True)
class WatchChange(Generic[T]):
    """An object was ADDED, MODIFIED or DELETED; a deleted object is shown in its last state."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The progress of a watch; `ends_initial_events` once it has sent all objects that existed at its start."""

    resource_version: str
    ends_initial_events: bool = False


@dataclass(frozen=True, slots=True)
class WatchFailure:
    status: Status


WatchEvent = WatchChange[T] | Bookmark | WatchFailure


def decode(cls: type[R], data: bytes | str) -> R:
    found: R | None = _in_one_pass(cls, data)
    return convert(cls, _json(cls.__name__, data)) if found is None else found


def convert(cls: type[R], doc: Any) -> R:
    """Read a decoded document, or a part of one, such as YAML or a template. Raises Unreadable."""
    return _convert(cls, doc, cls.__name__)


def read_doc(kind: str, data: bytes) -> Doc:
    """A document as it is; errors call it `kind`. Raises Unreadable if it is not a JSON object."""
    doc = _json(kind, data)
    if not isinstance(doc, dict):
        raise Unreadable(kind, "", "", f"expected a JSON object, found a {type(doc).__name__}")
    return doc


def decode_doc(doc: Doc) -> Object:
    """Read a document as the class of its apiVersion and kind. Raises UnknownKind, Unreadable."""
    cls = class_of(str(doc.get("apiVersion", "")), str(doc.get("kind", "")))
    return convert(cls, doc)


def decode_list(cls: type[T], data: bytes | str) -> ObjectList[T]:
    """Read a list, whose items need not repeat their kind. Raises Unreadable, which names the item."""
    kind = f"{cls.__name__}List"
    page: _Page[T] | None = _in_one_pass(cls, data, _Page)
    if page is None:
        seen = _convert(_AnyPage, _json(kind, data), kind)
        page = _Page(kind=seen.kind, metadata=seen.metadata, items=tuple(convert(cls, item) for item in seen.items))
    if page.kind not in ("", kind) and not resource_of(cls).is_list_kind(page.kind):
        raise Unreadable(kind, "", "kind", f'kind="{page.kind}" is another kind', value=page.kind)
    return ObjectList(page.items, page.metadata.resource_version, page.metadata.continue_)


def decode_event(cls: type[T], line: bytes | str) -> WatchEvent[T]:
    """Read one line of a watch. Raises Unreadable."""
    event: _Event[T] | None = _in_one_pass(cls, line, _Event)
    if event is not None and event.type in _CHANGES:
        return WatchChange(event.type, event.object)
    # Bookmarks are not whole objects, and errors are none at all: they are recognised here.
    seen = _convert(_AnyEvent, _json("WatchEvent", line), "WatchEvent")
    match seen.type:
        case "BOOKMARK":
            metadata = convert(_Head, seen.object).metadata
            return Bookmark(metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true")
        case "ERROR":
            return WatchFailure(convert(Status, seen.object))
        case type_ if type_ in _CHANGES:
            return WatchChange(type_, convert(cls, seen.object))
    raise Unreadable("WatchEvent", "", "type", f'type="{seen.type}" is not known', value=seen.type)


def encode(record: Record) -> bytes:
    """Write an object that a program made: compact JSON with apiVersion and kind, without default values."""
    return document.encode(to_doc(record))


def to_doc(record: Record) -> Doc:
    """The object as a document; a part of an object without apiVersion and kind."""
    if isinstance(record, Document):
        return {"apiVersion": resource_of(type(record)).api_version, "kind": type(record).__name__, **record.doc}
    doc: Doc = _plain(msgspec.to_builtins(record, builtin_types=(datetime,), enc_hook=_write), record)
    if isinstance(record, Object):
        return {"apiVersion": resource_of(type(record)).api_version, **doc}
    return doc


_CHANGES = frozenset(("ADDED", "MODIFIED", "DELETED"))


class _Page(Record, Generic[T]):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class _AnyPage(Record):
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[Any, ...] = ()


class _Event(Record, Generic[T]):
    type: str
    object: T


class _AnyEvent(Record):
    type: str
    object: Any


class _Head(Record):
    metadata: ObjectMeta = ObjectMeta()


@cache
def _decoder(cls: type[Record], around: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls if around is None else around[cls], dec_hook=_read)


_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _in_one_pass(cls: type[Record], data: bytes | str, around: Any = None) -> Any:
    """What a compiled decoder reads; None if it fails, or if the class needs the whole document too."""
    if issubclass(cls, Document):
        return None
    try:
        return _followed(_decoder(cls, around), data)
    except _UNFIT:
        return None


def _followed(decoder: msgspec.json.Decoder[V], data: bytes | str) -> V:
    """Decode a text; beyond the depth that Python can follow it is cut: a server may send any depth."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(data))


# The same few amounts occur in every pod and node. Typed, because True equals 1 and is no number.
_quantity = lru_cache(maxsize=8192, typed=True)(Quantity.of)


def _read(type_: type, value: Any) -> Any:
    if type_ is Quantity:
        return _quantity(value)
    return MicroTime.of(value if isinstance(value, datetime) else parse_rfc3339(value))


def _write(value: Any) -> str:
    return rfc3339_micro(value) if isinstance(value, MicroTime) else str(value)


def _plain(value: Any, written: Any) -> Any:
    """Dicts, lists and text only, with times in whole seconds, which msgspec would not write.

    `written`: the record behind `value`. Empty parts are left out: servers refuse some, such as `nodeAffinity: {}`.
    """
    if isinstance(value, list | tuple):
        return [_plain(item, part) for item, part in zip(value, written, strict=True)]
    if not isinstance(value, dict):
        return rfc3339(value) if isinstance(value, datetime) else value
    if not isinstance(written, Record):
        return {key: _plain(item, written[key]) for key, item in value.items()}
    fields, doc = _fields(type(written)), {}
    for key, item in value.items():
        name, is_part = fields.get(key, ("", False))
        plain = _plain(item, getattr(written, name, None))
        if plain or not is_part:
            doc[key] = plain
    return doc


@cache
def _fields(cls: type[Record]) -> dict[str, tuple[str, bool]]:
    """By wire name: a field's own name, and whether it is a part that is empty by default."""
    fields = msgspec.structs.fields(cls)
    return {field.encode_name: (field.name, isinstance(field.default, Record)) for field in fields}


def _convert(cls: type[R], doc: Any, kind: str) -> R:
    """Read a document, if necessary a second time without nulls; errors call it `kind`."""
    if issubclass(cls, Document) and isinstance(doc, dict):
        head = {field: doc[field] for field in ("kind", "metadata") if field in doc}
        doc = {**head, "doc": doc}
    try:
        return msgspec.convert(doc, cls, dec_hook=_read)
    except RecursionError as exc:
        raise _too_deep(kind) from exc
    except _UNFIT:
        pass
    try:
        doc = _without_nulls(doc)
        return msgspec.convert(doc, cls, dec_hook=_read)
    except RecursionError as exc:
        raise _too_deep(kind) from exc
    except _UNFIT as exc:
        try:
            failure = unreadable(cls, doc, kind, _fits)
        except _UNFIT:  # too deep or too large to be described
            failure = Unreadable(kind, "", "", "it does not have the shape of its kind")
        raise failure from exc


def _json(kind: str, data: bytes | str) -> Any:
    try:
        return _followed(_ANYTHING, data)
    except RecursionError as exc:
        raise _too_deep(kind) from exc
    except (msgspec.DecodeError, ValueError) as exc:
        raise Unreadable(kind, "", "", f"this is not JSON: {exc}") from exc


def _too_deep(kind: str) -> Unreadable:
    return Unreadable(kind, "", "", "it is nested deeper than can be read")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _fits(value: Any, type_: Any) -> bool:
    try:
        msgspec.convert(value, type_, dec_hook=_read)
    except _UNFIT:
        return False
    return True
