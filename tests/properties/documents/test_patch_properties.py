"""Laws of merging: patches lead to their target, twice is once, and ownership is a set like any other.

Documents of patches are arbitrary JSON; those of strategic merge and apply are pods with a few containers, variables
and labels, small enough that managers meet on the same fields all the time.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from tonnage.documents.apply import field_set
from tonnage.documents.apply.field_set import Tree, contains, difference, intersection, union, without
from tonnage.documents.apply.field_walk import shape_of
from tonnage.documents.apply.managed_fields import NEVER_OWNED, FieldWrite, track_update
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.patches.json_patch import json_patch, merge_patch
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of
from tonnage.errors import Conflict
from tonnage.objects.document import Doc, copy

modestly = settings(max_examples=tries(60), deadline=None)
POD = schema_of("", "v1", "Pod")
NOW, LATER = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"

# -- arbitrary JSON ----------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c/d", "e~1", "0"])
scalars = st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x", "y"]))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(names, values, max_size=4)


def merge_diff(old: Any, new: Any) -> Any:
    """The merge patch from one document to another, written as RFC 7396 describes its effect."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    diff = {name: None for name in old if name not in new}
    for name, value in new.items():
        if not same_json(old.get(name), value):
            diff[name] = merge_diff(old.get(name), value)
    return diff


def same_json(left: Any, right: Any) -> bool:
    """Python holds true for 1; JSON does not."""
    return bool(left == right) and repr(sorted_deep(left)) == repr(sorted_deep(right))


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, sorted_deep(value[name])) for name in sorted(value)]
    return [sorted_deep(item) for item in value] if isinstance(value, list) else value


@modestly
@given(documents, documents)
def test_the_difference_as_a_merge_patch_leads_to_the_target(old: Doc, new: Doc) -> None:
    before = copy(old)
    patch = merge_diff(old, new)
    patched = merge_patch(old, patch)
    assert same_json(patched, new)
    assert same_json(merge_patch(patched, patch), new), "patching again changes nothing"
    assert same_json(old, before)


@modestly
@given(documents, documents)
def test_the_difference_as_a_json_patch_leads_to_the_target(old: Doc, new: Doc) -> None:
    # The operations come from an independent implementation of RFC 6902.
    before, operations = copy(old), list(jsonpatch.make_patch(old, new))
    assert same_json(json_patch(old, operations), new)
    assert same_json(json_patch(old, operations), jsonpatch.apply_patch(old, operations))
    assert same_json(old, before)


@modestly
@given(documents)
def test_a_document_passes_the_test_of_itself(doc: Doc) -> None:
    operations = [{"op": "test", "path": f"/{escaped(name)}", "value": value} for name, value in doc.items()]
    assert json_patch(doc, [*operations, {"op": "test", "path": "", "value": copy(doc)}]) == doc


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# -- sets of fields ----------------------------------------------------------------------------------------------------

steps = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "v:1", 'v:"1"', "i:0"])
paths = st.lists(st.lists(steps, min_size=1, max_size=3).map(tuple), max_size=6)


def set_of(members: list[tuple[str, ...]]) -> Tree:
    result: Tree = {}
    for path in members:
        tree: Any = {}
        for step in reversed(path):
            tree = {step: tree}
        result = union(result, tree)
    return result


@modestly
@given(paths, paths)
def test_sets_of_fields_are_sets_of_paths(left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> None:
    a, b = set(left), set(right)
    one, other = set_of(left), set_of(right)
    assert set(field_set.paths(one)) == a
    assert set(field_set.paths(union(one, other))) == a | b
    assert set(field_set.paths(difference(one, other))) == a - b
    assert set(field_set.paths(intersection(one, other))) == a & b
    below = {path for path in a if any(path[:depth] in b for depth in range(1, len(path) + 1))}
    assert set(field_set.paths(without(one, other))) == a - below
    assert all(contains(one, path) == (path in a) for path in a | b)
    assert len(list(field_set.paths(one))) == len(a), "no path comes twice"


@modestly
@given(paths, paths)
def test_equal_sets_have_one_tree_and_the_wire_keeps_it(
    left: list[tuple[str, ...]], right: list[tuple[str, ...]]
) -> None:
    one = set_of(left)
    assert one == set_of(left[::-1])
    assert field_set.read(field_set.in_order(one)) == one
    # By whatever way a set was made, its tree is the plain one.
    for made in (difference(one, set_of(right)), intersection(one, set_of(right)), without(one, set_of(right))):
        assert made == set_of(list(field_set.paths(made)))


# -- pods --------------------------------------------------------------------------------------------------------------

labels = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
variables = st.lists(st.sampled_from("EF"), unique=True, max_size=2).flatmap(
    lambda chosen: st.tuples(
        *(st.builds(lambda v, n=n: {"name": n, "value": v}, st.sampled_from("12")) for n in chosen)
    )
)


def filled(**fields: Any) -> Doc:
    """Without what is empty, as admission leaves documents."""
    return {name: value for name, value in fields.items() if value not in ({}, [], None)}


@st.composite
def containers(draw: st.DrawFn) -> list[Doc]:
    chosen = draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=3))
    return [
        filled(
            name=name,
            image=draw(st.sampled_from(["i", "j"])),
            env=list(draw(variables)),
            args=draw(st.lists(st.sampled_from("pq"), max_size=2)),
        )
        for name in chosen
    ]


