"""Pod, and PodTemplate, which has the rules of a workload's template.

Rules that read other objects stand in `documents/admission.py`, binding and eviction in
`documents/pod_subresources.py`.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from tonnage.documents.kinds.pods.pod_defaults import default_pod, default_pod_template
from tonnage.documents.kinds.pods.pod_spec import validate_pod_create, validate_pod_template
from tonnage.documents.kinds.pods.pod_update import validate_pod_status_update, validate_pod_update
from tonnage.documents.kinds.pods.pod_warnings import pod_warnings, spec_warnings
from tonnage.documents.pod_admission import tolerate_node_trouble
from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.documents.validation.internal_form import pod_spec_unchanged
from tonnage.documents.validation.resources import qos_class
from tonnage.documents.validation.selectors import affinity_terms
from tonnage.objects.document import Doc, same
from tonnage.objects.field_errors import Errors

_FINISHED = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    generation = Generation.COUNTED
    selectable = (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
    )
    selected_at: ClassVar[dict[str, str]] = {"status.podIPs": "status.podIPs.ip"}  # empty for every pod

    def default(self, doc: Doc) -> None:
        default_pod(doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["spec"])

    def prepare_create(self, doc: Doc) -> None:
        tolerate_node_trouble(doc)
        doc["status"] = {"phase": "Pending", "qosClass": qos_class(doc["spec"])}
        if doc["spec"].get("schedulingGates"):
            told = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": told}
            # The strategy has no clock; creationTimestamp is already set.
            created_at = doc["metadata"].get("creationTimestamp")
            doc["status"]["conditions"] = [gated | ({"lastTransitionTime": created_at} if created_at else {})]
        merge_label_keys(doc)

    def validate(self, doc: Doc) -> Errors:
        return validate_pod_create(doc)

    def prepare_update(self, new: Doc, old: Doc) -> None:
        tolerate_node_trouble(new)
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])
        keep(new, old, "status")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        return validate_pod_update(new, old)

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        return not pod_spec_unchanged(new["spec"], old["spec"])

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Spec, owners and qosClass cannot be written through status; observed generations are kept."""
        keep(new, old, "spec")
        keep(new["metadata"], old["metadata"], "ownerReferences")
        status, was = new.setdefault("status", {}), old.get("status", {})
        if not status.get("qosClass") and "qosClass" in was:
            status["qosClass"] = was["qosClass"]
        _keep_observed(status, was)
        status.pop("nodeAllocatableResourceClaimStatuses", None)  # its gate is closed on a stock server

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        ends = self.gates.enabled("ClearingNominatedNodeNameAfterBinding")
        return validate_pod_status_update(new, old, nomination_ends_with_binding=ends)

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return pod_warnings(new) if old is None else []

    def grace_period_s(self, doc: Doc, asked_s: int | None) -> int:
        """The requested period, else the pod's own; 0 if nothing runs. Mirrors CheckGracefulDelete."""
        period_s: int = doc["spec"].get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
        if not doc["spec"].get("nodeName") or doc.get("status", {}).get("phase") in _FINISHED:
            return 0
        return period_s if period_s >= 0 else 1


def merge_label_keys(pod: Doc) -> None:
    """Write matchLabelKeys and mismatchLabelKeys into their selectors, with the pod's values at creation."""
    labels = pod["metadata"].get("labels", {})
    for term in (*affinity_terms(pod["spec"]), *pod["spec"].get("topologySpreadConstraints", ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field, ())
            if key in labels
        ]
        if added:
            selector["matchExpressions"] = selector.get("matchExpressions", []) + added


def drop_disabled_pod_fields(spec: Doc) -> None:
    """Drop the fields whose gates are closed on a stock server, before any rule reads them."""
    spec.pop("schedulingGroup", None)
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            source.pop("clusterTrustBundle", None)
            source.pop("podCertificate", None)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            lifecycle = container.get("lifecycle", {})
            if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                del container["lifecycle"]


def _keep_observed(status: Doc, was: Doc) -> None:
    """An observedGeneration that a client leaves out keeps its value, in the status and in every condition."""
    if not status.get("observedGeneration") and "observedGeneration" in was:
        status["observedGeneration"] = was["observedGeneration"]
    before: dict[str, deque[int]] = {}
    for condition in was.get("conditions", ()):
        before.setdefault(condition.get("type", ""), deque()).append(condition.get("observedGeneration", 0))
    for condition in status.get("conditions", ()):
        remembered = before.get(condition.get("type", ""))
        generation = remembered.popleft() if remembered else 0
        if not condition.get("observedGeneration") and generation:
            condition["observedGeneration"] = generation


class PodTemplateStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        default_pod_template(doc.setdefault("template", {}))

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["template"]["spec"])

    def validate(self, doc: Doc) -> Errors:
        return validate_pod_template(doc["template"], "template")

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        return not same(new.get("template"), old.get("template"))

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        if old is not None and not self.spec_changed(new, old):
            return []
        return spec_warnings(new["template"]["spec"], "template.spec")
