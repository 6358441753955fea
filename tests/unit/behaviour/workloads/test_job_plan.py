"""When a Job has ended, how many pods it lacks, and how long the next one waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.workload_builders import NOW, ago, job, job_pod
from tonnage.behaviour.workloads.job_plan import (
    MAX_PAUSE_S,
    JobVerdict,
    Manage,
    completed,
    counted,
    deadline_s,
    manage,
    pause_s,
    verdict_of,
)
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import Pod

INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}
LIMITED: dict[str, Any] = {**INDEXED, "backoffLimitPerIndex": 1}
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def verdict(found: Job, *pods: Pod) -> JobVerdict | None:
    return verdict_of(found, pods, counted(found, pods), NOW)


def plan(found: Job, *pods: Pod) -> Manage:
    return manage(found, pods, counted(found, pods), NOW)


def reason(found: Job, *pods: Pod) -> str:
    ended = verdict(found, *pods)
    return "" if ended is None else ended.reason


# -- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pods", "creates"),
    [
        ({"completions": 5, "parallelism": 2}, [], 2),
        ({"completions": 5, "parallelism": 2}, [job_pod("a")], 1),
        ({"completions": 3, "parallelism": 2}, [job_pod("a", "Succeeded"), job_pod("b", "Succeeded")], 1),
        ({"completions": 1, "parallelism": 5}, [], 1),
        ({"completions": None, "parallelism": 3}, [], 3),
        ({"completions": None, "parallelism": 3}, [job_pod("a", "Succeeded"), job_pod("b")], 0),
        ({"completions": 5, "parallelism": 0}, [], 0),
        ({"completions": 5000, "parallelism": 5000}, [], 500),
        ({"suspend": True, "completions": 5, "parallelism": 2}, [], 0),
    ],
)
def test_as_many_pods_as_are_missing_are_made(spec: dict[str, Any], pods: list[Pod], creates: int):
    assert plan(job(**spec), *pods).create == creates


def test_what_has_been_counted_before_is_not_counted_again():
    found = job(
        completions=3, parallelism=3, status={"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["uid-b"]}}
    )
    # One in the status, one on its way there (b), one new (c); a was counted and has lost its finalizer.
    pods = [job_pod("a", "Succeeded", tracked=False), job_pod("b", "Succeeded"), job_pod("c", "Succeeded")]
    assert counted(found, pods).succeeded == 3


def test_too_many_go_those_without_a_node_first():
    pods = [job_pod("a"), job_pod("b"), job_pod("c")]
    found = plan(job(completions=9, parallelism=1), *pods)
    assert len(found.delete) == 2 and found.create == 0
    assert plan(job(suspend=True), *pods).delete == pods


@pytest.mark.parametrize(("policy", "creates"), [("TerminatingOrFailed", 1), ("Failed", 0)])
def test_a_pod_that_is_being_deleted_is_replaced_at_once_or_when_it_has_ended(policy: str, creates: int):
    # It counts as failed at once, five minutes ago by its creation: no pause is left.
    going = job_pod("a", is_terminating=True)
    found = job(podReplacementPolicy=policy)
    assert counted(found, [going]).failed == creates
    later = NOW + timedelta(minutes=5)
    assert manage(found, [going], counted(found, [going]), later).create == creates


# -- pauses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0), (1, 10), (2, 20), (3, 40), (7, MAX_PAUSE_S), (50, MAX_PAUSE_S)]
)
def test_pauses_double_from_ten_seconds_to_ten_minutes(failures: int, pause: float):
    pods = [job_pod(f"p{n}", "Failed") for n in range(failures)]
    assert pause_s(job(backoffLimit=99), pods, NOW) == pause


def test_a_success_ends_the_row_of_failures():
    pods = [job_pod("a", "Failed", ended_ago_s=90), job_pod("b", "Succeeded", ended_ago_s=60), job_pod("c", "Failed")]
    assert pause_s(job(), pods, NOW) == 10
    assert plan(job(completions=3), *pods) == Manage(wait_s=10)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_more_failures_than_the_limit_end_it():
    pods = [job_pod("a", "Failed"), job_pod("b", "Failed")]
    assert reason(job(backoffLimit=2), *pods) == ""
    assert verdict(job(backoffLimit=1), *pods) == JobVerdict(
        "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    )


def test_it_may_not_take_longer_than_its_deadline():
    assert reason(job(activeDeadlineSeconds=61)) == ""
    assert deadline_s(job(activeDeadlineSeconds=61), NOW) == 1
    assert reason(job(activeDeadlineSeconds=60)) == "DeadlineExceeded"
    assert reason(job(activeDeadlineSeconds=60, suspend=True)) == ""


def test_it_is_complete_when_enough_have_succeeded_and_nothing_runs():
    found, pods = job(completions=2), [job_pod("a", "Succeeded"), job_pod("b", "Succeeded")]
    done = completed(found, counted(found, pods), 0)
    assert done == JobVerdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
    assert completed(found, counted(found, pods), 1) is None
    assert completed(found, counted(found, pods[:1]), 0) is None


def test_what_was_said_stays_said():
    told = {"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy", "message": "m"}
    assert verdict(job(status={"conditions": [told]})) == JobVerdict("FailureTarget", "PodFailurePolicy", "m")


# -- policies ----------------------------------------------------------------------------------------------------------


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}, "backoffLimit": 0}


FAIL_ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "c"}}
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_the_first_rule_that_matches_decides():
    spec = policy(FAIL_ON_42, IGNORE_DISRUPTIONS)
    spec["backoffLimit"] = 6
    disrupted = job_pod("d", "Failed", exit_code=137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert reason(job(**spec), disrupted) == ""
    assert counted(job(**spec), [disrupted]).failed == 0
    failed = job_pod("f", "Failed", exit_code=42)
    assert verdict(job(**spec), disrupted, failed) == JobVerdict(
        "FailureTarget",
        "PodFailurePolicy",
        "Container c for pod default/f failed with exit code 42 matching FailJob rule at index 0",
    )


def test_a_code_that_no_rule_names_counts():
    assert reason(job(**policy(FAIL_ON_42)), job_pod("f", "Failed", exit_code=1)) == "BackoffLimitExceeded"
    others = {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [42]}}
    assert reason(job(**policy(others)), job_pod("f", "Failed", exit_code=1)) == ""


# -- indexes -----------------------------------------------------------------------------------------------------------


def test_the_first_indexes_that_are_neither_done_nor_running_are_next():
    found = job(**{**INDEXED, "parallelism": 3}, status={"completedIndexes": "1", "succeeded": 1})
    made = plan(found, job_pod("a", index=0))
    assert (made.create, made.indexes) == (2, [2, 3])


def test_of_two_pods_for_one_index_one_goes():
    found = plan(job(**INDEXED), job_pod("a", index=0), job_pod("b", index=0), job_pod("c", index=9))
    assert sorted(pod.name for pod in found.delete) == ["b", "c"]


def test_with_a_limit_of_its_own_each_index_fails_and_waits_for_itself():
    once = job_pod("a", "Failed", index=0, annotations={FAILURES: "0"}, ended_ago_s=4)
    twice = job_pod("b", "Failed", index=1, annotations={FAILURES: "1"})
    found = job(**LIMITED, backoffLimit=99)
    count = counted(found, [once, twice])
    assert (set(count.lost), set(count.done)) == ({1}, set())
    # Index 0 failed once, 4 s ago: 6 of 10 s are left. 1 is lost; 2 may begin.
    assert plan(found, once, twice) == Manage(create=1, indexes=[2], wait_s=6)


def test_indexes_end_a_job():
    lost = [job_pod(f"l{n}", "Failed", index=n, annotations={FAILURES: "1"}) for n in (0, 1)]
    done = [job_pod(f"d{n}", "Succeeded", index=n) for n in (2, 3)]
    spec = {**LIMITED, "backoffLimit": 99}
    assert reason(job(**spec), *lost) == ""
    assert reason(job(**spec, maxFailedIndexes=1), *lost) == "MaxFailedIndexesExceeded"
    assert reason(job(**spec), *lost, *done) == "FailedIndexes"


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        ({"succeededCount": 2}, True),
        ({"succeededCount": 3}, False),
        ({"succeededIndexes": "0,2"}, True),
        ({"succeededIndexes": "0-3"}, False),
        ({"succeededIndexes": "1-3", "succeededCount": 1}, True),
        ({"succeededIndexes": "1,3", "succeededCount": 1}, False),
    ],
)
def test_a_success_policy_may_end_it_early(rule: dict[str, Any], met: bool):
    done = [job_pod(f"d{n}", "Succeeded", index=n) for n in (0, 2)]
    assert (reason(job(**INDEXED, successPolicy={"rules": [rule]}), *done) == "SuccessPolicy") is met


def test_containers_that_restart_in_place_count_where_they_may():
    pod = job_pod("a")
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}}
    assert reason(job(template=template, backoffLimit=0), pod) == ""
    assert ago(0) == "2026-01-01T12:00:00Z"
