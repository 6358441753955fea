"""The rules of the workloads, from Deployment to ControllerRevision.

All but the last count a generation with every change of what they want, and keep their status behind `/status`. What a
new object's status looks like follows upstream's types: a number that upstream always writes is there from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tonnage.documents.defaults.workloads import (
    default_daemon_set,
    default_deployment,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
)
from tonnage.documents.strategies.base import Generation, Strategy, keep
from tonnage.documents.strategies.pod import drop_disabled_pod_fields
from tonnage.documents.validation.pods.pod_warnings import spec_warnings, workload_name_warnings
from tonnage.documents.validation.workloads import (
    validate_collisions,
    validate_controller_revision,
    validate_controller_revision_update,
    validate_daemon_set,
    validate_deployment,
    validate_replica_set,
    validate_replication_controller,
    validate_selector_kept,
    validate_stateful_set,
    validate_stateful_set_update,
    validate_status_counts,
)
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors
from tonnage.objects.texts.whole_numbers import whole_number

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class WorkloadStrategy(Strategy):
    """What the workloads share."""

    generation = Generation.COUNTED
    new_status: ClassVar[Doc] = {}
    """The status of an object that no controller has seen yet."""

    def prepare_create(self, doc: Doc) -> None:
        doc["status"] = copy(self.new_status)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["spec"].get("template", {}).get("spec", {}))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        new["status"] = {**self.new_status, **new["status"]}

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        if old is not None and not self.spec_changed(new, old):
            return []
        return spec_warnings(new["spec"].get("template", {}).get("spec", {}), "spec.template.spec")


class DeploymentStrategy(WorkloadStrategy):
    def default(self, doc: Doc) -> None:
        default_deployment(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_deployment(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_deployment(new) + validate_selector_kept(new, old)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        """Annotations count too: they are copied to the ReplicaSets."""
        if super().spec_changed(new, old):
            return True
        return not same(new["metadata"].get("annotations"), old["metadata"].get("annotations"))

    def prepare_status(self, new: Doc, old: Doc) -> None:
        super().prepare_status(new, old)
        keep(new["metadata"], old["metadata"], "labels")

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        counts = ("observedGeneration", "replicas", *parts, "unavailableReplicas", "terminatingReplicas")
        status, was = new.get("status", {}), old.get("status", {})
        errors = validate_status_counts(status, (*counts, "collisionCount"), parts=parts)
        return errors + validate_collisions(status, was)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        return named + super().warnings(new, old)


class ReplicaSetStrategy(WorkloadStrategy):
    new_status: ClassVar[Doc] = {"replicas": 0}

    def default(self, doc: Doc) -> None:
        default_replica_set(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_replica_set(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_replica_set(new) + validate_selector_kept(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        counts = ("replicas", *parts, "observedGeneration", "terminatingReplicas")
        return validate_status_counts(new.get("status", {}), counts, parts=parts)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        named = workload_name_warnings(new["metadata"].get("name", "")) if old is None else []
        return named + super().warnings(new, old)


class StatefulSetStrategy(WorkloadStrategy):
    # A pod's name is the set's and a number, and has to be a host name.
    name_rule: ClassVar[Callable[[str], list[str]]] = staticmethod(names.dns_label)
    new_status: ClassVar[Doc] = {"replicas": 0, "availableReplicas": 0}

    def default(self, doc: Doc) -> None:
        default_stateful_set(doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        super().drop_disabled_fields(new, old)
        # MaxUnavailableStatefulSet is closed on a stock server.
        new["spec"].get("updateStrategy", {}).get("rollingUpdate", {}).pop("maxUnavailable", None)

    def validate(self, doc: Doc) -> Errors:
        return validate_stateful_set(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_stateful_set_update(new, old)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        counts = ("replicas", *parts, "observedGeneration", "collisionCount")
        status, was = new.get("status", {}), old.get("status", {})
        told = "cannot be greater than status.readyReplicas"
        return validate_status_counts(status, counts, parts=parts, ready_told=told) + validate_collisions(status, was)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        told = super().warnings(new, old)
        if new["spec"].get("revisionHistoryLimit", 0) < 0:
            told.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                "a value >= 0 is recommended"
            )
        return told


class DaemonSetStrategy(WorkloadStrategy):
    """Its template's own generation lives on in an annotation, for clients of an API long gone."""

    new_status: ClassVar[Doc] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def default(self, doc: Doc) -> None:
        default_daemon_set(doc)

    def prepare_create(self, doc: Doc) -> None:
        super().prepare_create(doc)
        _set_template_generation(doc, max(_template_generation(doc), 1))

    def prepare_update(self, new: Doc, old: Doc) -> None:
        super().prepare_update(new, old)
        is_changed = not same(new["spec"].get("template"), old["spec"].get("template"))
        _set_template_generation(new, _template_generation(old) + is_changed)

    def validate(self, doc: Doc) -> Errors:
        return validate_daemon_set(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_selector_kept(new, old) + validate_daemon_set(new)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        counts = (*self.new_status, "observedGeneration", "updatedNumberScheduled", "numberAvailable")
        status, was = new.get("status", {}), old.get("status", {})
        errors = validate_status_counts(status, (*counts, "numberUnavailable", "collisionCount"))
        return errors + validate_collisions(status, was)


class ReplicationControllerStrategy(WorkloadStrategy):
    """Older than garbage collection: deleted without a word about its pods, it leaves them, as it always did."""

    default_propagation: ClassVar[str] = "Orphan"
    new_status: ClassVar[Doc] = {"replicas": 0}
    selectable: ClassVar[dict[str, tuple[str, ...]]] = {"status.replicas": ("status", "replicas")}

    def default(self, doc: Doc) -> None:
        default_replication_controller(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_replication_controller(doc)

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        return validate_status_counts(new.get("status", {}), ("replicas", *parts, "observedGeneration"), parts=parts)


class ControllerRevisionStrategy(Strategy):
    """A snapshot of a template: written once, never changed, only renumbered."""

    def validate(self, doc: Doc) -> Errors:
        return validate_controller_revision(doc)

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_controller_revision_update(new, old)


def _template_generation(doc: Doc) -> int:
    text = doc["metadata"].get("annotations", {}).get(_TEMPLATE_GENERATION, "")
    return whole_number(text) if text.isdecimal() else 0


def _set_template_generation(doc: Doc, generation: int) -> None:
    annotations = doc["metadata"].get("annotations", {})
    doc["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(generation)}
