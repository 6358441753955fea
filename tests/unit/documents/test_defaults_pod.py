"""Defaults of pods and templates; what the real server fills in, field by field, stands in tests/parity."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.admit import admit
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.pods.pod_defaults import default_pod, pull_policy
from tonnage.documents.schema import schema_of
from tonnage.gates import Gates
from tonnage.objects.document import Doc, copy

default_pod_template = strategies(Gates(), SystemClock())["", "podtemplates"].default


def pod(**spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


EVERYTHING = pod(
    hostNetwork=True,
    serviceAccount="old",
    resources={"limits": {"cpu": "4"}},
    containers=[
        {
            "name": "c",
            "image": "x",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        }
    ],
    volumes=[
        {"name": "a"},
        {"name": "b", "hostPath": {"path": "/b"}},
        {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    ],
)


def test_filling_in_twice_is_filling_in_once() -> None:
    once = copy(EVERYTHING)
    default_pod(once)
    twice = copy(once)
    default_pod(twice)
    assert twice == once


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.example:5000/team/app", "Always"),
        ("registry.example:5000/team/app:v1", "IfNotPresent"),
        ("nginx@sha256:" + "0" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "0" * 64, "Always"),
        ("Not An Image", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, expected: str) -> None:
    assert pull_policy(image) == expected


def test_requests_follow_limits_in_a_pod_but_not_in_a_template() -> None:
    limited = [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "1"}}}]
    made = pod(containers=copy(limited))
    template: Doc = {"template": {"spec": {"containers": copy(limited)}}}
    default_pod(made)
    default_pod_template(template)
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert template["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


def test_a_request_of_its_own_stands_beside_those_that_follow() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    made = pod(containers=[{"name": "c", "image": "x", "resources": resources}])
    default_pod(made)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_a_template_keeps_a_negative_grace_period_and_a_pod_does_not() -> None:
    made = pod(terminationGracePeriodSeconds=-5)
    template: Doc = {"template": {"spec": {"terminationGracePeriodSeconds": -5}}}
    default_pod(made)
    default_pod_template(template)
    assert made["spec"]["terminationGracePeriodSeconds"] == 1
    assert template["template"]["spec"]["terminationGracePeriodSeconds"] == -5


def test_the_two_forms_of_a_pods_address_are_one() -> None:
    single: Doc = {**pod(), "status": {"podIP": "10.0.0.1"}}
    several: Doc = {**pod(), "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}
    differing: Doc = {**pod(), "status": {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}}
    for each in (single, several, differing):
        default_pod(each)
    assert single["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    assert several["status"]["podIP"] == "10.0.0.1"
    assert differing["status"]["podIPs"] == [{"ip": "10.0.0.2"}]


def test_zeros_that_a_server_never_writes_are_dropped_at_any_depth() -> None:
    spec: Doc = {
        "hostNetwork": False,
        "nodeName": "",
        "containers": [{"stdin": False, "ports": [{"containerPort": 1, "hostPort": 0}]}],
    }
    admit(schema_of("", "v1", "PodSpec"), spec)
    assert spec == {"containers": [{"ports": [{"containerPort": 1}]}]}


def test_zeros_that_mean_something_stay() -> None:
    spec = {"enableServiceLinks": False, "hostUsers": False, "volumes": [{"hostPath": {"path": "/a", "type": ""}}]}
    before = copy(spec)
    admit(schema_of("", "v1", "PodSpec"), spec)
    assert spec == before


def test_a_users_own_words_are_never_taken_for_fields() -> None:
    # These keys are labels, not fields of a pod.
    spec = {"nodeSelector": {"value": "", "nodeName": ""}}
    before = copy(spec)
    admit(schema_of("", "v1", "PodSpec"), spec)
    assert spec == before
