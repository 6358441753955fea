"""What makes a workload legal, from Deployment to ControllerRevision.

They agree on most things: a selector that selects their own template and never changes, a template whose pods always
restart, numbers that are not negative. Mirrors upstream's apps validation; each kind's function names its own part.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tonnage.documents.validation.claims import validate_claim_spec
from tonnage.documents.validation.metadata import immutable
from tonnage.documents.validation.pods.pod import validate_pod_template
from tonnage.documents.validation.selectors import validate_label_selector
from tonnage.documents.validation.workload_rollouts import (
    validate_daemon_set_strategy,
    validate_deployment_strategy,
    validate_stateful_set_strategy,
)
from tonnage.objects import names
from tonnage.objects.document import Doc, copy, same
from tonnage.objects.field_errors import Errors, forbidden, invalid, required
from tonnage.objects.field_rules import nonnegative, sentences, unsupported
from tonnage.objects.selectors import InvalidSelector, LabelSelector

_MISMATCH = "`selector` does not match template `labels`"
_MUTABLE_STATEFUL_SET = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def validate_deployment(doc: Doc) -> Errors:
    spec = doc["spec"]
    errors = nonnegative(spec.get("replicas", 0), "spec.replicas")
    errors += _validate_selected_template(spec, "ReplicaSet")
    errors += validate_deployment_strategy(spec.get("strategy", {}), "spec.strategy")
    patience_s, deadline_s = spec.get("minReadySeconds", 0), spec.get("progressDeadlineSeconds")
    errors += nonnegative(patience_s, "spec.minReadySeconds")
    errors += nonnegative(spec.get("revisionHistoryLimit", 0), "spec.revisionHistoryLimit")
    if deadline_s is not None:
        errors += nonnegative(deadline_s, "spec.progressDeadlineSeconds")
        if deadline_s <= patience_s:
            errors.append(invalid("spec.progressDeadlineSeconds", deadline_s, "must be greater than minReadySeconds"))
    return errors


def validate_replica_set(doc: Doc) -> Errors:
    spec = doc["spec"]
    errors = nonnegative(spec.get("replicas", 0), "spec.replicas")
    errors += nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    return errors + _validate_selected_template(spec, "ReplicaSet")


def validate_selector_kept(new: Doc, old: Doc) -> Errors:
    """A selector says which pods are one's own; changing it would abandon them."""
    return immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


def validate_daemon_set(doc: Doc) -> Errors:
    spec = doc["spec"]
    selector, template = spec.get("selector"), spec.get("template", {})
    errors = validate_label_selector(selector, "spec.selector")
    labels = template.get("metadata", {}).get("labels")
    parsed = _parsed(selector)
    # Unlike the others, a DaemonSet without a selector is told here that it selects nothing.
    if selector is None or (parsed is not None and not parsed.matches(labels or {})):
        errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    if selector is not None and parsed is not None and parsed.is_empty:
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += validate_pod_template(template, "spec.template")
    errors += _validate_always_running(template, "DaemonSet")
    errors += nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    errors += validate_daemon_set_strategy(spec.get("updateStrategy", {}), "spec.updateStrategy")
    return errors + nonnegative(spec.get("revisionHistoryLimit", 0), "spec.revisionHistoryLimit")


def validate_stateful_set(doc: Doc, *, is_update: bool = False) -> Errors:
    """A StatefulSet; what may not change is not judged again on an update."""
    spec = doc["spec"]
    errors: Errors = []
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        told = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, told))
    errors += validate_stateful_set_strategy(spec.get("updateStrategy", {}), "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in ("Retain", "Delete"):
            at = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            errors.append(unsupported(at, retention.get(field, ""), ("Retain", "Delete")))
    if not is_update:
        for idx, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors += validate_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{idx}].spec")
    errors += nonnegative(spec.get("replicas", 0), "spec.replicas")
    errors += nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    errors += nonnegative(spec.get("ordinals", {}).get("start", 0), "spec.ordinals.start")
    service = spec.get("serviceName", "")
    if service and not is_update:
        errors += sentences("spec.serviceName", service, names.dns_label(service))
    errors += _validate_selector(spec, "statefulset", "")
    template = _with_claim_volumes(spec)
    errors += _validate_match(spec, template)
    errors += validate_pod_template(template, "spec.template")
    return errors + _validate_always_running(spec.get("template", {}), "StatefulSet")


def validate_stateful_set_update(new: Doc, old: Doc) -> Errors:
    errors = validate_stateful_set(new, is_update=True)
    fixed, was = (
        {field: value for field, value in each["spec"].items() if field not in _MUTABLE_STATEFUL_SET}
        for each in (new, old)
    )
    if not same(fixed, was):
        told = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        errors.append(forbidden("spec", told))
    return errors


