"""Server-side apply: a manager states what it wants, and the server works out what changes and who owns it.

    live + configuration  --merge-->  merged  --prune-->  new     conflicts?  --> new owners

Fields that this manager applied before and no longer mentions are pruned unless another manager owns them too. A change
to another manager's field is a conflict; a forced request takes the field over. Afterwards the manager owns exactly the
fields of its configuration. Applying the same configuration twice changes nothing.

Client-side `kubectl apply` keeps its configuration in an annotation. A user who moves to `--server-side` would conflict
with his own earlier writes, so for the manager `kubectl` conflicts on fields that still have the annotation's value are
ignored, and the annotation is kept up to date. Mirrors upstream's lastappliedmanager and lastappliedupdater.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from tonnage.documents.apply.field_merge import merge, misfit
from tonnage.documents.apply.field_set import FieldSet, Path, path_text
from tonnage.documents.apply.field_walk import UnnamedItem, compare, field_set_of, remove_items, with_named_fields
from tonnage.documents.apply.managed_fields import (
    NEVER_OWNED,
    NOTHING,
    FieldOwner,
    Managed,
    Owned,
    applier,
    read_entries,
    record_update,
    take_away,
    updater,
    write_entries,
)
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.documents.schema import Struct
from tonnage.errors import BadRequest, Cause, Conflict
from tonnage.objects.document import Doc, copy, dig
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, MAX_TOLD_BYTES
from tonnage.objects.texts.decode_budget import REQUEST, Budget, BudgetExceeded
from tonnage.objects.texts.json_text import read_json

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns the fields that an untracked object had when something was first applied to it."""
KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""All keys and values together; upstream's TotalAnnotationSizeLimitB."""


def apply(
    struct: Struct,
    *,
    live: Doc | None,
    config: Doc,
    manager: str,
    force: bool = False,
    api_version: str,
    subresource: str = "",
    now: str,
    reset_fields: FieldSet = NOTHING,
    api_versions: Collection[str] = (),
) -> Doc:
    """The object after `manager` applied `config` to `live` (None: it does not exist yet), with its new managedFields.

    `config` is the parsed body; the result must be admitted and defaulted like any other body. It shares no container
    with `live` or `config`. Raises BadRequest for another kind or a `config` with managedFields, PatchFailed if it does
    not fit the schema, Conflict if it changes fields of others without `force`.
    """
    _check(struct, config, api_version)
    same = api_versions or (api_version,)  # the versions in which the object has the same fields
    before: Doc = live or {}
    if live:
        before = {**live, "metadata": {**live.get("metadata", {})}}
        before["metadata"].pop("managedFields", None)
    managed = read_entries(dig(live or {}, "metadata", "managedFields") or ())
    if live is not None and not managed:
        _adopt(struct, managed, before, updater(BEFORE_FIRST_APPLY, api_version, subresource), now, reset_fields)

    owner = applier(manager, subresource)
    last = managed.get(owner)
    managed[owner] = Owned(field_set_of(struct, config).without(reset_fields), api_version, last.time if last else "")
    after = merge(struct, before, config)
    if last is not None and last.api_version in same:
        kept = FieldSet.union_of(entry.fields for entry in managed.values() if entry.api_version in same)
        after = _prune(struct, after, kept, last.fields)

    difference = compare(struct, before, after)
    changed = difference.added.union(difference.modified).without(reset_fields)
    removed = difference.removed.without(reset_fields)
    if not force:
        conflicts = _conflicts(managed, changed, owner, same)
        if conflicts and manager == KUBECTL:
            pardoned = unchanged_since(struct, before, api_version)
            conflicts = [conflict for conflict in conflicts if conflict[1] not in pardoned]
        if conflicts:
            raise _conflict_error(conflicts)
    take_away(managed, changed.union(removed), api_versions=same, spare=owner)
    owned = managed.pop(owner, None)
    fields = owned.fields.difference(NEVER_OWNED) if owned else NOTHING
    if owned and not fields.is_empty:  # its time moves only if the object changed
        managed[owner] = Owned(fields, owned.api_version, now if after != before else owned.time)

    result: Doc = copy(after)
    if not result.get("metadata"):  # a new object without metadata; later checks report what it lacks
        result["metadata"] = {}
    if manager == KUBECTL:
        renew(result, config)
    write_entries(result, managed)
    return result


