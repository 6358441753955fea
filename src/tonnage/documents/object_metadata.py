"""The part of metadata that is the server's: what it gives, what it carries over, and who owns which field.

A client may send all of it; `wipe` and `settle` take out what is not its to say and put in what it left out, so that
the rules after them see whole metadata. `track` keeps managedFields true. Nothing here reads or writes the store.
"""

from __future__ import annotations

import random
import uuid

from tonnage.apiserver import event_views, refusals
from tonnage.documents.apply.managed_fields import reset_fields_of, track_update
from tonnage.documents.schema import schema_of_resource
from tonnage.objects import field_errors
from tonnage.objects.document import Doc, same
from tonnage.objects.resources import Resource

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_MAX_GENERATED_BASE = 63 - 5


class Names:
    """Uids and generated names, from the randomness it is given."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def generated(self, base: str) -> str:
        return base[:_MAX_GENERATED_BASE] + "".join(self._rng.choice(_SUFFIX_LETTERS) for _ in range(5))


def wipe(meta: Doc) -> None:
    """Drop from a new object what only the server says."""
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(field, None)


def settle(resource: Resource, new: Doc, old: Doc, *, may_overwrite: bool, is_put: bool) -> None:
    """Take from the old object what a client may leave out or not write. Raises Conflict, or Invalid for a PUT without
    a resourceVersion to a kind that may not be overwritten unseen.
    """
    meta, was = new.setdefault("metadata", {}), old["metadata"]
    name, version = was["name"], meta.get("resourceVersion") or "0"
    if is_put and meta.get("uid", was["uid"]) != was["uid"]:
        raise refusals.another_uid(resource, was.get("namespace", ""), name, asked=meta["uid"], found=was["uid"])
    if not version.isascii() or not version.isdigit():
        raise refusals.Unwrapped(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if int(version) == 0 and not may_overwrite:
        error = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise field_errors.invalid_object(resource.group, resource.plural, name, [error])
    if int(version) != 0 and version != was["resourceVersion"]:
        raise refusals.modified(resource, name)
    for field in ("creationTimestamp", "resourceVersion", "generation"):
        if field in was:
            meta[field] = was[field]
        else:
            meta.pop(field, None)
    for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in was and not meta.get(field):
            meta[field] = was[field]
    if resource.namespaced:
        meta.setdefault("namespace", was["namespace"])
    else:
        meta.pop("namespace", None)
    meta.pop("selfLink", None)
    new["kind"], new["apiVersion"] = old["kind"], old["apiVersion"]


def track(resource: Resource, *, old: Doc | None, new: Doc, manager: str, subresource: str = "", now: str) -> None:
    """Write into `new` who owns what. Fields have the names of the API that was used, whatever the stored shape."""
    shown = event_views.outbound(resource, new)
    track_update(
        schema_of_resource(resource),
        old=None if old is None else event_views.outbound(resource, old),
        new=shown,
        manager=manager,
        api_version=resource.api_version,
        subresource=subresource,
        # Upstream's scale writes its entry without a time.
        now="" if subresource == "scale" else now,
        reset_fields=reset_fields_of(resource, subresource),
    )
    if shown is not new:
        new["metadata"].pop("managedFields", None)
        if entries := shown["metadata"].get("managedFields"):
            new["metadata"]["managedFields"] = entries


def is_no_change(new: Doc, old: Doc) -> bool:
    """Would a write leave everything as it is? A newer time of ownership alone is no change; new owners are one."""
    return same(_without_managed_fields(new), _without_managed_fields(old)) and _owners(new) == _owners(old)


def _owners(doc: Doc) -> list[Doc]:
    entries = doc["metadata"].get("managedFields", ())
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]


def _without_managed_fields(doc: Doc) -> Doc:
    meta = {key: value for key, value in doc["metadata"].items() if key != "managedFields"}
    return {**doc, "metadata": meta}
