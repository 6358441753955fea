"""What is done next to the pods of a StatefulSet. Steps are written as words: `+2@db-1`, `-0`, `claims 1`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.workload_builders import NOW, ago, member, stateful_set
from tonnage.behaviour.workloads.stateful_set_plan import (
    Create,
    ObservedState,
    Step,
    plan,
    status_of,
)
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.core_v1 import Pod
from tonnage.testing.storage_builders import claim


def word(step: Step) -> str:
    if isinstance(step, Create):
        return f"+{step.ordinal}@{step.revision}"
    number = step.pod.name.rpartition("-")[2]
    return (
        f"-{number}" if step.verb == "delete" else f"{'claims' if step.verb == 'create claims' else 'conform'} {number}"
    )


def steps(owner: StatefulSet, *pods: Pod, current: str = "db-1", update: str = "db-1", **more: Any) -> list[str]:
    return [word(step) for step in plan(owner, pods, ObservedState(current, update, NOW, **more))]


DB = stateful_set("db", 3)
PARALLEL = stateful_set("db", 3, parallel=True)


def with_retention(owner: StatefulSet, **policy: str) -> StatefulSet:
    kept = replace(owner.spec.persistent_volume_claim_retention_policy, **policy)
    return replace(owner, spec=replace(owner.spec, persistent_volume_claim_retention_policy=kept))


def ready(owner: StatefulSet, *ordinals: int, revision: str = "db-1") -> list[Pod]:
    return [member(owner, n, revision, ready=True) for n in ordinals]


# -- making -----------------------------------------------------------------------------------------------------------


def test_in_order_a_pod_is_made_when_all_before_it_are_ready() -> None:
    assert steps(DB) == ["+0@db-1"]
    assert steps(DB, member(DB, 0)) == ["claims 0"]  # pending: wait
    assert steps(DB, member(DB, 0, on="node-1")) == []  # running and not ready: wait
    assert steps(DB, *ready(DB, 0)) == ["+1@db-1"]
    assert steps(DB, *ready(DB, 0, 1, 2)) == []


def test_parallel_makes_all_at_once() -> None:
    assert steps(PARALLEL, member(PARALLEL, 1)) == ["+0@db-1", "claims 1", "+2@db-1"]


def test_ordinals_may_start_anywhere() -> None:
    owner = stateful_set("db", 2, start=5)
    assert steps(owner) == ["+5@db-1"]
    # 0 lies below the start: it goes when the wanted ones are well.
    assert steps(owner, *ready(owner, 0, 5, 6)) == ["-0"]


def test_min_ready_seconds_hold_the_next_pod_back() -> None:
    owner = stateful_set("db", 2, minReadySeconds=30)
    assert steps(owner, member(owner, 0, ready=True, ready_for_s=29)) == []
    assert steps(owner, member(owner, 0, ready=True, ready_for_s=30)) == ["+1@db-1"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_deleted_and_its_ordinal_filled_again(phase: str) -> None:
    ended = member(DB, 1, phase=phase)
    assert steps(DB, *ready(DB, 0), ended, *ready(DB, 2)) == ["-1"]
    assert steps(DB, *ready(DB, 0), member(DB, 1, phase=phase, going=True), *ready(DB, 2)) == []
    assert steps(DB, *ready(DB, 0, 2)) == ["+1@db-1"]
    assert steps(PARALLEL, ended, *ready(PARALLEL, 2)) == ["+0@db-1", "-1"]


def test_a_pod_on_its_way_out_is_waited_for() -> None:
    assert steps(DB, member(DB, 0, ready=True, going=True)) == []
    assert steps(PARALLEL, member(PARALLEL, 0, ready=True, going=True), *ready(PARALLEL, 1)) == ["+2@db-1"]


def test_a_claim_of_the_pod_before_holds_the_new_one_back() -> None:
    of_before = claim(
        "data-db-0",
        metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "before"}]},
    )
    for owner, expected in ((DB, []), (PARALLEL, ["+1@db-1", "+2@db-1"])):
        scaled_away = with_retention(owner, when_scaled="Delete")
        assert steps(scaled_away, claims=lambda ordinal: [of_before] if ordinal == 0 else []) == expected


def test_a_pod_that_was_rejected_again_and_again_goes_and_is_not_made_yet() -> None:
    assert steps(DB, member(DB, 0, phase="Failed"), held_back={"db-0"}) == ["-0"]
    assert steps(DB, held_back={"db-0"}) == []
    assert steps(PARALLEL, held_back={"db-0"}) == ["+1@db-1", "+2@db-1"]


def test_a_set_that_is_being_deleted_does_nothing() -> None:
    assert steps(stateful_set("db", 3, metadata={"deletionTimestamp": ago(0)})) == []


def test_names_that_are_no_ordinals_are_left_alone() -> None:
    assert steps(stateful_set("db", 0), *ready(DB, 99999999999)) == []


# -- scaling down -----------------------------------------------------------------------------------------------------


def test_scaling_down_takes_the_highest_first_one_at_a_time() -> None:
    owner = stateful_set("db", 1)
    assert steps(owner, *ready(owner, 0, 1, 2)) == ["-2"]
    assert steps(owner, *ready(owner, 0, 1), member(owner, 2, ready=True, going=True)) == []
    assert steps(owner, *ready(owner, 0, 1)) == ["-1"]
    burst = stateful_set("db", 1, parallel=True)
    assert steps(burst, *ready(burst, 0, 1, 2)) == ["-2", "-1"]


def test_scaling_down_waits_for_the_wanted_ones() -> None:
    owner = stateful_set("db", 1)
    assert steps(owner, member(owner, 0, on="node-1"), *ready(owner, 1)) == []


def test_an_unhealthy_condemned_pod_goes_only_when_it_is_the_first_unhealthy_one() -> None:
    owner = stateful_set("db", 1)
    sick = {n: member(owner, n, on="node-1") for n in (1, 2)}
    assert steps(owner, *ready(owner, 0), sick[1], sick[2]) == []
    assert steps(owner, *ready(owner, 0, 1), sick[2]) == ["-2"]
    assert steps(owner, *ready(owner, 0), sick[1], *ready(owner, 2)) == ["-2"]


# -- updates ----------------------------------------------------------------------------------------------------------


def test_a_rolling_update_goes_from_the_top_and_waits_for_each() -> None:
    both = {"current": "db-1", "update": "db-2"}
    assert steps(DB, *ready(DB, 0, 1, 2), **both) == ["-2"]
    assert steps(DB, *ready(DB, 0, 1), **both) == ["+2@db-2"]
    assert steps(DB, *ready(DB, 0, 1), member(DB, 2, "db-2", on="node-1"), **both) == []
    assert steps(DB, *ready(DB, 0, 1), *ready(DB, 2, revision="db-2"), **both) == ["-1"]
    assert steps(DB, *ready(DB, 0, 1, 2, revision="db-2"), **both) == []


def test_parallel_updates_one_at_a_time_just_the_same() -> None:
    both = {"current": "db-1", "update": "db-2"}
    assert steps(PARALLEL, *ready(PARALLEL, 0, 1, 2), **both) == ["-2"]
    assert steps(PARALLEL, *ready(PARALLEL, 0, 1), **both) == ["+2@db-2"]
    waiting = member(PARALLEL, 2, "db-2", on="node-1")
    assert steps(PARALLEL, *ready(PARALLEL, 0, 1), waiting, **both) == []


def test_a_failed_pod_in_the_way_of_an_update_goes_once() -> None:
    both = {"current": "db-1", "update": "db-2"}
    assert steps(PARALLEL, *ready(PARALLEL, 0, 1), member(PARALLEL, 2, phase="Failed"), **both) == ["-2"]


def test_below_the_partition_pods_stay_and_come_back_at_the_current_revision() -> None:
    owner = stateful_set("db", 3, partition=2)
    both = {"current": "db-1", "update": "db-2"}
    assert steps(owner, *ready(owner, 0, 1, 2), **both) == ["-2"]
    assert steps(owner, *ready(owner, 0, 1), *ready(owner, 2, revision="db-2"), **both) == []
    assert steps(owner, *ready(owner, 0, 2), **both) == ["+1@db-1"]
    shifted = stateful_set("db", 3, partition=2, start=10)
    assert steps(shifted, *ready(shifted, 10), **both) == ["+11@db-1"]
    assert steps(shifted, *ready(shifted, 10, 11), **both) == ["+12@db-2"]


def test_on_delete_replaces_nothing_by_itself() -> None:
    owner = stateful_set("db", 2, on_delete=True)
    both = {"current": "db-1", "update": "db-2"}
    assert steps(owner, *ready(owner, 0, 1), **both) == []
    assert steps(owner, *ready(owner, 0), **both) == ["+1@db-2"]


# -- identity ---------------------------------------------------------------------------------------------------------


def test_a_pod_without_its_labels_or_with_unkept_claims_is_brought_in_line() -> None:
    owner = stateful_set("db", 1)
    nameless = member(owner, 0, ready=True)
    nameless.metadata.labels.pop("statefulset.kubernetes.io/pod-name")  # type: ignore[attr-defined]
    assert steps(owner, nameless) == ["conform 0"]
    for mismatched, expected in ((0, ["conform 0"]), (1, ["conform 1", "-1"])):
        owned = with_retention(owner, when_deleted="Delete")
        unowned = claim(f"data-db-{mismatched}")
        pods = ready(owned, *range(mismatched + 1))
        assert steps(owned, *pods, claims=lambda n, at=mismatched, it=unowned: [it] if n == at else []) == expected


# -- status -----------------------------------------------------------------------------------------------------------


def test_the_status_counts_revisions_of_pods_that_stay() -> None:
    pods = [*ready(DB, 0), member(DB, 1, "db-2", ready=True), member(DB, 2, "db-2", on="node-1", going=True)]
    status = status_of(DB, pods, ObservedState("db-1", "db-2", NOW), 0)
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 2, 2)
    assert (status.current_replicas, status.updated_replicas) == (1, 1)
    assert (status.current_revision, status.update_revision) == ("db-1", "db-2")


def test_a_finished_rolling_update_makes_its_revision_the_current_one() -> None:
    done = status_of(DB, ready(DB, 0, 1, 2, revision="db-2"), ObservedState("db-1", "db-2", NOW), 0)
    assert (done.current_revision, done.current_replicas, done.updated_replicas) == ("db-2", 3, 3)
    manual = stateful_set("db", 3, on_delete=True)
    kept = status_of(manual, ready(manual, 0, 1, 2, revision="db-2"), ObservedState("db-1", "db-2", NOW), 0)
    assert (kept.current_revision, kept.current_replicas) == ("db-1", 0)
