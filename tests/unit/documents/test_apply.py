"""Server-side apply: merging, pruning, conflicts. What a real server answers to the same is in tests/parity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.documents.apply import field_set
from tonnage.documents.apply.managed_fields import FieldWrite, track_update
from tonnage.documents.apply.server_side_apply import ANNOTATION, MAX_ANNOTATIONS_BYTES, apply
from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.documents.schema import schema_of
from tonnage.errors import BadRequest, Cause, Conflict
from tonnage.objects.document import Doc, copy

CONFIG_MAP = schema_of("", "v1", "ConfigMap")
POD = schema_of("", "v1", "Pod")
T1, T2 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def config_map(**data: Any) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def pod(*containers: Doc, **spec: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), **spec},
    }


def applied(
    live: Doc | None, config: Doc, manager: str = "alice", now: str = T1, force: bool = False, **more: Any
) -> Doc:
    """Apply and admit: what comes back is free of nulls, as the server would store it. Inputs must not be touched."""
    struct = CONFIG_MAP if config["kind"] == "ConfigMap" else POD
    before = copy(live), copy(config)
    result = apply(
        FieldWrite(struct, manager=manager, api_version="v1", now=now, **more), live=live, config=config, force=force
    )
    assert (live, config) == before
    admitted = without_nulls(result)
    assert isinstance(admitted, dict)
    return admitted


def edited(live: Doc, manager: str = "editor", now: str = T1, **data: Any) -> Doc:
    new: Doc = copy(live)
    new["data"] = {**new.get("data", {}), **data}
    track_update(FieldWrite(CONFIG_MAP, manager=manager, api_version="v1", now=now), old=live, new=new)
    return new


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def owners(doc: Doc) -> dict[str, list[str]]:
    """Manager -> data entries it owns."""
    entries = doc["metadata"].get("managedFields", [])
    return {
        entry["manager"]: sorted(step[2:] for step in entry["fieldsV1"].get("f:data", {}) if step != ".")
        for entry in entries
    }


def names(doc: Doc) -> list[str]:
    return [item["name"] for item in doc["spec"]["containers"]]


# -- one applier -------------------------------------------------------------------------------------------------------


def test_the_first_apply_makes_the_object_and_owns_exactly_what_it_says() -> None:
    assert applied(None, config_map(a="1")) == {
        **config_map(a="1"),
        "metadata": {
            "name": "c",
            "managedFields": [
                {
                    "manager": "alice",
                    "operation": "Apply",
                    "apiVersion": "v1",
                    "time": T1,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:data": {"f:a": {}}},
                }
            ],
        },
    }


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    once = applied(None, config_map(a="1"))
    assert applied(once, config_map(a="1"), now=T2) == once


def test_what_is_no_longer_applied_is_removed() -> None:
    live = applied(None, config_map(a="1", b="2"))
    assert applied(live, config_map(b="2"))["data"] == {"b": "2"}
    gone = applied(live, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert "data" not in gone
    assert "managedFields" not in gone["metadata"]


def test_what_was_never_applied_stays() -> None:
    live = edited(applied(None, config_map(a="1")), b="2")
    assert applied(live, config_map(a="1"))["data"] == {"a": "1", "b": "2"}


# -- several managers --------------------------------------------------------------------------------------------------


def test_two_appliers_of_the_same_value_share_it() -> None:
    shared = applied(applied(None, config_map(a="1")), config_map(a="1", b="2"), "bob")
    assert owners(shared) == {"alice": ["a"], "bob": ["a", "b"]}
    # Alice gives it up: bob still owns it.
    assert applied(shared, config_map(), "alice")["data"] == {"a": "1", "b": "2"}


def test_a_sharer_that_changed_nothing_has_no_time() -> None:
    shared = applied(applied(None, config_map(a="1")), config_map(a="1"), "bob", T2)
    assert [entry.get("time") for entry in shared["metadata"]["managedFields"]] == [None, T1]


def test_another_value_is_a_conflict() -> None:
    live = applied(None, config_map(a="1"))
    with pytest.raises(Conflict) as refused:
        applied(live, config_map(a="2"), "bob")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "alice": .data.a'
    assert refused.value.causes == (Cause("FieldManagerConflict", 'conflict with "alice"', ".data.a"),)


def test_conflicts_are_told_by_manager_and_sorted() -> None:
    live = edited(applied(None, config_map(a="1", b="1")), "kubectl-edit", c="1")
    with pytest.raises(Conflict) as refused:
        applied(live, config_map(a="2", b="2", c="2"), "bob")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "alice":\n- .data.a\n- .data.b\n'
        'conflicts with "kubectl-edit" using v1:\n- .data.c'
    )
    assert [cause.field for cause in refused.value.causes] == [".data.a", ".data.b", ".data.c"]


def test_force_takes_the_field_over() -> None:
    live = applied(None, config_map(a="1", b="1"))
    forced = applied(live, config_map(a="2"), "bob", T2, force=True)
    assert forced["data"] == {"a": "2", "b": "1"}
    assert owners(forced) == {"alice": ["b"], "bob": ["a"]}
    # Alice may drop what she lost without removing it.
    assert applied(forced, config_map(b="1"), "alice")["data"] == {"a": "2", "b": "1"}


def test_giving_back_a_field_one_took_by_force_leaves_its_value() -> None:
    live = edited(applied(None, config_map(a="1")), a="2")
    assert owners(live) == {"editor": ["a"]}
    assert applied(live, config_map(a="2"), "alice")["data"] == {"a": "2"}


def test_an_owner_through_a_subresource_is_told_with_it() -> None:
    live: Doc = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    track_update(FieldWrite(POD, manager="kubelet", api_version="v1", subresource="status", now=T1), old=None, new=live)
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}}
    with pytest.raises(Conflict) as refused:
        applied(live, config, "bob", subresource="status", reset_fields=field_set.of(("spec",)))
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: .status.phase'
    )


def test_what_an_endpoint_does_not_write_is_neither_owned_nor_in_conflict() -> None:
    live: Doc = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Running"}}
    track_update(FieldWrite(POD, manager="kubelet", api_version="v1", subresource="status", now=T1), old=None, new=live)
    config = {**pod(hostname="h"), "status": {"phase": "Failed"}}
    result = applied(live, config, "bob", reset_fields=field_set.of(("status",)))
    assert [entry["fieldsV1"] for entry in result["metadata"]["managedFields"]] == [
        {"f:spec": {"f:hostname": {}}},
        {"f:status": {"f:phase": {}}},
    ]


def test_an_untracked_object_belongs_to_whoever_was_before() -> None:
    live = config_map(a="1", b="1")
    result = applied(live, config_map(a="1", c="1"), "alice", T2)
    assert owners(result) == {"alice": ["a", "c"], "before-first-apply": ["a", "b"]}
    with pytest.raises(Conflict) as refused:
        applied(live, config_map(a="2"), "alice")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'


# -- lists -------------------------------------------------------------------------------------------------------------


def item(name: str, image: str = "i", **more: Any) -> Doc:
    return {"name": name, "image": image, **more}


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("a b", "x b a", "x b a"),
        ("x b a", "a c b", "x a c b"),
        ("a b c", "c a", "b c a"),
        ("a b c d", "d x", "a b c d x"),
        ("a b", "x y", "a b x y"),
        ("a b", "x a", "x a b"),
        ("a b c", "a x b", "a x b c"),
        ("a b c d", "d x b", "a c d x b"),
        ("a b c d", "c x a", "b c d x a"),
        ("", "a b", "a b"),
    ],
)
def test_items_follow_the_configuration_and_the_rest_keeps_its_place(live: str, config: str, merged: str) -> None:
    first = applied(None, pod(*map(item, live.split())))
    assert names(applied(first, pod(*map(item, config.split())), "bob")) == merged.split()


def test_an_item_merges_with_what_others_set_in_it() -> None:
    live = applied(None, pod(item("a", args=["x"])))
    merged = applied(live, pod({"name": "a", "env": [{"name": "E", "value": "1"}]}), "bob")
    assert merged["spec"]["containers"] == [item("a", args=["x"], env=[{"name": "E", "value": "1"}])]
    # Bob gives up the item; alice still owns it, so only his variable goes.
    assert applied(merged, pod(), "bob")["spec"]["containers"] == [item("a", args=["x"])]


def test_an_item_goes_when_its_last_applier_drops_it_even_with_defaults_in_it() -> None:
    live = applied(None, pod(item("a"), item("b")))
    live["spec"]["containers"][1]["imagePullPolicy"] = "Always"  # what the server filled in belongs to nobody
    assert names(applied(live, pod(item("a")))) == ["a"]


def test_an_atomic_list_is_replaced_and_fought_over_as_one() -> None:
    live = applied(None, pod(tolerations=[{"key": "a"}], nodeSelector={"x": "1"}))
    with pytest.raises(Conflict) as refused:
        applied(live, pod(tolerations=[{"key": "a"}, {"key": "b"}], nodeSelector={"y": "1"}), "bob")
    assert [cause.field for cause in refused.value.causes] == [".spec.nodeSelector", ".spec.tolerations"]


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_another_kind_or_version_is_refused() -> None:
    for change, told in (
        ({"kind": "Secret"}, "/v1, Kind=Secret"),
        ({"apiVersion": "apps/v2"}, "apps/v2, Kind=ConfigMap"),
    ):
        with pytest.raises(BadRequest) as refused:
            apply(
                FieldWrite(CONFIG_MAP, manager="m", api_version="v1", now=T1),
                live=None,
                config={**config_map(), **change},
            )
        assert refused.value.message == f"invalid object type: {told}"
    with pytest.raises(BadRequest) as refused:
        apply(FieldWrite(CONFIG_MAP, manager="m", api_version="v1", now=T1), live=None, config={})
    assert refused.value.message == "invalid object type: /, Kind="


def test_managed_fields_are_not_for_clients_to_apply() -> None:
    config = config_map()
    config["metadata"]["managedFields"] = []
    with pytest.raises(BadRequest) as refused:
        applied(None, config)
    assert refused.value.message == "metadata.managedFields must be nil"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"hostname": 5}, ".spec.hostname: expected string, got &value.valueUnstructured{Value:5}"),
        (
            {"hostname": {"a": ["x", None, True]}},
            ".spec.hostname: expected string, got "
            '&value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{"x", <nil>, true}}}',
        ),
        ({"priority": 1.5}, ""),
        ({"priority": [1]}, ".spec.priority: expected numeric (int or float), got []interface {}"),
        ({"hostNetwork": "yes"}, ".spec.hostNetwork: expected boolean, got &{yes}"),
        ({"volumes": {"a": 1}}, ".spec.volumes: expected list, got &{map[a:1]}"),
        ({"containers": [{"name": {"a": 1}}]}, ".spec.containers: element 0: key field name must be a scalar"),
        (
            {"containers": [item("a", env=[{"name": "E"}, {"name": "E"}])]},
            '.spec.containers[name="a"].env: duplicate entries for key [name="E"]',
        ),
        ({"hostname": 5, "priority": "x"}, "errors:\n  .spec.hostname: expected string, got &value.valueUnstructured"
         "{Value:5}\n  .spec.priority: expected numeric (int or float), got string"),
    ],
)  # fmt: skip
def test_a_configuration_must_fit_the_schema(spec: Doc, told: str) -> None:
    config = {**pod(), "spec": spec}
    config["metadata"]["namespace"] = "n"
    if not told:
        assert applied(None, config)["spec"] == spec
        return
    with pytest.raises(PatchFailed) as refused:
        applied(None, config)
    assert refused.value.message == f"failed to create typed patch object (n/p; /v1, Kind=Pod): {told}"


# -- kubectl's annotation ----------------------------------------------------------------------------------------------


def client_side(annotation: str | None = None, **data: str) -> Doc:
    """An object as client-side `kubectl apply` leaves it."""
    doc = config_map(**data)
    doc["metadata"]["annotations"] = {ANNOTATION: annotation or json.dumps(config_map(**data))}
    track_update(
        FieldWrite(CONFIG_MAP, manager="kubectl-client-side-apply", api_version="v1", now=T1), old=None, new=doc
    )
    return doc


def test_kubectl_takes_over_from_its_client_side_self_and_renews_the_annotation() -> None:
    result = applied(client_side(a="1", b="2"), config_map(a="9", b="<2>"), "kubectl")
    assert result["data"] == {"a": "9", "b": "<2>"}
    assert result["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"v1","data":{"a":"9","b":"\\u003c2\\u003e"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    )


def test_only_kubectl_is_pardoned_and_only_for_what_nobody_changed_since() -> None:
    with pytest.raises(Conflict):
        applied(client_side(a="1"), config_map(a="9"), "alice")
    live = edited(client_side(a="1", b="2"), a="5")
    with pytest.raises(Conflict) as refused:
        applied(live, config_map(a="9", b="9"), "kubectl")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'


@pytest.mark.parametrize("annotation", ["not json", "[1]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","data":5}'])
def test_an_annotation_without_sense_pardons_nothing(annotation: str) -> None:
    with pytest.raises(Conflict):
        applied(client_side(annotation, a="1"), config_map(a="9"), "kubectl")


def test_an_annotation_that_grew_too_large_is_dropped() -> None:
    config = config_map(a="x" * MAX_ANNOTATIONS_BYTES)
    result = applied(client_side(a="1"), config, "kubectl", force=True)
    assert ANNOTATION not in result["metadata"]["annotations"]


def test_an_object_whose_items_cannot_be_named_cannot_be_applied_to() -> None:
    account = schema_of("", "v1", "ServiceAccount")
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}
    live = {**config, "secrets": [{"namespace": "n"}]}
    with pytest.raises(PatchFailed) as refused:
        apply(FieldWrite(account, manager="m", api_version="v1", now=T1), live=live, config=config)
    assert refused.value.message == (
        "failed to create manager for existing fields: failed to convert new object (n/a; /v1, Kind=ServiceAccount) "
        "to smd typed: .secrets: element 0: associative list with keys has an element that omits all key fields "
        '["name"] (and doesn\'t have default values for any key fields)'
    )
