"""ResourceQuotas: what objects use, whom a quota is about, what it is charged, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.resource_quota import (
    charge,
    is_about,
    is_same_status,
    may_use_more,
    names_for,
    recounted,
    usage_of,
    with_used,
)
from tonnage.errors import Forbidden
from tonnage.gates import Gates
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL
from tonnage.quantity import Quantity

RULES = strategies(Gates(), SystemClock())
validate_resource_quota = RULES["", "resourcequotas"].validate
validate_resource_quota_update = RULES["", "resourcequotas"].validate_update

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS, CLAIMS, SERVICES = (BY_PLURAL["", plural] for plural in ("pods", "persistentvolumeclaims", "services"))
SECRETS, DEPLOYMENTS = BY_PLURAL["", "secrets"], BY_PLURAL["apps", "deployments"]


def container(name: str = "c", **resources: dict[str, str]) -> Doc:
    return {"name": name, "resources": resources}


def pod(*containers: Doc, meta: Doc | None = None, status: Doc | None = None, **spec: Any) -> Doc:
    doc = {"metadata": {"name": "p", **(meta or {})}, "spec": {"containers": list(containers), **spec}}
    return {**doc, "status": status} if status else doc


def claim(size: str, storage_class: str = "", **status: Any) -> Doc:
    spec: Doc = {"resources": {"requests": {"storage": size}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return {"metadata": {"name": "data"}, "spec": spec, "status": status}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Doc:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") | (used or {})}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_a_pod_uses_itself_its_requests_and_its_limits() -> None:
    asked = {"cpu": "250m", "memory": "1Gi", "e.com/gpu": "1", "hugepages-2Mi": "4Mi"}
    doc = pod(container(requests=asked, limits={"cpu": "1"}), overhead={"cpu": "50m", "memory": "1Mi"})
    # cpu 250m + 50m of overhead; the limit of cpu 1 + 50m; memory has no limit, and overhead makes none.
    assert texts(usage_of(PODS, doc, NOW)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "300m",
        "requests.cpu": "300m",
        "limits.cpu": "1050m",
        "memory": "1025Mi",
        "requests.memory": "1025Mi",
        "requests.e.com/gpu": "1",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


@pytest.mark.parametrize(
    "ended",
    [
        pod(container(requests={"cpu": "1"}), status={"phase": "Failed"}),
        pod(container(requests={"cpu": "1"}), status={"phase": "Succeeded"}),
        pod(
            container(requests={"cpu": "1"}),
            meta={"deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30},
        ),
    ],
)
def test_a_pod_that_has_ended_is_counted_and_uses_nothing(ended: Doc) -> None:
    assert texts(usage_of(PODS, ended, NOW)) == {"count/pods": "1"}


def test_a_claim_uses_storage_in_all_and_of_its_class() -> None:
    assert texts(usage_of(CLAIMS, claim("10Gi", "fast"), NOW)) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "10Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "10Gi",
    }
    grown = claim("10Gi", allocatedResources={"storage": "20Gi"})
    assert str(usage_of(CLAIMS, grown, NOW)["requests.storage"]) == "20Gi"
    assert str(usage_of(CLAIMS, claim("1500m"), NOW)["requests.storage"]) == "2"


def test_a_service_uses_its_ports() -> None:
    def used(**spec: Any) -> dict[str, str]:
        return texts(usage_of(SERVICES, {"metadata": {}, "spec": {"ports": [{"port": 1}, {"port": 2}], **spec}}, NOW))

    assert used(type="ClusterIP")["services.nodeports"] == "0"
    assert used(type="NodePort")["services.nodeports"] == "2"
    balanced = used(type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert (balanced["services.nodeports"], balanced["services.loadbalancers"]) == ("0", "1")


def test_every_kind_is_counted_and_some_by_their_plural_too() -> None:
    assert texts(usage_of(SECRETS, {"metadata": {}}, NOW)) == {"count/secrets": "1", "secrets": "1"}
    assert texts(usage_of(DEPLOYMENTS, {"metadata": {}}, NOW)) == {"count/deployments.apps": "1"}
    hard = ["pods", "count/pods", "count/deployments.apps", "secrets", "requests.e.com/gpu", "limits.cpu"]
    assert names_for(PODS, hard) == ["count/pods", "limits.cpu", "pods", "requests.e.com/gpu"]
    assert names_for(DEPLOYMENTS, hard) == ["count/deployments.apps"]
    assert names_for(CLAIMS, ["requests.storage", "a.storageclass.storage.k8s.io/requests.storage", "pods"]) == [
        "a.storageclass.storage.k8s.io/requests.storage",
        "requests.storage",
    ]


@pytest.mark.parametrize(
    ("scope", "spec", "holds"),
    [
        ("Terminating", {"activeDeadlineSeconds": 5}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {}, True),
        ("BestEffort", {}, True),
        ("NotBestEffort", {}, False),
        ("PriorityClass", {"priorityClassName": "high"}, True),
        ("PriorityClass", {}, False),
    ],
)
def test_a_scope_selects_pods(scope: str, spec: Doc, holds: bool) -> None:
    scoped = quota({"pods": "1"}, scopes=[scope])
    assert is_about(scoped, PODS, pod(container(), **spec)) is holds
    assert not is_about(scoped, CLAIMS, claim("1Gi"))


@pytest.mark.parametrize(
    ("operator", "values", "name", "holds"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("NotIn", ["high"], "", True),
        ("NotIn", ["high"], "high", False),
        ("Exists", [], "low", True),
        ("DoesNotExist", [], "", True),
    ],
)
def test_a_scope_selector_selects_by_priority_class(operator: str, values: list[str], name: str, holds: bool) -> None:
    requirement = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    scoped = quota({"pods": "1"}, scopeSelector={"matchExpressions": [requirement]})
    assert is_about(scoped, PODS, pod(container(), priorityClassName=name)) is holds


def test_a_scope_selects_claims_by_the_class_they_want_have_or_go_to() -> None:
    requirement = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    scoped = quota({"persistentvolumeclaims": "1"}, scopeSelector={"matchExpressions": [requirement]})
    wants = claim("1Gi")
    wants["spec"]["volumeAttributesClassName"] = "gold"
    assert is_about(scoped, CLAIMS, wants)
    assert is_about(scoped, CLAIMS, claim("1Gi", currentVolumeAttributesClassName="gold"))
    assert is_about(scoped, CLAIMS, claim("1Gi", modifyVolumeStatus={"targetVolumeAttributesClassName": "gold"}))
    assert not is_about(scoped, CLAIMS, claim("1Gi", currentVolumeAttributesClassName="silver"))
    assert not is_about(scoped, CLAIMS, claim("1Gi"))
    assert is_about(quota({"persistentvolumeclaims": "1"}, scopes=[]), CLAIMS, claim("1Gi"))


def test_a_quota_is_charged_what_it_counts() -> None:
    limited = quota({"pods": "2", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "750m"})
    delta = charge(limited, PODS, pod(container(requests={"cpu": "250m"})), None, NOW)
    assert texts(delta) == {"pods": "1", "requests.cpu": "250m"}
    charged = with_used(limited, delta)
    assert charged["status"]["used"] == {"pods": "2", "requests.cpu": "1"}
    assert with_used(charged, delta, is_release=True) == limited


def test_what_exceeds_a_quota_is_refused_in_upstreams_words() -> None:
    limited = quota({"pods": "2", "requests.cpu": "1", "requests.memory": "1Gi"}, {"pods": "2", "requests.cpu": "900m"})
    with pytest.raises(Forbidden) as refused:
        charge(limited, PODS, pod(container(requests={"cpu": "200m", "memory": "1Mi"})), None, NOW)
    assert refused.value.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=200m, '
        "used: pods=2,requests.cpu=900m, limited: pods=2,requests.cpu=1"
    )


def test_containers_must_say_what_a_quota_counts() -> None:
    limited = quota({"cpu": "1", "limits.memory": "1Gi"})
    with pytest.raises(Forbidden) as refused:
        charge(limited, PODS, pod(container("a", requests={"cpu": "1"}), container("b")), None, NOW)
    assert refused.value.message.endswith("failed quota: q: must specify cpu for: b; limits.memory for: a,b")


def test_a_quota_that_nobody_has_counted_refuses() -> None:
    fresh = quota({"pods": "5"})
    fresh["status"]["used"] = {}
    with pytest.raises(Forbidden, match="status unknown for quota: q, resources: pods"):
        charge(fresh, PODS, pod(container()), None, NOW)
    assert charge({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}, PODS, pod(), None, NOW) == {}


def test_a_claim_that_grows_is_charged_the_difference() -> None:
    limited = quota({"requests.storage": "15Gi"}, {"requests.storage": "10Gi"})
    assert may_use_more(CLAIMS, claim("15Gi"), claim("10Gi"))
    assert texts(charge(limited, CLAIMS, claim("15Gi"), claim("10Gi"), NOW)) == {"requests.storage": "5Gi"}
    assert charge(limited, CLAIMS, claim("5Gi"), claim("10Gi"), NOW) == {}
    with pytest.raises(Forbidden, match=r"requested: requests\.storage=6Gi, used: requests\.storage=10Gi"):
        charge(limited, CLAIMS, claim("16Gi"), claim("10Gi"), NOW)


def test_a_quota_is_counted_anew_from_what_there_is() -> None:
    wanted = quota({"pods": "5", "requests.storage": "50Gi", "count/deployments.apps": "1", "e.com/other": "1"})
    wanted["status"] = {}
    content = {PODS: [pod(container()), pod(container(), status={"phase": "Failed"})], CLAIMS: [claim("10Gi")] * 2}
    status = recounted(wanted, {**content, DEPLOYMENTS: []}, NOW)
    assert status["used"] == {"pods": "1", "requests.storage": "20Gi", "count/deployments.apps": "0"}
    assert status["hard"] == wanted["spec"]["hard"]
    assert is_same_status({"used": {"cpu": "1000m"}}, {"used": {"cpu": "1"}})


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"hard": {"pods": "1.5"}}, ["spec.hard[pods]"]),
        ({"hard": {"storage": "1Gi"}}, ["spec.hard[storage]"]),
        ({"hard": {"nonsense": "1"}}, ["spec.hard[nonsense]"] * 2),
        ({"hard": {"pods": "-1"}}, ["spec.hard[pods]"]),
        ({"hard": {"services": "1"}, "scopes": ["Terminating"]}, ["spec.scopes"]),
        ({"scopes": ["Odd"]}, ["spec.scopes"]),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, ["spec.scopes"]),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            ["spec.scopeSelector.matchExpressions.values"],
        ),
        ({"hard": {"count/deployments.apps": "1", "requests.storage": "1Gi"}}, []),
    ],
)
def test_a_quota_that_means_nothing_is_refused(spec: Doc, fields: list[str]) -> None:
    assert [error.field for error in validate_resource_quota({"spec": spec})] == fields


def test_scopes_do_not_change() -> None:
    old, new = {"spec": {"scopes": ["BestEffort"]}}, {"spec": {"scopes": ["NotBestEffort"]}}
    assert [error.field for error in validate_resource_quota_update(new, old)] == ["spec.scopes"]
