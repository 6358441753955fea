"""The lines of a recording, as JSON: a header, then one line for each call of the engine.

    {"recording":1,"tonnage":"VERSION","seed":42,"configuration":"…","featureGates":"…","at":12.5,"nowUs":…}
    {"op":"add","at":12.5,"nowUs":…,"object":{"kind":"Node",…}}
    {"op":"attempt","at":13.1,"nowUs":…,"uid":"…","key":"shop/db-0","node":"node-3"}

`at` is in seconds of the monotonic clock, `nowUs` in microseconds since 1970; both stand still during a call. Objects
have the fields that a scheduler reads, without managedFields.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from tonnage.objects import codec
from tonnage.objects.core_v1.pod import PodMeta
from tonnage.objects.meta import Object

VERSION: Final = 1
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NOTHING: Final = msgspec.Raw()
"""For a line without an object. (This very object: fields that are their default are not written.)"""
CHANGES: Final = ("add", "update", "delete")
DECISIONS: Final = ("pop", "attempt", "postFilter")
RETURNS: Final = ("done", "requeue", "failedOn")
BINDINGS: Final = ("withdraw", "bindingFinished", "overdueBinding")
PREEMPTIONS: Final = ("preemptionBegins", "preemptionEnds")
_OTHERS: Final = ("open", "tick", "makeWay", "end", "stopped")
OPERATIONS: Final = frozenset((*CHANGES, *DECISIONS, *RETURNS, *BINDINGS, *PREEMPTIONS, *_OTHERS))


class Header(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The first line: everything that is chosen about an engine at its start."""

    recording: int
    tonnage: str
    seed: int
    at: float
    now_us: int
    configuration: str = ""
    """The text of the KubeSchedulerConfiguration; empty for the defaults."""
    feature_gates: str = ""
    takes_any_pod: bool = False
    implies_namespaces: bool = False
    max_unschedulable_s: float = 300.0
    """From a flag, not from the configuration; older recordings lack it."""


class RecordedLine(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One call of the engine, and for decisions its result."""

    op: str
    at: float
    now_us: int
    object: msgspec.Raw = NOTHING
    kind: str = ""
    key: str = ""
    uid: str = ""
    node: str = ""
    why: str = ""
    plugins: tuple[str, ...] = ()
    nomination: str | None = None
    written: tuple[str, ...] = ()
    """For a withdrawn placement: claims and volumes that the API has by then, as kind/key."""
    below: int = 0
    flag: bool | None = None


_ENCODER: Final = msgspec.json.Encoder()
_LINES: Final = msgspec.json.Decoder(RecordedLine)
_HEADERS: Final = msgspec.json.Decoder(Header)


def encoded(line: RecordedLine | Header) -> bytes:
    return _ENCODER.encode(line) + b"\n"


def read_line(text: bytes) -> RecordedLine:
    """Raises msgspec.MsgspecError for an invalid line."""
    found = _LINES.decode(text)
    if found.op not in OPERATIONS:
        raise msgspec.ValidationError(f'op "{found.op}" is not known')
    return found


def read_header(text: bytes) -> Header:
    """Raises msgspec.MsgspecError for an invalid header."""
    return _HEADERS.decode(text)


def raw(each: Object) -> msgspec.Raw:
    """An object as it is written, without managedFields and kubectl's annotation."""
    metadata = each.metadata
    if LAST_APPLIED in metadata.annotations:
        annotations = {key: value for key, value in metadata.annotations.items() if key != LAST_APPLIED}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    if isinstance(metadata, PodMeta) and metadata.managed_fields:  # other kinds are read without
        metadata = msgspec.structs.replace(metadata, managed_fields=())
    if metadata is not each.metadata:
        each = msgspec.structs.replace(each, metadata=metadata)
    return msgspec.Raw(codec.encode(each))


def read_object(text: msgspec.Raw) -> Object:
    """Raises Unreadable, UnknownKind."""
    return codec.decode_doc(codec.read_doc("object", bytes(text)))


def microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def instant(now_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=now_us)
