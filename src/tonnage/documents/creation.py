"""The one way a new object is made, for the API server and for everything that reads manifests.

The order is upstream's: system fields wiped, defaults, managedFields, uid and creationTimestamp, mutating admission,
fields of closed gates dropped, prepare_create, generation, validation. The size is checked after defaulting, because
defaults multiply.

Below is the part of metadata that the server writes, also on updates: new values, kept values, the owners of fields.
"""

from __future__ import annotations

import random
import uuid
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from tonnage.clock import Clock, rfc3339
from tonnage.documents import api_errors, kinds
from tonnage.documents.admission import Admission
from tonnage.documents.apply import managed_fields, server_side_apply
from tonnage.documents.apply.managed_fields import FieldWrite
from tonnage.documents.custom.custom_resource import CustomResource, CustomResourceStrategy
from tonnage.documents.kinds.event import from_stored
from tonnage.documents.schema import schema_of_resource
from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.documents.validation.metadata import validate_object_meta
from tonnage.errors import RequestEntityTooLarge
from tonnage.gates import Gates
from tonnage.objects import field_errors
from tonnage.objects.document import Doc, encode, same
from tonnage.objects.meta import InvalidRevision, parse_revision
from tonnage.objects.resources import RESOURCES, Resource

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2
"""etcd's --max-request-bytes, as JSON."""
STATUS_ROOM_BYTES = 64 * 1024


@cache
def _by_name() -> dict[str, Any]:
    """A kind's strategy is found by name in the modules of `kinds`: `PodStrategy` for Pod."""
    modules = [import_module(module.name) for module in walk_packages(kinds.__path__, f"{kinds.__name__}.")]
    return {name: each for module in modules for name, each in vars(module).items() if name.endswith("Strategy")}


def strategies(gates: Gates, clock: Clock) -> dict[tuple[str, str], Strategy]:
    """(group, plural) -> the strategy of that resource under these gates."""
    return {(row.group, row.plural): _by_name()[f"{row.kind}Strategy"](row, gates, clock) for row in RESOURCES}


class Creator:
    """Creates objects as a server, or with `is_from_file` as they stand in a file:

    - `status` and the system fields of metadata stay: a node's status has its resources, a pod may have ended
    - a number in `spec.priority` stays, where a server would compute it
    - fields whose gate is closed stay: whoever decides reports that it ignores them
    - a missing required field is reported, not an error: absence means something to a decision
    - objects may be larger than a server stores
    """

    def __init__(
        self, *, gates: Gates, clock: Clock, names: NameGenerator, admission: Admission, is_from_file: bool = False
    ) -> None:
        self._clock = clock
        self._names = names
        self._admission = admission
        self._is_from_file = is_from_file
        self._gates = gates
        self._strategies = strategies(gates, clock)

    def strategy(self, resource: Resource) -> Strategy:
        if isinstance(resource, CustomResource):
            return CustomResourceStrategy(resource, self._gates, self._clock)
        return self._strategies[resource.group, resource.plural]

    def default(self, resource: Resource, doc: Doc) -> None:
        self.strategy(resource).default(doc)

    def create(self, resource: Resource, doc: Doc, *, manager: str = "", is_valid: bool = False) -> field_errors.Errors:
        """Turn an admitted document, in place, into the object that a server would store; `manager` owns its fields.
        `is_valid`: one like it has been validated, and is not again.

        Returns missing required fields of a file. Raises Forbidden, RequestEntityTooLarge or Invalid.
        """
        strategy, meta, now = self.strategy(resource), doc["metadata"], rfc3339(self._clock.now())
        is_from_file = self._is_from_file
        if not is_from_file:
            # Only the server sets these. Mirrors rest.WipeObjectMetaSystemFields.
            for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
                meta.pop(field, None)
        strategy.default(doc)
        if not is_from_file:  # before anything walks over the defaulted document
            refuse_too_large(resource, doc)
        if manager:
            track_managed_fields(resource, old=None, new=doc, manager=manager, now=now)
        if not is_from_file:
            meta["uid"] = self._names.uid()
            meta["creationTimestamp"] = now
        self._admission.mutate_create(resource, doc, keep_priority=is_from_file)
        if not is_from_file:
            strategy.drop_disabled_fields(doc, {})
        given = dict(doc)
        strategy.prepare_create(doc)
        if is_from_file:
            keep(doc, given, "status")
        elif strategy.generation is Generation.COUNTED:
            meta["generation"] = 1
        elif strategy.generation is Generation.LATE:
            meta.pop("generation", None)
        if not is_from_file:
            refuse_too_large(resource, doc)
        if is_valid:
            return []
        errors = validate_object_meta(
            doc,
            namespaced=resource.namespaced,
            name_rule=type(strategy).name_rule,
            are_finalizers_qualified=strategy.are_finalizers_qualified,
        )
        errors += strategy.validate(doc)
        wrong = [error for error in errors if not (is_from_file and error.reason == "FieldValueRequired")]
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