@st.composite
def pods(draw: st.DrawFn) -> Doc:
    finalizers = draw(st.lists(st.sampled_from(["f/1", "f/2"]), unique=True, max_size=2))
    metadata = filled(name="p", labels=draw(labels), finalizers=finalizers)
    spec = filled(containers=draw(containers()), nodeSelector=draw(labels), schedulerName="s")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def admitted(value: Any) -> Any:
    """Without nulls and what is empty: the part of admission that matters here."""
    if isinstance(value, dict):
        return filled(**{name: admitted(item) for name, item in value.items()})
    return [admitted(item) for item in value] if isinstance(value, list) else value


def contents(doc: Doc) -> Doc:
    bare: Doc = admitted({**doc, "metadata": {k: v for k, v in doc["metadata"].items() if k != "managedFields"}})
    return bare


def strategic_diff(old: Doc, new: Doc) -> Doc:
    """A patch that leads from one pod to another, the way kubectl writes it: changes, deletions and the order."""

    def lists(before: list[Doc], after: list[Doc]) -> list[Doc]:
        known = {item["name"]: item for item in before}
        changes = [item_diff(known.get(item["name"], {}), item) for item in after]
        wanted = {item["name"] for item in after}
        return changes + [{"name": name, "$patch": "delete"} for name in known if name not in wanted]

    def item_diff(before: Doc, after: Doc) -> Doc:
        diff: Doc = {name: None for name in before if name not in after} | after
        if "env" in before and "env" in after:
            diff["env"] = lists(before["env"], after["env"])
            diff["$setElementOrder/env"] = [{"name": item["name"]} for item in after["env"]]
        return diff

    old_spec, new_spec = old.get("spec", {}), new.get("spec", {})
    spec: Doc = {name: None for name in old_spec if name not in new_spec}
    spec["nodeSelector"] = {"$patch": "replace", **new_spec["nodeSelector"]} if "nodeSelector" in new_spec else None
    if "nodeSelector" not in old_spec and "nodeSelector" in new_spec:
        spec["nodeSelector"] = new_spec["nodeSelector"]
    if new_spec.get("containers"):
        spec["containers"] = lists(old_spec.get("containers", []), new_spec["containers"])
        spec["$setElementOrder/containers"] = [{"name": item["name"]} for item in new_spec["containers"]]
    before, after = old["metadata"], new["metadata"]
    metadata: Doc = {"labels": dict.fromkeys(before.get("labels", {})) | after.get("labels", {})}
    unwanted = [one for one in before.get("finalizers", []) if one not in after.get("finalizers", [])]
    if before.get("finalizers") and after.get("finalizers"):
        metadata["$setElementOrder/finalizers"] = after["finalizers"]
        metadata["$deleteFromPrimitiveList/finalizers"] = unwanted
    metadata["finalizers"] = after.get("finalizers")
    return {"metadata": metadata, "spec": spec}


@modestly
@given(pods(), pods())
def test_the_difference_as_a_strategic_patch_leads_to_the_target(old: Doc, new: Doc) -> None:
    before, patch = copy(old), strategic_diff(old, new)
    patched = strategic_merge(POD, old, patch)
    assert admitted(patched) == new, "in the order asked for, too"
    assert admitted(strategic_merge(POD, admitted(patched), patch)) == new, "patching again changes nothing"
    assert old == before


def leaves_of(doc: Doc) -> set[field_set.Path]:
    return set(field_set.paths(shape_of(POD).leaves(doc) or {}))


