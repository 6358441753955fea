"""Who owns which field: the entries of `metadata.managedFields`, updated by every write.

An entry belongs to a manager, an operation (Apply or Update), an API version and a subresource, and lists the fields
that manager set last. After a write its manager owns every field it changed, no other manager owns these, and nobody
owns removed fields. This is upstream's chain of field managers as one pass; `server_side_apply` builds on it.

Every write runs `track_update`, so it is cheap: fields are used as they are stored (`field_set`), and a create is the
difference from an empty object. Documents share the trees in entries, which never change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tonnage.documents.apply import field_set, field_walk
from tonnage.documents.apply.field_set import OrderedTree, Tree, difference, union, without
from tonnage.documents.schema import ShapedResource, Struct, schema_of_resource
from tonnage.objects.document import Doc, dig
from tonnage.objects.resources import Resource

NOTHING: Tree = {}
MAX_UPDATE_MANAGERS = 10
"""Of more Update entries than this, the oldest are merged into one (upstream's DefaultMaxUpdateManagers)."""
OLD_CHANGES = "ancient-changes"
_SET_BY_SERVER = "name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion"
NEVER_OWNED = field_set.of(
    ("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in _SET_BY_SERVER.split())
)
_RESET_BY_CUSTOM_STATUS = field_set.of(("metadata",), ("spec",))
_SPEC, _STATUS = field_set.of(("spec",)), field_set.of(("status",))
_RESET_BY_STATUS = {
    "deployments.apps": field_set.of(("spec",), ("metadata", "labels")),
    "pods": field_set.of(("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    "resourceclaims.resource.k8s.io": _RESET_BY_CUSTOM_STATUS,
    "volumeattachments.storage.k8s.io": _RESET_BY_CUSTOM_STATUS,
}


class FieldOwner(NamedTuple):
    """The identity of an entry. An applier is the same in every version, so its `version` is empty."""

    manager: str
    operation: str
    version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of one owner, the version it used, and when its fields last changed (empty: never recorded)."""

    fields: Tree
    api_version: str
    time: str = ""


Managed = dict[FieldOwner, Owned]


def updater(manager: str, api_version: str, subresource: str = "") -> FieldOwner:
    return FieldOwner(manager or "unknown", "Update", api_version, subresource)


def applier(manager: str, subresource: str = "") -> FieldOwner:
    return FieldOwner(manager or "unknown", "Apply", "", subresource)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWrite:
    """One write, as the owners of fields see it. `now` is RFC 3339 in whole seconds."""

    struct: Struct = field(kw_only=False)
    api_version: str
    manager: str
    now: str
    subresource: str = ""
    reset_fields: Tree = field(default_factory=dict)
    """The fields that the endpoint does not write."""
    api_versions: Collection[str] = ()
    """The versions in which the object has the same fields, if there are others than `api_version`."""

    @classmethod
    def of(cls, resource: Resource, subresource: str, *, manager: str, now: str) -> FieldWrite:
        return cls(
            schema_of_resource(resource),
            api_version=resource.api_version,
            manager=manager,
            now=now,
            subresource=subresource,
            reset_fields=reset_fields_of(resource, subresource),
            api_versions=resource.api_versions if isinstance(resource, ShapedResource) else (),
        )

    @property
    def same_versions(self) -> Collection[str]:
        return self.api_versions or (self.api_version,)


def reset_fields_of(resource: Resource, subresource: str = "") -> Tree:
    """The fields that an endpoint does not write, so that its managers never own them: upstream's GetResetFields."""
    if isinstance(resource, ShapedResource) and subresource == "status":
        return _RESET_BY_CUSTOM_STATUS
    if "status" not in resource.subresources or subresource not in ("", "finalize", "status"):
        return NOTHING
    return _RESET_BY_STATUS.get(resource.qualified, _SPEC) if subresource == "status" else _STATUS


def track_update(write: FieldWrite, *, old: Doc | None, new: Doc) -> None:
    """Write into `new` who owns what after a create (`old` is None), an update or a patch.

    `new` may bring valid managedFields of its own, unless it is written through a subresource. `[{}]` or `[]` forgets
    all owners, and an object without owners is not tracked again until something is applied to it. An object whose list
    items cannot be named gets no owners.
    """
    metadata = new.setdefault("metadata", {})
    managed = starting_point(
        dig(old or {}, "metadata", "managedFields"), metadata.pop("managedFields", None), write.subresource
    )
    if old is not None and not managed:
        return
    try:
        record_update(write, managed, updater(write.manager, write.api_version, write.subresource), old or {}, new)
    except field_walk.UnnamedItem:
        return
    fold_old_updates(managed)
    write_entries(new, managed)


def record_update(write: FieldWrite, managed: Managed, owner: FieldOwner, old: Doc, new: Doc) -> None:
    """Give `owner` the differences between the documents, and take them from all others. Raises UnnamedItem."""
    added, modified, removed = field_walk.shape_of(write.struct).compare(old, new)
    changed = difference(without(union(added, modified), write.reset_fields), NEVER_OWNED)
    take_away(managed, union(changed, without(removed, write.reset_fields)), api_versions=write.same_versions)
    if changed:
        previous = managed.get(owner)
        managed[owner] = Owned(union(previous.fields, changed) if previous else changed, owner.version, write.now)


def take_away(
    managed: Managed, fields: Tree, *, api_versions: Collection[str], spare: FieldOwner | None = None
) -> None:
    """Take the fields from all owners but `spare`. Drops empty entries and, as upstream, entries of other versions."""
    for owner, owned in list(managed.items()):
        left = owned.fields if owner == spare else difference(owned.fields, fields)
        if not left or owned.api_version not in api_versions:
            del managed[owner]
        elif left is not owned.fields:
            managed[owner] = Owned(left, owned.api_version, owned.time)


def fold_old_updates(managed: Managed) -> None:
    """Keep at most ten Update entries: the oldest of each version become one entry of `ancient-changes`."""
    updates = [owner for owner in managed if owner.operation == "Update"]
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return
    first_of: dict[str, FieldOwner] = {}
    folded: dict[FieldOwner, list[Tree]] = {}
    for owner in sorted(updates, key=lambda owner: (managed[owner].time, owner)):
        if excess <= 0:
            break
        if owner.version not in first_of:
            first_of[owner.version] = owner
            continue
        bucket = updater(OLD_CHANGES, owner.version)
        if owner == bucket:
            continue
        if bucket not in managed:
            managed[bucket] = managed.pop(first_of[owner.version])
        younger = managed.pop(owner)
        folded.setdefault(bucket, []).append(younger.fields)
        managed[bucket] = Owned(managed[bucket].fields, owner.version, younger.time)
        excess -= 1
    for bucket, sets in folded.items():
        owned = managed[bucket]
        managed[bucket] = Owned(union(owned.fields, *sets), owned.api_version, owned.time)


# -- entries on the wire -----------------------------------------------------------------------------------------------


def starting_point(stored: Any, sent: Any, subresource: str = "") -> Managed:
    """The owners before a write: the client's entries, if they are allowed and valid, else the stored entries."""
    if subresource or sent is None or sent == stored:
        return read_entries(stored or ())
    if sent in ([], [{}]):
        return {}
    try:
        return check_entries(sent) or read_entries(stored or ())
    except ValueError:
        return read_entries(stored or ())


def read_entries(entries: Iterable[Doc]) -> Managed:
    """Read entries that this server wrote, without checks."""
    managed: Managed = {}
    for entry in entries:
        operation, version = entry["operation"], entry["apiVersion"]
        owner = FieldOwner(
            entry.get("manager", ""), operation, version if operation == "Update" else "", entry.get("subresource", "")
        )
        tree = entry.get("fieldsV1")  # in the order in which it was written
        managed[owner] = Owned(OrderedTree(tree) if tree else NOTHING, version, entry.get("time") or "")
    return managed


def check_entries(entries: Iterable[Doc]) -> Managed:
    """Read entries that a client wrote. Raises ValueError in upstream's words if one is invalid."""
    checked = []
    for position, entry in enumerate(entries):
        if entry.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType")
        if not fields_type:
            raise ValueError(f"missing fieldsType in managed fields entry {position}")
        if fields_type != "FieldsV1":
            raise ValueError(f'invalid fieldsType "{fields_type}" in managed fields entry {position}')
        checked.append({**entry, "fieldsV1": field_set.in_order(field_set.read(entry.get("fieldsV1") or {}))})
    return read_entries(checked)


def write_entries(doc: Doc, managed: Managed) -> None:
    """Put the entries into a document, in upstream's order: appliers first, then by time."""

    def order(item: tuple[FieldOwner, Owned]) -> tuple[str, ...]:
        owner, owned = item
        return owner.operation, owned.time, owner.manager, owned.api_version, owner.subresource

    entries = []
    for owner, owned in sorted(managed.items(), key=order):
        entry: Doc = {"manager": owner.manager} if owner.manager else {}
        entry |= {"operation": owner.operation, "apiVersion": owned.api_version}
        if owned.time:
            entry["time"] = owned.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": field_set.in_order(owned.fields)}
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append(entry)
    if entries:
        doc["metadata"]["managedFields"] = entries
    else:
        doc["metadata"].pop("managedFields", None)
