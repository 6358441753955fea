"""Controllers of pods: how many are wanted, how many are there. Also their scale, revisions and disruption budgets."""

from __future__ import annotations

from datetime import datetime

from tonnage.apiserver.tables import cells
from tonnage.apiserver.tables.column import AGE, CONTAINERS, IMAGES, NAME, Cell, Column, Layout, number, of
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