@modestly
@given(pods(), pods())
def test_comparing_finds_every_leaf_that_differs_and_no_other(old: Doc, new: Doc) -> None:
    added, modified, removed = shape_of(POD).compare(old, new)
    before, after = (leaves_of(doc) for doc in (old, new))
    # Comparing also names containers, which set no leaf: only leaves are held against the two documents.
    assert {path for path in field_set.paths(added) if path in after | before} == after - before
    assert {path for path in field_set.paths(removed) if path in after | before} == before - after
    assert set(field_set.paths(modified)) <= after & before
    assert (old == new) <= (not added and not modified and not removed)
    back = shape_of(POD).compare(new, old)
    assert back == (removed, modified, added)


# -- owners ------------------------------------------------------------------------------------------------------------


def applied(live: Doc | None, config: Doc, manager: str, *, force: bool = False, now: str = NOW) -> Doc:
    result: Doc = apply(
        FieldWrite(POD, manager=manager, api_version="v1", now=now), live=live, config=config, force=force
    )
    entries = result["metadata"].pop("managedFields", None)
    result = admitted(result)
    if entries:
        result["metadata"]["managedFields"] = entries
    return result


def owned_by(doc: Doc, manager: str) -> Tree:
    for entry in doc["metadata"].get("managedFields", []):
        if entry["manager"] == manager:
            return field_set.read(entry["fieldsV1"])
    return {}


@modestly
@given(pods(), pods())
def test_applying_is_idempotent_and_shows_what_was_applied(first: Doc, second: Doc) -> None:
    live = applied(applied(None, first, "a"), second, "b", force=True)
    assert applied(live, second, "b", force=True, now=LATER) == live
    assert applied(live, second, "b", now=LATER) == live, "nor is there a conflict left"
    shown, wanted = (leaves_of(doc) for doc in (contents(live), second))
    assert wanted <= shown


@modestly
@given(pods(), pods(), pods())
def test_what_the_only_applier_gives_up_is_gone_and_the_rest_stays(mine: Doc, theirs: Doc, less: Doc) -> None:
    alone = applied(applied(None, mine, "a"), less, "a")
    assert contents(alone) == less, "alone, the object is what was applied last"
    live = applied(applied(applied(None, mine, "a"), theirs, "b", force=True), less, "a", force=True)
    shown = leaves_of(contents(live))
    both = leaves_of(theirs) | leaves_of(less)
    assert shown == both


@modestly
@given(pods(), pods())
def test_without_force_nothing_of_others_changes(first: Doc, second: Doc) -> None:
    live = applied(None, first, "a")
    try:
        result = applied(live, second, "b")
    except Conflict as conflict:
        assert conflict.causes
        assert all(cause.message == 'conflict with "a"' for cause in conflict.causes)
        return
    _, modified, removed = shape_of(POD).compare(contents(live), contents(result))
    assert not intersection(modified, owned_by(live, "a"))
    assert not removed
    assert owned_by(result, "a") == owned_by(live, "a")


@modestly
@given(st.lists(st.tuples(st.sampled_from("abc"), pods()), min_size=1, max_size=5))
def test_after_any_updates_every_leaf_has_one_owner_and_nothing_else_is_owned(writes: list[tuple[str, Doc]]) -> None:
    live: Doc | None = None
    for manager, doc in writes:
        new = copy(doc)
        new["metadata"]["uid"] = "u"
        track_update(FieldWrite(POD, manager=manager, api_version="v1", now=NOW), old=live, new=new)
        live = new
    assert live is not None
    for path in field_set.paths(difference(shape_of(POD).leaves(contents(live)) or {}, NEVER_OWNED)):
        assert sum(contains(owned_by(live, manager), path) for manager in "abc") == 1, path
    everything = shape_of(POD).compare({}, contents(live)).added
    for manager in "abc":
        assert not difference(owned_by(live, manager), everything)


# -- documents that are patched stay as they were ----------------------------------------------------------------------


@modestly
@given(documents, documents)
def test_a_patch_leaves_the_document_as_it_was(old: Doc, patch: Doc) -> None:
    before = copy(old)
    merge_patch(old, patch)
    strategic_merge(POD, {"spec": old}, {"metadata": patch})
    operations = [{"op": "add", "path": "/new", "value": patch}, {"op": "test", "path": "/new", "value": patch}]
    assert json_patch(old, operations) == {**before, "new": patch}
    assert old == before
