"""The part of metadata that the server writes: new values, values kept on updates, and the owners of fields."""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection

from tonnage.documents import api_errors
from tonnage.documents.apply.managed_fields import reset_fields_of, track_update
from tonnage.documents.apply.server_side_apply import fits
from tonnage.documents.custom.custom_resource import CustomResource
from tonnage.documents.kinds.event import from_stored
from tonnage.documents.schema import schema_of_resource
from tonnage.documents.strategy import keep
from tonnage.objects import field_errors
from tonnage.objects.document import Doc, same
from tonnage.objects.meta import InvalidRevision, parse_revision
from tonnage.objects.resources import Resource

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, hence no accidental words
_SUFFIX_LENGTH = 5
_MAX_BASE = 63 - _SUFFIX_LENGTH


def wipe_system_fields(meta: Doc) -> None:
    """Drop from a new object the fields that only the server sets. Mirrors rest.WipeObjectMetaSystemFields."""
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(field, None)


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
        if not fits(struct, new) or not fits(struct, old):
            meta.pop("managedFields", None)
            return
    converted = from_stored(resource, new)
    track_update(
        struct,
        old=None if old is None else from_stored(resource, old),
        new=converted,
        manager=manager,
        api_version=resource.api_version,
        subresource=subresource,
        # Upstream's scale writes its entry without a time.
        now="" if subresource == "scale" else now,
        reset_fields=reset_fields_of(resource, subresource),
        api_versions=api_versions_of(resource),
    )
    if converted is not new:
        new["metadata"].pop("managedFields", None)
        if entries := converted["metadata"].get("managedFields"):
            new["metadata"]["managedFields"] = entries


def api_versions_of(resource: Resource) -> Collection[str]:
    """The versions in which an object of this resource has the same fields."""
    return resource.api_versions if isinstance(resource, CustomResource) else (resource.api_version,)


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
