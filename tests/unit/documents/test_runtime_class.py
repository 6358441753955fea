"""RuntimeClasses: what they write into pods, and which pods they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.clock import SystemClock
from tonnage.documents.creation import strategies
from tonnage.documents.kinds.runtime_class import merge_tolerations, obey_runtime_class, refuse_foreign_overhead
from tonnage.errors import Forbidden
from tonnage.gates import Gates
from tonnage.objects.document import Doc

RULES = strategies(Gates(), SystemClock())
validate_runtime_class = RULES["node.k8s.io", "runtimeclasses"].validate
validate_runtime_class_update = RULES["node.k8s.io", "runtimeclasses"].validate_update

OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
GPU: Doc = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


def runtime(**fields: Any) -> Doc:
    return {"metadata": {"name": "kata"}, "handler": "kata", **fields}


def pod(**spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata", **spec}}


def test_overhead_and_scheduling_become_the_pods() -> None:
    made = pod(nodeSelector={"disk": "ssd"})
    scheduling = {"nodeSelector": {"runtime": "kata"}, "tolerations": [GPU]}
    obey_runtime_class(made, runtime(overhead={"podFixed": OVERHEAD}, scheduling=scheduling))
    assert made["spec"] == {
        "runtimeClassName": "kata",
        "overhead": OVERHEAD,
        "nodeSelector": {"disk": "ssd", "runtime": "kata"},
        "tolerations": [GPU],
    }


def test_a_class_that_says_nothing_changes_nothing() -> None:
    made = pod()
    obey_runtime_class(made, runtime())
    assert made == pod()


def test_a_pod_may_state_the_overhead_of_its_class_and_no_other() -> None:
    obey_runtime_class(pod(overhead={"cpu": "0.25", "memory": "120Mi"}), runtime(overhead={"podFixed": OVERHEAD}))
    with pytest.raises(Forbidden, match="Pod's Overhead doesn't match RuntimeClass's defined Overhead"):
        obey_runtime_class(pod(overhead={"cpu": "1"}), runtime(overhead={"podFixed": OVERHEAD}))
    with pytest.raises(Forbidden, match="Pod Overhead set without corresponding RuntimeClass defined Overhead"):
        refuse_foreign_overhead(pod(overhead={"cpu": "1"}), None)


def test_a_node_selector_that_contradicts_is_refused() -> None:
    told = r"conflict: runtimeClass.scheduling.nodeSelector\[a\] = 1; pod.spec.nodeSelector\[a\] = 2"
    with pytest.raises(Forbidden, match=told):
        obey_runtime_class(pod(nodeSelector={"a": "2"}), runtime(scheduling={"nodeSelector": {"a": "1"}}))


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ([GPU], [GPU], [GPU]),
        ([GPU], [{"operator": "Exists"}], [{"operator": "Exists"}]),
        ([{"operator": "Exists"}], [GPU], [{"operator": "Exists"}]),
        ([GPU], [{**GPU, "effect": "NoExecute"}], [GPU, {**GPU, "effect": "NoExecute"}]),
    ],
)
def test_what_another_toleration_covers_is_dropped(first: list[Doc], second: list[Doc], merged: list[Doc]) -> None:
    assert merge_tolerations(first, second) == merged


def test_a_handler_is_a_label_and_stays() -> None:
    assert [error.field for error in validate_runtime_class({"metadata": {"name": "a"}})] == ["handler"]
    assert [error.field for error in validate_runtime_class(runtime(handler="A_b"))] == ["handler"]
    assert validate_runtime_class(runtime(overhead={"podFixed": OVERHEAD})) == []
    twice = runtime(scheduling={"tolerations": [GPU, GPU]})
    assert [error.field for error in validate_runtime_class(twice)] == ["scheduling.tolerations[1]"]
    [error] = validate_runtime_class_update(runtime(handler="b"), runtime(handler="a"))
    assert str(error) == 'handler: Invalid value: "b": field is immutable'
