"""JSON patch and merge patch, and what all patches share: what each does to an object, and how each refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from contract_documents import config_map, owners_of, pod

from support.api_servers import ServerApi

DOES_NOT_APPLY = "the server rejected our request due to an error in our request"


@pytest.fixture
def a(api: ServerApi, maps: str) -> str:
    """The path of a ConfigMap with two values and a label."""
    api.create(maps, config_map("a", {"k": "v", "x": "y"}, labels={"a": "b"}))
    return f"{maps}/a"


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/n", "value": "1"}], {"k": "v", "x": "y", "n": "1"}),
        ([{"op": "remove", "path": "/data/x"}], {"k": "v"}),
        ([{"op": "replace", "path": "/data/k", "value": "w"}], {"k": "w", "x": "y"}),
        ([{"op": "replace", "path": "/data/new", "value": "w"}], {"k": "v", "x": "y", "new": "w"}),
        ([{"op": "copy", "from": "/data/k", "path": "/data/k2"}], {"k": "v", "x": "y", "k2": "v"}),
        ([{"op": "move", "from": "/data/k", "path": "/data/k2"}], {"x": "y", "k2": "v"}),
        ([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data"}], None),
        ([], {"k": "v", "x": "y"}),
        (None, {"k": "v", "x": "y"}),
    ],
)
def test_json_patch(api: ServerApi, a: str, operations: Any, data: Any) -> None:
    patched = api.patch(a, operations if operations is not None else b"null", "json")
    assert (patched.code, patched.body.get("data")) == (200, data)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/k", "value": "other"},
        {"op": "remove", "path": "/data/nope"},
        {"op": "move", "from": "/data/nope", "path": "/data/k"},
        {"op": "bogus", "path": "/data/k"},
    ],
)
def test_a_json_patch_that_does_not_apply_changes_nothing(api: ServerApi, a: str, operation: Any) -> None:
    refused = api.patch(a, [{"op": "add", "path": "/data/n", "value": "1"}, operation], "json")
    assert (refused.code, refused.reason, refused.message) == (422, "Invalid", DOES_NOT_APPLY)
    assert api.get(a)["data"] == {"k": "v", "x": "y"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "error decoding patch: unexpected end of JSON input"),
        (b"{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"[1]", "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (b"nope", "error decoding patch: invalid character 'o' in literal null (expecting 'u')"),
        (b'[{"op":"add"', "error decoding patch: unexpected end of JSON input"),
        (b'[{"op":"add",}]', "error decoding patch: invalid character '}' looking for beginning of object key string"),
        (b"[] x", "error decoding patch: invalid character 'x' after top-level value"),
    ],
)
def test_a_json_patch_that_is_none_is_refused(api: ServerApi, a: str, body: bytes, told: str) -> None:
    refused = api.patch(a, body, "json")
    assert (refused.code, refused.message) == (400, told)


def test_a_json_patch_has_at_most_ten_thousand_operations(api: ServerApi, a: str) -> None:
    refused = api.patch(a, [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001, "json")
    assert (refused.code, refused.message) == (
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


def test_an_operation_with_an_unknown_field_is_judged_as_asked(api: ServerApi, a: str) -> None:
    odd = [{"op": "add", "path": "/data/n", "value": "1", "bogus": 1}]
    refused = api.patch(f"{a}?fieldValidation=Strict", odd, "json")
    assert refused.code == 422
    assert refused.message.endswith(': strict decoding error: json patch unknown field "[0].bogus"')
    assert api.patch(a, odd, "json").warnings == ['json patch unknown field "[0].bogus"']


def test_merge_patch_lays_over_and_null_removes(api: ServerApi, a: str) -> None:
    patched = api.patch(a, {"data": {"k": None, "n": "1"}, "metadata": {"labels": None}})
    assert (patched.code, patched["data"]) == (200, {"n": "1", "x": "y"})
    assert "labels" not in patched.meta


def test_a_merge_patch_replaces_lists_as_a_whole(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    patched = api.patch(f"{pods}/a", {"metadata": {"finalizers": ["example.com/a"]}})
    patched = api.patch(f"{pods}/a", {"metadata": {"finalizers": ["example.com/b"]}})
    assert patched.meta["finalizers"] == ["example.com/b"]


def test_a_patch_that_changes_nothing_keeps_the_version(api: ServerApi, a: str) -> None:
    version = api.get(a).version
    for kind, body in (("merge", {}), ("merge", {"data": {"k": "v"}}), ("strategic", {"data": {"k": "v"}})):
        assert api.patch(a, body, kind).version == version


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "error decoding patch: unexpected end of JSON input"),
        (b"null", "Invalid JSON Patch"),
        (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b"x", "error decoding patch: invalid character 'x' looking for beginning of value"),
        (b'{"a" 1}', "error decoding patch: invalid character '1' after object key"),
        (b'{"a":1 "b"}', "error decoding patch: invalid character '\"' after object key:value pair"),
        (b'{"a":[1 2]}', "error decoding patch: invalid character '2' after array element"),
        (b'{"a":"\n"}', "error decoding patch: invalid character '\\n' in string literal"),
        (b'{"a":"\\q"}', "error decoding patch: invalid character 'q' in string escape code"),
        (b'{"a":1.}', "error decoding patch: invalid character '}' after decimal point in numeric literal"),
        (b'{"a":-}', "error decoding patch: invalid character '}' in numeric literal"),
        (b'{"a":1e}', "error decoding patch: invalid character '}' in exponent of numeric literal"),
        (b'{"a":\xff}', "error decoding patch: invalid character 'ÿ' looking for beginning of value"),
    ],
)
def test_a_merge_patch_that_is_none_is_refused(api: ServerApi, a: str, body: bytes, told: str) -> None:
    refused = api.patch(a, body)
    assert (refused.code, refused.message) == (400, told)


def test_a_patch_can_name_the_version_it_is_for(api: ServerApi, a: str) -> None:
    version = api.get(a).version
    assert api.patch(a, {"metadata": {"resourceVersion": version}, "data": {"n": "1"}}).code == 200
    refused = api.patch(a, {"metadata": {"resourceVersion": version}, "data": {"n": "2"}})
    assert (refused.code, refused.reason) == (409, "Conflict")


@pytest.mark.parametrize("version", [None, "", "0"])
def test_a_patch_for_any_version_overwrites(api: ServerApi, a: str, version: str | None) -> None:
    assert api.patch(a, {"metadata": {"resourceVersion": version}, "data": {"n": "2"}}).code == 200


def test_a_patch_cannot_take_the_version_from_a_kind_that_needs_one(api: ServerApi, ns: str) -> None:
    path = "/apis/storage.k8s.io/v1/csinodes"
    api.create(path, {"metadata": {"name": ns}, "spec": {"drivers": []}})
    patched = api.patch(f"{path}/{ns}", {"metadata": {"labels": {"a": "b"}}})
    assert patched.code == 200
    assert api.patch(f"{path}/{ns}", {"metadata": {"resourceVersion": None, "labels": {"a": "c"}}}).code == 422


def test_a_patch_that_means_another_uid_is_invalid(api: ServerApi, a: str) -> None:
    refused = api.patch(a, {"metadata": {"uid": "other"}})
    assert (refused.code, refused.causes) == (
        422,
        [("metadata.uid", 'Invalid value: "other": field is immutable')],
    )


def test_a_patch_cannot_rename_or_move(api: ServerApi, a: str) -> None:
    assert api.patch(a, {"metadata": {"name": "b"}}).message == (
        "the name of the object (b) does not match the name on the URL (a)"
    )
    assert api.patch(a, {"metadata": {"namespace": "b"}}).message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def test_a_patch_cannot_change_the_kind(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("plain"))
    refused = api.patch(f"{maps}/plain", {"kind": "Secret"})
    assert refused.code == 422
    assert refused.causes[0][0] == "patch"
    assert refused.message.endswith(": converting (v1.Secret) to (core.ConfigMap): unknown conversion")
    refused = api.patch(f"{maps}/plain", {"apiVersion": "v9"})
    assert ': no kind "ConfigMap" is registered for version "v9" in scheme ' in refused.message
    assert api.patch(f"{maps}/plain", {"kind": None}).code == 200


def test_what_a_patch_makes_must_still_be_an_object(api: ServerApi, a: str) -> None:
    refused = api.patch(a, {"data": {"n": 1}})
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message.startswith(' "" is invalid: patch: Invalid value: "{')
    assert refused.message.endswith(
        ": json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )


def test_unknown_and_repeated_fields_of_a_patch_are_judged_as_asked(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    a = f"{pods}/a"
    refused = api.patch(f"{a}?fieldValidation=Strict", {"spec": {"bogus": 1}, "extra": 2})
    told = 'strict decoding error: unknown field "extra", unknown field "spec.bogus"'
    assert refused.code == 422 and refused.message.endswith(f": {told}")
    warned = api.patch(a, {"spec": {"bogus": 1}, "extra": 2})
    assert (warned.code, warned.warnings) == (200, ['unknown field "extra"', 'unknown field "spec.bogus"'])
    refused = api.patch(f"{a}?fieldValidation=Strict", {"spec": {"bogus": 1}}, "strategic")
    assert refused.causes == [
        (
            "patch",
            'Invalid value: "map[spec:map[bogus:1]]": strict decoding error: unknown field "spec.bogus"',
        )
    ]
    twice = b'{"metadata":{"labels":{"a":"b","a":"c"}}}'
    for kind in ("merge", "strategic"):
        refused = api.patch(f"{a}?fieldValidation=Strict", twice, kind)
        assert refused.message.endswith(': strict decoding error: duplicate field "metadata.labels.a"')
        warned = api.patch(a, twice, kind)
        assert warned.warnings == ['duplicate field "metadata.labels.a"'] and warned.meta["labels"] == {"a": "c"}


def test_only_apply_can_be_forced(api: ServerApi, a: str) -> None:
    for force in ("true", "false"):
        assert api.patch(f"{a}?force={force}", {}).causes == [
            ("force", "Forbidden: may not be specified for non-apply patch")
        ]


@pytest.mark.parametrize("media", ["", "text/plain", "application/json", "application/apply-patch+json"])
def test_a_patch_says_what_kind_it_is(api: ServerApi, a: str, media: str) -> None:
    refused = api.request("PATCH", f"{a}?fieldManager=m", {}, content_type=media)
    assert (refused.code, refused.reason, refused.message) == (
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    )


@pytest.mark.parametrize("owners", [[], [{}]])
def test_a_patch_can_make_the_server_forget_all_owners(api: ServerApi, a: str, owners: list[object]) -> None:
    before = api.get(a)
    forgotten = api.patch(a, {"metadata": {"managedFields": owners}})
    assert "managedFields" not in forgotten.meta and forgotten.version != before.version
    assert owners_of(api.patch(a, {"data": {"n": "1"}}).body) == []  # not tracked until something is applied


def test_patches_of_many_at_once_never_collide(api: ServerApi, a: str) -> None:
    def patch(number: int) -> int:
        mine = ServerApi(api.name, api.url, api.token)
        try:
            return mine.patch(a, {"data": {f"n{number}": "v"}}).code
        finally:
            mine.close()

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(patch, range(16))) == {200}
    assert len(api.get(a)["data"]) == 2 + 16
