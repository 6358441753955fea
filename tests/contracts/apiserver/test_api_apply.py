"""Server-side apply: creation, ownership, conflicts, force, pruning, and status apart from the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contract_documents import config_map, owned_by, owners_of, pod

from support.api_servers import ServerApi


def wanted(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **fields}


def test_applying_what_is_not_there_creates_it(api: ServerApi, maps: str) -> None:
    made = api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    assert (made.code, made["data"]) == (201, {"k": "v"})
    [entry] = made.meta["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("m1", "Apply", "v1")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}}


def test_applying_the_same_again_changes_nothing(api: ServerApi, maps: str) -> None:
    made = api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    again = api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    assert (again.code, again.body) == (200, made.body)


def test_what_is_no_longer_mentioned_is_removed(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v", "z": "1"}), "m1")
    assert api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")["data"] == {"k": "v"}


def test_what_another_owns_too_stays(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m2")
    left = api.apply(f"{maps}/a", config_map("a"), "m1")
    assert left["data"] == {"k": "v"} and owners_of(left.body) == [("m2", "Apply", "")]


def test_changing_what_another_owns_is_a_conflict(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    refused = api.apply(f"{maps}/a", config_map("a", {"k": "w"}), "m2")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "m1": .data.k'
    assert refused["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.k"}
    ]


def test_several_conflicts_are_told_by_owner(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    api.patch(f"{maps}/a?fieldManager=m2", {"data": {"x": "y"}})
    refused = api.apply(f"{maps}/a", config_map("a", {"k": "w", "x": "w"}), "m3")
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.k\nconflicts with "m2" using v1:\n- .data.x'
    )


def test_force_takes_the_field_over(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v"}), "m1")
    forced = api.apply(f"{maps}/a", config_map("a", {"k": "w"}), "m2", query="&force=true")
    assert forced["data"] == {"k": "w"} and owners_of(forced.body) == [("m2", "Apply", "")]


def test_an_ordinary_write_takes_over_without_asking(api: ServerApi, maps: str) -> None:
    api.apply(f"{maps}/a", config_map("a", {"k": "v", "x": "y"}), "m1")
    patched = api.patch(f"{maps}/a?fieldManager=m2", {"data": {"k": "w"}})
    assert owned_by(patched.body, "m1") == {"f:data": {"f:x": {}}}
    assert owned_by(patched.body, "m2") == {"f:data": {"f:k": {}}}


def test_list_items_are_owned_by_their_key(api: ServerApi, pods: str) -> None:
    api.apply(f"{pods}/a", pod("a"), "m1")
    changed = pod("a")
    changed["spec"]["containers"][0]["image"] = "j"
    refused = api.apply(f"{pods}/a", changed, "m2")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "m1": .spec.containers[name="c"].image'
    assert api.apply(f"{pods}/a", changed, "m2", query="&force=true")["spec"]["containers"][0]["image"] == "j"


def test_sets_are_owned_item_by_item(api: ServerApi, pods: str) -> None:
    api.apply(f"{pods}/a", pod("a"), "m1")
    with_mark = {**wanted("a"), "metadata": {"name": "a", "finalizers": ["e.com/a"], "labels": {"x": "y"}}}
    made = api.apply(f"{pods}/a", with_mark, "m2")
    assert owned_by(made.body, "m2") == {"f:metadata": {"f:finalizers": {'v:"e.com/a"': {}}, "f:labels": {"f:x": {}}}}
    left = api.apply(f"{pods}/a", wanted("a"), "m2")
    assert not {"finalizers", "labels"} & left.meta.keys() and owners_of(left.body) == [("m1", "Apply", "")]


def test_status_has_owners_of_its_own(api: ServerApi, pods: str) -> None:
    api.apply(f"{pods}/a", pod("a"), "m1")
    said = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    applied = api.apply(f"{pods}/a/status", wanted("a", status=said), "st")
    assert applied["status"]["phase"] == "Running"
    assert owners_of(applied.body) == [("m1", "Apply", ""), ("st", "Apply", "status")]
    refused = api.apply(f"{pods}/a/status", wanted("a", status={"phase": "Failed"}), "other")
    assert (
        refused.message == 'Apply failed with 1 conflict: conflict with "st" with subresource "status": .status.phase'
    )
    more = api.apply(f"{pods}/a/status", wanted("a", status={"conditions": [{"type": "X", "status": "True"}]}), "other")
    assert sorted(item["type"] for item in more["status"]["conditions"]) == ["Ready", "X"]
    assert api.apply(f"{pods}/nobody/status", wanted("nobody", status={}), "st").code == 404


def test_an_object_nobody_tracks_belongs_to_before_first_apply(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", {"k": "v"}))
    api.patch(f"{maps}/a", {"metadata": {"managedFields": [{}]}})
    applied = api.apply(f"{maps}/a", config_map("a", {"x": "y"}), "m1")
    assert owners_of(applied.body) == [("before-first-apply", "Update", ""), ("m1", "Apply", "")]


def test_apply_needs_a_manager(api: ServerApi, maps: str) -> None:
    refused = api.patch(f"{maps}/a", config_map("a"), "apply")
    assert (refused.code, refused.causes) == (
        422,
        [("fieldManager", "Required value: is required for apply patch")],
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "invalid object type: /, Kind="),
        (b"", "invalid object type: /, Kind="),
        (b"null", "invalid object type: /, Kind="),
        ({"apiVersion": "v1"}, "invalid object type: /v1, Kind="),
        (
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}},
            "invalid object type: /v1, Kind=Secret",
        ),
        (config_map("a", managedFields=[]), "metadata.managedFields must be nil"),
        (config_map("a", managedFields=[{"manager": "x"}]), "metadata.managedFields must be nil"),
        (config_map("b"), "the name of the object (b) does not match the name on the URL (a)"),
        (
            config_map("a", namespace="other"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused(api: ServerApi, maps: str, body: Any, told: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.apply(f"{maps}/a", body, "m1")
    assert (refused.code, refused.message) == (400, told)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"bogus": 1}, ".bogus: field not declared in schema"),
        ({"data": {"n": 1}}, ".data.n: expected string, got &value.valueUnstructured{Value:1}"),
        ({"data": []}, ".data: expected map, got &{[]}"),
    ],
)
def test_what_does_not_fit_the_schema_is_a_fault_whatever_the_strictness(
    api: ServerApi, maps: str, fields: dict[str, Any], told: str
) -> None:
    for strictness in ("Strict", "Warn", "Ignore"):
        body = {**config_map("a"), **fields}
        refused = api.apply(f"{maps}/a", body, "m1", query=f"&fieldValidation={strictness}")
        assert (refused.code, refused.reason) == (500, "")
        assert refused.message == f"failed to create typed patch object (/a; /v1, Kind=ConfigMap): {told}"


def test_items_of_one_key_are_a_fault(api: ServerApi, pods: str) -> None:
    refused = api.apply(f"{pods}/a", wanted("a", spec={"containers": [{"name": "c"}, {"name": "c"}]}))
    assert (refused.code, refused.message) == (
        500,
        "failed to create typed patch object (/a; /v1, Kind=Pod): .spec.containers: "
        'duplicate entries for key [name="c"]',
    )


def test_yaml_is_read(api: ServerApi, maps: str) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  yaml: here\n"
    assert api.apply(f"{maps}/a", text)["data"] == {"yaml": "here"}
    refused = api.apply(f"{maps}/a", b"a: [")
    assert refused.code == 400 and refused.message.startswith("error decoding YAML: ")


def test_an_applied_uid_must_be_there(api: ServerApi, maps: str) -> None:
    uid = "11111111-1111-4111-8111-111111111111"
    refused = api.apply(f"{maps}/a", config_map("a", uid=uid))
    assert (refused.code, refused.message) == (
        409,
        'Operation cannot be fulfilled on configmaps "a": uid mismatch: the provided object specified uid '
        f"{uid}, and no existing object was found",
    )


def test_an_applied_version_must_be_the_current_one_unless_it_creates(api: ServerApi, maps: str) -> None:
    made = api.apply(f"{maps}/a", config_map("a", {"k": "v"}, resourceVersion="5"))
    assert made.code == 201
    assert api.apply(f"{maps}/a", config_map("a", {"k": "w"}, resourceVersion="5")).code == 409
    assert api.apply(f"{maps}/a", config_map("a", {"k": "w"}, resourceVersion=made.version)).code == 200


def test_what_apply_makes_is_validated(api: ServerApi, maps: str) -> None:
    refused = api.apply(f"{maps}/a", config_map("a", labels={"a b": "c"}))
    assert (refused.code, refused.causes[0][0]) == (422, "metadata.labels")


def test_apply_does_not_create_in_a_namespace_that_is_not_there(api: ServerApi) -> None:
    refused = api.apply("/api/v1/namespaces/no-such-namespace/configmaps/a", config_map("a"))
    assert (refused.code, refused.message) == (404, 'namespaces "no-such-namespace" not found')


def test_owned_fields_are_written_in_order(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", {"b": "1", "a": "1"}, labels={"z": "1", "c": "1"}))
    patched = api.patch(f"{maps}/a", {"data": {"c": "1", "0": "1"}, "metadata": {"annotations": {"k": "v"}}})
    [entry] = patched.meta["managedFields"]
    assert json.dumps(entry["fieldsV1"]) == json.dumps(
        {
            "f:data": {".": {}, "f:0": {}, "f:a": {}, "f:b": {}, "f:c": {}},
            "f:metadata": {
                "f:annotations": {".": {}, "f:k": {}},
                "f:labels": {".": {}, "f:c": {}, "f:z": {}},
            },
        }
    )