def validate_replication_controller(doc: Doc) -> Errors:
    spec = doc["spec"]
    errors = nonnegative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    selector, template = spec.get("selector", {}), spec.get("template")
    if not selector:
        errors.append(required("spec.selector"))
    errors += nonnegative(spec.get("replicas", 0), "spec.replicas")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template.get("metadata", {}).get("labels")
    if selector and not selector.items() <= (labels or {}).items():
        errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    errors += validate_pod_template(template, "spec.template")
    return errors + _validate_always_running(template, "ReplicationController")


def validate_controller_revision(doc: Doc) -> Errors:
    errors = nonnegative(doc.get("revision", 0), "revision")
    if "data" not in doc:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(doc["data"], dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def validate_controller_revision_update(new: Doc, old: Doc) -> Errors:
    errors = nonnegative(new.get("revision", 0), "revision")
    return errors + immutable("data", new.get("data"), old.get("data"))


# -- status -----------------------------------------------------------------------------------------------------------


def validate_status_counts(
    status: Doc,
    counts: Sequence[str],
    *,
    parts: Sequence[str] = (),
    ready_told: str = "cannot be greater than readyReplicas",
) -> Errors:
    """Numbers that are not negative; no part exceeds `replicas`, and whoever is available is ready."""
    errors: Errors = []
    for field in counts:
        errors += nonnegative(status.get(field, 0), f"status.{field}")
    for field in parts:
        if status.get(field, 0) > status.get("replicas", 0):
            errors.append(invalid(f"status.{field}", status[field], "cannot be greater than status.replicas"))
    if parts and status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        errors.append(invalid("status.availableReplicas", status["availableReplicas"], ready_told))
    return errors


def validate_collisions(status: Doc, was: Doc) -> Errors:
    """How often a name was taken only ever goes up."""
    now, before = status.get("collisionCount"), was.get("collisionCount")
    if before is None or (now is not None and now >= before):
        return []
    return [invalid("status.collisionCount", now or 0, "cannot be decremented")]


# -- parts ------------------------------------------------------------------------------------------------------------


def _validate_selected_template(spec: Doc, kind: str) -> Errors:
    # ReplicaSets, too, are told that their selector is invalid "for deployment".
    errors = _validate_selector(spec, "deployment", "invalid label selector")
    template = spec.get("template", {})
    if spec.get("selector") is None or _parsed(spec["selector"]) is not None:
        errors += _validate_match(spec, template)
        errors += validate_pod_template(template, "spec.template")
        errors += _validate_always_running(template, kind)
    return errors


def _validate_selector(spec: Doc, kind: str, told: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    parsed = _parsed(selector)
    if parsed is None:
        errors.append(invalid("spec.selector", selector, told))
    elif parsed.is_empty:
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return errors


def _validate_match(spec: Doc, template: Doc) -> Errors:
    selector = spec.get("selector")
    parsed = _parsed(selector)
    labels = template.get("metadata", {}).get("labels")
    # Upstream: no selector at all selects nothing, and nothing is not empty; so it is told of the mismatch as well.
    is_mismatch = selector is None or (parsed is not None and not parsed.matches(labels or {}))
    return [invalid("spec.template.metadata.labels", labels, _MISMATCH)] if is_mismatch else []


def _parsed(selector: Doc | None) -> LabelSelector | None:
    """The selector as something that can match, None when it makes no sense."""
    if selector is None:
        return None
    try:
        parsed = msgspec.convert(selector, LabelSelector)
        parsed.matches({})
    except (InvalidSelector, msgspec.ValidationError):  # the latter for an expression without key or operator
        return None
    return parsed if not validate_label_selector(selector, "") else None


def _validate_always_running(template: Doc, kind: str) -> Errors:
    spec = template.get("spec", {})
    errors: Errors = []
    if spec.get("restartPolicy") != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", spec.get("restartPolicy", ""), ("Always",)))
    if "activeDeadlineSeconds" in spec:
        told = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", told))
    return errors


def _with_claim_volumes(spec: Doc) -> Doc:
    """The template as its pods will see it: a volume for each claim; host names are the controller's affair."""
    template: Doc = copy(spec.get("template", {}))
    pod = template.get("spec", {})
    for field in ("hostname", "subdomain"):
        pod.pop(field, None)
    made = {claim.get("metadata", {}).get("name", ""): claim for claim in spec.get("volumeClaimTemplates", ())}
    if made:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in made]
        pod["volumes"] = volumes + [item for item in pod.get("volumes", []) if item.get("name", "") not in made]
    return template