_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, hence no accidental words
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH


def prepare_update(resource: Resource, new: Doc, old: Doc, *, may_overwrite: bool, is_put: bool) -> None:
    """Take from the old object the fields that a client may leave out or must not write. Mirrors rest.BeforeUpdate.

    Raises Conflict, UnknownReason (the resourceVersion is no number) or Invalid (it is missing where it is required).
    """
    meta, was = new.setdefault("metadata", {}), old["metadata"]
    name, version = was["name"], meta.get("resourceVersion", "")
    if is_put and meta.get("uid", was["uid"]) != was["uid"]:
        raise api_errors.precondition_failed(
            resource, was.get("namespace", ""), name, field="UID", asked=meta["uid"], found=was["uid"]
        )
    try:
        revision = parse_revision(version)
    except InvalidRevision as exc:
        raise api_errors.UnknownReason(str(exc)) from exc
    if not revision and not may_overwrite:
        error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise field_errors.invalid_object(resource.group, resource.plural, name, [error])
    if revision and version != was["resourceVersion"]:
        raise api_errors.modified(resource, name)
    for field in ("creationTimestamp", "resourceVersion", "generation"):
        keep(meta, was, field)
    for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in was and not meta.get(field):
            meta[field] = was[field]
    if resource.namespaced:
        meta.setdefault("namespace", was["namespace"])
    else:
        meta.pop("namespace", None)
    meta.pop("selfLink", None)
    new["kind"], new["apiVersion"] = old["kind"], old["apiVersion"]


def track_managed_fields(
    resource: Resource, *, old: Doc | None, new: Doc, manager: str, subresource: str = "", now: str
) -> None:
    """Write into `new` who owns which field. Fields have the names of the requested API, not of the stored shape."""
    struct = schema_of_resource(resource)
    if isinstance(resource, CustomResource):
        meta = new.setdefault("metadata", {})
        if meta.get("managedFields") == []:
            del meta["managedFields"]  # for these kinds only `[{}]` forgets all owners
        if not server_side_apply.fits(struct, new) or not server_side_apply.fits(struct, old):
            meta.pop("managedFields", None)
            return
    converted = from_stored(resource, new)
    # Upstream's scale writes its entry without a time.
    write = FieldWrite.of(resource, subresource, manager=manager, now="" if subresource == "scale" else now)
    managed_fields.track_update(write, old=None if old is None else from_stored(resource, old), new=converted)
    if converted is not new:
        new["metadata"].pop("managedFields", None)
        if entries := converted["metadata"].get("managedFields"):
            new["metadata"]["managedFields"] = entries


def is_no_change(new: Doc, old: Doc) -> bool:
    """True if a write changes nothing. A newer time of ownership alone is no change; new owners are one."""
    return same(_without_managed_fields(new), _without_managed_fields(old)) and _owners(new) == _owners(old)


def _owners(doc: Doc) -> list[Doc]:
    entries = doc["metadata"].get("managedFields", ())
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]


def _without_managed_fields(doc: Doc) -> Doc:
    meta = {key: value for key, value in doc["metadata"].items() if key != "managedFields"}
    return {**doc, "metadata": meta}


class NameGenerator:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def generate_name(self, base: str) -> str:
        """A name that begins with `base`, which is shortened to leave room for the suffix."""
        return base[:_MAX_BASE] + "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
