"""What may differ from kind to kind, as one class with sensible answers.

The verbs are generic: they read, call the strategy of the kind at fixed points, and write. A kind subclasses
`Strategy`: what can be said as data stands in class attributes (`defaults`, `rules`, `fixed`, …), what cannot in a
method. Methods work on whole documents and do no I/O; the clock is for the rare rule that notes a time.

The order of a create is upstream's: decode, `default`, `drop_disabled_fields`, `prepare_create`, `validate`. Of an
update: decode, `default`, `drop_disabled_fields`, `prepare_update`, `validate_update`. A write through `/status` runs
`prepare_status` and `validate_status` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import ClassVar

from tonnage.clock import Clock, SystemClock
from tonnage.gates import Gates
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors
from tonnage.objects.field_rules import Rules, check, unchanged_fields
from tonnage.objects.resources import Resource


class Generation(Enum):
    NONE = "never set"
    COUNTED = "1 at creation, one more with every change of spec"
    LATE = "absent at creation, counted from the first change of spec on"


class Strategy:
    """The rules of one kind. This base is right for a kind that has none."""

    defaults: ClassVar[Doc] = {}
    """What is filled in where a document does not say it, part by part."""
    rules: ClassVar[Rules] = {}
    """What the fields of a legal object hold."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Fields that never change, as dotted paths."""
    gated: ClassVar[Mapping[str, str]] = {}
    """Fields of spec -> the gate without which they are dropped, unless the old object has them."""
    new_status: ClassVar[Doc | None] = None
    """The status of a new object; None where a client may bring it along, or it is empty."""
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_subdomain)
    """What is wrong with a name, as sentences; empty when it is legal."""
    generation: ClassVar[Generation] = Generation.NONE
    unconditional_update: ClassVar[bool] = True
    """May a PUT come without a resourceVersion?"""
    create_on_update: ClassVar[bool] = False
    """Does a PUT to a name that does not exist create it? (Leases and Events, as upstream.)"""
    propagates: ClassVar[bool] = True
    """Can a deletion be told to orphan dependents, or to wait for theirs?"""
    are_finalizers_qualified: ClassVar[bool] = True
    """Must finalizers have a domain and a slash? So it is with all kinds but definitions and custom ones."""
    default_propagation: ClassVar[str] = ""
    """What a deletion that says nothing of dependents does with them: empty is to delete them afterwards."""
    selectable: ClassVar[tuple[str, ...]] = ()
    """Field selectors beside metadata.name and metadata.namespace, called by the path of their field."""
    selected_at: ClassVar[Mapping[str, str]] = {}
    """Field selectors that read another path than the one they are called by."""
    stands_in: ClassVar[dict[str, str]] = {}
    """Field selectors that, where their own field is empty, read another's."""

    def __init__(self, resource: Resource, gates: Gates, clock: Clock | None = None) -> None:
        self.resource = resource
        self.gates = gates
        self.clock = clock or SystemClock()

    def default(self, doc: Doc) -> None:
        """Fill in, in place, what upstream fills in whenever it decodes this kind."""
        fill(doc, self.defaults)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        """Drop the fields whose gate is closed, unless the old object has them; `old` is empty at creation."""
        for field, gate in self.gated.items():
            if not self.gates.enabled(gate) and field not in old.get("spec", {}):
                new.get("spec", {}).pop(field, None)

    def prepare_create(self, doc: Doc) -> None:
        """Reset what a client may not set at creation."""
        if self.new_status is not None:
            doc["status"] = copy(self.new_status)
        elif "status" in self.resource.subresources:
            doc.pop("status", None)

    def validate(self, doc: Doc) -> Errors:
        """Everything wrong with a new object, metadata apart (the create verb has judged that)."""
        return check(doc, "", self.rules)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        """Take from `old` what a plain update may not change."""
        if "status" in self.resource.subresources:
            keep(new, old, "status")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        """Everything wrong with the change; by default what is wrong with the new object, and what may not change."""
        return self.validate(new) + unchanged_fields(new, old, *self.fixed)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Does this update count for metadata.generation?"""
        return not same(new.get("spec"), old.get("spec"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Only status is written here: spec and everything beside it stays as it was."""
        for field in new.keys() | old.keys():
            if field not in ("apiVersion", "kind", "metadata", "status"):
                keep(new, old, field)
        new.setdefault("status", {})

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        """Everything wrong with a status that is written through `/status`."""
        return []

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        """Sentences for the `Warning` header of an accepted write."""
        return []

    def grace_period_s(self, doc: Doc, asked_s: int | None) -> int | None:
        """How long a deleted object stays around, marked; None for a kind that knows no graceful deletion."""
        return None

    def holds_back_deletion(self, doc: Doc) -> bool:
        """Is there a reason beside finalizers and grace to keep a deleted object? (A namespace is emptied first.)"""
        return False

    def prepare_deletion(self, doc: Doc) -> None:
        """Note on a marked object, in place, that it is on its way out."""


def fill(doc: Doc, defaults: Doc) -> None:
    """Give a document what it does not say, part by part, in place."""
    for field, value in defaults.items():
        if isinstance(value, dict):
            fill(doc.setdefault(field, {}), value)
        else:
            doc.setdefault(field, copy(value))


def keep(new: Doc, old: Doc, field: str) -> None:
    """Make a top-level field of `new` what it is in `old`, absence included."""
    if field in old:
        new[field] = copy(old[field])
    else:
        new.pop(field, None)
