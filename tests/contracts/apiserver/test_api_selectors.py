"""Label and field selectors: what they choose, and how they are refused."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from contract_documents import config_map, pod

from support.api_servers import ServerApi

ONLY_METADATA = 'is not a known field selector: only "metadata.name", "metadata.namespace"'


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("i=1", ["c1"]),
        ("i==1", ["c1"]),
        ("i!=1", ["c0", "c2", "plain"]),
        ("i in (1,2)", ["c1", "c2"]),
        ("i notin (1,2)", ["c0", "plain"]),
        ("i", ["c0", "c1", "c2"]),
        ("!i", ["plain"]),
        ("i>0", ["c1", "c2"]),
        ("i<1", ["c0"]),
        ("i=1,even=no", ["c1"]),
        ("i in (0,2),even notin (no)", ["c0", "c2"]),
        ("i=", []),
        (" i = 1 ", ["c1"]),
    ],
)
def test_labels(api: ServerApi, maps: str, selector: str, names: list[str]) -> None:
    for number in range(3):
        api.create(maps, config_map(f"c{number}", labels={"i": str(number), "even": "no" if number % 2 else "yes"}))
    api.create(maps, config_map("plain"))
    assert api.get(f"{maps}?labelSelector={quote(selector)}").names == names


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("i in (1", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=1", "found '=', expected: !, identifier, or 'end of string'"),
        ("i~1", 'unable to parse requirement: <nil>: Invalid value: "i~1": name part must consist of'),
        ("i,,j", "found ',', expected: identifier after ','"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(api: ServerApi, maps: str, selector: str, told: str) -> None:
    refused = api.get(f"{maps}?labelSelector={quote(selector)}")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(told), refused.message


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.name=a,metadata.name=b", []),
    ],
)
def test_every_kind_can_be_selected_by_name(
    api: ServerApi, ns: str, maps: str, selector: str, names: list[str]
) -> None:
    for name in ("a", "b"):
        api.create(maps, config_map(name))
    assert api.get(f"{maps}?fieldSelector={quote(selector)}").names == names
    assert api.get(f"/api/v1/configmaps?fieldSelector={quote(f'{selector},metadata.namespace={ns}')}").names == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=n1", ["bound"]),
        ("spec.nodeName=", ["free"]),
        ("spec.nodeName!=", ["bound"]),
        ("status.phase=Pending", ["bound", "free"]),
        ("status.phase!=Pending", []),
        ("spec.restartPolicy=Never", ["free"]),
        ("spec.schedulerName=default-scheduler", ["bound", "free"]),
        ("spec.serviceAccountName=db", ["bound"]),
        ("spec.serviceAccountName!=db", ["free"]),
        ("spec.hostNetwork=false", ["bound", "free"]),
        ("spec.hostNetwork=true", []),
        ("status.podIP=", ["bound", "free"]),
        ("status.podIPs=", ["bound", "free"]),
        ("status.nominatedNodeName=", ["bound", "free"]),
        ("spec.nodeName=n1,status.phase=Pending", ["bound"]),
    ],
)
def test_pods_can_be_selected_by_what_schedulers_and_kubelets_ask(
    api: ServerApi, ns: str, pods: str, selector: str, names: list[str]
) -> None:
    api.create(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "db"}})
    api.create(pods, pod("bound", nodeName="n1", serviceAccountName="db"))
    api.create(pods, pod("free", restartPolicy="Never"))
    assert api.get(f"{pods}?fieldSelector={quote(selector)}").names == names


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/api/v1/namespaces", ["status.phase"]),
        ("/api/v1/nodes", ["spec.unschedulable"]),
        ("/api/v1/secrets", ["type", "metadata.namespace"]),
        ("/api/v1/services", ["spec.clusterIP", "spec.type", "metadata.namespace"]),
        ("/api/v1/replicationcontrollers", ["status.replicas", "metadata.namespace"]),
        ("/api/v1/events", ["involvedObject.uid", "reason", "source", "reportingComponent", "type"]),
        ("/apis/events.k8s.io/v1/events", ["regarding.uid", "reason", "reportingController", "type"]),
    ],
)
def test_kinds_with_fields_of_their_own_refuse_all_others(api: ServerApi, path: str, own: list[str]) -> None:
    for field in ("metadata.name", *own):
        assert api.get(f"{path}?fieldSelector={field}%3Dnobody").names == [], field
    refused = api.get(f"{path}?fieldSelector=spec.bogus%3D1")
    assert (refused.code, refused.message) == (400, "field label not supported: spec.bogus")


@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/api/v1/nodes"])
def test_what_is_in_no_namespace_cannot_be_selected_by_it(api: ServerApi, path: str) -> None:
    for field in ("metadata.namespace", "name"):
        refused = api.get(f"{path}?fieldSelector={field}%3Dx")
        assert (refused.code, refused.message) == (400, f"field label not supported: {field}")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/configmaps",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/apps/v1/replicasets",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "/apis/storage.k8s.io/v1/volumeattachments",
    ],
)
def test_all_other_kinds_can_be_selected_by_name_and_namespace_alone(api: ServerApi, path: str) -> None:
    assert api.get(f"{path}?fieldSelector=metadata.name%3Dnobody,metadata.namespace%3Dnowhere").names == []
    refused = api.get(f"{path}?fieldSelector=status.replicas%3D1")
    assert (refused.code, refused.message) == (400, f'"status.replicas" {ONLY_METADATA}')


def test_fields_that_cannot_be_read_are_refused(api: ServerApi, maps: str) -> None:
    refused = api.get(f"{maps}?fieldSelector=metadata.name")
    assert (refused.code, refused.message) == (
        400,
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    )
