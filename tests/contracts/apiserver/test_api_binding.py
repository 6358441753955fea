"""Binding: the one write that gives a pod its node, and when it is refused."""

from __future__ import annotations

import pytest
from contract_documents import SUCCESS, binding, pod

from support.api_servers import ServerApi


def test_a_binding_gives_the_pod_its_node(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", metadata={"labels": {"own": "1"}}))
    bound = api.post(f"{pods}/a/binding", binding("a", annotations={"x": "y"}, labels={"l": "m"}))
    assert (bound.code, bound.body) == (201, SUCCESS)
    now = api.get(f"{pods}/a")
    assert now["spec"]["nodeName"] == "node-1" and now.meta["generation"] == 1
    assert now.meta["annotations"] == {"x": "y"} and now.meta["labels"] == {"own": "1", "l": "m"}
    [condition] = now["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"] and "reason" not in condition


def test_a_binding_ends_the_nomination(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    nominated = api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": "node-9"}})
    assert nominated["status"]["nominatedNodeName"] == "node-9"
    api.create(f"{pods}/a/binding", binding("a"))
    assert "nominatedNodeName" not in api.get(f"{pods}/a")["status"]


def test_a_bound_pod_is_not_nominated_again(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="node-1"))
    refused = api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": "node-9"}})
    assert (refused.code, refused.causes[0][0]) == (422, "status.nominatedNodeName")
    before = api.get(f"{pods}/a").version
    assert api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": ""}}).version == before


def test_the_older_path_binds_too(api: ServerApi, ns: str, pods: str) -> None:
    api.create(pods, pod("a"))
    path = f"/api/v1/namespaces/{ns}/bindings"
    assert api.post(path, binding("a")).body == SUCCESS
    assert api.get(f"{pods}/a")["spec"]["nodeName"] == "node-1"
    assert api.post(path, binding("nobody")).message == 'pods "nobody" not found'
    assert api.get(path).code == 405


def test_the_kind_of_the_target_may_be_left_out(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    assert api.post(f"{pods}/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n"}}).code == 201


def test_a_dry_run_binds_nothing(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    assert api.post(f"{pods}/a/binding?dryRun=All", binding("a")).code == 201
    assert "nodeName" not in api.get(f"{pods}/a")["spec"]


def refusals(told: str) -> str:
    return f'Operation cannot be fulfilled on pods/binding "a": pod a {told}'


def test_a_pod_is_bound_once(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="node-1"))
    for node in ("node-1", "node-2"):
        refused = api.post(f"{pods}/a/binding", binding("a", node))
        assert (refused.code, refused.reason) == (409, "Conflict")
        assert refused.message == refusals('is already assigned to node "node-1"')
        assert refused["details"] == {"name": "a", "kind": "pods/binding"}


def test_a_gated_or_leaving_pod_is_not_bound(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", schedulingGates=[{"name": "g"}], metadata={"finalizers": ["e.com/f"]}))
    assert api.post(f"{pods}/a/binding", binding("a")).message == refusals("has non-empty .spec.schedulingGates")
    api.delete(f"{pods}/a")
    assert api.post(f"{pods}/a/binding", binding("a")).message == refusals(
        "is being deleted, cannot be assigned to a host"
    )


@pytest.mark.parametrize(("field", "title"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_a_binding_can_say_which_pod_it_means(api: ServerApi, pods: str, field: str, title: str) -> None:
    made = api.create(pods, pod("a"))
    refused = api.post(f"{pods}/a/binding", binding("a", **{field: "1"}))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.endswith(
        f"Precondition failed: {title} in precondition: 1, {title} in object meta: {made.meta[field]}"
    )
    assert api.post(f"{pods}/a/binding", binding("a", **{field: made.meta[field]})).code == 201


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ({}, "target.name: Required value"),
        ({"kind": "Pod", "name": "x"}, 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
        (
            {"kind": "Pod", "name": ""},
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
        ),
    ],
)
def test_a_target_is_a_node_with_a_name(api: ServerApi, pods: str, target: dict[str, str], told: str) -> None:
    api.create(pods, pod("a"))
    refused = api.post(f"{pods}/a/binding", {"metadata": {"name": "a"}, "target": target})
    # Upstream forgets to make a proper error of this.
    assert (refused.code, refused.reason, refused.message) == (500, "", told)


def test_a_binding_is_read_like_any_other_body(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    path = f"{pods}/a/binding"
    assert api.post(path, binding("b")).message == "name in URL does not match name in Binding object"
    assert api.post(path, binding("a", namespace="other")).message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    assert api.post(path, {**binding("a"), "kind": "Pod"}).message == (
        'Pod in version "v1" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown conversion'
    )
    odd = {**binding("a"), "bogus": 1}
    assert api.post(f"{path}?fieldValidation=Strict", odd).message == (
        'Binding in version "v1" cannot be handled as a Binding: strict decoding error: unknown field "bogus"'
    )
    assert api.post(f"{pods}/nobody/binding", binding("nobody")).message == 'pods "nobody" not found'
    for method in ("GET", "PUT", "DELETE"):
        assert api.request(method, path, binding("a")).code == 405
    assert api.post(path, odd).warnings == ['unknown field "bogus"']
