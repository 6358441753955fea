"""Server-side apply: a manager states what it wants, and the server works out what changes and who owns it.

    live + configuration  --merge-->  merged  --prune-->  new     conflicts?  --> new owners

Fields that this manager applied before and no longer mentions are pruned unless another manager owns them too. A change
to another manager's field is a conflict; a forced request takes the field over. Afterwards the manager owns exactly the
fields of its configuration. Applying the same configuration twice changes nothing.

Client-side `kubectl apply` keeps its configuration in an annotation. A user who moves to `--server-side` would conflict
with his own earlier writes, so for the manager `kubectl` conflicts on fields that still have the annotation's value are
ignored, and the annotation is kept up to date. Mirrors upstream's lastappliedmanager and lastappliedupdater.

`merge` removes nothing: where both sides set a leaf the configuration wins, maps and structs merge entry by entry, list
items by name, in the order of upstream's structured-merge-diff. `misfit` checks a configuration as the client wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tonnage.documents import go_text
from tonnage.documents.apply import field_set, managed_fields
from tonnage.documents.apply.field_set import Path, Tree, difference, path_text, union, without
from tonnage.documents.apply.field_walk import LEAF, Entries, ListShape, Shape, UnnamedItem, list_shape, shape_of
from tonnage.documents.apply.managed_fields import NOTHING, FieldOwner, FieldWrite, Managed, Owned, take_away, updater
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, Type
from tonnage.errors import BadRequest, Cause, Conflict
from tonnage.objects.document import REQUEST, Budget, BudgetExceeded, Doc, copy, dig, read_json
from tonnage.objects.field_errors import MAX_ERRORS_TOLD, MAX_TOLD_BYTES

BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns the fields that an untracked object had when something was first applied to it."""
KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""All keys and values together; upstream's TotalAnnotationSizeLimitB."""


def apply(write: FieldWrite, *, live: Doc | None, config: Doc, force: bool = False) -> Doc:
    """The object after `config` was applied to `live` (None: it does not exist yet), with its new managedFields.

    `config` is the parsed body; the result must be admitted and defaulted like any other body. It shares no container
    with `live` or `config`. Raises BadRequest for another kind or a `config` with managedFields, PatchFailed if it does
    not fit the schema, Conflict if it changes fields of others without `force`.
    """
    struct, api_version, reset_fields, same = write.struct, write.api_version, write.reset_fields, write.same_versions
    _check(struct, config, api_version)
    before: Doc = live or {}
    if live:
        before = {**live, "metadata": {**live.get("metadata", {})}}
        before["metadata"].pop("managedFields", None)
    managed = managed_fields.read_entries(dig(live or {}, "metadata", "managedFields") or ())
    if live is not None and not managed:
        _adopt(write, managed, before)

    owner = managed_fields.applier(write.manager, write.subresource)
    last = managed.get(owner)
    stated = without(shape_of(struct).leaves(config) or {}, reset_fields)
    managed[owner] = Owned(stated, api_version, last.time if last else "")
    after = merge(struct, before, config)
    if last is not None and last.api_version in same:
        kept = union(*(entry.fields for entry in managed.values() if entry.api_version in same))
        after = _prune(shape_of(struct), after, kept, last.fields)

    added, modified, removed = shape_of(struct).compare(before, after)
    changed = without(union(added, modified), reset_fields)
    if not force:
        conflicts = [
            (other, path)
            for other, owned in sorted(managed.items(), key=lambda item: item[0])
            if other != owner and owned.api_version in same
            for path in field_set.paths(field_set.intersection(owned.fields, changed))
        ]
        if conflicts and write.manager == KUBECTL:
            pardoned = unchanged_since(struct, before, api_version)
            conflicts = [conflict for conflict in conflicts if not field_set.contains(pardoned, conflict[1])]
        if conflicts:
            raise _conflict_error(conflicts)
    take_away(managed, union(changed, without(removed, reset_fields)), api_versions=same, spare=owner)
    owned = managed.pop(owner, None)
    fields = difference(owned.fields, managed_fields.NEVER_OWNED) if owned else NOTHING
    if owned and fields:  # its time moves only if the object changed
        managed[owner] = Owned(fields, owned.api_version, write.now if after != before else owned.time)

    result: Doc = copy(after)
    if not result.get("metadata"):  # a new object without metadata; later checks report what it lacks
        result["metadata"] = {}
    if write.manager == KUBECTL:
        renew(result, config)
    managed_fields.write_entries(result, managed)
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


