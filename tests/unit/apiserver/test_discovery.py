"""What clients find out before their first request, in both forms."""

from __future__ import annotations

import hashlib

import pytest

from tonnage.apiserver import discovery
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL, verbs_of

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


def rows(group: str) -> dict[str, Doc]:
    return {row["name"]: row for row in discovery.api_resource_list(group, "v1")["resources"]}


def test_api_names_the_core_version_and_where_the_server_is() -> None:
    assert discovery.api_versions("127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


def test_apis_lists_every_group_but_core_and_not_the_one_only_scale_is_from() -> None:
    names = [group["name"] for group in discovery.api_group_list()["groups"]]
    assert "storage.k8s.io" in names
    assert "" not in names
    assert "autoscaling" not in names


def test_a_group_names_its_preferred_version() -> None:
    assert discovery.api_group("policy") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "policy",
        "versions": [{"groupVersion": "policy/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "policy/v1", "version": "v1"},
    }


@pytest.mark.parametrize("unknown", ["", "nope.example.com"])
def test_a_group_that_is_not_served_is_a_key_error(unknown: str) -> None:
    with pytest.raises(KeyError):
        discovery.api_group(unknown)


def test_a_version_that_is_not_served_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        discovery.api_resource_list("apps", "v2")


def test_a_resource_is_listed_with_all_its_names_and_verbs() -> None:
    assert rows("apps")["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",  # as kube-apiserver 1.36 computes it
    }


def test_namespaces_cannot_be_deleted_all_at_once() -> None:
    assert "deletecollection" not in rows("")["namespaces"]["verbs"]
    assert "delete" in rows("")["namespaces"]["verbs"]


def test_a_subresource_of_another_kind_names_its_group_and_version() -> None:
    assert rows("")["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    scale = rows("apps")["statefulsets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_status_is_the_object_itself_and_a_binding_is_a_binding() -> None:
    assert rows("storage.k8s.io")["volumeattachments/status"]["kind"] == "VolumeAttachment"
    assert rows("")["pods/binding"] == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }
    assert rows("")["namespaces/finalize"]["verbs"] == ["update"]


def test_both_faces_of_event_are_stored_as_one() -> None:
    assert rows("")["events"]["storageVersionHash"] == rows("events.k8s.io")["events"]["storageVersionHash"]


def test_verbs_of_a_subresource_are_asked_for_by_its_name() -> None:
    assert verbs_of(BY_PLURAL["", "pods"], "binding") == ("create",)
    assert verbs_of(BY_PLURAL["", "pods"], "status") == ("get", "patch", "update")


# -- the aggregated form ---------------------------------------------------------------------------------------------


def test_both_forms_say_the_same() -> None:
    walked = set()
    for group, version in discovery.group_versions():
        for row in discovery.api_resource_list(group, version)["resources"]:
            walked.add((group, row["name"], row["kind"], row.get("group", ""), tuple(row["verbs"])))
    aggregated = set()
    for core in (True, False):
        for item in decode(discovery.aggregated(core).body)["items"]:
            group = item["metadata"].get("name", "")
            for row in item["versions"][0]["resources"]:
                kind = row["responseKind"]
                aggregated.add((group, row["resource"], kind["kind"], kind["group"], tuple(row["verbs"])))
                for sub in row.get("subresources", ()):
                    name, kind = f"{row['resource']}/{sub['subresource']}", sub["responseKind"]
                    aggregated.add((group, name, kind["kind"], kind["group"], tuple(sub["verbs"])))
    assert aggregated == walked


def test_the_core_group_has_no_name() -> None:
    (item,) = decode(discovery.aggregated(True).body)["items"]
    assert item["metadata"] == {}


def test_an_aggregated_answer_has_its_own_content_type_and_the_hash_of_its_body_as_etag() -> None:
    answer = discovery.aggregated(False)
    assert answer.content_type == V2
    assert answer.headers["ETag"] == f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    assert discovery.aggregated(True).headers["ETag"] != answer.headers["ETag"]


def test_the_beta_version_differs_only_in_its_name() -> None:
    old, new = discovery.aggregated(False, "v2beta1"), discovery.aggregated(False, "v2")
    assert old.content_type == V2BETA1
    assert decode(old.body) == {**decode(new.body), "apiVersion": "apidiscovery.k8s.io/v2beta1"}


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (V2, "v2"),
        (V2BETA1, "v2beta1"),
        (f"{V2},{V2BETA1},application/json", "v2"),  # kubectl since 1.30
        (f"{V2BETA1},application/json", "v2beta1"),  # kubectl 1.27 to 1.29
        (f"{V2};profile=nopeer,{V2},application/json", "v2"),  # client-go 1.36 on request
        ("*/*; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList", "v2"),
        (f"{V2.replace('v=v2', 'v=v9')},{V2BETA1}", "v2beta1"),
        ("application/json", None),
        ("application/json, */*", None),
        ("*/*", None),
        ("", None),
        (f"application/json,{V2};q=0.5", None),
        (f"application/json;q=0.5,{V2}", "v2"),
        (f"{V2};q=0", None),
        (f"{V2};q=nonsense", None),
        ("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", None),
        ("application/json;g=meta.k8s.io;v=v1;as=Table", None),
    ],
)
def test_the_accept_header_decides_between_the_forms(accept: str, version: str | None) -> None:
    assert discovery.negotiates_aggregated(accept) == version


def test_the_version_is_the_kubernetes_we_behave_like() -> None:
    found = discovery.version_info()
    assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "36", "v1.36.0+tonnage")
    # The python client refuses a version with a field missing.
    assert {"buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform"} <= found.keys()
    assert all(isinstance(value, str) for value in found.values())
