"""Strategic merge patch: lists that merge by key, directives, and what is replaced as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import pod

from support.api_servers import ServerApi


@pytest.fixture
def p(api: ServerApi, pods: str) -> str:
    api.create(pods, pod("a"))
    return f"{pods}/a"


def test_strategic_merge_finds_list_items_by_their_key(api: ServerApi, p: str) -> None:
    patched = api.patch(p, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "strategic")
    assert [(c["name"], c["image"]) for c in patched["spec"]["containers"]] == [("c", "j")]
    refused = api.patch(p, {"spec": {"containers": [{"image": "z"}]}}, "strategic")
    assert (refused.code, refused.message) == (
        500,
        "map: map[image:z] does not contain declared merge key: name",
    )


def test_strategic_merge_directives(api: ServerApi, p: str) -> None:
    def patched(metadata: object) -> dict[str, Any]:
        reply = api.patch(p, {"metadata": metadata}, "strategic")
        assert reply.code == 200, reply.body
        return reply.meta

    assert patched({"finalizers": ["e.com/a"]})["finalizers"] == ["e.com/a"]
    assert patched({"finalizers": ["e.com/b"]})["finalizers"] == ["e.com/b", "e.com/a"]
    assert patched({"$deleteFromPrimitiveList/finalizers": ["e.com/a"]})["finalizers"] == ["e.com/b"]
    ordered = {"$setElementOrder/finalizers": ["e.com/c", "e.com/b"], "finalizers": ["e.com/c"]}
    assert patched(ordered)["finalizers"] == ["e.com/c", "e.com/b"]
    assert patched({"labels": {"x": "y"}})["labels"] == {"x": "y"}
    assert patched({"labels": {"a": "b", "$patch": "replace"}})["labels"] == {"a": "b"}
    assert "labels" not in patched({"labels": {"$patch": "delete"}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}
    patched({"ownerReferences": [owner]})
    assert patched({"ownerReferences": [{**owner, "uid": "u2"}]})["ownerReferences"] == [{**owner, "uid": "u2"}, owner]
    left = patched({"ownerReferences": [{"$patch": "delete", "uid": "u1"}]})
    assert left["ownerReferences"] == [{**owner, "uid": "u2"}]


def test_a_directive_nobody_knows_is_a_fault(api: ServerApi, p: str) -> None:
    api.patch(p, {"metadata": {"labels": {"a": "b"}}})
    refused = api.patch(p, {"metadata": {"labels": {"$patch": "bogus"}}}, "strategic")
    assert (refused.code, refused.reason, refused.message) == (
        500,
        "",
        "unknown patch type: bogus in map: map[$patch:bogus]",
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
    ],
)
def test_a_strategic_patch_that_is_none_is_refused(api: ServerApi, p: str, body: bytes, told: str) -> None:
    refused = api.patch(p, body, "strategic")
    assert (refused.code, refused.message) == (400, told)


def test_taints_are_replaced_and_conditions_are_merged(api: ServerApi, ns: str) -> None:
    node = f"/api/v1/nodes/{ns}"
    api.create("/api/v1/nodes", {"metadata": {"name": ns}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    patched = api.patch(node, {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}, "strategic")
    assert patched["spec"]["taints"] == [{"key": "b", "effect": "NoSchedule"}]
    for kind in ("Ready", "DiskPressure"):
        patched = api.patch(
            f"{node}/status", {"status": {"conditions": [{"type": kind, "status": "True"}]}}, "strategic"
        )
    assert sorted(item["type"] for item in patched["status"]["conditions"]) == ["DiskPressure", "Ready"]


def test_drivers_of_a_node_merge_by_name(api: ServerApi, ns: str) -> None:
    path = "/apis/storage.k8s.io/v1/csinodes"
    driver = {"name": "d.example", "nodeID": "n", "topologyKeys": ["k"], "allocatable": {"count": 3}}
    api.create(path, {"metadata": {"name": ns}, "spec": {"drivers": [driver]}})
    other = {"name": "e.example", "nodeID": "n", "topologyKeys": ["k"]}
    patched = api.patch(f"{path}/{ns}", {"spec": {"drivers": [other]}}, "strategic")
    assert sorted(item["name"] for item in patched["spec"]["drivers"]) == ["d.example", "e.example"]
