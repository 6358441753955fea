"""Controllers of pods: how many are wanted, how many are there. Also their scale, revisions and disruption budgets.

Jobs and CronJobs: how far they are, and when they run.
"""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, CONTAINERS, IMAGES, NAME, Cell, Column, Layout, number, of, text
from tonnage.objects.document import Doc, dig


def ready_of_desired(doc: Doc, now: datetime) -> Cell:
    return f"{dig(doc, 'status', 'readyReplicas') or 0}/{dig(doc, 'spec', 'replicas') or 0}"


def selector(doc: Doc, now: datetime) -> Cell:
    return cells.selector(dig(doc, "spec", "selector")) or cells.NONE


def controller(revision: Doc, now: datetime) -> Cell:
    """`statefulset.apps/web`: the owner that controls it."""
    owners = dig(revision, "metadata", "ownerReferences") or ()
    owner = next((found for found in owners if found.get("controller")), None)
    if owner is None:
        return cells.NONE
    group, slash, _ = owner["apiVersion"].partition("/")
    kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
    return f"{kind.lower()}/{owner['name']}"


_READY = Column("Ready", ready_of_desired, about="Pods that are ready, of how many wanted.")
_DESIRED = Column("Desired", number("spec.replicas"), type="integer", field="spec.replicas")
_CURRENT = Column("Current", number("status.replicas"), type="integer", field="status.replicas")
_READY_COUNT = Column("Ready", number("status.readyReplicas"), type="integer", field="status.readyReplicas")
_SELECTOR = Column("Selector", selector, wide=True, field="spec.selector")


def _daemons(name: str, field: str) -> Column:
    return Column(name, number(f"status.{field}"), type="integer", field=f"status.{field}")


LAYOUTS = {
    ("apps", "StatefulSet"): Layout((NAME, _READY, AGE, CONTAINERS, IMAGES)),
    ("apps", "Deployment"): Layout(
        (
            NAME,
            _READY,
            Column("Up-to-date", number("status.updatedReplicas"), field="status.updatedReplicas"),
            Column("Available", number("status.availableReplicas"), field="status.availableReplicas"),
            AGE,
            CONTAINERS,
            IMAGES,
            # The one selector column that stays empty instead of saying <none>.
            Column("Selector", of(cells.selector, "spec.selector"), wide=True, field="spec.selector"),
        )
    ),
    ("apps", "ReplicaSet"): Layout((NAME, _DESIRED, _CURRENT, _READY_COUNT, AGE, CONTAINERS, IMAGES, _SELECTOR)),
    ("", "ReplicationController"): Layout(
        (
            NAME,
            _DESIRED,
            _CURRENT,
            _READY_COUNT,
            AGE,
            CONTAINERS,
            IMAGES,
            Column("Selector", of(cells.labels, "spec.selector"), wide=True, field="spec.selector"),
        )
    ),
    ("apps", "DaemonSet"): Layout(
        (
            NAME,
            _daemons("Desired", "desiredNumberScheduled"),
            _daemons("Current", "currentNumberScheduled"),
            _daemons("Ready", "numberReady"),
            _daemons("Up-to-date", "updatedNumberScheduled"),
            _daemons("Available", "numberAvailable"),
            Column(
                "Node Selector",
                of(cells.labels, "spec.template.spec.nodeSelector"),
                field="spec.template.spec.nodeSelector",
            ),
            AGE,
            CONTAINERS,
            IMAGES,
            _SELECTOR,
        )
    ),
    ("apps", "ControllerRevision"): Layout(
        (
            NAME,
            Column("Controller", controller, about="The object whose history this is."),
            Column("Revision", number("revision"), field="revision"),
            AGE,
        )
    ),
    ("policy", "PodDisruptionBudget"): Layout(
        (
            NAME,
            Column(
                "Min Available",
                of(lambda found: cells.int_or_string(found, missing="N/A"), "spec.minAvailable"),
                field="spec.minAvailable",
            ),
            Column(
                "Max Unavailable",
                of(lambda found: cells.int_or_string(found, missing="N/A"), "spec.maxUnavailable"),
                field="spec.maxUnavailable",
            ),
            Column(
                "Allowed Disruptions",
                number("status.disruptionsAllowed"),
                type="integer",
                field="status.disruptionsAllowed",
            ),
            AGE,
        )
    ),
    ("autoscaling", "Scale"): Layout(
        (
            Column("Name", NAME.cell, field="metadata.name"),
            _DESIRED,
            Column("Available", number("status.replicas"), type="integer", field="status.replicas"),
            AGE,
        )
    ),
}


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


def selector_column(path: str) -> Column:
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


JOB_LAYOUTS = {
    ("batch", "Job"): Layout(
        (
            NAME,
            Column("Status", job_status, about="Running, or the condition that counts."),
            Column("Completions", completions, field="status.succeeded"),
            Column("Duration", duration, about="How long it has run."),
            AGE,
            CONTAINERS,
            IMAGES,
            selector_column("spec.selector"),
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
            selector_column("spec.jobTemplate.spec.selector"),
        )
    ),
}
