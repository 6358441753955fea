"""The real kubectl and custom resources: a definition from a manifest, and everything one does with its objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

SCHEMA = {
    "type": "object",
    "description": "A table of times.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "properties": {
                "times": {"type": "string", "description": "When."},
                "image": {"type": "string", "default": "busybox"},
                "replicas": {"type": "integer"},
                "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


def definition(group: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"timetables.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "timetables", "kind": "TimeTable", "shortNames": ["tt"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "additionalPrinterColumns": [
                        {"name": "Times", "type": "string", "jsonPath": ".spec.times"},
                        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                }
            ],
        },
    }


def table(group: str, name: str = "mine", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "TimeTable", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def group(kubectl, namespace):
    """A group with the definition applied and established, as a person would do it."""
    name = f"{namespace}.example.com"
    told = kubectl("apply", "-f", "-", stdin=[definition(name)])
    assert told == f"customresourcedefinition.apiextensions.k8s.io/timetables.{name} created\n"
    kubectl("wait", "--for=condition=Established", f"crd/timetables.{name}", "--timeout=60s")
    yield name
    kubectl("delete", "crd", f"timetables.{name}", "--ignore-not-found", "--timeout=60s")  # short names are shared


def test_apply_get_describe_explain(kubectl, namespace, group):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[table(group, times="noon", replicas=2)])
    lines = [line.split() for line in kubectl("get", "tt", "-n", namespace).splitlines()]
    assert lines[0] == ["NAME", "TIMES", "REPLICAS", "AGE"] and lines[1][:3] == ["mine", "noon", "2"]
    assert f"timetable.{group}/mine" in kubectl("get", "all", "-n", namespace)
    described = [line.split() for line in kubectl("describe", "timetable", "mine", "-n", namespace).splitlines()]
    assert ["Image:", "busybox"] in described and ["Kind:", "TimeTable"] in described
    explained = kubectl("explain", f"timetables.{group}.spec")
    assert "What is wanted." in explained and "times\t<string>" in explained
    assert "FIELD: openAPIV3Schema" in kubectl("explain", "crd.spec.versions.schema.openAPIV3Schema")
    listed = [line.split() for line in kubectl("get", "crd", f"timetables.{group}").splitlines()]
    assert listed[0] == ["NAME", "CREATED", "AT"] and listed[1][0] == f"timetables.{group}"


def test_a_second_apply_changes_and_unknown_fields_are_refused(kubectl, namespace, group):
    apply = ("apply", "-n", namespace, "-f", "-")
    kubectl(*apply, stdin=[table(group, times="noon", replicas=2)])
    told = kubectl(*apply, stdin=[table(group, times="dawn")])
    assert told == f"timetable.{group}/mine configured\n"
    spec = json.loads(kubectl("get", "tt", "mine", "-n", namespace, "-o", "json"))["spec"]
    assert spec == {"times": "dawn", "image": "busybox"}
    assert 'unknown field "spec.surprise"' in kubectl.fails(*apply, stdin=[table(group, surprise=1)])
    assert 'spec.replicas: Invalid value: "string"' in kubectl.fails(*apply, stdin=[table(group, replicas="x")])


def test_scale_patch_and_server_side_apply(kubectl, namespace, group):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[table(group, times="noon", replicas=2)])
    assert "scaled" in kubectl("scale", "-n", namespace, "--replicas=5", "tt/mine")
    kubectl("patch", "tt", "mine", "-n", namespace, "--type=merge", "-p", '{"spec":{"more":{"any":[1]}}}')
    spec = json.loads(kubectl("get", "tt", "mine", "-n", namespace, "-o", "json"))["spec"]
    assert (spec["replicas"], spec["more"]) == (5, {"any": [1]})
    refused = kubectl.fails("patch", "tt", "mine", "-n", namespace, "-p", '{"spec":{"times":"dusk"}}')
    assert "application/strategic-merge-patch+json is not supported" in refused
    apply = ("apply", "--server-side", "-n", namespace, "-f", "-")
    kubectl(*apply, "--field-manager=one", stdin=[table(group, "other", times="noon")])
    told = kubectl.fails(*apply, "--field-manager=two", stdin=[table(group, "other", times="dusk")])
    assert 'Apply failed with 1 conflict: conflict with "one": .spec.times' in told
    kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=[table(group, "other", times="dusk")])


def test_deleting_the_definition_deletes_its_objects(kubectl, namespace, group):
    kubectl("apply", "-n", namespace, "-f", "-", stdin=[table(group)])
    kubectl("delete", "crd", f"timetables.{group}", "--timeout=60s")
    refused = kubectl.fails("get", f"timetables.{group}", "-n", namespace)
    assert "doesn't have a resource type" in refused or "could not find the requested resource" in refused
    kubectl("apply", "-f", "-", stdin=[definition(group)])
    kubectl("wait", "--for=condition=Established", f"crd/timetables.{group}", "--timeout=60s")
    assert kubectl("get", f"timetables.{group}", "-n", namespace, "-o", "name") == ""
