"""CronJob, the decision: which Job is due, what happens to running ones, and which finished ones are kept.

Mirrors syncCronJob, nextScheduleTime and cleanupFinishedJobs of pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tonnage.objects.batch_v1 import CronJob, Job
from tonnage.objects.texts.cron_schedule import CronSchedule

MANY_MISSED: Final = 100
"""More missed times than this are reported: a wrong clock, or a controller that was away long."""
SET_BACK: Final = timedelta(hours=3)
"""A last time further ahead than this came from a wrong clock, and is ignored. Within it, times that come twice get no
second Job. cron(8) has the same rule."""
_YEAR_S: Final = 365 * 24 * 3600
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Due:
    """The last missed time without a Job, None if there is none, and how many were missed."""

    at: datetime | None = None
    missed: int = 0


def zone_of(cron_job: CronJob) -> tzinfo | None:
    """The time zone of the schedule; None if it is unknown."""
    if cron_job.spec.time_zone is None:
        return UTC
    try:
        return ZoneInfo(cron_job.spec.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def due_time(cron_job: CronJob, schedule: CronSchedule, zone: tzinfo, now: datetime) -> Due:
    """Times before the last Job, before the CronJob's creation, or past its deadline do not count."""
    since = max(cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or now, _LONG_AGO)
    if since - now > SET_BACK:
        since = now - timedelta(seconds=min(max(60, schedule.every_s or 0), _YEAR_S))
    if is_too_late(cron_job, since, now):
        since = now - timedelta(seconds=cron_job.spec.starting_deadline_seconds or 0)
    if since >= now:
        return Due()
    first = schedule.next_after(since, zone)
    if first is None or first > now:
        return Due()
    second = schedule.next_after(first, zone)
    if second is None or second > now:
        return Due(first, 1)
    gap_s = max(1, int((second - first).total_seconds()))
    missed = int((now - first).total_seconds()) // gap_s + 1
    if schedule.every_s:  # at equal distances from the first, whatever clocks show
        return Due(first + timedelta(seconds=(missed - 1) * gap_s), missed)
    return Due(_last_time(schedule, zone, first, now), missed)


def _last_time(schedule: CronSchedule, zone: tzinfo, first: datetime, now: datetime) -> datetime:
    """The last time of a schedule up to `now`; `first` is one of them. Found by bisection, however many are between."""
    last, low, high = first, first, now
    while high - low >= timedelta(seconds=1):
        middle = low + (high - low) / 2
        following = schedule.next_after(middle, zone)
        if following is None or following > now:
            high = middle
        else:
            last = low = following
    return last


def is_too_late(cron_job: CronJob, at: datetime, now: datetime) -> bool:
    deadline_s = cron_job.spec.starting_deadline_seconds
    return deadline_s is not None and (now - at).total_seconds() > deadline_s


def next_check_s(schedule: CronSchedule, zone: tzinfo, now: datetime) -> float | None:
    """Seconds until a moment after the next time."""
    at = schedule.next_after(now, zone)
    return None if at is None else (at - now).total_seconds() + 0.1


def surplus_jobs(cron_job: CronJob, jobs: Iterable[Job]) -> list[Job]:
    """Finished Jobs beyond the history limits, the oldest first."""
    finished = [job for job in jobs if job.is_finished]
    spec = cron_job.spec
    found: list[Job] = []
    for kind, limit in (("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)):
        if limit is not None:
            of_kind = sorted((job for job in finished if job.has(kind)), key=started_at)
            found += of_kind[: max(0, len(of_kind) - limit)]
    return found


def started_at(job: Job) -> tuple[datetime, str]:
    return job.status.start_time or job.metadata.creation_timestamp or _LONG_AGO, job.name


def last_success(cron_job: CronJob, jobs: Sequence[Job]) -> datetime | None:
    ends = [
        job.status.completion_time for job in jobs if job.has("Complete") and job.status.completion_time is not None
    ]
    known = cron_job.status.last_successful_time
    return max([*ends, *([known] if known is not None else [])], default=None)
