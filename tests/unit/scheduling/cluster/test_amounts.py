"""How much pods ask for: each rule with its sum."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.scheduling.cluster.pod_info import (
    PodInfo,
    is_counted,
    is_extended,
    requests_of,
    scored_usage_of,
)
from tonnage.testing.builders import pod

MI = 1024 * 1024
HUGE_PAGES: dict[str, Any] = {"hugepages-2Mi": "2Mi"}
ONE_GPU: dict[str, Any] = {"example.com/gpu": "1"}
MANY_GPUS: dict[str, Any] = {"example.com/gpu": "9E"}


def container(name: str = "main", *, sidecar: bool = False, **requests: str) -> dict[str, Any]:
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "image": "app:1", "resources": {"requests": requests}, **policy}


def asking(*containers: dict[str, Any], **spec: Any) -> Any:
    return pod("web", spec={"containers": list(containers), **spec})


def test_containers_add_up():
    assert requests_of(asking(container(cpu="250m", memory="1Mi"), container("b", cpu="1"))) == {
        "cpu": 1250,
        "memory": MI,
    }


def test_the_largest_init_container_counts_if_it_is_more_than_all_others_together():
    found = asking(
        container(cpu="1", memory="4Mi"),
        initContainers=[container("one", cpu="2", memory="1Mi"), container("two", cpu="500m", memory="3Mi")],
    )
    # cpu: max(1, 2, 0.5); memory: max(4, 1, 3).
    assert requests_of(found) == {"cpu": 2000, "memory": 4 * MI}


def test_a_sidecar_counts_beside_the_containers_and_beside_the_init_containers_after_it():
    found = asking(
        container(cpu="1"),
        initContainers=[
            container("early", cpu="1800m"),
            container("side", sidecar=True, cpu="500m"),
            container("late", cpu="1200m"),
        ],
    )
    # containers 1 + 0.5; early alone 1.8; late with the sidecar 1.2 + 0.5 = 1.7.
    assert requests_of(found) == {"cpu": 1800}


def test_overhead_comes_on_top():
    assert requests_of(asking(container(cpu="1"), overhead={"cpu": "50m", "memory": "1Mi"})) == {
        "cpu": 1050,
        "memory": MI,
    }


def test_pod_level_requests_stand_for_the_sum_of_cpu_memory_and_huge_pages_only():
    found = asking(
        container(cpu="1", **HUGE_PAGES, **ONE_GPU),
        resources={
            "requests": {"cpu": "3", "hugepages-2Mi": "8Mi", "example.com/gpu": "7", "ephemeral-storage": "1Gi"}
        },
        overhead={"cpu": "1"},
    )
    assert requests_of(found) == {"cpu": 4000, "hugepages-2Mi": 8 * MI, "example.com/gpu": 1}


def test_sums_are_exact_and_rounded_up_once():
    # 0.5m + 0.5m = 1m, not 1m + 1m; 1.4 + 1.4 = 2.8 bytes, which is 3.
    found = asking(container(cpu="0.0005", memory="1400m"), container("b", cpu="0.0005", memory="1400m"))
    assert requests_of(found) == {"cpu": 1, "memory": 3}


def test_an_amount_beyond_all_integers_is_the_largest_one():
    most = 2**63 - 1
    found = asking(*(container(f"c{i}", cpu="9E", **MANY_GPUS) for i in range(3)))
    assert requests_of(found) == {"cpu": most, "example.com/gpu": most}


@pytest.mark.parametrize(
    ("name", "counted", "extended"),
    [
        ("cpu", True, False),
        ("ephemeral-storage", True, False),
        ("hugepages-1Gi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("example.com/gpu", True, True),
        ("kubernetes.io/batch", True, False),
        ("storage", False, False),
        ("pods", False, False),
        ("requests.example.com/gpu", False, False),
    ],
)
def test_which_names_are_counted(name: str, counted: bool, extended: bool):
    assert (is_counted(name), is_extended(name)) == (counted, extended)


def test_names_that_nobody_counts_are_passed_over():
    assert requests_of(asking(container(cpu="1", storage="1Gi", pods="3"))) == {"cpu": 1000}


# -- resizing ---------------------------------------------------------------------------------------------------------


def resized(asked: str, in_force: str | None, granted: str | None = None, *, reason: str = "") -> Any:
    status: dict[str, Any] = {"name": "main"}
    if in_force is not None:
        status["resources"] = {"requests": {"cpu": in_force}}
    if granted is not None:
        status["allocatedResources"] = {"cpu": granted}
    pending = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return pod("web", cpu=asked, on="a", status={"containerStatuses": [status], "conditions": pending})


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (resized("1", "3", "2"), 3000),  # shrinking: the node still holds 3
        (resized("4", "1", "2"), 4000),  # growing: what is asked for is set aside
        (resized("4", "1", "2", reason="Deferred"), 4000),  # it may still be granted
        (resized("4", "1", "2", reason="Infeasible"), 2000),  # it never will
        (resized("1", None, "5"), 1000),  # the node has not said what is in force
    ],
)
def test_while_a_pod_is_resized_the_most_of_asked_granted_and_in_force_counts(pod: Any, cpu: int):
    assert requests_of(pod) == {"cpu": cpu}


def test_init_containers_that_end_are_not_resized():
    told = {"name": "init", "resources": {"requests": {"cpu": "8"}}}
    found = pod(
        "web",
        cpu="1",
        on="a",
        spec={"initContainers": [container("init", cpu="2")]},
        status={"initContainerStatuses": [told]},
    )
    assert requests_of(found) == {"cpu": 2000}


def test_pod_level_requests_are_resized_as_well():
    found = pod(
        "web",
        cpu="1",
        on="a",
        spec={"resources": {"requests": {"cpu": "2"}}},
        status={"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "5"}},
    )
    assert requests_of(found) == {"cpu": 5000}


# -- for scores -------------------------------------------------------------------------------------------------------


def test_scores_assume_something_for_each_container_that_does_not_say():
    found = asking(container(cpu="1"), container("b", memory="50Mi"), container("c", cpu="0", memory="0"))
    # cpu: 1 + 0.1 + 0; memory: 200 + 50 + 0.
    assert scored_usage_of(found) == (1100, 250 * MI)
    assert PodInfo(found).scored_amounts == {"cpu": 1100, "memory": 250 * MI}
    assert requests_of(found) == {"cpu": 1000, "memory": 50 * MI}


def test_pod_level_requests_count_in_scores_for_residents_but_not_for_newcomers():
    found = asking(
        container(cpu="1", memory="50Mi", **HUGE_PAGES),
        resources={"requests": {"cpu": "3", "hugepages-2Mi": "8Mi"}},
    )
    assert scored_usage_of(found) == (3000, 50 * MI)
    assert PodInfo(found).scored_amounts == {"cpu": 1000, "memory": 50 * MI, "hugepages-2Mi": 2 * MI}


def test_with_pod_level_requests_only_what_nobody_names_is_assumed():
    names_memory = asking(container(memory="50Mi"), container("silent"), resources={"requests": {"cpu": "1"}})
    names_none = asking(container(), container("silent"), resources={"requests": {"cpu": "1"}})
    # One container names memory: nothing is assumed for the other. No container does: 200Mi for each of two.
    assert scored_usage_of(names_memory) == (1000, 50 * MI)
    assert scored_usage_of(names_none) == (1000, 400 * MI)
