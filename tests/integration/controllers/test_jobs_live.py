"""Jobs and CronJobs on a real server: made, counted, suspended, failed, replaced and cleared away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.workload_stage import WorkloadStage, stage_in
from tonnage.errors import NotFound
from tonnage.objects.batch_v1 import JOB_TRACKING, CronJob, Job
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[WorkloadStage]:
    async with stage_in(tmp_path) as made:
        yield made


def spec(**more: Any) -> Doc:
    pod: Doc = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"template": {"metadata": {"labels": {"app": "sum"}}, "spec": pod}, **more}


async def until(stage: WorkloadStage, name: str, kind: str) -> Job:
    async def has() -> Job | None:
        found = await stage.client.get(Job, f"default/{name}")
        return found if found.has(kind) else None

    async def told() -> object:
        return (await stage.client.get(Job, f"default/{name}")).status

    found: Job = await stage.until(has, told)
    return found


async def until_told(stage: WorkloadStage, reason: str, notes: set[str]) -> None:
    """Events are written beside the work, and may come later."""

    async def is_told() -> bool:
        return await stage.notes(reason) == notes

    await stage.until(is_told)


async def test_a_job_runs_to_its_end_and_its_pods_are_counted(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 0
    await stage.create("batch/v1", "Job", "sum", spec(completions=5, parallelism=2))
    done = await until(stage, "sum", "Complete")
    assert (done.status.succeeded, done.status.failed, done.status.active) == (5, 0, 0)
    assert done.status.completion_time is not None and done.has("SuccessCriteriaMet")
    pods = await stage.pods()
    assert len(pods) == 5
    assert all(JOB_TRACKING not in pod.metadata.finalizers for pod in pods)
    await until_told(stage, "Completed", {"Job completed"})


async def test_indexes_names_and_host_names(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 0
    await stage.create("batch/v1", "Job", "sum", spec(completions=3, parallelism=3, completionMode="Indexed"))
    done = await until(stage, "sum", "Complete")
    assert done.status.completed_indexes == "0-2"
    pods = await stage.pods()
    assert [pod.spec.hostname for pod in pods] == ["sum-0", "sum-1", "sum-2"]
    label = "batch.kubernetes.io/job-completion-index"
    assert [pod.metadata.labels[label] for pod in pods] == ["0", "1", "2"]


async def test_a_limit_of_no_failures(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 3
    await stage.create("batch/v1", "Job", "sum", spec(backoffLimit=0))
    failed = await until(stage, "sum", "Failed")
    assert failed.status.failed == 1
    assert [each.reason for each in failed.status.conditions] == ["BackoffLimitExceeded"] * 2
    await until_told(stage, "BackoffLimitExceeded", {"Job has reached the specified backoff limit"})


async def test_suspended_and_resumed(stage: WorkloadStage):
    await stage.create("batch/v1", "Job", "sum", spec(parallelism=2, completions=2, suspend=True))
    await until(stage, "sum", "Suspended")
    assert await stage.pods() == []
    await stage.client.patch(Job, "default/sum", {"spec": {"suspend": False}})

    async def runs() -> bool:
        return (await stage.client.get(Job, "default/sum")).status.active == 2 and len(await stage.pods()) == 2

    await stage.until(runs)
    await stage.client.patch(Job, "default/sum", {"spec": {"suspend": True}})

    async def is_empty() -> bool:
        return await stage.pods() == []

    await stage.until(is_empty)
    stage.kubelet.exit_code = lambda _: 0
    await stage.client.patch(Job, "default/sum", {"spec": {"suspend": False}})
    done = await until(stage, "sum", "Complete")
    assert done.status.succeeded == 2
    await until_told(stage, "Suspended", {"Job suspended"})
    await until_told(stage, "Resumed", {"Job resumed"})


async def test_a_deadline_ends_what_runs(stage: WorkloadStage):
    await stage.create("batch/v1", "Job", "sum", spec(activeDeadlineSeconds=1))
    failed = await until(stage, "sum", "Failed")
    assert failed.status.conditions[0].reason == "DeadlineExceeded"
    assert failed.status.active == 0


async def test_a_policy_fails_the_job_at_its_first_bad_code(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 42
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    await stage.create("batch/v1", "Job", "sum", spec(podFailurePolicy={"rules": [rule]}))
    failed = await until(stage, "sum", "Failed")
    assert failed.status.conditions[-1].reason == "PodFailurePolicy"


async def test_counting_survives_controllers_that_die(stage: WorkloadStage):
    await stage.create("batch/v1", "Job", "sum", spec(completions=12, parallelism=4))

    async def runs() -> bool:
        return len(await stage.pods()) == 4

    await stage.until(runs)
    stage.kubelet.exit_code = lambda _: 0
    stage.kubelet.look_again()
    await stage.kill()
    await stage.start()
    done = await until(stage, "sum", "Complete")
    assert (done.status.succeeded, done.status.failed) == (12, 0)
    assert len(await stage.pods()) == 12


async def test_pods_of_a_job_that_is_gone_are_let_go(stage: WorkloadStage):
    await stage.create("batch/v1", "Job", "sum", spec(parallelism=2, completions=2))

    async def runs() -> bool:
        return len(await stage.pods()) == 2

    await stage.until(runs)
    await stage.client.delete(Job, "default/sum", propagation="Orphan")

    async def is_gone() -> bool:
        try:
            await stage.client.get(Job, "default/sum")
        except NotFound:
            return True
        # Nobody collects garbage on this stage: what the collector would do is done here.
        for pod in await stage.pods():
            await stage.client.patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
        await stage.client.patch(Job, "default/sum", {"metadata": {"finalizers": None}})
        return False

    await stage.until(is_gone)

    async def are_free() -> bool:
        return all(JOB_TRACKING not in pod.metadata.finalizers for pod in await stage.pods())

    await stage.until(are_free)


async def test_a_finished_job_goes_when_its_time_is_up(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 0
    await stage.create("batch/v1", "Job", "sum", spec(ttlSecondsAfterFinished=0))

    async def is_going() -> bool:
        try:
            return (await stage.client.get(Job, "default/sum")).metadata.is_terminating
        except NotFound:
            return True

    await stage.until(is_going)


async def test_a_cron_job_makes_jobs_and_keeps_a_few(stage: WorkloadStage):
    stage.kubelet.exit_code = lambda _: 0
    template = {"metadata": {"labels": {"of": "tick"}}, "spec": spec()}
    await stage.create(
        "batch/v1",
        "CronJob",
        "tick",
        {"schedule": "@every 1s", "jobTemplate": template, "successfulJobsHistoryLimit": 1},
    )

    async def has_run_twice() -> bool:
        found = await stage.client.get(CronJob, "default/tick")
        return len(await stage.notes("SawCompletedJob")) >= 1 and found.status.last_successful_time is not None

    await stage.until(has_run_twice)
    found = await stage.client.get(CronJob, "default/tick")
    assert found.status.last_schedule_time is not None
    jobs = (await stage.client.list(Job)).items
    assert all(each.metadata.labels["of"] == "tick" for each in jobs)
    annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert all(annotation in each.metadata.annotations for each in jobs)
