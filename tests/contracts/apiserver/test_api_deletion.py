"""Deletion: what is answered, grace, finalizers, preconditions, propagation, and whole collections."""

from __future__ import annotations

from typing import Any

import pytest
from contract_documents import config_map, deployment, pod

from support.api_servers import ServerApi


def options(**fields: Any) -> dict[str, Any]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def test_most_kinds_answer_with_a_success(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a"))
    gone = api.delete(f"{maps}/a")
    assert gone.code == 200
    assert gone.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made.meta["uid"]},
    }
    missing = api.delete(f"{maps}/a")
    assert (missing.code, missing.message) == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    ("path", "doc"),
    [
        (
            "/api/v1/persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "csi": {"driver": "d.example", "volumeHandle": "h"},
                }
            },
        ),
        ("/apis/storage.k8s.io/v1/csidrivers", {"spec": {}}),
        ("/apis/storage.k8s.io/v1/csinodes", {"spec": {"drivers": []}}),
        ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "p"}),
    ],
)
def test_some_kinds_answer_with_what_is_gone(api: ServerApi, ns: str, path: str, doc: dict[str, Any]) -> None:
    made = api.create(path, {"metadata": {"name": ns}, **doc})
    dry = api.delete(f"{path}/{ns}?dryRun=All")
    assert dry.body == made.body
    gone = api.delete(f"{path}/{ns}")
    assert (gone.code, gone["kind"], gone.meta["uid"]) == (200, made["kind"], made.meta["uid"])
    assert "deletionTimestamp" not in gone.meta
    assert api.get(f"{path}/{ns}").code == 404


