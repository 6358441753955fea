"""Namespaces: what they carry, what lives in them, and how they end."""

from __future__ import annotations

import pytest
from contract_documents import config_map, pod

from support.api_servers import ServerApi
from support.eventually import eventually

NAMESPACES = "/api/v1/namespaces"


def test_a_new_namespace_is_active_named_by_a_label_and_held_by_a_finalizer(api: ServerApi, ns: str) -> None:
    now = api.get(f"{NAMESPACES}/{ns}")
    assert now.meta["labels"] == {"kubernetes.io/metadata.name": ns}
    assert now["spec"] == {"finalizers": ["kubernetes"]} and now["status"] == {"phase": "Active"}


def test_the_label_cannot_be_taken_away_or_changed(api: ServerApi, ns: str) -> None:
    for value in (None, "other"):
        patched = api.patch(f"{NAMESPACES}/{ns}", {"metadata": {"labels": {"kubernetes.io/metadata.name": value}}})
        assert (patched.code, patched.meta["labels"]) == (200, {"kubernetes.io/metadata.name": ns})


def test_a_name_is_one_label_of_a_host_name(api: ServerApi) -> None:
    for name in ("a.b", "Bad_", "x" * 64):
        refused = api.post(NAMESPACES, {"metadata": {"name": name}})
        assert (refused.code, refused.causes[0][0]) == (422, "metadata.name")


def test_nothing_is_made_in_a_namespace_that_is_not_there(api: ServerApi) -> None:
    path = f"{NAMESPACES}/no-such-namespace"
    refused = api.post(f"{path}/configmaps", config_map("a"))
    assert (refused.code, refused.reason) == (404, "NotFound")
    assert refused.message == 'namespaces "no-such-namespace" not found'
    assert refused["details"] == {"name": "no-such-namespace", "kind": "namespaces"}
    assert api.get(f"{path}/pods/a").message == 'pods "a" not found'


@pytest.fixture
def leaving(api: ServerApi, ns: str, maps: str) -> str:
    """A namespace that is being terminated, with one ConfigMap left in it."""
    api.create(maps, config_map("left"))
    api.delete(f"{NAMESPACES}/{ns}")
    return ns


def test_deleting_marks_it_and_waits_for_its_finalizers(api: ServerApi, leaving: str) -> None:
    now = api.get(f"{NAMESPACES}/{leaving}")
    assert now["status"] == {"phase": "Terminating"} and now.meta["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in now.meta
    assert api.delete(f"{NAMESPACES}/{leaving}").body == now.body
    assert api.delete(f"{NAMESPACES}/{leaving}?propagationPolicy=Foreground").body == now.body


def test_nothing_new_is_made_in_it(api: ServerApi, leaving: str, maps: str) -> None:
    told = f"unable to create new content in namespace {leaving} because it is being terminated"
    refused = eventually(lambda: api.post(maps, config_map("new")), holds=lambda reply: reply.code == 403)
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == f'configmaps "new" is forbidden: {told}'
    assert refused["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {leaving} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    generated = api.post(maps, {"metadata": {"generateName": "gen-"}})
    assert generated.message == f'configmaps "gen-" is forbidden: {told}'
    pods = maps.replace("configmaps", "pods")
    assert api.post(pods, pod("p")).message == f'pods "p" is forbidden: {told}'
    assert api.apply(f"{maps}/new", config_map("new")).code == 403


def test_what_is_left_in_it_can_be_changed_and_deleted(api: ServerApi, leaving: str, maps: str) -> None:
    assert api.patch(f"{maps}/left", {"data": {"k": "v"}}).code == 200
    assert api.delete(f"{maps}/left").code == 200


def test_finalizers_of_a_spec_are_written_through_finalize_alone(api: ServerApi, ns: str) -> None:
    path = f"{NAMESPACES}/{ns}"
    assert api.patch(path, {"spec": {"finalizers": []}})["spec"] == {"finalizers": ["kubernetes"]}
    now = api.get(path).body
    assert api.put(f"{path}/finalize?dryRun=All", {**now, "spec": {}})["spec"] == {}
    changed = api.put(f"{path}/finalize", {**now, "spec": {"finalizers": ["e.com/f", "kubernetes"]}})
    assert (changed.code, changed["spec"]) == (200, {"finalizers": ["e.com/f", "kubernetes"]})
    assert api.put(f"{path}/finalize", now).code == 409  # the version is an old one by now
    refused = api.put(f"{path}/finalize", {**changed.body, "spec": {"finalizers": ["bogus"]}})
    assert refused.code == 422
    for method in ("GET", "POST", "PATCH", "DELETE"):
        assert api.request(method, f"{path}/finalize", now, content_type="application/merge-patch+json").code == 405


def test_the_last_finalizer_gone_ends_it(api: ServerApi, leaving: str, maps: str) -> None:
    path = f"{NAMESPACES}/{leaving}"
    done = api.put(f"{path}/finalize", {**api.get(path).body, "spec": {}})
    assert (done.code, done["spec"]) == (200, {})
    assert api.get(path).code == 404
    refused = eventually(lambda: api.post(maps, config_map("new")), holds=lambda reply: reply.code == 404)
    assert refused.message == f'namespaces "{leaving}" not found'


def test_finalizers_of_metadata_hold_it_as_well(api: ServerApi, ns: str) -> None:
    path = f"{NAMESPACES}/{ns}"
    api.patch(path, {"metadata": {"finalizers": ["e.com/f"]}})
    api.delete(path)
    api.put(f"{path}/finalize", {**api.get(path).body, "spec": {}})
    assert api.get(path).code == 200
    api.patch(path, {"metadata": {"finalizers": None}})
    assert api.get(path).code == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_are_there_to_stay(api: ServerApi, name: str) -> None:
    refused = api.delete(f"{NAMESPACES}/{name}?dryRun=All")
    assert (refused.code, refused.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


def test_a_status_must_fit_the_state_of_affairs(api: ServerApi, ns: str) -> None:
    refused = api.patch(f"{NAMESPACES}/{ns}/status", {"status": {"phase": "Terminating"}})
    assert (refused.code, refused.causes[0][0]) == (422, "status.Phase")  # sic
    condition = {"type": "X", "status": "True"}
    assert api.patch(f"{NAMESPACES}/{ns}/status", {"status": {"conditions": [condition]}}).code == 200
