"""The one way a new object is made, for the API server and for everything that reads manifests.

The order is upstream's: system fields wiped, defaults, managedFields, uid and creationTimestamp, mutating admission,
fields of closed gates dropped, prepare_create, generation, validation. `CreationOptions` names the differences for
documents from files. The size is checked after defaulting, because defaults multiply.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.clock import Clock, rfc3339
from tonnage.documents import api_errors
from tonnage.documents.admission import Admission
from tonnage.documents.custom.custom_resource import CustomResource, CustomResourceStrategy
from tonnage.documents.kinds import strategies
from tonnage.documents.object_metadata import NameGenerator, track_managed_fields, wipe_system_fields
from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.errors import RequestEntityTooLarge
from tonnage.gates import Gates
from tonnage.objects.document import Doc, encode
from tonnage.objects.field_errors import Errors
from tonnage.objects.resources import Resource

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2
"""etcd's --max-request-bytes, as JSON."""
STATUS_ROOM_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CreationOptions:
    """How the creation of an object from a file differs from a server's. By default it does not."""

    keep_status: bool = False
    """`status` and the system fields of metadata stay: a node's status has its resources, a pod may have ended."""
    keep_priority: bool = False
    """A number in `spec.priority` stays, where a server would compute it."""
    keep_disabled_fields: bool = False
    """Fields whose gate is closed stay: whoever decides reports that it ignores them, a server drops them."""
    allow_missing: bool = False
    """A missing required field is reported, not an error: absence means something to a decision."""
    is_limited: bool = True
    """Objects larger than a server stores are refused (`refuse_too_large`)."""


class Creator:
    def __init__(
        self,
        *,
        gates: Gates,
        clock: Clock,
        names: NameGenerator,
        admission: Admission,
        options: CreationOptions = CreationOptions(),  # noqa: B008  # frozen
    ) -> None:
        self._clock = clock
        self._names = names
        self._admission = admission
        self._options = options
        self._gates = gates
        self._strategies = strategies(gates, clock)

    def strategy(self, resource: Resource) -> Strategy:
        if isinstance(resource, CustomResource):
            return CustomResourceStrategy(resource, self._gates, self._clock)
        return self._strategies[resource.group, resource.plural]

    def default(self, resource: Resource, doc: Doc) -> None:
        self.strategy(resource).default(doc)

    def create(self, resource: Resource, doc: Doc, *, manager: str = "") -> Errors:
        """Turn an admitted document, in place, into the object that a server would store; `manager` owns its fields.

        Returns missing required fields, for `allow_missing`. Raises Forbidden, RequestEntityTooLarge or Invalid.
        """
        strategy, meta, now = self.strategy(resource), doc["metadata"], rfc3339(self._clock.now())
        if not self._options.keep_status:
            wipe_system_fields(meta)
        strategy.default(doc)
        if self._options.is_limited:  # before anything walks over the defaulted document
            refuse_too_large(resource, doc)
        if manager:
            track_managed_fields(resource, old=None, new=doc, manager=manager, now=now)
        if not self._options.keep_status:
            meta["uid"] = self._names.uid()
            meta["creationTimestamp"] = now
        self._admission.mutate_create(resource, doc, keep_priority=self._options.keep_priority)
        if not self._options.keep_disabled_fields:
            strategy.drop_disabled_fields(doc, {})
        given = dict(doc)
        strategy.prepare_create(doc)
        if self._options.keep_status:
            keep(doc, given, "status")
        elif strategy.generation is Generation.COUNTED:
            meta["generation"] = 1
        elif strategy.generation is Generation.LATE:
            meta.pop("generation", None)
        if self._options.is_limited:
            refuse_too_large(resource, doc)
        errors = validate_object_meta(
            doc,
            namespaced=resource.namespaced,
            name_rule=type(strategy).name_rule,
            are_finalizers_qualified=strategy.are_finalizers_qualified,
        )
        errors += strategy.validate(doc)
        is_excused = self._options.allow_missing
        wrong = [error for error in errors if not (is_excused and error.reason == "FieldValueRequired")]
        if wrong:
            raise api_errors.invalid(resource, meta.get("name", ""), wrong)
        return errors


def refuse_too_large(resource: Resource, doc: Doc, old: Doc | None = None) -> None:
    """Raise RequestEntityTooLarge beyond the limit. With `old`, status and managedFields may grow further."""
    size_bytes = len(encode(doc))
    if size_bytes <= MAX_OBJECT_BYTES:
        return
    if old is not None:
        is_within_room = size_bytes <= MAX_OBJECT_BYTES + STATUS_ROOM_BYTES
        if size_bytes <= len(encode(old)) or (is_within_room and len(encode(_made(doc))) <= len(encode(_made(old)))):
            return
    name = doc.get("metadata", {}).get("name", "")
    raise RequestEntityTooLarge(
        f'Request entity too large: {resource.qualified} "{name}" takes {size_bytes} bytes with its defaults: '
        f"limit is {MAX_OBJECT_BYTES}; split it into several objects",
        **api_errors.about(resource, name),
    )


def _made(doc: Doc) -> Doc:
    """A document without status and managedFields: the part that its creator wrote."""
    metadata = {name: value for name, value in doc.get("metadata", {}).items() if name != "managedFields"}
    return {**{name: value for name, value in doc.items() if name != "status"}, "metadata": metadata}
