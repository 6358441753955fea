"""A workload as one number."""

from __future__ import annotations

import pytest

from tonnage.documents.subresources import apply_scale, scale_of
from tonnage.errors import Invalid
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL

DEPLOYMENTS = BY_PLURAL["apps", "deployments"]
CONTROLLERS = BY_PLURAL["", "replicationcontrollers"]


def workload(replicas: int = 2) -> Doc:
    return {
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {
            "replicas": replicas,
            "selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["c", "b"]},
                    {"key": "zz", "operator": "DoesNotExist"},
                ],
            },
        },
        "status": {"replicas": 1},
    }


def test_a_scale_tells_the_wanted_and_the_present_number_and_the_pods() -> None:
    assert scale_of(workload(), DEPLOYMENTS) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "a=b,a in (b,c),!zz"},
    }


def test_zero_is_not_written() -> None:
    assert scale_of(workload(0), DEPLOYMENTS)["spec"] == {}


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    controller = {"metadata": {"name": "c"}, "spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}}}
    assert scale_of(controller, CONTROLLERS)["status"] == {"replicas": 0, "selector": "a=1,b=2"}


def test_a_scale_changes_the_number_and_pins_what_it_names() -> None:
    stored = workload()
    scaled = apply_scale(
        stored, {"metadata": {"name": "d", "resourceVersion": "5"}, "spec": {"replicas": 9}}, DEPLOYMENTS
    )
    assert scaled["spec"]["replicas"] == 9
    assert scaled["metadata"]["resourceVersion"] == "5"  # the update verb finds that it is old
    assert stored["spec"]["replicas"] == 2


def test_a_scale_without_a_number_means_none() -> None:
    assert apply_scale(workload(), {"spec": {}}, DEPLOYMENTS)["spec"]["replicas"] == 0


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        apply_scale(workload(), {"spec": {"replicas": -1}}, DEPLOYMENTS)
    assert refused.value.message == (
        'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )
