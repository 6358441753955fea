"""The rules that differ from kind to kind, as one class with sensible defaults.

The verbs are generic: they read, call the strategy of the kind at fixed points, and write. A kind subclasses
`Strategy`, with data in class attributes (`gated`, …) and the rest in methods; the rules of single fields and their
defaults stand in the kind's lines of its schema. Methods work on whole documents and do no I/O; the clock is for the
rare rule that records a time.

The order of a create is upstream's: decode, `default`, `drop_disabled_fields`, `prepare_create`, `validate`. Of an
update: decode, `default`, `drop_disabled_fields`, `prepare_update`, `validate_update`. A write through `/status` runs
`prepare_status` and `validate_status` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any, ClassVar

from tonnage.clock import Clock, SystemClock
from tonnage.documents.schema import ListOf, Struct, schema_of_resource
from tonnage.documents.validation.type_rules import TypeRules
from tonnage.gates import Gates
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors
from tonnage.objects.field_rules import Rule, unchanged_fields
from tonnage.objects.resources import Resource
from tonnage.quantity import Quantity


class Generation(Enum):
    NONE = "never set"
    COUNTED = "1 at creation, one more with every change of spec"
    LATE = "absent at creation, counted from the first change of spec on"


class Strategy:
    """The rules of one kind. The base class is right for a kind without rules."""

    gated: ClassVar[Mapping[str, str]] = {}
    """Fields of spec -> the gate without which they are dropped, unless the old object has them."""
    new_status: ClassVar[Doc | None] = None
    """The status of a new object; None if a client may set it, or it is empty."""
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_subdomain)
    """The errors of a name, as sentences; empty if it is legal."""
    generation: ClassVar[Generation] = Generation.NONE
    unconditional_update: ClassVar[bool] = True
    """True if a PUT may come without a resourceVersion."""
    create_on_update: ClassVar[bool] = False
    """True if a PUT to a missing object creates it. (Leases and Events, as upstream.)"""
    propagates: ClassVar[bool] = True
    """True if a deletion may ask to orphan dependents, or to wait for them."""
    are_finalizers_qualified: ClassVar[bool] = True
    """True if finalizers must have a domain and a slash: for all kinds but definitions and custom ones."""
    default_propagation: ClassVar[str] = ""
    """The propagation policy of a DELETE that states none: empty deletes dependents in the background."""
    by_hand: ClassVar[Mapping[str, Rule]] = {}
    """Rules of fields that no line can say: they apply at the field's line, after the line's own."""
    selectable: ClassVar[tuple[str, ...]] = ()
    """Field selectors beside metadata.name and metadata.namespace, named by the path of their field."""
    selected_at: ClassVar[Mapping[str, str]] = {}
    """Field selectors that read another path than their name."""
    stands_in: ClassVar[dict[str, str]] = {}
    """Field selectors that read another selector's field if their own is empty."""

    def __init__(self, resource: Resource, gates: Gates, clock: Clock | None = None) -> None:
        self.resource = resource
        self.gates = gates
        self.clock = clock or SystemClock()

    @cached_property
    def declared(self) -> TypeRules:
        """The rules in the lines of this kind."""
        return TypeRules(schema_of_resource(self.resource), **self.by_hand)

    def default(self, doc: Doc) -> None:
        """Fill in, in place, the defaults that upstream sets whenever it decodes this kind."""
        complete(schema_of_resource(self.resource.stored), doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Drop the fields whose gate is closed, unless the old object has them; `old` is empty at creation."""
        for field, gate in self.gated.items():
            if not self.gates.enabled(gate) and field not in old.get("spec", {}):
                new.get("spec", {}).pop(field, None)

    def prepare_create(self, doc: Doc) -> None:
        """Reset the fields that a client may not set at creation."""
        if self.new_status is not None:
            doc["status"] = copy(self.new_status)
        elif "status" in self.resource.subresources:
            doc.pop("status", None)

    def validate(self, doc: Doc) -> Errors:
        """The errors of a new object, metadata apart (the create verb has validated it)."""
        return self.declared(doc, "")

    def prepare_update(self, new: Doc, old: Doc) -> None:
        """Take from `old` the fields that a plain update may not change."""
        if "status" in self.resource.subresources:
            keep(new, old, "status")

    def validate_update(self, new: Doc, old: Doc, /) -> Errors:
        """The errors of a change; by default the new object's errors, and changed immutable fields."""
        return self.validate(new) + self.validate_immutable(new, old)

    def validate_immutable(self, new: Doc, old: Doc) -> Errors:
        return unchanged_fields(new, old, *self.declared.immutable)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """True if this update increments metadata.generation."""
        return not same(new.get("spec"), old.get("spec"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Only status and metadata are written here: spec and all other fields stay as they were."""
        for field in new.keys() | old.keys():
            if field not in ("apiVersion", "kind", "metadata", "status"):
                keep(new, old, field)
        new.setdefault("status", {})

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """The errors of a status that is written through `/status`."""
        return []

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Texts for the `Warning` header of an accepted write."""
        return []

    def grace_period_s(self, doc: Doc, asked_s: int | None) -> int | None:
        """How long a deleted object stays, marked; None for a kind without graceful deletion."""
        return None

    def holds_back_deletion(self, doc: Doc) -> bool:
        """True if a deleted object must stay, finalizers and grace apart. (A namespace is emptied first.)"""
        return False

    def prepare_deletion(self, doc: Doc) -> None:
        """Record on a marked object, in place, that it is being deleted."""


def complete(struct: Struct, doc: Doc) -> None:
    """Fill in, in place, what the lines of a type ask for by `fill` and `round`, in all its parts."""
    for name, absent, rounds, below in _asked(struct):
        part = doc.get(name)
        if part is None:
            if absent is None:
                continue
            part = doc[name] = copy(absent)
        if rounds:
            for key, amount in part.items():
                part[key] = str(Quantity.of(amount).round_up_to_milli())
        elif below is not None:
            for item in part if isinstance(part, list) else (part,):
                complete(below, item)


@cache
def _asked(struct: Struct) -> list[tuple[str, Any, bool, Struct | None]]:
    """The fields to fill in or round, or with such fields below: (name, value if absent, is rounded, type below)."""
    asked = []
    for field in struct.fields.values():
        item = field.type.item if isinstance(field.type, ListOf) else field.type
        below = item if isinstance(item, Struct) and _asked(item) else None
        if field.fill is not None or field.rounds or below is not None:
            asked.append((field.name, field.fill, field.rounds, below))
    return asked


def fill(doc: Doc, defaults: Doc) -> None:
    """Set missing fields to their defaults, in place."""
    for field, value in defaults.items():
        doc.setdefault(field, copy(value))


def keep(new: Doc, old: Doc, field: str) -> None:
    """Give a top-level field of `new` its value in `old`, absence included."""
    if field in old:
        new[field] = copy(old[field])
    else:
        new.pop(field, None)


def set_condition(doc: Doc, condition: Doc, *, now: str) -> None:
    """Replace the condition of this type, as UpdatePodCondition; its time becomes `now` if its status changes."""
    conditions = doc.setdefault("status", {}).setdefault("conditions", [])
    for idx, was in enumerate(conditions):
        if was.get("type") == condition["type"]:
            is_same = was.get("status") == condition["status"]
            since = was.get("lastTransitionTime") if is_same else now
            conditions[idx] = {**condition, "lastTransitionTime": since} if since else dict(condition)
            return
    conditions.append({**condition, "lastTransitionTime": now})


def has_condition(doc: Doc, kind: str, status: str = "True") -> bool:
    conditions = doc.get("status", {}).get("conditions", ())
    return any(item.get("type") == kind and item.get("status") == status for item in conditions)
