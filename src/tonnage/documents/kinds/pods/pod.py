"""Pod, and PodTemplate, which has the rules of a workload's template.

Rules that read other objects stand in `documents/admission.py`, binding and eviction in
`documents/subresources.py`. Almost nothing of an existing pod's spec may change, and most of its status:
`validate_update` puts the few mutable fields back and refuses any other difference, showing it.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from tonnage.documents.kinds.pods import pod_defaults, pod_spec
from tonnage.documents.strategy import Generation, Strategy, TypeRules, keep
from tonnage.documents.validation.internal_form import pod_spec_diff, pod_spec_unchanged
from tonnage.documents.validation.metadata import REQUIRED, affinity_terms, except_label_values, has_invalid_values
from tonnage.documents.validation.resources import qos_class
from tonnage.objects import field_rules as rules
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, Wrong, forbidden, invalid

_FINISHED = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    generation = Generation.COUNTED
    selectable = (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
    )
    selected_at: ClassVar[dict[str, str]] = {"status.podIPs": "status.podIPs.ip"}  # empty for every pod

    def default(self, doc: Doc) -> None:
        pod_defaults.default_pod(doc)

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["spec"])

    def prepare_create(self, doc: Doc) -> None:
        pod_defaults.tolerate_node_trouble(doc)
        doc["status"] = {"phase": "Pending", "qosClass": qos_class(doc["spec"])}
        if doc["spec"].get("schedulingGates"):
            told = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": told}
            # The strategy has no clock; creationTimestamp is already set.
            created_at = doc["metadata"].get("creationTimestamp")
            doc["status"]["conditions"] = [gated | ({"lastTransitionTime": created_at} if created_at else {})]
        merge_label_keys(doc)

    def validate(self, doc: Doc) -> Errors:
        """The errors of a new pod, metadata apart. Mirrors ValidatePodCreate."""
        errors, spec = pod_spec.validate_pod(doc), doc["spec"]
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def prepare_update(self, new: Doc, old: Doc) -> None:
        pod_defaults.tolerate_node_trouble(new)
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])
        keep(new, old, "status")

    def validate_update(self, new: Doc, old: Doc) -> Errors:
        spec, was = new["spec"], old["spec"]
        terms = was.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
        errors = pod_spec.validate_pod(new)
        if has_invalid_values(terms):
            errors = except_label_values(errors, f"spec.affinity.nodeAffinity.{REQUIRED}")
        errors += _validate_annotation_changes(new, old)
        for field in ("containers", "initContainers"):
            now, before = spec.get(field, []), was.get(field, [])
            if len(now) != len(before):
                return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        if wrong := _validate_deadline(spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")):
            errors += wrong
            if "activeDeadlineSeconds" in spec:
                return errors
        errors += pod_spec.validate_only_added_tolerations(spec, was)
        errors += pod_spec.validate_only_removed_gates(spec, was)
        if pod_spec_unchanged(spec, was):
            return errors
        munged, wrong = _without_legal_changes(spec, was)
        errors += wrong
        if not pod_spec_unchanged(munged, was):
            told = f"pod updates may not change fields other than {_UPDATABLE}\n{pod_spec_diff(was, munged)}"
            errors.append(forbidden("spec", told))
        return errors

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        return not pod_spec_unchanged(new["spec"], old["spec"])

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Spec, owners and qosClass cannot be written through status. An observedGeneration that a client
        leaves out keeps its value, in the status and in every condition."""
        keep(new, old, "spec")
        keep(new["metadata"], old["metadata"], "ownerReferences")
        status, was = new.setdefault("status", {}), old.get("status", {})
        if not status.get("qosClass") and "qosClass" in was:
            status["qosClass"] = was["qosClass"]
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
        status.pop("nodeAllocatableResourceClaimStatuses", None)  # its gate is closed on a stock server

    def validate_status(self, new: Doc, old: Doc) -> Errors:
        status, was = new.get("status", {}), old.get("status", {})
        errors = pod_spec.validate_pod_annotations(
            new["metadata"].get("annotations", {}), new["spec"], "metadata.annotations"
        )
        errors += _validate_annotation_changes(new, old)
        for idx, condition in enumerate(status.get("conditions", ())):
            at, kind = f"status.conditions[{idx}]", condition.get("type", "")
            errors += _CONDITION(condition, at)
            if kind not in ("PodScheduled", "Ready", "Initialized"):
                errors += rules.sentences(f"{at}.Type", kind, names.qualified_name(kind))
        nominee = status.get("nominatedNodeName", "")
        if nominee and nominee != was.get("nominatedNodeName", ""):
            at = "status.nominatedNodeName"
            errors += rules.sentences(at, nominee, names.dns_subdomain(nominee))
            if self.gates.enabled("ClearingNominatedNodeNameAfterBinding") and old["spec"].get("nodeName"):
                errors.append(forbidden(at, "may not be set on pods that are already bound to a node"))
        errors += _STATUS(status, "status")
        errors += rules.immutable("status.qosClass", status.get("qosClass", ""), was.get("qosClass", ""))
        for kind in ("containers", "initContainers", "ephemeralContainers"):
            field = f"{kind[:-1]}Statuses"
            now, before = status.get(field, []), was.get(field, [])
            errors += _validate_transitions(now, before, f"status.{field}", old["spec"], kind)
        errors += _validate_claim_statuses(status.get("resourceClaimStatuses", []), new["spec"])
        errors += _validate_addresses(status.get("podIPs", []), was.get("podIPs", []), "status.podIPs")
        several = status.get("hostIPs", [])
        if several and several[0].get("ip", "") != status.get("hostIP", ""):
            errors.append(invalid("status.hostIPs[0].ip", several[0].get("ip", ""), "must be equal to `hostIP`"))
        return [*errors, *_validate_addresses(several, was.get("hostIPs", []), "status.hostIPs")]

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        return pod_defaults.pod_warnings(new) if old is None else []

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


