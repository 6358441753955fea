"""JSON patch and JSON merge patch: what they do, what they leave alone, how they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.patches.json_patch import MAX_COPIED_BYTES, json_patch, merge_patch
from tonnage.errors import ApiError, BadRequest, Invalid, RequestEntityTooLarge
from tonnage.objects.document import Doc, copy

REJECTED = "the server rejected our request due to an error in our request"


def config_map(**data: Any) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def op(op: str, path: str, **rest: Any) -> Doc:
    return {"op": op, "path": path, **rest}


# -- merge patch -------------------------------------------------------------------------------------------------------


def test_a_merge_patch_merges_objects_replaces_the_rest_and_removes_by_null() -> None:
    doc = {"data": {"a": "1", "b": "2", "c": {"x": 1}}, "list": [1, 2]}
    patched = merge_patch(doc, {"data": {"a": "9", "b": None, "c": {"y": 2}, "d": "new"}, "list": [3]})
    assert patched == {"data": {"a": "9", "c": {"x": 1, "y": 2}, "d": "new"}, "list": [3]}


def test_nulls_below_a_new_object_leave_no_trace() -> None:
    assert merge_patch({}, {"a": {"b": None, "c": {"d": None}}}) == {"a": {"c": {}}}


def test_an_object_replaces_a_scalar_and_a_scalar_an_object() -> None:
    assert merge_patch({"a": "text", "b": {"x": 1}}, {"a": {"y": 2}, "b": 5}) == {"a": {"y": 2}, "b": 5}


def test_the_result_of_a_merge_patch_shares_nothing_with_its_inputs() -> None:
    doc, patch = config_map(a="1"), {"data": {"list": [{"x": 1}]}}
    before = copy(doc), copy(patch)
    patched = merge_patch(doc, patch)
    patched["metadata"]["name"] = "changed"
    patched["data"]["list"][0]["x"] = 2
    assert (doc, patch) == before


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (5, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (True, "error decoding patch: json: cannot unmarshal bool into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_no_object_is_no_merge_patch(patch: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        merge_patch(config_map(), patch)
    assert refused.value.message == message


# -- json patch --------------------------------------------------------------------------------------------------------


def test_operations_run_one_after_another() -> None:
    patched = json_patch(
        {"list": ["a", "c"], "data": {"k": "v"}},
        [
            op("test", "/data/k", value="v"),
            op("add", "/list/1", value="b"),  # a b c
            op("add", "/list/-", value="d"),  # a b c d
            op("remove", "/list/0"),  # b c d
            op("move", "/data/moved", **{"from": "/list/0"}),  # c d, moved=b
            op("copy", "/data/copied", **{"from": "/list/1"}),  # copied=d
            op("replace", "/data/k", value="w"),
        ],
    )
    assert patched == {"list": ["c", "d"], "data": {"k": "w", "moved": "b", "copied": "d"}}


def test_names_are_unescaped() -> None:
    doc = {"annotations": {"a/b": "1", "c~d": "2"}}
    operations = [op("test", "/annotations/a~1b", value="1"), op("remove", "/annotations/c~0d")]
    assert json_patch(doc, operations) == {"annotations": {"a/b": "1"}}


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        pytest.param([op("replace", "/data/new", value="x")], {"k": "v", "new": "x"}, id="replace what is not there"),
        pytest.param([op("test", "/data/none", value=None)], {"k": "v"}, id="missing equals null"),
        pytest.param([op("test", "/data/none")], {"k": "v"}, id="missing equals no value"),
        pytest.param([op("add", "/data/n")], {"k": "v", "n": None}, id="no value is null"),
        pytest.param(
            [op("copy", "/data/n", **{"from": "/data/none"})], {"k": "v", "n": None}, id="missing copies null"
        ),
        pytest.param([op("add", "foo/data", value={})], {}, id="text before the slash"),
        pytest.param([], {"k": "v"}, id="nothing to do"),
    ],
)
def test_upstream_is_more_generous_than_the_standard(operations: list[Doc], data: Doc) -> None:
    assert json_patch(config_map(k="v"), operations)["data"] == data


@pytest.mark.parametrize(
    ("operation", "items"),
    [
        (op("replace", "/items/-1", value="z"), ["a", "b", "z"]),
        (op("remove", "/items/-3"), ["b", "c"]),
        # One past the end is the place of "-", so -1 inserts there.
        (op("add", "/items/-1", value="z"), ["a", "b", "c", "z"]),
        (op("add", "/items/3", value="z"), ["a", "b", "c", "z"]),
    ],
)
def test_positions_count_from_either_end(operation: Doc, items: list[str]) -> None:
    assert json_patch({"items": ["a", "b", "c"]}, [operation])["items"] == items


def test_the_whole_document_can_be_tested_and_replaced() -> None:
    doc = {"a": 1}
    assert json_patch(doc, [op("test", "", value={"a": 1}), op("replace", "", value={"b": 2})]) == {"b": 2}


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/data/k", value="other"),
        op("test", "/data/k", value={"k": "v"}),
        op("test", "/data/one", value=True),
        op("test", "/data/one", value=1.0),
        op("test", "/nope/k", value=1),
        op("remove", "/data/none"),
        op("remove", "/nope/none"),
        op("remove", ""),
        op("replace", "/nope/none", value=1),
        op("replace", "", value=5),
        op("add", "/nope/none", value=1),
        op("add", "data", value=1),
        op("add", "/data/k/deeper", value=1),
        op("add", "/items/4", value=1),
        op("add", "/items/x", value=1),
        op("add", "/items/1_0", value=1),
        op("remove", "/items/3"),
        op("remove", "/items/-4"),
        op("remove", "/items/-"),
        op("replace", "/items/3", value=1),
        op("move", "/data/x", **{"from": "/data/none"}),
        op("move", "/data/x"),
        op("move", "/nope/x", **{"from": "/data/k"}),
        op("copy", "/data/x"),
        op("copy", "/data/x", **{"from": "/items/9"}),
        op("frob", "/data/x"),
        {"path": "/data/x"},
        {"op": "add", "value": 1},
        None,
    ],
    ids=str,
)
def test_an_operation_that_does_not_apply_fails_the_patch_in_one_sentence(operation: Doc) -> None:
    doc = {"data": {"k": "v", "one": 1}, "items": ["a", "b", "c"]}
    before = copy(doc)
    with pytest.raises(Invalid) as refused:
        json_patch(doc, [op("add", "/data/first", value="x"), operation])
    assert refused.value.message == REJECTED
    assert doc == before


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("x", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([5], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([["x"]], "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": "add", "path": 5}],
            "json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_what_is_no_list_of_operations_is_a_bad_request(operations: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        json_patch(config_map(), operations)
    assert refused.value.message == f"error decoding patch: {message}"


def test_a_document_must_stay_an_object() -> None:
    with pytest.raises(Invalid) as refused:
        json_patch(config_map(), [op("replace", "", value=[1, 2])])
    assert refused.value.message == (
        ' "" is invalid: patch: Invalid value: "[1,2]": couldn\'t get version/kind; json parse error: json: cannot '
        'unmarshal array into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }'
    )


def test_ten_thousand_operations_are_enough() -> None:
    one = op("test", "/data/k", value="v")
    assert json_patch(config_map(k="v"), [one] * 10_000) == config_map(k="v")
    with pytest.raises(RequestEntityTooLarge) as refused:
        json_patch(config_map(k="v"), [one] * 10_001)
    assert refused.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_cannot_blow_a_document_up() -> None:
    # Each copy of `big` adds a third of the limit and its quotes: the third one is too many.
    doc = config_map(big="x" * (MAX_COPIED_BYTES // 3))
    copies = [op("copy", f"/data/copy{i}", **{"from": "/data/big"}) for i in range(3)]
    assert len(json_patch(doc, copies[:2])["data"]) == 3
    with pytest.raises(ApiError) as refused:
        json_patch(doc, copies)
    assert (refused.value.code, refused.value.message) == (422, REJECTED)


def test_the_result_of_a_json_patch_shares_nothing_with_its_inputs() -> None:
    doc, operations = config_map(a="1"), [op("add", "/data/o", value={"x": [1]})]
    before = copy(doc), copy(operations)
    patched = json_patch(doc, [*operations, op("add", "/data/o/x/-", value=2)])
    patched["metadata"]["name"] = "changed"
    assert (doc, operations) == before


# -- operations that multiply ------------------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_a_copy_may_not_nest_beyond_the_limit():
    halves = [{"op": "add", "path": "/x", "value": nested(60)}]
    deepest = "/x" + "/a" * 59
    with pytest.raises(BadRequest, match="exceeded max depth"):
        json_patch({}, [*halves, {"op": "copy", "from": "/x", "path": f"{deepest}/b"}])
    with pytest.raises(BadRequest, match="exceeded max depth"):
        json_patch({"y": nested(60)}, [*halves, {"op": "move", "from": "/y", "path": f"{deepest}/b"}])
    with pytest.raises(BadRequest, match="exceeded max depth"):
        json_patch({}, [*halves, {"op": "add", "path": f"{deepest}/b", "value": nested(60)}])
    with pytest.raises(BadRequest, match="exceeded max depth"):
        json_patch({}, [*halves, {"op": "replace", "path": f"{deepest}/b", "value": nested(60)}])


def test_copies_of_small_values_are_counted():
    operations = [{"op": "copy", "from": "/x", "path": f"/x{n}"} for n in range(200)]
    with pytest.raises(RequestEntityTooLarge, match="too many values: the limit is 150000"):
        json_patch({"x": [[]] * 1_000}, operations)


def test_moves_that_do_not_go_deeper_cost_nothing():
    doc = {"x": {"a": [0] * 10_000}}
    there_and_back = [("/x", "/y"), ("/y", "/x")] * 100
    moved = json_patch(doc, [{"op": "move", "from": source, "path": path} for source, path in there_and_back])
    assert moved == doc


@pytest.mark.parametrize("position", ["9" * 5_000, "-" + "9" * 5_000])
def test_a_position_nobody_counts_to_does_not_apply(position):
    with pytest.raises(Invalid):
        json_patch({"x": [1]}, [{"op": "replace", "path": f"/x/{position}", "value": 2}])
