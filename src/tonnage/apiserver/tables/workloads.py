"""Workloads: how many pods are wanted, how many exist. Also revisions and disruption budgets."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.cells import AGE, CONTAINERS, IMAGES, NAME, NONE, Cell, Column, Layouts, number, of, text
from tonnage.objects.document import Doc, dig


def _controller(revision: Doc, now: datetime) -> Cell:
    """`statefulset.apps/web`: the controlling owner."""
    owners = dig(revision, "metadata", "ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return NONE
    group, slash, _ = owner["apiVersion"].partition("/")
    kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
    return f"{kind.lower()}/{owner['name']}"


_JOB_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(job: Doc, now: datetime) -> Cell:
    """The first state that is true, final ones first."""
    conditions = dig(job, "status", "conditions") or ()
    states = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if dig(job, "metadata", "deletionTimestamp") is not None:
        states.add("Terminating")
    return next((state for state in _JOB_STATES if state in states), "Running")


def _completions(job: Doc, now: datetime) -> Cell:
    """`2/5`; without `completions` `1/1 of 3`: one of three pods is enough."""
    succeeded, wanted = dig(job, "status", "succeeded") or 0, dig(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Doc, now: datetime) -> Cell:
    started, ended = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if started is None:
        return ""
    until = datetime.fromisoformat(ended) if ended is not None else now
    return cells.elapsed(until - datetime.fromisoformat(started))


def _last_schedule(job: Doc, now: datetime) -> Cell:
    at = dig(job, "status", "lastScheduleTime")
    return NONE if at is None else cells.age(at, now)


def _job_selector(path: str) -> Column:
    """Always `<none>` for a template: the server writes the selector when a Job is created."""
    return of("Selector", path, cells.selector_or_none, wide=True, about="The pods that belong to it.")


_READY = Column(
    "Ready",
    lambda doc, now: f"{dig(doc, 'status', 'readyReplicas') or 0}/{dig(doc, 'spec', 'replicas') or 0}",
    about="Pods that are ready, of how many wanted.",
)
_COUNTS = (
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
)
_SELECTOR = of("Selector", "spec.selector", cells.selector_or_none, wide=True)
_LABELS_SELECTED = of("Selector", "spec.selector", cells.labels, wide=True)

LAYOUTS: Layouts = {
    ("apps", "StatefulSet"): (NAME, _READY, AGE, CONTAINERS, IMAGES),
    ("apps", "Deployment"): (
        NAME,
        _READY,
        number("Up-to-date", "status.updatedReplicas", type="string"),
        number("Available", "status.availableReplicas", type="string"),
        AGE,
        CONTAINERS,
        IMAGES,
        # The one selector column that stays empty instead of saying <none>.
        of("Selector", "spec.selector", cells.selector, wide=True),
    ),
    ("apps", "ReplicaSet"): (NAME, *_COUNTS, AGE, CONTAINERS, IMAGES, _SELECTOR),
    ("", "ReplicationController"): (NAME, *_COUNTS, AGE, CONTAINERS, IMAGES, _LABELS_SELECTED),
    ("apps", "DaemonSet"): (
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        of("Node Selector", "spec.template.spec.nodeSelector", cells.labels),
        AGE,
        CONTAINERS,
        IMAGES,
        _SELECTOR,
    ),
    ("apps", "ControllerRevision"): (
        NAME,
        Column("Controller", _controller, about="The object whose history this is."),
        number("Revision", "revision", type="string"),
        AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        cells.given("Min Available", "spec.minAvailable", "N/A"),
        cells.given("Max Unavailable", "spec.maxUnavailable", "N/A"),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    ("batch", "Job"): (
        NAME,
        Column("Status", _job_status, about="Running, or the condition that counts."),
        Column("Completions", _completions, "status.succeeded"),
        Column("Duration", _duration, about="How long it has run."),
        AGE,
        CONTAINERS,
        IMAGES,
        _job_selector("spec.selector"),
    ),
    ("batch", "CronJob"): (
        NAME,
        text("Schedule", "spec.schedule"),
        cells.given("Timezone", "spec.timeZone", NONE),
        # The one boolean that upstream shows as a word.
        of("Suspend", "spec.suspend", lambda value: cells.UNSET if value is None else str(value), type="boolean"),
        cells.count("Active", "status.active"),
        Column("Last Schedule", _last_schedule, "status.lastScheduleTime"),
        AGE,
        cells.of_containers("Containers", "name", template="spec.jobTemplate.spec.template"),
        cells.of_containers("Images", "image", template="spec.jobTemplate.spec.template"),
        _job_selector("spec.jobTemplate.spec.selector"),
    ),
}