class PodTemplateStrategy(Strategy):
    generation = Generation.COUNTED

    def default(self, doc: Doc) -> None:
        super().default(doc)
        pod_defaults.default_pod_spec(doc["template"]["spec"])

    def drop_disabled_fields(self, new: Doc, old: Doc) -> None:
        drop_disabled_pod_fields(new["template"]["spec"])

    def validate(self, doc: Doc) -> Errors:
        return pod_spec.validate_pod_template(doc["template"], "template")

    def spec_changed(self, new: Doc, old: Doc) -> bool:
        return not same(new.get("template"), old.get("template"))

    def warnings(self, new: Doc, old: Doc | None) -> list[str]:
        if old is not None and not self.spec_changed(new, old):
            return []
        return pod_defaults.spec_warnings(new["template"]["spec"], "template.spec")


_MAX_INT32 = 2**31 - 1
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_CONDITION, _STATUS = TypeRules("core.PodCondition"), TypeRules("core.PodStatus")
_CLAIM_STATUS = TypeRules("core.PodResourceClaimStatus")


def _without_legal_changes(spec: Doc, was: Doc) -> tuple[Doc, Errors]:
    """The new spec with every mutable field put back; node selection of a gated pod may be narrowed."""
    munged = copy(spec)
    for field in ("containers", "initContainers"):
        for container, before in zip(munged.get(field, ()), was.get(field, ()), strict=True):
            keep(container, before, "image")
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        keep(munged, was, field)
    if was.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        keep(munged, was, "terminationGracePeriodSeconds")

    errors: Errors = []
    if was.get("schedulingGates"):
        if not was.get("nodeSelector", {}).items() <= spec.get("nodeSelector", {}).items():
            told = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", spec.get("nodeSelector") or None, told))
        keep(munged, was, "nodeSelector")
        now, before = (each.get("affinity", {}).get("nodeAffinity", {}) for each in (spec, was))
        if not same(now, before):
            errors += pod_spec.validate_node_affinity_mutation(now, before)
            affinity = munged.setdefault("affinity", {})
            keep(affinity, was.get("affinity", {}), "nodeAffinity")
            if not affinity and "affinity" not in was:
                del munged["affinity"]
    return munged, errors


