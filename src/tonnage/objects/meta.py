"""What all objects share: how a typed class is made, metadata, owners, conditions, times, and Status.

Every class in this package is a `Record`: frozen, keyword-only, snake_case here and camelCase on the wire, with only
the fields that programs read. An absent field takes its default, which is what Kubernetes means by absence; where
absent differs from empty the type says `| None`. `null` is absence, and unknown fields are skipped. So only the program
that creates an object writes it whole; changes are patches.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import msgspec


class InvalidRevision(ValueError):
    """A resourceVersion is no 64-bit number; the message is that of Go's strconv."""

    def __init__(self, text: str) -> None:
        why = "value out of range" if _is_decimal(text) else "invalid syntax"
        super().__init__(f'strconv.ParseUint: parsing "{text}": {why}')


def parse_revision(text: str) -> int:
    """The number of a resourceVersion; empty is 0. Raises InvalidRevision."""
    if text and not (_is_decimal(text) and len(text) <= _MAX_DIGITS and int(text) < 1 << 64):
        raise InvalidRevision(text)
    return int(text or "0")


def revision_of(text: str) -> int:
    """The number of a resourceVersion; 0 for none, and for a text that is no number or has over 1,000 digits."""
    return int(text) if _is_decimal(text) and len(text) <= _MAX_DIGITS else 0


_MAX_DIGITS = 1_000
"""Parsing a number is slower than linear, and Python itself refuses beyond 4,300 digits."""


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit()


Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""An instant with its time zone; written in whole seconds."""
Key = str
"""`namespace/name`, or `name` alone without a namespace: the name of an object in queues, caches and logs."""


class MicroTime(datetime):
    """An instant that is always written with six decimals: upstream refuses a MicroTime without them."""

    @classmethod
    def of(cls, at: datetime) -> Self:
        if at.tzinfo is None:
            raise ValueError(f"{at.isoformat()} has no time zone; hand in an aware datetime")
        return cls.combine(at.date(), at.timetz())


class RecordMeta(msgspec.StructMeta):
    """Makes every Record keyword-only: msgspec does not inherit this one setting from a base class."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> RecordMeta:
        return super().__new__(cls, name, bases, namespace, **{"kw_only": True, **config})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A part of an object. Default values are not written. Records form no cycles, so the collector ignores them."""


class OwnerReference(Record):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Record):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def revision(self) -> int:
        """`resource_version` as a number that grows with every write; 0 for none, and for a text that is no number."""
        return revision_of(self.resource_version)

    @property
    def is_terminating(self) -> bool:
        """Deletion has been requested and not finished: finalizers or a grace period delay it."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, such as a pod's ReplicaSet."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ManagedFieldsEntry(Record):
    """A field manager of an object, as far as we read it: its name, and when it wrote last."""

    manager: str = ""
    time: Time | None = None


class StampedMeta(ObjectMeta):
    """Metadata with the times of writes, if the server keeps them."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()

    @property
    def updated_at(self) -> datetime | None:
        """The last write by any manager; None if unknown."""
        return max((entry.time for entry in self.managed_fields if entry.time is not None), default=None)

    def written_at(self, manager: str) -> datetime | None:
        """The last write by one field manager; None if unknown."""
        return max(
            (entry.time for entry in self.managed_fields if entry.time is not None and entry.manager == manager),
            default=None,
        )


def split_key(key: Key) -> tuple[str, str]:
    """Namespace and name of a key; the namespace is empty for cluster-scoped objects."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class Object(Record, tag_field="kind", tag=True):
    """The base of all kinds. A class has the name of its kind; decoding another kind into it is an error."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        meta = self.metadata  # like its own `key`, without another call: every index needs it
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid


R = TypeVar("R", bound=Record)


def changed(record: R, **fields: Any) -> R:
    """A copy with these fields changed. A dict changes fields of a record below: `changed(pod, spec={"node_name": ""})`
    keeps the rest of the spec; where the field holds a dict itself, such as labels, it is the new value."""
    for name, value in fields.items():
        below = getattr(record, name)
        if isinstance(value, dict) and isinstance(below, Record):
            fields[name] = changed(below, **value)
    return msgspec.structs.replace(record, **fields)


class Document(Object):
    """An object of a kind without a class: its metadata, and the whole document (`document_class`)."""

    doc: Mapping[str, Any] = {}


class Condition(Record):
    """A condition of an object: `type` holds if `status` is "True", and is undecided if it is "Unknown".

    A node repeats its conditions while it is alive (`last_heartbeat_time`). Few kinds have the other two of these.
    """

    type: str
    status: str
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Time | None = None
    last_probe_time: Time | None = None
    observed_generation: int = 0

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class ListMeta(Record):
    """The revision of a list; `continue_` asks for its next page and is empty on the last one."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class StatusCause(Record):
    """One reason behind a refusal; `field` is a path such as `spec.drivers[0].name`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Record):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Record, tag_field="kind", tag=True):
    """The server's answer if it is no object: mostly a refusal, with HTTP `code` and machine-readable `reason`."""

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails = StatusDetails()
