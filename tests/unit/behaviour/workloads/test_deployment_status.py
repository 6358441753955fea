"""What a Deployment says of its rollout, and when it gives up hoping."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from support.workload_builders import NOW, ago, deployment, replica_set
from tonnage.behaviour.workloads.deployment_status import (
    calculate_status,
    check_after_s,
    condition_of,
    is_complete,
    paused_conditions,
    rollout_status,
)
from tonnage.objects.apps_v1 import Deployment
from tonnage.testing.builders import Doc


def progressing(reason: str, *, status: str = "True", age_s: float = 0.0) -> Doc:
    said = {"type": "Progressing", "status": status, "reason": reason}
    return {"conditions": [{**said, "lastUpdateTime": ago(age_s), "lastTransitionTime": ago(age_s)}]}


def told(found: Deployment, type: str = "Progressing") -> tuple[str, str, str] | None:
    condition = condition_of(found.status.conditions, type)
    return None if condition is None else (condition.status, condition.reason, condition.message)


def after(wanted: Deployment, **new: int) -> tuple[str, str, str] | None:
    """What is said of progress when the new set is as told."""
    sets = [replica_set("web-1", new["size"], available=new["available"])]
    status = rollout_status(wanted, sets, sets[0], NOW)
    condition = condition_of(status.conditions, "Progressing")
    return None if condition is None else (condition.status, condition.reason, condition.message)


def test_the_counts_are_the_sums_of_the_sets() -> None:
    wanted = deployment(replicas=10, surge=3, unavailable=2)
    new = replica_set("new", 5, available=3, status={"terminatingReplicas": 0})
    old = replica_set("old", 8, available=7, status={"terminatingReplicas": 2})
    status = calculate_status(wanted, [old, new], new, NOW)
    # 5 + 8 pods, 3 + 7 available, 13 - 10 not; 10 - 2 = 8 are the least, and 10 are.
    assert (status.replicas, status.updated_replicas, status.ready_replicas) == (13, 5, 10)
    assert (status.available_replicas, status.unavailable_replicas, status.terminating_replicas) == (10, 3, 2)
    available = condition_of(status.conditions, "Available")
    assert available is not None
    assert (available.status, available.reason) == ("True", "MinimumReplicasAvailable")


def test_too_few_available_pods_are_said() -> None:
    enough = [replica_set("new", 10, available=8)]
    status = calculate_status(deployment(replicas=10, unavailable=2), enough, enough[0], NOW)
    assert [condition.status for condition in status.conditions] == ["True"]
    sets = [replica_set("new", 10, available=7)]
    status = calculate_status(deployment(replicas=10, unavailable=2), sets, sets[0], NOW)
    available = condition_of(status.conditions, "Available")
    assert available is not None
    assert (available.status, available.reason, available.message) == (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )


def test_terminating_pods_are_not_counted_when_a_set_does_not_tell() -> None:
    sets = [replica_set("a", 1, status={"terminatingReplicas": 1}), replica_set("b", 1)]
    assert calculate_status(deployment(), sets, None, NOW).terminating_replicas is None


def test_a_rollout_goes_from_created_over_updated_to_available() -> None:
    fresh = deployment(replicas=2, status=progressing("NewReplicaSetCreated"))
    assert after(fresh, size=2, available=0) == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.')
    assert after(fresh, size=2, available=2) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-1" has successfully progressed.',
    )


def test_without_progress_the_deadline_passes_and_the_rollout_has_failed() -> None:
    counts = {"replicas": 2, "updatedReplicas": 2}
    late = deployment(
        replicas=2, progressDeadlineSeconds=60, status={**counts, **progressing("ReplicaSetUpdated", age_s=61)}
    )
    assert after(late, size=2, available=0) == (
        "False",
        "ProgressDeadlineExceeded",
        'ReplicaSet "web-1" has timed out progressing.',
    )
    in_time = deployment(
        replicas=2, progressDeadlineSeconds=60, status={**counts, **progressing("ReplicaSetUpdated", age_s=59)}
    )
    assert after(in_time, size=2, available=0) == ("True", "ReplicaSetUpdated", "")
    assert after(late, size=2, available=1) == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.')


def test_progress_moves_the_deadline_and_keeps_the_time_of_the_last_change() -> None:
    going = deployment(replicas=2, status={"replicas": 2, **progressing("ReplicaSetUpdated", age_s=100)})
    sets = [replica_set("web-1", 2, available=1)]
    condition = condition_of(rollout_status(going, sets, sets[0], NOW).conditions, "Progressing")
    assert condition is not None
    assert (condition.last_update_time, condition.last_transition_time) == (NOW, NOW - timedelta(seconds=100))


@pytest.mark.parametrize(("measured_s", "reason"), [(59, "ReplicaSetUpdated"), (61, "ProgressDeadlineExceeded")])
def test_the_deadline_is_judged_by_what_was_measured(measured_s: float, reason: str) -> None:
    began_at = NOW - timedelta(days=1)  # by a clock that was set forward meanwhile
    going = deployment(replicas=2, progressDeadlineSeconds=60, status=progressing("ReplicaSetUpdated", age_s=86400))
    sets = [replica_set("web-1", 2, available=0)]
    status = msgspec.structs.replace(going.status, replicas=2, updated_replicas=2, ready_replicas=0)
    going = msgspec.structs.replace(going, status=status)
    found = rollout_status(going, sets, sets[0], NOW, began_at + timedelta(seconds=measured_s))
    condition = condition_of(found.conditions, "Progressing")
    assert condition is not None and condition.reason == reason


def test_a_finished_rollout_is_not_judged_again() -> None:
    done = deployment(replicas=2, progressDeadlineSeconds=1, status=progressing("NewReplicaSetAvailable", age_s=99))
    assert after(done, size=2, available=1) == ("True", "NewReplicaSetAvailable", "")


def test_without_a_deadline_nothing_is_said_of_progress() -> None:
    wanted = deployment(progressDeadlineSeconds=2**31 - 1, status=progressing("ReplicaSetUpdated"))
    assert after(wanted, size=3, available=3) is None
    assert paused_conditions(deployment(progressDeadlineSeconds=2**31 - 1, paused=True), NOW) is None


def test_a_failure_of_the_new_set_is_passed_on_and_taken_back() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    broken = replica_set("web-1", 3, available=0, status={"conditions": [failure]})
    status = rollout_status(deployment(), [broken], broken, NOW)
    condition = condition_of(status.conditions, "ReplicaFailure")
    assert condition is not None
    assert (condition.reason, condition.message) == ("FailedCreate", "quota")
    was = deployment(status={"conditions": [failure]})
    well = replica_set("web-1", 3)
    assert condition_of(rollout_status(was, [well], well, NOW).conditions, "ReplicaFailure") is None


def test_pausing_and_resuming_are_said_once() -> None:
    stopped = paused_conditions(deployment(paused=True), NOW)
    assert stopped is not None
    assert [(c.status, c.reason, c.message) for c in stopped] == [
        ("Unknown", "DeploymentPaused", "Deployment is paused")
    ]
    assert paused_conditions(deployment(paused=True, status=progressing("DeploymentPaused")), NOW) is None
    resumed = paused_conditions(deployment(status=progressing("DeploymentPaused", status="Unknown")), NOW)
    assert resumed is not None
    assert [(c.status, c.reason, c.message) for c in resumed] == [
        ("Unknown", "DeploymentResumed", "Deployment is resumed")
    ]
    assert paused_conditions(deployment(paused=True, status=progressing("ProgressDeadlineExceeded")), NOW) is None


@pytest.mark.parametrize(
    ("reason", "age_s", "expected"),
    [
        ("ReplicaSetUpdated", 10.0, 51.0),  # 60 - 10, and a second because times are whole
        ("ReplicaSetUpdated", 70.0, 1.0),
        ("ProgressDeadlineExceeded", 10.0, None),
        ("NewReplicaSetAvailable", 10.0, None),
    ],
)
def test_a_stuck_rollout_is_looked_at_when_its_deadline_has_passed(
    reason: str, age_s: float, expected: float | None
) -> None:
    wanted = deployment(progressDeadlineSeconds=60, status=progressing(reason, age_s=age_s))
    assert check_after_s(wanted, wanted.status, NOW) == expected


def test_complete_is_all_new_all_available_and_seen() -> None:
    counts = {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
    assert is_complete(deployment(replicas=3), deployment(status=counts).status)
    assert not is_complete(deployment(replicas=3), deployment(status={**counts, "replicas": 4}).status)
    assert not is_complete(deployment(replicas=3), deployment(status={**counts, "observedGeneration": 0}).status)