def _validate_deadline(now: int | None, before: int | None) -> Errors:
    """A deadline may be set or moved earlier, but not moved later or removed."""
    at = "spec.activeDeadlineSeconds"
    if now is None:
        told = "must not update from a positive integer to nil value"
        return [] if before is None else [invalid(at, None, told)]
    if not 0 <= now <= _MAX_INT32:
        return rules.sentences(at, now, names.in_range(now, 0, _MAX_INT32))
    if before is not None and before < now:
        return [invalid(at, now, "must be less than or equal to previous value")]
    return []


def _validate_annotation_changes(new: Doc, old: Doc) -> Errors:
    now, before = (each["metadata"].get("annotations", {}) for each in (new, old))
    if now.get(pod_spec.MIRROR) == before.get(pod_spec.MIRROR):
        return []
    told = (
        "may not remove or update mirror pod annotation"
        if pod_spec.MIRROR in before
        else "may not add mirror pod annotation"
    )
    return [forbidden(f"metadata.annotations[{pod_spec.MIRROR}]", told)]


def _validate_transitions(now: list[Doc], before: list[Doc], path: str, spec: Doc, kind: str) -> Wrong:
    """A terminated container stays so unless a restart policy restarts it; ephemeral containers have no policy."""
    restartable = {} if kind == "ephemeralContainers" else {item.get("name", ""): item for item in spec.get(kind, ())}
    containers = spec.get("containers", []) + spec.get("initContainers", [])
    actions = [rule.get("action") for container in containers for rule in container.get("restartPolicyRules", ())]
    if kind != "ephemeralContainers" and "RestartAllContainers" in actions:
        return
    followers: dict[str, Doc] = {}
    for status in now:
        followers.setdefault(status.get("name", ""), status)
    for idx, status in enumerate(before):
        ended = status.get("state", {}).get("terminated")
        if ended is None:
            continue
        name = status.get("name", "")
        follower = followers.get(name)
        if follower is None or "terminated" in follower.get("state", {}):
            continue
        container = restartable.get(name)
        if container is None or not _may_restart(container, spec, ended.get("exitCode", 0)):
            yield forbidden(f"{path}[{idx}].state", "may not be transitioned to non-terminated state")


def _may_restart(container: Doc, spec: Doc, exit_code: int) -> bool:
    """Rules by exit code first, then the container's own policy, then the pod's. Mirrors ContainerShouldRestart."""
    for rule in container.get("restartPolicyRules", ()):
        codes = rule.get("exitCodes", {})
        is_listed = exit_code in codes.get("values", ())
        if rule.get("action") == "Restart" and is_listed == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy", spec.get("restartPolicy", ""))
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _validate_claim_statuses(statuses: list[Doc], spec: Doc) -> Wrong:
    known = {claim.get("name", "") for claim in spec.get("resourceClaims", ())}
    unique = rules.unique()
    for idx, status in enumerate(statuses):
        at, name = f"status.resourceClaimStatuses[{idx}]", status.get("name", "")
        if name not in known:
            told = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{at}.name", name, told)
        yield from unique(name, f"{at}.name")
        yield from _CLAIM_STATUS(status, at)


def _validate_addresses(now: list[Doc], before: list[Doc], path: str) -> Wrong:
    kept = {item.get("ip", "") for item in before}
    values = [item.get("ip", "") for item in now]
    for idx, value in enumerate(values):
        yield from rules.validate_ip(value, f"{path}[{idx}]", kept)
    if len(values) > 2 or (len(values) == 2 and not rules.is_dual_stack(values)):
        shown = [{"IP": value} for value in values]
        yield invalid(path, shown, "may specify no more than one IP for each IP family")