def _check(struct: Struct, config: Doc, api_version: str) -> None:
    if config.get("apiVersion") != api_version or config.get("kind") != struct.name:
        raise BadRequest(f"invalid object type: {_kind_told(config)}")
    if dig(config, "metadata", "managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    wrong = misfit(struct, config)
    if wrong:
        raise PatchFailed(f"failed to create typed patch object ({_told(config)}): {wrong}")


def _told(doc: Doc) -> str:
    """`default/web; apps/v1, Kind=Deployment`."""
    namespace, name = (dig(doc, "metadata", field) or "" for field in ("namespace", "name"))
    return f"{namespace}/{name}; {_kind_told(doc)}"


def _kind_told(doc: Doc) -> str:
    group, _, version = str(doc.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={doc.get('kind') or ''}"


def _adopt(struct: Struct, managed: Managed, doc: Doc, owner: FieldOwner, now: str, reset_fields: FieldSet) -> None:
    """Record every field of an untracked object as owned by `owner`."""
    try:
        record_update(struct, managed, old={}, new=doc, owner=owner, now=now, reset_fields=reset_fields)
    except UnnamedItem as exc:
        # `track_update` leaves objects with such items untracked, so only here they are met.
        raise PatchFailed(
            f"failed to create manager for existing fields: failed to convert new object ({_told(doc)}) to smd typed: "
            f"{misfit(struct, doc)}"
        ) from exc


def _prune(struct: Struct, merged: Doc, owned: FieldSet, last: FieldSet) -> Doc:
    """Remove the fields that this manager applied last time, unless somebody owns them now.

    In three steps, because removing an item removes everything below it, also fields of others.
    """

    def named(fields: FieldSet) -> FieldSet:
        return with_named_fields(struct, fields)

    everything = named(field_set_of(struct, merged))

    pruned = remove_items(struct, merged, named(last))
    kept = named(field_set_of(struct, pruned)).union(named(owned))
    pruned = remove_items(struct, merged, everything.difference(kept))
    lost = everything.difference(named(field_set_of(struct, pruned)))
    return remove_items(struct, merged, lost.intersection(named(last)))


def _conflicts(
    managed: Managed, changed: FieldSet, applying: FieldOwner, api_versions: Collection[str]
) -> list[tuple[FieldOwner, Path]]:
    return [
        (owner, path)
        for owner, owned in sorted(managed.items(), key=lambda item: item[0])
        if owner != applying and owned.api_version in api_versions
        for path in owned.fields.intersection(changed).paths()
    ]


def _conflict_error(conflicts: list[tuple[FieldOwner, Path]]) -> Conflict:
    """The first conflicts in words, and how many more there are: paths may be long, and all fields repeat theirs."""
    causes: list[Cause] = []
    told_bytes = 0
    for owner, path in conflicts[:MAX_ERRORS_TOLD]:
        cause = Cause("FieldManagerConflict", f"conflict with {_owner_text(owner)}", path_text(path))
        told_bytes += len(cause.message) + len(cause.field)
        if causes and told_bytes > MAX_TOLD_BYTES:
            break
        causes.append(cause)
    if len(conflicts) == 1:
        return Conflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes=tuple(causes))
    lines: list[str] = []
    last: FieldOwner | None = None
    for (owner, _), cause in zip(conflicts, causes, strict=False):  # they are sorted by owner
        if owner != last:
            lines.append(f"conflicts with {_owner_text(owner)}:")
        lines.append(f"- {cause.field}")
        last = owner
    if len(causes) < len(conflicts):
        lines.append(f"and {len(conflicts) - len(causes)} more")
    return Conflict(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes=tuple(causes))


def _owner_text(owner: FieldOwner) -> str:
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    return f"{text} using {owner.version}" if owner.operation == "Update" else text


def unchanged_since(struct: Struct, live: Doc, api_version: str) -> FieldSet:
    """The fields in the annotation that still have its values. Empty if the annotation cannot be used."""
    text = dig(live, "metadata", "annotations", ANNOTATION)
    try:
        applied = read_json((text or "null").encode(), Budget(REQUEST))
    except (BudgetExceeded, ValueError):
        return FieldSet()
    if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or misfit(struct, applied):
        return FieldSet()
    try:
        difference = compare(struct, applied, live)
        fields = field_set_of(struct, applied)
    except UnnamedItem:
        return FieldSet()
    return fields.difference(difference.modified).difference(difference.added).difference(difference.removed)


def renew(doc: Doc, config: Doc) -> None:
    """Write `config` into the annotation, in place, if there is one. An annotation that grew too large is dropped."""
    annotations = dig(doc, "metadata", "annotations")
    if not annotations or not annotations.get(ANNOTATION):
        return
    stated: Doc = copy(config)
    if isinstance(dig(stated, "metadata", "annotations"), dict):
        stated["metadata"]["annotations"].pop(ANNOTATION, None)
    # As Go writes JSON: keys sorted, `<`, `>` and `&` escaped, a newline at the end.
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    annotations[ANNOTATION] = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"
    if sum(len(f"{name}{value}".encode()) for name, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        del annotations[ANNOTATION]
