"""What the server adds to an object's metadata, what it takes from a client, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

from contract_documents import config_map, deployment, owned_by, owners_of, pod

from support.api_servers import ServerApi

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_a_new_object_gets_uid_time_version_and_namespace(api: ServerApi, ns: str, maps: str) -> None:
    made = api.post(maps, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert made.code == 201
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made.meta["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made.meta["creationTimestamp"])
    assert made.meta["namespace"] == ns and int(made.version) > 0
    assert api.get(f"{maps}/a").body == made.body


def test_what_only_the_server_says_is_not_taken_from_a_client(api: ServerApi, pods: str) -> None:
    said = {
        "uid": "11111111-1111-4111-8111-111111111111",
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 3,
        "generation": 7,
        "selfLink": "x",
    }
    made = api.create(pods, pod("a", metadata=said))
    assert made.meta["uid"] != said["uid"] and made.meta["creationTimestamp"] != said["creationTimestamp"]
    assert made.meta["generation"] == 1
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & made.meta.keys()
    assert "f:metadata" not in owned_by(made.body, "contract")


def test_labels_annotations_finalizers_and_owners_are_kept(api: ServerApi, maps: str) -> None:
    said: dict[str, Any] = {
        "labels": {"a": "b"},
        "annotations": {"x": "y"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
    }
    made = api.create(maps, config_map("a", **said))
    assert {field: made.meta[field] for field in said} == said


def test_empty_lists_and_maps_and_nulls_are_left_out(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {}, labels=None, annotations={}, finalizers=[], generateName=""))
    assert "data" not in made.body
    assert not {"labels", "annotations", "finalizers", "generateName"} & made.meta.keys()


def test_zeros_that_mean_no_more_than_absence_are_left_out(api: ServerApi, pods: str) -> None:
    toleration = {"key": "", "operator": "Exists", "effect": ""}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "x", "readOnly": False}}
    said: dict[str, Any] = {
        "nodeName": "",
        "hostNetwork": False,
        "shareProcessNamespace": False,
        "priorityClassName": "",
    }
    made = api.create(pods, pod("a", **said, volumes=[volume], tolerations=[toleration]))["spec"]
    assert not {"nodeName", "hostNetwork", "priorityClassName"} & made.keys()
    assert made["shareProcessNamespace"] is False  # a pointer upstream: false is something else than nothing
    assert made["tolerations"][0] == {"operator": "Exists"}
    assert made["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]


def test_a_generated_name_is_the_prefix_and_five_letters(api: ServerApi, maps: str) -> None:
    made = api.create(maps, {"metadata": {"generateName": "gen-"}})
    assert re.fullmatch("gen-[bcdfghjklmnpqrstvwxz2456789]{5}", made.meta["name"])
    assert made.meta["generateName"] == "gen-"


def test_a_long_prefix_is_cut_so_that_the_name_is_a_label(api: ServerApi, maps: str) -> None:
    made = api.create(maps, {"metadata": {"generateName": "x" * 100}})
    assert len(made.meta["name"]) == 63


def test_a_given_name_wins_over_a_prefix(api: ServerApi, maps: str) -> None:
    assert api.create(maps, config_map("fixed", generateName="gen-")).meta["name"] == "fixed"


def test_a_name_is_required(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, {})
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert refused["details"] == {
        "kind": "ConfigMap",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: name or generateName is required",
                "field": "metadata.name",
            }
        ],
    }


def test_a_name_that_is_no_subdomain_is_refused(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, config_map("A_b"))
    assert (refused.code, refused.causes) == (422, [("metadata.name", f'Invalid value: "A_b": {SUBDOMAIN}')])


def test_bad_labels_annotations_and_finalizers_are_told_together(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, config_map("a", labels={"a b": "c"}, annotations={"c d": "e"}, finalizers=["zz"]))
    told = "name is neither a standard finalizer name nor is it fully qualified"
    assert refused.code == 422
    assert refused.causes == [
        ("metadata.labels", f'Invalid value: "a b": {LABEL}'),
        ("metadata.annotations", f'Invalid value: "c d": {LABEL}'),
        ("metadata.finalizers[0]", f'Invalid value: "zz": {told}'),
    ]


def test_an_owner_needs_kind_name_uid_and_version(api: ServerApi, maps: str) -> None:
    owner = {"apiVersion": "", "kind": "", "name": "", "uid": ""}
    refused = api.post(maps, config_map("a", ownerReferences=[owner]))
    path = "metadata.ownerReferences"
    assert refused.causes == [
        (f"{path}.apiVersion", 'Invalid value: "": version must not be empty'),
        *((f"{path}.{field}", 'Invalid value: "": must not be empty') for field in ("kind", "name", "uid")),
    ]


def test_an_owner_named_twice_owns_once_and_the_client_is_told(api: ServerApi, maps: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    made = api.create(maps, config_map("a", ownerReferences=[owner, owner]))
    assert made.meta["ownerReferences"] == [owner]
    assert made.warnings == [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"
    ]


def test_an_object_of_a_namespace_cannot_name_another(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, config_map("a", namespace="other"))
    assert (refused.code, refused.message) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_a_namespace_means_nothing_to_a_kind_that_has_none(api: ServerApi, ns: str) -> None:
    made = api.create("/api/v1/nodes", {"metadata": {"name": ns, "namespace": "other"}})
    assert "namespace" not in made.meta
    assert api.put(f"/api/v1/nodes/{ns}", {"metadata": {"name": ns, "namespace": "other"}}).code == 200


def test_the_second_of_a_name_exists_already(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    refused = api.post(maps, config_map("a"))
    assert (refused.code, refused.reason, refused.message) == (409, "AlreadyExists", 'configmaps "a" already exists')
    assert refused["details"] == {"name": "a", "kind": "configmaps"}


def test_the_second_of_a_name_that_is_going_away_is_told_so(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a", finalizers=["example.com/f"]))
    api.delete(f"{maps}/a")
    refused = api.post(maps, config_map("a"))
    assert (refused.code, refused.message) == (409, 'object is being deleted: configmaps "a" already exists')


def test_a_resource_version_has_no_place_in_a_creation(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, config_map("a", resourceVersion="5"))
    # Upstream never made a proper error of this one: no reason, and the code of a fault.
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == "resourceVersion should not be set on objects to be created"
    assert api.post(maps, config_map("a", resourceVersion="0")).code == 201


def test_the_creator_owns_what_it_set_and_is_called_by_its_user_agent(api: ServerApi, maps: str) -> None:
    made = api.create(maps, config_map("a", {"k": "v"}), agent="kubectl/v1.32 (linux)")
    assert owners_of(made.body) == [("kubectl", "Update", "")]
    assert owned_by(made.body, "kubectl") == {"f:data": {".": {}, "f:k": {}}}
    named = api.create(f"{maps}?fieldManager=me", config_map("b", {"k": "v"}))
    assert owners_of(named.body) == [("me", "Update", "")]


def test_generation_counts_changes_of_spec_alone(api: ServerApi, pods: str) -> None:
    api.create(pods, pod("a"))
    assert api.patch(f"{pods}/a", {"metadata": {"labels": {"a": "b"}}}).meta["generation"] == 1
    assert api.patch(f"{pods}/a/status", {"status": {"phase": "Running"}}).meta["generation"] == 1
    assert api.patch(f"{pods}/a", {"metadata": {"generation": 77}}).meta["generation"] == 1
    assert api.patch(f"{pods}/a", {"spec": {"activeDeadlineSeconds": 5}}).meta["generation"] == 2


def test_the_generation_of_a_deployment_also_counts_annotations(api: ServerApi, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.create(path, deployment("a"))
    assert api.patch(f"{path}/a", {"metadata": {"annotations": {"a": "b"}}}).meta["generation"] == 2
    assert api.patch(f"{path}/a/status", {"metadata": {"annotations": {"a": "c"}}}).meta["generation"] == 2