def test_finalizers_hold_an_object_back(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", {"k": "v"}, finalizers=["e.com/1", "e.com/2"]))
    marked = api.delete(f"{maps}/a")
    assert (marked.code, marked["kind"]) == (200, "ConfigMap")
    assert marked.meta["deletionGracePeriodSeconds"] == 0 and marked.meta["deletionTimestamp"]
    assert api.delete(f"{maps}/a").body == marked.body
    assert api.delete(f"{maps}/a?gracePeriodSeconds=0").body == marked.body
    assert api.patch(f"{maps}/a", {"data": {"k": "w"}}).code == 200  # it lives until it is gone
    assert api.patch(f"{maps}/a", {"metadata": {"deletionTimestamp": None}}).meta["deletionTimestamp"]
    assert api.patch(f"{maps}/a", {"metadata": {"finalizers": ["e.com/2"]}}).code == 200
    assert api.get(f"{maps}/a").code == 200
    done = api.put(f"{maps}/a", config_map("a", {"k": "z"}))
    assert (done.code, done["data"]) == (200, {"k": "z"})
    assert api.get(f"{maps}/a").code == 404


def test_what_is_going_away_takes_no_new_finalizer(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", finalizers=["e.com/1"]))
    api.delete(f"{maps}/a")
    refused = api.patch(f"{maps}/a", {"metadata": {"finalizers": ["e.com/1", "e.com/2"]}})
    assert refused.causes == [
        (
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"e.com/2"}',
        )
    ]


def test_a_dry_run_of_the_last_step_leaves_the_object(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", finalizers=["e.com/1"]))
    api.delete(f"{maps}/a")
    assert api.patch(f"{maps}/a?dryRun=All", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{maps}/a").meta["finalizers"] == ["e.com/1"]


def test_marking_counts_as_a_change_of_spec(api: ServerApi, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.create(path, deployment("a"))
    api.patch(f"{path}/a", {"metadata": {"finalizers": ["e.com/1"]}})
    assert api.delete(f"{path}/a").meta["generation"] == 2
    assert api.delete(f"{path}/a").meta["generation"] == 2


def test_preconditions_by_uid_and_version(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a"))
    uid, version = made.meta["uid"], made.version
    refused = api.delete(f"{maps}/a", options(preconditions={"uid": "x"}))
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated"
    )
    refused = api.delete(f"{maps}/a", options(preconditions={"uid": uid, "resourceVersion": "1"}))
    assert refused.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match '
        f"the ResourceVersion in record ({version}). The object might have been modified"
    )
    assert api.delete(f"{maps}/a", options(preconditions={"uid": uid, "resourceVersion": version})).code == 200


@pytest.mark.parametrize(
    ("said", "finalizers"),
    [
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"orphanDependents": True}, ["orphan"]),
        ({"propagationPolicy": "Background"}, None),
        ({"orphanDependents": False}, None),
        ({"gracePeriodSeconds": 5}, None),
    ],
)
def test_propagation_leaves_a_finalizer_for_the_garbage_collector(
    api: ServerApi, maps: str, said: dict[str, Any], finalizers: list[str] | None
) -> None:
    api.create(maps, config_map("a"))
    query = "&".join(
        f"{name}={str(value).lower() if value in (True, False) else value}" for name, value in said.items()
    )
    api.create(maps, config_map("b"))
    for reply in (api.delete(f"{maps}/a", options(**said)), api.delete(f"{maps}/b?{query}")):
        assert (reply.meta.get("finalizers"), reply["kind"] == "Status") == (finalizers, finalizers is None)


def test_another_policy_replaces_the_finalizer(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", finalizers=["e.com/1"]))
    assert api.delete(f"{maps}/a?propagationPolicy=Foreground").meta["finalizers"] == ["e.com/1", "foregroundDeletion"]
    assert api.delete(f"{maps}/a?propagationPolicy=Orphan").meta["finalizers"] == ["e.com/1", "orphan"]
    assert api.delete(f"{maps}/a?propagationPolicy=Background").meta["finalizers"] == ["e.com/1"]


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [
        (
            "propagationPolicy=Bogus",
            "propagationPolicy",
            'Unsupported value: "Bogus": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        (
            "propagationPolicy=Orphan&orphanDependents=true",
            "propagationPolicy",
            'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
def test_wrong_options_delete_nothing(api: ServerApi, maps: str, query: str, field: str, told: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.delete(f"{maps}/a?{query}")
    assert (refused.code, refused.causes) == (422, [(field, told)])
    assert refused["details"]["kind"] == "DeleteOptions"
    assert api.get(f"{maps}/a").code == 200


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {"gracePeriodSeconds": "x"},
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        ({"dryRun": "All"}, "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string"),
    ],
)
def test_options_of_a_wrong_type_delete_nothing(api: ServerApi, maps: str, body: dict[str, Any], told: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.delete(f"{maps}/a", options(**body))
    assert (refused.code, refused.message) == (400, told)
    assert api.delete(f"{maps}/a?gracePeriodSeconds=abc").code == 400
    assert api.delete(f"{maps}/a?gracePeriodSeconds=").code == 400
    assert api.delete(f"{maps}/a", {"kind": "Pod", "apiVersion": "v1"}).code == 400
    assert api.get(f"{maps}/a").code == 200


def test_a_pod_that_never_ran_goes_at_once(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    gone = api.delete(f"{pods}/a")
    assert (gone.code, gone["kind"], gone.meta["deletionGracePeriodSeconds"]) == (200, "Pod", 0)
    assert gone.meta["generation"] == 2 and api.get(f"{pods}/a").code == 404


def test_a_bound_pod_gets_its_grace_period_which_can_only_become_shorter(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="n1", terminationGracePeriodSeconds=40))
    a = f"{pods}/a"
    assert api.delete(f"{a}?dryRun=All").meta["deletionGracePeriodSeconds"] == 40
    first = api.delete(a)
    assert (first.code, first.meta["deletionGracePeriodSeconds"]) == (200, 40)
    assert api.delete(a).body == first.body
    assert api.delete(f"{a}?gracePeriodSeconds=100").body == first.body
    shorter = api.delete(f"{a}?gracePeriodSeconds=20")
    assert shorter.meta["deletionGracePeriodSeconds"] == 20
    # Counted from the same beginning: 20 s earlier than before.
    assert shorter.meta["deletionTimestamp"] < first.meta["deletionTimestamp"]
    assert shorter.meta["generation"] == first.meta["generation"] == 2
    assert api.delete(f"{a}?gracePeriodSeconds=-5").meta["deletionGracePeriodSeconds"] == 1
    assert api.patch(a, {"metadata": {"labels": {"x": "y"}}}).code == 200
    assert api.delete(f"{a}?gracePeriodSeconds=0").meta["deletionGracePeriodSeconds"] == 0
    assert api.get(a).code == 404


@pytest.mark.parametrize(("asked", "grace_s"), [("", 30), ("?gracePeriodSeconds=7", 7), ("?gracePeriodSeconds=-7", 1)])
def test_the_grace_period_is_what_was_asked_for_else_the_pods_own(
    api: ServerApi, pods: str, asked: str, grace_s: int
) -> None:
    api.create(pods, pod("a", nodeName="n1"))
    assert api.delete(f"{pods}/a{asked}").meta["deletionGracePeriodSeconds"] == grace_s


def test_a_pod_that_has_ended_needs_no_grace(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="n1"))
    api.patch(f"{pods}/a/status", {"status": {"phase": "Succeeded"}})
    api.delete(f"{pods}/a")
    assert api.get(f"{pods}/a").code == 404


def test_a_deletion_under_way_takes_no_propagation(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="n1"))
    first = api.delete(f"{pods}/a?gracePeriodSeconds=10")
    assert api.delete(f"{pods}/a?gracePeriodSeconds=10&propagationPolicy=Foreground").body == first.body


def test_grace_and_finalizers_both_hold_a_pod_back(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a", nodeName="n1", metadata={"finalizers": ["e.com/1"]}))
    api.delete(f"{pods}/a?gracePeriodSeconds=10")
    assert api.patch(f"{pods}/a", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{pods}/a").code == 200
    api.create(pods, pod("b", nodeName="n1", metadata={"finalizers": ["e.com/1"]}))
    assert api.delete(f"{pods}/b?gracePeriodSeconds=0").meta["deletionGracePeriodSeconds"] == 0
    assert api.get(f"{pods}/b").code == 200
    api.patch(f"{pods}/b", {"metadata": {"finalizers": None}})
    assert api.get(f"{pods}/b").code == 404


def test_a_collection_is_deleted_by_selector(api: ServerApi, maps: str) -> None:
    for number in range(4):
        api.create(maps, config_map(f"c{number}", labels={"odd": str(number % 2)}))
    gone = api.delete(f"{maps}?labelSelector=odd%3D0")
    assert (gone.code, gone["kind"], gone.names) == (200, "ConfigMapList", ["c0", "c2"])
    assert api.delete(f"{maps}?fieldSelector=metadata.name%3Dc1").names == ["c1"]
    assert api.delete(f"{maps}?fieldSelector=bogus%3D1").code == 400
    assert api.delete(f"{maps}?labelSelector=a%20b").code == 400
    assert api.get(maps).names == ["c3"]


def test_a_collection_is_deleted_page_by_page(api: ServerApi, maps: str) -> None:
    for number in range(3):
        api.create(maps, config_map(f"c{number}"))
    assert api.delete(f"{maps}?limit=1").names == ["c0"]
    assert api.get(maps).names == ["c1", "c2"]


def test_a_collection_shows_what_was_and_leaves_what_is_held_back(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", finalizers=["e.com/1"]))
    api.create(maps, config_map("b"))
    gone = api.delete(maps)
    assert gone.names == ["a", "b"] and "deletionTimestamp" not in gone["items"][0]["metadata"]
    left = api.get(maps)
    assert left.names == ["a"] and left["items"][0]["metadata"]["deletionTimestamp"]


def test_preconditions_and_policies_hold_for_every_item(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    assert api.delete(maps, options(preconditions={"uid": "x"})).code == 409
    assert api.delete(f"{maps}?propagationPolicy=Bogus").code == 422
    assert api.delete(maps, options(propagationPolicy="Orphan")).names == ["a"]
    assert api.get(f"{maps}/a").meta["finalizers"] == ["orphan"]


@pytest.mark.parametrize("path", ["/api/v1/configmaps", "/api/v1/pods", "/apis/storage.k8s.io/v1/csistoragecapacities"])
def test_nobody_deletes_the_objects_of_all_namespaces_at_once(api: ServerApi, maps: str, path: str) -> None:
    api.create(maps, config_map("a"))
    assert api.delete(path).code == 405
    assert api.delete("/api/v1/namespaces").code == 405
    assert api.get(maps).names == ["a"]
