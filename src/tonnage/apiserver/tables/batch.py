"""Jobs and CronJobs: how far they are, and when they run."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, CONTAINERS, IMAGES, NAME, Cell, Column, Layout, of, text
from tonnage.objects.document import Doc, dig

_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def job_status(job: Doc, now: datetime) -> Cell:
    """The first that holds, the final ones first."""
    conditions = dig(job, "status", "conditions") or ()
    held = {each.get("type") for each in conditions if each.get("status") == "True"}
    if dig(job, "metadata", "deletionTimestamp") is not None:
        held.add("Terminating")
    return next((state for state in _STATES if state in held), "Running")


def completions(job: Doc, now: datetime) -> Cell:
    """`2/5`; without a number to reach `1/1 of 3`: one of three pods is enough."""
    succeeded, wanted = dig(job, "status", "succeeded") or 0, dig(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def duration(job: Doc, now: datetime) -> Cell:
    started, ended = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if started is None:
        return ""
    until = datetime.fromisoformat(ended) if ended is not None else now
    return cells.elapsed(until - datetime.fromisoformat(started))


def selector(path: str) -> Column:
    """Of a template it is `<none>` always: the server writes it when a Job is made."""
    show = of(lambda found: cells.selector(found) or cells.NONE, path)
    return Column("Selector", show, wide=True, about="The pods that belong to it.")


def last_schedule(job: Doc, now: datetime) -> Cell:
    found = dig(job, "status", "lastScheduleTime")
    return cells.NONE if found is None else cells.age(found, now)


def _told_zone(zone: str | None) -> Cell:
    return cells.NONE if zone is None else zone


def _told_flag(value: bool | None) -> Cell:
    """The one boolean that upstream shows as a word."""
    return cells.UNSET if value is None else str(value)


def _of_template(column: Column, field: str) -> Column:
    """The same column of the pods that a CronJob's Jobs make."""

    def cell(doc: Doc, now: datetime) -> Cell:
        return cells.joined(dig(doc, "spec", "jobTemplate", "spec", "template", "spec", "containers"), field)

    return Column(column.name, cell, wide=True, about=column.about)


LAYOUTS = {
    ("batch", "Job"): Layout(
        (
            NAME,
            Column("Status", job_status, about="Running, or the condition that counts."),
            Column("Completions", completions, field="status.succeeded"),
            Column("Duration", duration, about="How long it has run."),
            AGE,
            CONTAINERS,
            IMAGES,
            selector("spec.selector"),
        )
    ),
    ("batch", "CronJob"): Layout(
        (
            NAME,
            Column("Schedule", text("spec.schedule"), field="spec.schedule"),
            Column("Timezone", of(_told_zone, "spec.timeZone"), field="spec.timeZone"),
            Column("Suspend", of(_told_flag, "spec.suspend"), type="boolean", field="spec.suspend"),
            Column("Active", of(lambda jobs: len(jobs or ()), "status.active"), type="integer", field="status.active"),
            Column("Last Schedule", last_schedule, field="status.lastScheduleTime"),
            AGE,
            _of_template(CONTAINERS, "name"),
            _of_template(IMAGES, "image"),
            selector("spec.jobTemplate.spec.selector"),
        )
    ),
}
