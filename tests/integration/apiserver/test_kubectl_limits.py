"""LimitRanges, RuntimeClasses and PodTemplates as kubectl makes and shows them."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.kubectl

CONTAINER = {"name": "main", "image": "app:1.0"}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [CONTAINER]}}


def test_a_limit_range_is_described_and_heeded(kubectl, namespace):
    item = {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [item]}}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[limits])
    described = kubectl("describe", "limits", "small", "-n", namespace).splitlines()
    assert described[-1].split() == ["Container", "cpu", "-", "1", "100m", "500m", "-"]
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[POD])
    made = json.loads(kubectl("get", "pod", "web", "-n", namespace, "-o", "json"))
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}


def test_a_runtime_class_is_listed_and_heeded(kubectl, namespace):
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": namespace}}
    kubectl("apply", "-f", "-", stdin=[{**runtime, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}])
    heading, row = kubectl("get", "runtimeclass", namespace).splitlines()
    assert heading.split() == ["NAME", "HANDLER", "AGE"] and row.split()[:2] == [namespace, "kata"]
    spec = {"containers": [CONTAINER], "runtimeClassName": namespace}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[{**POD, "spec": spec}])
    assert kubectl("get", "pod", "web", "-n", namespace, "-o", "jsonpath={.spec.overhead.cpu}") == "250m"


def test_a_pod_template_is_listed(kubectl, namespace):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    doc = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "web"}, "template": template}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[doc])
    heading, row = kubectl("get", "podtemplates", "-n", namespace).splitlines()
    assert heading.split() == ["NAME", "CONTAINERS", "IMAGES", "POD", "LABELS"]
    assert row.split() == ["web", "main", "app:1.0", "app=web"]


def test_a_quota_is_listed_with_what_is_in_use(kubectl, namespace):
    hard = {"pods": "5", "requests.cpu": "2", "limits.cpu": "4"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[quota])
    status = json.dumps({"status": {"hard": hard, "used": {"pods": "1", "requests.cpu": "250m", "limits.cpu": "0"}}})
    kubectl("patch", "quota", "small", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    heading, row = kubectl("get", "quota", "-n", namespace).splitlines()
    assert heading.split() == ["NAME", "REQUEST", "LIMIT", "AGE"]
    assert "pods: 1/5, requests.cpu: 250m/2" in row and "limits.cpu: 0/4" in row
