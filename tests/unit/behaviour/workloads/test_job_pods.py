"""What a Job puts on its pods, and a CronJob on its Jobs."""

from __future__ import annotations

from support.workload_builders import NOW, cron_job, job
from tonnage.behaviour.workloads.job_pods import job_of, job_pod

INDEX = "batch.kubernetes.io/job-completion-index"


def test_a_pod_says_whose_it_is():
    made = job_pod(job("sum"), 0)["metadata"]
    assert made["labels"]["batch.kubernetes.io/job-name"] == made["labels"]["job-name"] == "sum"
    assert made["generateName"] == "sum-"
    assert INDEX not in made["labels"]


def test_a_pod_of_an_indexed_job_knows_its_index():
    found = job("sum", completionMode="Indexed", completions=3)
    made = job_pod(found, 2)
    assert made["metadata"]["labels"][INDEX] == made["metadata"]["annotations"][INDEX] == "2"
    assert (made["metadata"]["generateName"], made["spec"]["hostname"]) == ("sum-2-", "sum-2")
    (variable,) = made["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    assert "env" not in found.spec.template["spec"]["containers"][0]


def test_a_long_name_keeps_its_index():
    made = job_pod(job("x" * 63, completionMode="Indexed", completions=200), 123)["metadata"]["generateName"]
    assert len(made) == 58 and made.endswith("x-123-")


def test_a_job_is_named_after_its_minute_and_knows_its_time():
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"completions": 2}}
    made = job_of(cron_job(jobTemplate=template, timeZone="Europe/Berlin"), NOW)
    assert made["metadata"]["name"] == f"tick-{int(NOW.timestamp()) // 60}"
    assert made["metadata"]["labels"] == {"a": "b"}
    scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert made["metadata"]["annotations"] == {"c": "d", scheduled: "2026-01-01T13:00:00+01:00"}
    assert made["spec"] == {"completions": 2}