def _adopt(write: FieldWrite, managed: Managed, doc: Doc) -> None:
    """Record every field of an untracked object as owned before the first apply."""
    owner = updater(BEFORE_FIRST_APPLY, write.api_version, write.subresource)
    try:
        managed_fields.record_update(write, managed, owner, {}, doc)
    except UnnamedItem as exc:
        # `track_update` leaves objects with such items untracked, so only here they are met.
        raise PatchFailed(
            f"failed to create manager for existing fields: failed to convert new object ({_told(doc)}) to smd typed: "
            f"{misfit(write.struct, doc)}"
        ) from exc


def _prune(shape: Shape, merged: Doc, owned: Tree, last: Tree) -> Doc:
    """Remove the fields that this manager applied last time, unless somebody owns them now.

    In three steps, because removing an item removes everything below it, also fields of others.
    """

    def set_by(doc: Doc | None) -> Tree:
        return shape.named(shape.leaves(doc) or {})

    everything, applied = set_by(merged), shape.named(last)
    kept = union(set_by(shape.remove(merged, applied)), shape.named(owned))
    pruned = shape.remove(merged, difference(everything, kept))
    lost = difference(everything, set_by(pruned))
    return shape.remove(merged, field_set.intersection(lost, applied)) or {}


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


def unchanged_since(struct: Struct, live: Doc, api_version: str) -> Tree:
    """The fields in the annotation that still have its values. Empty if the annotation cannot be used."""
    text = dig(live, "metadata", "annotations", ANNOTATION)
    try:
        applied = read_json((text or "null").encode(), Budget(REQUEST))
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or misfit(struct, applied):
            return {}
        fields = shape_of(struct).leaves(applied) or {}
        for changed in shape_of(struct).compare(applied, live):
            fields = difference(fields, changed)
    except (BudgetExceeded, ValueError):  # an unnamed item is a ValueError
        return {}
    return fields


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


def merge(struct: Struct, live: Doc, config: Doc) -> Doc:
    """The live document with all fields that the configuration sets. Shares containers with both; changes neither."""
    merged: Doc = _merge(shape_of(struct), live, config)
    return merged


def _merge(shape: Shape, old: Any, new: Any) -> Any:
    if shape is LEAF or not (old or new) or not shape.enters(old, new):
        return new
    if isinstance(shape, ListShape):
        return _merge_items(shape, old or [], new or [])
    assert isinstance(shape, Entries)
    merged = dict(old or {})
    for name, value in (new or {}).items():
        merged[name] = _merge(shape.fields[name][1], merged[name], value) if name in merged else value
    return merged


def _merge_items(shape: ListShape, old: list[Any], new: list[Any]) -> list[Any]:
    """Walk both lists at once, as mergingWalker.visitListItems does.

    Shared items follow the new order; an item that is only in `old` stays before the item that followed it. `due` is
    the next shared item in the new order; other shared items of `old` are skipped.
    """
    theirs, ours = [shape.step(item) for item in old], [shape.step(item) for item in new]
    wanted = dict(zip(ours, new, strict=True))
    known = shape.grouped(old)
    shared = iter([step for step in ours if step in known])
    due = next(shared, None)
    taken: set[str] = set()
    merged: list[Any] = []

    def take(step: str) -> None:
        taken.add(step)
        group = known.get(step, [None])
        # Several live items of one name cannot be merged: the new item replaces them.
        merged.append(_merge(shape.item, group[0] if len(group) == 1 else None, wanted[step]))

    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs) and right < len(ours):
            if theirs[left] == ours[right]:
                take(ours[right])
                left, right, due = left + 1, right + 1, next(shared, None)
                continue
            if theirs[left] in wanted and due is not None and due != theirs[left]:
                left += 1
                continue
        if left < len(theirs):
            if theirs[left] not in wanted:
                merged.append(old[left])
                left += 1
                continue
            if theirs[left] in taken:
                left += 1
        if right < len(ours):
            take(ours[right])
            if due == ours[right]:
                due = next(shared, None)
            right += 1
    return merged


