"""Strategic merge patch on real kinds. The errors in full, and many more merges, are in tests/parity."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.documents.patches.json_patch import PatchFailed
from tonnage.documents.patches.strategic_merge import strategic_merge
from tonnage.documents.schema import schema_of
from tonnage.errors import ApiError, BadRequest, Invalid
from tonnage.objects.document import Doc, copy

POD = schema_of("", "v1", "Pod")
NODE = schema_of("", "v1", "Node")
CSI_NODE = schema_of("storage.k8s.io", "v1", "CSINode")
REVISION = schema_of("apps", "v1", "ControllerRevision")


def container(name: str, image: str = "old", **more: Any) -> Doc:
    return {"name": name, "image": image, **more}


def pod(*containers: Doc, **more: Any) -> Doc:
    return {"metadata": {"name": "p", "finalizers": ["x/a", "x/b"]}, "spec": {"containers": list(containers), **more}}


def patched(doc: Doc, **spec: Any) -> Doc:
    merged = strategic_merge(POD, doc, {"spec": spec})["spec"]
    assert isinstance(merged, dict)
    return merged


def names(spec: Doc) -> list[str]:
    return [item["name"] for item in spec["containers"]]


def test_list_items_merge_by_their_key_and_new_ones_come_where_the_patch_has_them() -> None:
    spec = patched(pod(container("a"), container("b")), containers=[container("new"), container("b", "v2")])
    # The patch orders new before b; a is only the server's and stood before b there.
    assert spec["containers"] == [container("new"), container("a"), container("b", "v2")]


def test_what_the_patch_does_not_mention_of_an_item_stays() -> None:
    doc = pod(container("a", ports=[{"containerPort": 80, "name": "http"}], args=["x"]))
    spec = patched(doc, containers=[{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}]}])
    assert spec["containers"] == [
        container("a", ports=[{"containerPort": 80, "name": "http", "hostPort": 8080}], args=["x"])
    ]


def test_a_list_without_a_merge_strategy_is_replaced() -> None:
    doc = pod(container("a", args=["x", "y"]), tolerations=[{"key": "k", "operator": "Exists"}])
    spec = patched(doc, containers=[{"name": "a", "args": ["z"]}], tolerations=[{"key": "m"}])
    assert spec == {"containers": [container("a", args=["z"])], "tolerations": [{"key": "m"}]}


def test_a_nodes_taints_are_replaced_and_a_csinodes_drivers_merge() -> None:
    node = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    assert strategic_merge(NODE, node, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}) == {
        "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}
    }
    csi_node = {"spec": {"drivers": [{"name": "d1", "nodeID": "n"}]}}
    drivers = strategic_merge(CSI_NODE, csi_node, {"spec": {"drivers": [{"name": "d1", "allocatable": {"count": 3}}]}})
    assert drivers == {"spec": {"drivers": [{"name": "d1", "nodeID": "n", "allocatable": {"count": 3}}]}}


def test_an_item_is_deleted_by_its_key() -> None:
    doc = pod(container("a"), container("b"))
    spec = patched(doc, containers=[{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "none"}])
    assert names(spec) == ["b"]


def test_a_list_is_replaced_on_request() -> None:
    spec = patched(pod(container("a"), container("b")), containers=[container("c"), {"$patch": "replace"}])
    assert names(spec) == ["c"]


def test_maps_merge_are_replaced_or_deleted_on_request() -> None:
    doc = pod(nodeSelector={"a": "1", "b": "2"})
    assert patched(doc, nodeSelector={"b": None, "c": "3"})["nodeSelector"] == {"a": "1", "c": "3"}
    assert patched(doc, nodeSelector={"$patch": "replace", "c": "3"})["nodeSelector"] == {"c": "3"}
    assert patched(doc, nodeSelector={"$patch": "delete"})["nodeSelector"] == {}
    assert "nodeSelector" not in patched(doc, nodeSelector=None)


def test_a_directive_to_what_is_not_there_leaves_nothing_behind() -> None:
    assert patched(pod(), nodeSelector={"$patch": "replace", "a": "1"}) == {"containers": []}
    spec = patched(pod(), initContainers=[{"$patch": "delete", "name": "x"}, {"name": "y", "image": None}])
    assert spec["initContainers"] == [{"name": "y"}]


def test_elements_are_ordered_as_asked() -> None:
    doc = pod(container("a"), container("b"), container("c"))
    order = {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}
    # c, a as asked; b is only the server's: it stood after a but before c, so it comes before c.
    assert names(patched(doc, **order)) == ["b", "c", "a"]
    # n has no place on the server, so nothing is put before it.
    order = {"$setElementOrder/containers": [{"name": "n"}, {"name": "c"}], "containers": [container("n")]}
    assert names(patched(doc, **order)) == ["n", "a", "b", "c"]


def test_an_order_for_a_list_that_nobody_has_is_forgotten() -> None:
    assert patched(pod(), **{"$setElementOrder/volumes": [{"name": "v"}]}) == {"containers": []}
    added = patched(pod(), **{"$setElementOrder/volumes": [{"name": "v"}, {"name": "w"}], "volumes": [{"name": "w"}]})
    assert added["volumes"] == [{"name": "w"}]


def test_scalars_merge_without_repeating_and_are_deleted_by_value() -> None:
    def finalizers(**metadata: Any) -> Any:
        return strategic_merge(POD, pod(), {"metadata": metadata})["metadata"].get("finalizers")

    assert finalizers(finalizers=["x/c", "x/a"]) == ["x/c", "x/a", "x/b"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["x/a", "x/none"]}) == ["x/b"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]}) == ["x/c", "x/b"]
    assert finalizers(**{"$setElementOrder/finalizers": ["x/b", "x/a"]}) == ["x/b", "x/a"]
    # A wish about a list that is not there, or in the wrong form, is none.
    assert finalizers(**{"$deleteFromPrimitiveList/nope": ["x"]}) == ["x/a", "x/b"]
    assert finalizers(**{"$deleteFromPrimitiveList/finalizers": "x/a"}) == ["x/a", "x/b"]


def test_retained_keys_clear_the_other_members_of_a_union() -> None:
    doc = pod(volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    change = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    assert patched(doc, volumes=[change])["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_a_value_of_another_type_replaces_the_old_one() -> None:
    assert patched(pod(nodeSelector={"a": "1"}), nodeSelector="x")["nodeSelector"] == "x"  # admission will refuse it


def test_patching_with_null_changes_nothing() -> None:
    assert strategic_merge(POD, pod(container("a")), None) == pod(container("a"))


def test_neither_document_nor_patch_is_changed_or_shared() -> None:
    doc = pod(container("a", env=[{"name": "E", "value": "1"}]), volumes=[{"name": "v"}])
    patch = {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]},
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
            "containers": [container("b"), {"name": "a", "$retainKeys": ["name", "image"]}],
            "volumes": [{"name": "w", "emptyDir": {}}],
        },
    }
    before = copy(doc), copy(patch)
    merged = strategic_merge(POD, doc, patch)
    for item in (*merged["spec"]["containers"], *merged["spec"]["volumes"]):
        item["name"] = "changed"
    assert (doc, patch) == before


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (
            {"containers": [{"image": "zz"}]},
            PatchFailed,
            "map: map[image:zz] does not contain declared merge key: name",
        ),
        (
            {"containers": [container("a", command=["x"], stdin=True), 5]},
            PatchFailed,
            "list element types are not identical: "
            "[[map[image:old name:a]] [map[command:[x] image:old name:a stdin:true] 5]]",
        ),
        ({"$patch": None}, PatchFailed, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        ({"$patch": 5}, PatchFailed, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        ({"$setElementOrder": []}, BadRequest, "invalid patch format of setElementOrder list"),
        (
            {"$setElementOrder/containers": {"a": 1}},
            PatchFailed,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": "x"},
            PatchFailed,
            "expected a []interface {}, but received a string",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": ["x"]},
            PatchFailed,
            "expected a map[string]interface {}, but received a string",
        ),
        (
            {"$setElementOrder/hostname": []},
            PatchFailed,
            "expected slice or array type, but got: struct",
        ),
        (
            {"$setElementOrder/volumes": [], "volumes": []},
            PatchFailed,
            "no elements in any of the given slices",
        ),
        ({"nodeSelector": {"$retainKeys": ["a"], "b": "1"}}, BadRequest, "invalid patch format of retainKeys"),
    ],
)
def test_a_misused_directive_is_refused_in_upstreams_words(spec: Doc, error: type[ApiError], message: str) -> None:
    with pytest.raises(error) as refused:
        patched(pod(container("a"), nodeSelector={"a": "1"}), **spec)
    assert refused.value.message == message


def test_lists_of_lists_are_not_merged() -> None:
    with pytest.raises(Invalid) as refused:
        strategic_merge(POD, {"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": [["b"]]}})
    assert refused.value.message == "the server rejected our request due to an error in our request"


def test_inside_an_undeclared_value_only_scalars_can_be_merged() -> None:
    revision = {"data": {"a": 1, "deep": {"b": 1}}}
    assert strategic_merge(REVISION, revision, {"data": {"a": 2}}) == {"data": {"a": 2, "deep": {"b": 1}}}
    with pytest.raises(PatchFailed) as refused:
        strategic_merge(REVISION, revision, {"data": {"deep": {"b": 2}}})
    assert refused.value.message == 'unable to find api field in struct RawExtension for the json field "deep"'


def test_a_refusal_without_a_class_is_a_500_without_a_reason() -> None:
    with pytest.raises(PatchFailed) as refused:
        patched(pod(), **{"$patch": "bogus"})
    assert (refused.value.code, refused.value.reason) == (500, "")
