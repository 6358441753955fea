"""How many pods of a ReplicaSet are missing, which go first, and what its status says."""

from __future__ import annotations

import pytest

from support.workload_builders import LABELS, NOW, a_pod, replica_set
from tonnage.behaviour.workloads.replica_set_plan import deletion_cost, missing_replicas, pods_to_delete, status_of
from tonnage.objects.core_v1 import Pod

COST = "controller.kubernetes.io/pod-deletion-cost"


def first_to_go(*pods: Pod, related: tuple[Pod, ...] = ()) -> list[str]:
    """All but the last one, in the order in which they go."""
    return [pod.name for pod in pods_to_delete(pods, related or pods, len(pods) - 1, NOW)]


def test_what_is_missing_is_made_and_what_is_too_much_deleted_in_rounds_of_500() -> None:
    pods = [a_pod("a"), a_pod("b")]
    assert missing_replicas(pods, 5) == 3
    assert missing_replicas(pods, 1) == -1
    assert missing_replicas([], 2000) == 500


def test_sorting_active_pods_with_ranks() -> None:
    unscheduled = a_pod("unscheduled")
    pending = a_pod("pending", on="node-1", phase="Pending")
    unknown = a_pod("unknown", on="node-1", phase="Unknown")
    not_ready = a_pod("not-ready", on="node-1")
    cheap = a_pod("cheap", on="node-1", ready=True, annotations={COST: "-5"})
    doubled = a_pod("doubled", on="node-2", ready=True)
    young = a_pod("young", on="node-1", ready=True, ready_for_s=2)
    restarted = a_pod("restarted", on="node-1", ready=True, ready_for_s=3000, restarts=2)
    old = a_pod("old", on="node-1", ready=True, ready_for_s=3000, age_s=4000)
    pods = [old, restarted, young, doubled, cheap, not_ready, unknown, pending, unscheduled]
    crowd = (*pods, *(a_pod(f"crowd-{n}", on="node-2") for n in range(9)))
    assert first_to_go(*pods, related=crowd) == [
        "unscheduled",
        "pending",
        "unknown",
        "not-ready",
        "cheap",
        "doubled",
        "young",
        "restarted",
    ]


def test_of_pods_of_like_age_any_may_go_so_the_uid_decides() -> None:
    # 60 s and 50 s have the same power of two in nanoseconds: 2^35 is 34 s, 2^36 is 69 s.
    one, other = a_pod("b", ready=True, ready_for_s=60, on="n"), a_pod("a", ready=True, ready_for_s=50, on="n")
    assert first_to_go(one, other) == ["a"]
    younger = a_pod("c", ready=True, ready_for_s=10, on="n")
    assert first_to_go(one, other, younger) == ["c", "a"]


def test_pods_without_a_time_go_before_those_that_have_one() -> None:
    timeless = a_pod("z", creationTimestamp=None)
    assert first_to_go(a_pod("a"), timeless) == ["z"]


def test_get_pods_to_delete_takes_all_without_sorting_when_all_go() -> None:
    pods = [a_pod("b", ready=True), a_pod("a")]
    assert pods_to_delete(pods, pods, 2, NOW) == pods


@pytest.mark.parametrize(
    ("text", "cost"),
    [("100", 100), ("-1", -1), ("0", 0), ("+1", 0), ("01", 0), ("-0", 0), ("x", 0), ("", 0), ("2147483648", 0)],
)
def test_a_deletion_cost_is_a_plain_32_bit_number(text: str, cost: int) -> None:
    assert deletion_cost(a_pod("a", annotations={COST: text})) == cost


def test_the_status_counts_labels_readiness_and_availability() -> None:
    owner = replica_set(replicas=4, minReadySeconds=30)
    pods = [
        a_pod("a", ready=True, ready_for_s=31, labels={**LABELS, "more": "x"}),
        a_pod("b", ready=True, ready_for_s=29),
        a_pod("c"),
        a_pod("d", labels={"app": "other"}),
    ]
    status = status_of(owner, pods, 1, None, NOW)
    assert (status.replicas, status.fully_labeled_replicas) == (4, 3)
    assert (status.ready_replicas, status.available_replicas, status.terminating_replicas) == (2, 1, 1)
    assert status.observed_generation == 1


def test_a_failure_is_said_once_and_taken_back() -> None:
    owner = replica_set(replicas=2)
    failed = status_of(owner, [a_pod("a")], 0, "quota exceeded", NOW)
    assert [(c.type, c.status, c.reason, c.message) for c in failed.conditions] == [
        ("ReplicaFailure", "True", "FailedCreate", "quota exceeded")
    ]
    too_many = status_of(owner, [a_pod("a"), a_pod("b"), a_pod("c")], 0, "refused", NOW)
    assert [c.reason for c in too_many.conditions] == ["FailedDelete"]
    known = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota exceeded"}
    was = replica_set(replicas=2, status={"conditions": [known]})
    assert status_of(was, [], 0, "another", NOW).conditions == was.status.conditions
    assert status_of(was, [], 0, None, NOW).conditions == ()
