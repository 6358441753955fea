"""Every pod is counted once, whatever happens between two writes."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.workload_builders import NOW, job, job_pod
from tonnage.behaviour.workloads.job_plan import (
    JobVerdict,
    account,
    counted,
    finished,
    has_uncounted,
    settle,
    with_condition,
)
from tonnage.objects.batch_v1 import Job, JobStatus
from tonnage.objects.core_v1 import Pod


def entered(found: Job, *pods: Pod, is_ending: bool = False) -> tuple[JobStatus, list[str]]:
    status, removable = account(found, pods, counted(found, pods), is_ending=is_ending)
    return status, [pod.name for pod in removable]


def test_a_pod_is_entered_before_its_finalizer_goes_and_counted_after():
    pods = [job_pod("a", "Succeeded"), job_pod("b", "Failed"), job_pod("c")]
    status, removable = entered(job(completions=3), *pods)
    assert removable == ["a", "b"]
    assert status.uncounted_terminated_pods is not None
    assert (status.uncounted_terminated_pods.succeeded, status.uncounted_terminated_pods.failed) == (
        ("uid-a",),
        ("uid-b",),
    )
    assert (status.succeeded, status.failed) == (0, 0)
    half = settle(status, ["uid-b", "uid-c"], is_indexed=False)
    assert (half.succeeded, half.failed, has_uncounted(half)) == (1, 0, True)
    whole = settle(half, ["uid-c"], is_indexed=False)
    assert (whole.succeeded, whole.failed, has_uncounted(whole)) == (1, 1, False)


def test_when_a_job_ends_what_has_not_succeeded_has_failed():
    status, removable = entered(job(), job_pod("a", is_terminating=True), job_pod("b"), is_ending=True)
    assert removable == ["a", "b"]
    assert settle(status, [], is_indexed=False).failed == 2


def test_indexes_are_counted_by_their_numbers():
    found = job(completionMode="Indexed", completions=5, backoffLimitPerIndex=0, status={"completedIndexes": "4"})
    status, _ = entered(found, job_pod("a", "Succeeded", index=1), job_pod("b", "Failed", index=2))
    assert (status.succeeded, status.completed_indexes, status.failed_indexes) == (2, "1,4", "2")


def test_a_failed_pod_of_an_index_stays_until_its_successor_remembers_it():
    found = job(completionMode="Indexed", completions=2, backoffLimitPerIndex=3)
    failed = job_pod("a", "Failed", index=0)
    assert entered(found, failed)[1] == []
    after = job_pod("b", index=0, annotations={"batch.kubernetes.io/job-index-failure-count": "1"})
    assert entered(found, failed, after)[1] == ["a"]


def test_the_end_is_told_once_with_its_time():
    verdict = JobVerdict("SuccessCriteriaMet", "CompletionsReached", "m")
    done = finished(JobStatus(), verdict, NOW)
    assert [(each.type, each.status) for each in done.conditions] == [("Complete", "True")]
    assert done.completion_time == NOW
    began_later = finished(JobStatus(start_time=NOW + timedelta(hours=2)), verdict, NOW)
    assert began_later.completion_time == NOW + timedelta(hours=2)  # the clock was set back, and servers want an order
    failed = finished(JobStatus(), JobVerdict("FailureTarget", "r", "m"), NOW)
    assert (failed.conditions[0].type, failed.completion_time) == ("Failed", None)
    assert with_condition(failed, "Failed", "True", "other", "other", NOW) is failed


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=8))
def test_however_often_it_is_interrupted_each_pod_counts_once(fates: list[tuple[bool, bool, bool]]):
    """A fate: the pod succeeds; its finalizer goes in the first round, or the second; the status of a round is lost."""
    pods = {f"p{n}": job_pod(f"p{n}", "Succeeded" if good else "Failed") for n, (good, _, _) in enumerate(fates)}
    found = job(completions=99, backoffLimit=99)
    for round_ in range(6):
        status, removable = account(found, list(pods.values()), counted(found, list(pods.values())), is_ending=False)
        found = msgspec.structs.replace(found, status=status)
        for pod in removable:
            _, at_once, _ = fates[int(pod.name[1:])]
            if at_once or round_ > 0:
                pods[pod.name] = job_pod(pod.name, pod.status.phase, tracked=False)
        tracked = [pod.uid for pod in pods.values() if pod.metadata.finalizers]
        settled = settle(found.status, tracked, is_indexed=False)
        is_lost = any(lost for _, _, lost in fates) and round_ == 1
        if not is_lost:
            found = msgspec.structs.replace(found, status=settled)
    assert found.status.succeeded == sum(good for good, _, _ in fates)
    assert found.status.failed == sum(not good for good, _, _ in fates)
    assert not has_uncounted(found.status)
