"""How many pods a disruption budget lets go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.workload_builders import NOW, a_pod, ago, budget, replica_set
from tonnage.behaviour.workloads.pod_states import (
    ExpectedCounts,
    NoController,
    disrupted_pods,
    expected_pods,
    failed_status,
    stale_after_s,
    status_of,
)
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import PodDisruptionBudget

SIZES = {"default/a": 5, "default/b": 3}


def find(kind: type[Object], key: str) -> Object | None:
    assert kind is ReplicaSet
    return replica_set(key.removeprefix("default/"), SIZES[key]) if key in SIZES else None


def pods_of(*names: str) -> list[Pod]:
    return [a_pod(f"pod-{n}", ready=True, of=replica_set(name)) for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("limits", "pods", "healthy"),
    [
        (budget(min_available=2), 3, 2),  # a number asks nobody
        (budget(min_available="28%"), 8, 3),  # 28 % of 5 + 3 is 2.24, rounded up
        (budget(max_unavailable=1), 8, 7),
        (budget(max_unavailable="30%"), 8, 5),  # 2.4 rounded up is 3; 8 - 3
        (budget(max_unavailable=10), 8, 0),
        (budget(), 0, 0),
    ],
)
def test_what_is_expected_follows_from_the_limit_and_the_workloads(
    limits: PodDisruptionBudget, pods: int, healthy: int
) -> None:
    assert expected_pods(limits.spec, pods_of("a", "a", "b"), find) == ExpectedCounts(pods, healthy)


def test_pods_without_a_controller_are_named() -> None:
    found = expected_pods(budget(max_unavailable=1).spec, [a_pod("bare"), *pods_of("b")], find)
    assert found == ExpectedCounts(3, 2, ("bare",))


def test_a_controller_that_nobody_knows_fails_the_count() -> None:
    with pytest.raises(NoController, match='found no controllers for pod "pod-0"'):
        expected_pods(budget(max_unavailable=1).spec, pods_of("unknown"), find)


def test_healthy_is_ready_staying_and_not_about_to_be_evicted() -> None:
    pods = [
        a_pod("a", ready=True),
        a_pod("b", ready=True),
        a_pod("going", ready=True, going=True),
        a_pod("unready"),
        a_pod("evicted", ready=True),
    ]
    status = status_of(budget(), pods, ExpectedCounts(5, 1), {"evicted": NOW}, NOW)
    # a and b are well, 1 is needed: 1 may go.
    assert (status.current_healthy, status.desired_healthy, status.disruptions_allowed) == (2, 1, 1)
    assert (status.expected_pods, status.observed_generation) == (5, 1)
    assert [(c.status, c.reason) for c in status.conditions] == [("True", "SufficientPods")]


def test_nothing_may_go_while_no_pod_is_expected() -> None:
    status = status_of(budget(), [a_pod("a", ready=True)], ExpectedCounts(0, 0), {}, NOW)
    assert status.disruptions_allowed == 0
    assert [(c.status, c.reason) for c in status.conditions] == [("False", "InsufficientPods")]


def test_the_condition_keeps_the_time_of_its_last_change() -> None:
    said = {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "lastTransitionTime": ago(99)}
    was = budget(status={"conditions": [said]})
    kept = status_of(was, [a_pod("a", ready=True)], ExpectedCounts(1, 0), {}, NOW)
    assert kept.conditions[0].last_transition_time == NOW - timedelta(seconds=99)
    changed = status_of(was, [], ExpectedCounts(1, 0), {}, NOW)
    assert changed.conditions[0].last_transition_time == NOW


def test_notes_of_evictions_end_with_the_pod_or_after_two_minutes() -> None:
    noted = {name: NOW - timedelta(seconds=age) for name, age in (("new", 30), ("old", 121), ("going", 5), ("gone", 5))}
    pods = [a_pod("new"), a_pod("old"), a_pod("going", going=True), a_pod("other")]
    waiting, not_deleted, recheck_s = disrupted_pods(noted, pods, NOW)
    assert waiting == {"new": NOW - timedelta(seconds=30)}
    assert [pod.name for pod in not_deleted] == ["old"]
    assert recheck_s == 90.0
    _, _, recheck_s = disrupted_pods(
        {"new": NOW - timedelta(seconds=30), "old": NOW - timedelta(seconds=100)}, pods, NOW
    )
    assert recheck_s == 20.0  # the first to end
    assert disrupted_pods({}, pods, NOW) == ({}, [], None)


def test_when_nothing_can_be_counted_nothing_may_go() -> None:
    was = budget(status={"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3})
    status = failed_status(was, 'found no controllers for pod "a"', NOW)
    assert (status.disruptions_allowed, status.current_healthy) == (0, 3)
    assert [(c.status, c.reason, c.message) for c in status.conditions] == [
        ("False", "SyncFailed", 'found no controllers for pod "a"')
    ]


def test_a_disruption_that_nothing_came_of_goes_stale() -> None:
    said = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    target = {**said, "lastTransitionTime": ago(50)}
    assert stale_after_s(a_pod("a", conditions=[target]), NOW) == 70.0
    assert stale_after_s(a_pod("a", conditions=[{**target, "lastTransitionTime": ago(500)}]), NOW) == 0.0
    assert stale_after_s(a_pod("a", going=True, conditions=[target]), NOW) is None
    assert stale_after_s(a_pod("a", phase="Failed", conditions=[target]), NOW) is None
    assert stale_after_s(a_pod("a", conditions=[{**target, "reason": "TerminationByKubelet"}]), NOW) is None
    assert stale_after_s(a_pod("a"), NOW) is None