# -- does it fit? ------------------------------------------------------------------------------------------------------

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "boolean": (bool,), "numeric": (int, float)}
_SCALARS = {"string": "string", "bytes": "string", "bool": "boolean"} | dict.fromkeys(
    ("int32", "int64", "number"), "numeric"
)
"""The scalars that upstream declares a type for; any scalar fits the others."""


def misfit(struct: Struct, config: Doc) -> str:
    """What is wrong with an applied configuration, in upstream's words; empty if it fits."""
    found: list[str] = []
    told_bytes = 0
    for where, text in _misfits(struct, config, ()):
        if len(found) >= MAX_ERRORS_TOLD or told_bytes > MAX_TOLD_BYTES:
            found.append("and more")
            break
        path = path_text(where)
        found.append(f"{path}: {text}" if path else text)
        told_bytes += len(found[-1])
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found]) if found else ""


def fits(struct: Struct, stored: Doc | None) -> bool:
    """True if a document has the types of its schema, without which its fields cannot be owned.

    A stored document may have repeated and unnamed items, and fields that an earlier schema declared.
    """
    return next(_misfits(struct, stored, (), is_stored=True), None) is None


def _misfits(kind: Type, value: Any, path: Path, *, is_stored: bool = False) -> Iterator[tuple[Path, str]]:
    if value is None:
        return
    if isinstance(kind, Scalar):
        yield from _scalar_misfits(kind, value, path)
    elif isinstance(kind, ListOf):
        if not isinstance(value, list):
            yield path, f"expected list, got &{{{go_text.plain(value)}}}"
        else:
            yield from _item_misfits(kind, value, path, is_stored)
    elif not isinstance(value, dict):
        yield path, f"expected map, got &{{{go_text.plain(value)}}}"
    else:
        for name, item in value.items():
            below = kind.item if isinstance(kind, MapOf) else kind.others
            if isinstance(kind, Struct) and name in kind.fields:
                below = kind.fields[name].type
            if below is not None:
                yield from _misfits(below, item, (*path, f"f:{name}"), is_stored=is_stored)
            elif not is_stored:
                yield (*path, f"f:{name}"), "field not declared in schema"
                return


def _item_misfits(kind: ListOf, items: list[Any], path: Path, is_stored: bool) -> Iterator[tuple[Path, str]]:
    shape = list_shape(kind)
    seen: set[str] = set()
    for position, item in enumerate(items):
        step = f"i:{position}"
        if isinstance(shape, ListShape):
            try:
                step = _named(shape, item)
            except UnnamedItem as exc:
                if not (is_stored and shape.keys and isinstance(item, dict)):
                    yield path, f"element {position}: {exc}"
                    return
            if step in seen and not is_stored:
                yield path, f"duplicate entries for key {path_text((step,))}"
            seen.add(step)
        yield from _misfits(kind.item, item, (*path, step), is_stored=is_stored)


def _named(shape: ListShape, item: Any) -> str:
    if shape.keys:
        if item is None:
            raise UnnamedItem("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise UnnamedItem("associative list with keys may not have non-map elements")
        for key, _ in shape.keys:
            if isinstance(item.get(key), (dict, list)):
                raise UnnamedItem(f"key field {key} must be a scalar")
    elif item is None:
        raise UnnamedItem("associative list without keys has an element that's an explicit null")
    elif isinstance(item, dict):
        raise UnnamedItem("associative list without keys has an element that's a map type")
    elif isinstance(item, list):
        raise UnnamedItem("not supported: associative list with lists as elements")
    return shape.step(item)


_SCHEMAS = ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
_OF_ANY_SHAPE = frozenset({"any", "FieldsV1", "deduced", *_SCHEMAS})


def _scalar_misfits(kind: Scalar, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if kind.name in _OF_ANY_SHAPE:
        return
    wanted = _SCALARS.get(kind.name)
    if wanted is None:
        if isinstance(value, (dict, list)):
            yield path, f"expected any scalar, got &{{{go_text.plain(value)}}}"
    elif not isinstance(value, _TYPES[wanted]) or (wanted == "numeric" and isinstance(value, bool)):
        if wanted == "numeric":
            yield path, f"expected numeric (int or float), got {go_text.type_name(value)}"
        elif wanted == "boolean":
            yield path, f"expected boolean, got &{{{go_text.plain(value)}}}"
        else:
            yield path, f"expected string, got &value.valueUnstructured{{Value:{go_text.literal(value)}}}"
