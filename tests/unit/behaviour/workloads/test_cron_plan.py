"""Which Job of a CronJob is due, and which of its finished ones go."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from support.workload_builders import NOW, ago, cron_job, job
from tonnage.behaviour.workloads.cron_plan import (
    Due,
    due_time,
    is_too_late,
    last_success,
    next_check_s,
    surplus_jobs,
    zone_of,
)
from tonnage.controllers.workloads.jobs import expires_at
from tonnage.objects.batch_v1 import CronJob
from tonnage.objects.texts.cron_schedule import parse_schedule


def due(found: CronJob) -> Due:
    zone = zone_of(found)
    assert zone is not None
    return due_time(found, parse_schedule(found.spec.schedule), zone, NOW)


def test_nothing_is_due_before_the_first_time():
    assert due(cron_job("1 12 * * *", created_ago_s=60)) == Due()


def test_the_last_time_gone_by_is_due_and_how_many_went_by_is_known():
    # Every five minutes, for an hour: 11:05 … 12:00.
    assert due(cron_job()) == Due(NOW, 12)
    assert due(cron_job(status={"lastScheduleTime": ago(300)})) == Due(NOW, 1)
    assert due(cron_job(status={"lastScheduleTime": ago(0)})) == Due()


def test_after_a_long_time_away_only_the_last_is_due():
    found = due(cron_job("* * * * *", created_ago_s=400 * 24 * 3600))
    assert found.at == NOW
    assert found.missed > 100


def test_a_clock_that_was_set_back_makes_no_job_twice_and_one_that_was_far_ahead_holds_none_up():
    assert due(cron_job(status={"lastScheduleTime": ago(-2 * 3600)})) == Due()
    for schedule in ("* * * * *", "@every 1h"):
        assert due(cron_job(schedule, status={"lastScheduleTime": ago(-365 * 24 * 3600)})) == Due(NOW, 1)


def test_a_schedule_of_uneven_gaps_finds_its_last_time():
    # On Thursdays at 8 and 9; the first of January 2026 is one.
    found = due(cron_job("0 8,9 * * thu", created_ago_s=30 * 24 * 3600))
    assert found.at == NOW.replace(hour=9)


def test_what_is_older_than_the_deadline_does_not_count():
    assert due(cron_job("0 11 * * *", created_ago_s=86400, startingDeadlineSeconds=60)) == Due()
    found = cron_job(startingDeadlineSeconds=60)
    assert not is_too_late(found, NOW - timedelta(seconds=60), NOW)
    assert is_too_late(found, NOW - timedelta(seconds=61), NOW)


def test_clocks_are_those_of_the_zone():
    berlin = cron_job("30 12 * * *", timeZone="Europe/Berlin", created_ago_s=3600)
    assert due(berlin).at == NOW.replace(hour=11, minute=30)
    assert zone_of(cron_job(timeZone="Nowhere/Land")) is None
    assert next_check_s(parse_schedule("0 13 * * *"), UTC, NOW) == pytest.approx(3600.1)


def ended(name: str, kind: str, ago_s: float):
    condition = {"type": kind, "status": "True", "lastTransitionTime": ago(ago_s)}
    times = {"startTime": ago(ago_s + 10), "conditions": [condition]}
    return job(name, status={**times, **({"completionTime": ago(ago_s)} if kind == "Complete" else {})})


def test_of_finished_jobs_the_last_few_stay():
    jobs = [ended(f"c{n}", "Complete", n * 60) for n in range(5)] + [ended(f"f{n}", "Failed", n * 60) for n in range(3)]
    surplus = surplus_jobs(cron_job(), [*jobs, job("runs")])
    assert [each.name for each in surplus] == ["c4", "c3", "f2", "f1"]
    assert surplus_jobs(cron_job(successfulJobsHistoryLimit=9, failedJobsHistoryLimit=9), jobs) == []


def test_the_last_success_is_remembered_when_its_job_is_gone():
    assert last_success(cron_job(), [ended("a", "Complete", 60), ended("b", "Failed", 5)]) == NOW - timedelta(
        seconds=60
    )
    assert last_success(cron_job(status={"lastSuccessfulTime": ago(30)}), []) == NOW - timedelta(seconds=30)


def test_a_finished_job_goes_when_its_time_is_up():
    done = ended("a", "Complete", 60)
    assert expires_at(done) is None
    spec = {"type": "Failed", "status": "True", "lastTransitionTime": ago(60)}
    assert expires_at(job(ttlSecondsAfterFinished=90, status={"conditions": [spec]})) == NOW + timedelta(seconds=30)
    assert expires_at(job(ttlSecondsAfterFinished=0)) is None
